"""`make dist`: the SBOM says what is installed, under licences that are allowed; hashes fit."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from reactive_desched._version import __version__
from tests.release.conftest import ROOT, TOOLS, UV, ran
from tests.support.golden import Golden

pytestmark = pytest.mark.timeout(600)  # what it describes is installed within a test's time

Sbom = dict[str, Any]  # CycloneDX as JSON
CHECK = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()) and 1)
"""
REFUSALS = """
import json, sys
from tools.licences import refusals
print(*refusals(json.load(open(sys.argv[1]))), sep="\\n", end="")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes."""
    folder = tmp_path_factory.mktemp("made")
    words = ("-m", "tools.release", "dist", "--uv", UV, "--out", folder / "dist")
    ran(TOOLS / "python", *words, cwd=ROOT)
    return folder / "dist"


@pytest.fixture(scope="module")
def sbom(made: Path) -> Sbom:
    text = (made / f"reactive_desched-{__version__}.cdx.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert isinstance(document, dict)
    return document


def refused(sbom: Sbom, folder: Path) -> list[str]:
    (folder / "sbom.json").write_text(json.dumps(sbom), encoding="utf-8")
    return ran(TOOLS / "python", "-c", REFUSALS, folder / "sbom.json", cwd=ROOT).splitlines()


def with_licence(sbom: Sbom, *licences: Sbom) -> Sbom:
    changed = deepcopy(sbom)
    changed["components"][0] |= {"name": "left-pad", "version": "1.3", "licenses": list(licences)}
    return changed


def test_dist_has_what_is_published_and_its_hashes(made: Path) -> None:
    ran("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=made)

    assert {path.name for path in made.iterdir()} == {
        f"reactive_desched-{__version__}-py3-none-any.whl",
        f"reactive_desched_sim-{__version__}-py3-none-any.whl",
        f"reactive_desched-{__version__}.tar.gz",
        f"reactive_desched-{__version__}.cdx.json",
        "SHA256SUMS",
    }


def test_the_sbom_is_valid_cyclonedx(made: Path) -> None:
    file = made / f"reactive_desched-{__version__}.cdx.json"

    ran("sh", "-c", f"{TOOLS}/python -c '{CHECK}' < {file}", cwd=made)


def test_the_sbom_names_each_locked_package_that_is_installed_here(sbom: Sbom) -> None:
    locked = (ROOT / "requirements/run.txt").read_text(encoding="utf-8")
    always = re.findall(r"^(\S+)==(\S+) \\$", locked, re.MULTILINE)  # no condition beside it
    named = {
        (re.sub(r"[-_.]+", "-", each["name"]).lower(), each["version"])
        for each in sbom["components"]
    }

    assert set(always) <= named
    assert named <= set(re.findall(r"^(\S+)==(\S+)", locked, re.MULTILINE))


def test_the_sbom_is_of_this_version_and_says_what_needs_what(sbom: Sbom) -> None:
    main = sbom["metadata"]["component"]
    needs = {each["ref"]: set(each.get("dependsOn", [])) for each in sbom["dependencies"]}

    assert (main["name"], main["version"]) == ("reactive-desched", __version__)
    assert main["purl"] == f"pkg:pypi/reactive-desched@{__version__}"
    assert {name.partition("==")[0] for name in needs[main["bom-ref"]]} >= {"aiohttp", "msgspec"}


def test_the_sbom_names_no_time_and_no_folder(sbom: Sbom) -> None:
    assert "timestamp" not in sbom["metadata"]
    assert "serialNumber" not in sbom
    assert "file://" not in json.dumps(sbom)


def test_every_licence_is_allowed(sbom: Sbom, tmp_path: Path) -> None:
    assert refused(sbom, tmp_path) == []


@pytest.mark.parametrize(
    ("licences", "said"),
    [
        ([{"license": {"id": "GPL-3.0-only"}}], "GPL-3.0-only"),
        ([{"expression": "MIT AND GPL-2.0-or-later"}], "MIT AND GPL-2.0-or-later"),
        ([{"license": {"id": "MIT"}}, {"license": {"id": "AGPL-3.0-only"}}], "AGPL-3.0-only"),
        ([{"license": {"name": "Ask the author"}}], "Ask the author"),
    ],
)
def test_a_licence_that_is_not_allowed_is_named_with_its_package(
    licences: list[Sbom], said: str, sbom: Sbom, tmp_path: Path, golden: Golden
) -> None:
    assert refused(with_licence(sbom, *licences), tmp_path) == [golden(said=said)]


def test_a_package_without_a_licence_is_named(sbom: Sbom, tmp_path: Path) -> None:
    assert refused(with_licence(sbom), tmp_path) == ["left-pad 1.3 states no licence"]


def test_of_licences_to_choose_from_one_is_enough(sbom: Sbom, tmp_path: Path) -> None:
    assert refused(with_licence(sbom, {"expression": "GPL-2.0-only OR MIT"}), tmp_path) == []
