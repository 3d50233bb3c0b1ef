"""Fetching axe-core, with a stand-in for npm."""

import hashlib
import io
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.golden import Golden
from tools.real import axe
from tools.real.cache import BuildError

# Notes each call, and "packs" the archive beside it.
FAKE = """#!{python}
import pathlib, shutil, sys
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + chr(10))
shutil.copy(here / "archive", "axe-core.tgz")
"""


def pack(folder: Path, text: bytes) -> str:
    """Write an archive with this script, and return its hash."""
    with tarfile.open(folder / "archive", "w:gz") as archive:
        member = tarfile.TarInfo("package/axe.min.js")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return hashlib.sha512((folder / "archive").read_bytes()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH; npm is there, and packs what is pinned."""
    made = tmp_path / "path"
    made.mkdir()
    (made / "npm").write_text(FAKE.format(python=sys.executable))
    (made / "npm").chmod(0o755)
    monkeypatch.setattr(axe, "SHA512", pack(made, b"axe"))
    return made


@pytest.fixture
def env(folder: Path, tmp_path: Path) -> Mapping[str, str]:
    return {"PATH": str(folder), "REACTIVE_DESCHED_REAL_TOOLS": str(tmp_path / "cache")}


def test_the_package_is_fetched_once(env: Mapping[str, str], folder: Path) -> None:
    axe.fetch(env)
    axe.fetch(env)
    found = axe.find(env)
    assert found is not None
    assert found.read_bytes() == b"axe"
    assert (folder / "calls").read_text() == f"pack --silent {axe.PACKAGE}\n"


def test_another_package_than_the_pinned_one_is_not_used(
    env: Mapping[str, str], folder: Path, golden: Golden
) -> None:
    pack(folder, b"something else")
    with pytest.raises(BuildError) as caught:
        axe.fetch(env)

    assert golden() in str(caught.value)
    assert axe.find(env) is None


def test_without_npm_the_error_says_what_to_do(env: Mapping[str, str], folder: Path) -> None:
    (folder / "npm").unlink()
    with pytest.raises(BuildError, match=r"install Node.js, or set AXE_JS"):
        axe.fetch(env)


def test_a_script_of_ones_own_is_used(env: Mapping[str, str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.js"
    mine.touch()
    assert axe.find({**env, "AXE_JS": str(mine)}) == mine
    with pytest.raises(BuildError, match="is not a file"):
        axe.find({**env, "AXE_JS": "/nowhere"})
