"""Fetching the definitions of the Prometheus operator, with a stand-in for Go."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.real import operator_crds
from tools.real.cache import BuildError

FAKE = """#!{python}
import pathlib, sys
here = pathlib.Path(sys.argv[0]).parent
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + chr(10))
print((here / "answer").read_text())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The only folder on PATH; go is there, and has what is pinned."""
    made = tmp_path / "path"
    crds = made / "module" / "example" / "prometheus-operator-crd"
    crds.mkdir(parents=True)
    for resource in (*operator_crds.RESOURCES, "probes"):
        (crds / f"monitoring.coreos.com_{resource}.yaml").write_text(resource)
    (made / "go").write_text(FAKE.format(python=sys.executable))
    (made / "go").chmod(0o755)
    has(made, operator_crds.SUM)
    return made


def has(folder: Path, checksum: str) -> None:
    """Have Go answer with a module of this checksum."""
    (folder / "answer").write_text(json.dumps({"Dir": str(folder / "module"), "Sum": checksum}))


@pytest.fixture
def env(folder: Path, tmp_path: Path) -> Mapping[str, str]:
    return {"PATH": str(folder), "REACTIVE_DESCHED_REAL_TOOLS": str(tmp_path / "cache")}


def test_the_definitions_that_the_chart_needs_are_fetched_once(
    env: Mapping[str, str], folder: Path
) -> None:
    assert operator_crds.find(env) is None
    operator_crds.fetch(env)
    operator_crds.fetch(env)
    found = operator_crds.find(env)
    assert found is not None
    assert {path.read_text() for path in found.iterdir()} == set(operator_crds.RESOURCES)
    assert (folder / "calls").read_text() == f"mod download -json {operator_crds.MODULE}\n"


def test_another_module_than_the_pinned_one_is_not_used(
    env: Mapping[str, str], folder: Path
) -> None:
    has(folder, "h1:other")
    with pytest.raises(BuildError, match="is not what was pinned: h1:other"):
        operator_crds.fetch(env)
    assert operator_crds.find(env) is None


def test_without_go_the_error_says_what_to_do(env: Mapping[str, str], folder: Path) -> None:
    (folder / "go").unlink()
    with pytest.raises(BuildError, match="install Go, or set OPERATOR_CRDS"):
        operator_crds.fetch(env)


def test_a_folder_that_is_chosen_is_used(env: Mapping[str, str], tmp_path: Path) -> None:
    assert operator_crds.find({**env, "OPERATOR_CRDS": str(tmp_path)}) == tmp_path
    with pytest.raises(BuildError, match="is not a folder"):
        operator_crds.find({**env, "OPERATOR_CRDS": str(tmp_path / "none")})
