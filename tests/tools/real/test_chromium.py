"""Finding and installing Chromium, with a stand-in for apt-get."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.golden import Golden
from tools.real import chromium
from tools.real.cache import BuildError

# Notes each call; installs a program beside itself, unless told to fail or to install nothing.
FAKE_APT_GET = """#!{python}
import os, pathlib, sys
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(os.environ["DEBIAN_FRONTEND"] + " " + " ".join(sys.argv[1:]) + chr(10))
if (here / "fail").exists():
    sys.exit(100)
if "install" in sys.argv and not (here / "empty").exists():
    (here / "chromium").touch(0o755)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The only folder on PATH."""
    (tmp_path / "path").mkdir()
    return tmp_path / "path"


@pytest.fixture
def env(folder: Path, tmp_path: Path) -> Mapping[str, str]:
    return {"PATH": str(folder), "REACTIVE_DESCHED_REAL_TOOLS": str(tmp_path / "cache")}


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.fixture
def calls(folder: Path) -> Path:
    """What apt-get was asked, which is there."""
    (folder / "apt-get").write_text(FAKE_APT_GET.format(python=sys.executable))
    (folder / "apt-get").chmod(0o755)
    return folder / "calls"


def program(path: Path) -> Path:
    path.touch(0o755)
    return path


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_a_browser_on_the_path_is_used_and_nothing_is_installed(
    env: Mapping[str, str], folder: Path, calls: Path, name: str
) -> None:
    found = program(folder / name)
    chromium.fetch(env)

    assert chromium.find(env) == found
    assert not calls.exists()


def test_a_browser_that_the_environment_names_is_used_first(
    env: Mapping[str, str], folder: Path, tmp_path: Path
) -> None:
    program(folder / "chromium")
    mine = program(tmp_path / "mine")

    assert chromium.find({**env, "CHROME_BIN": str(mine)}) == mine


def test_a_named_browser_that_is_not_there_is_an_error_that_names_the_variable(
    env: Mapping[str, str],
    golden: Golden,
) -> None:
    with pytest.raises(BuildError) as caught:
        chromium.find({**env, "CHROME_BIN": "/nowhere"})

    assert golden() in str(caught.value)


def test_root_has_it_installed_without_questions_and_without_extras(
    env: Mapping[str, str], folder: Path, calls: Path, root: None
) -> None:
    chromium.fetch(env)

    assert chromium.find(env) == folder / "chromium"
    update, install = calls.read_text().splitlines()
    assert update.startswith("noninteractive ")
    assert update.endswith(" update")
    assert install.startswith("noninteractive ")
    assert install.endswith(" install -y --no-install-recommends chromium")


def test_without_apt_get_the_answer_says_what_to_install(
    env: Mapping[str, str], root: None
) -> None:
    with pytest.raises(BuildError, match=r"no apt-get: install it .*chromium.*CHROME_BIN"):
        chromium.fetch(env)


def test_without_root_the_message_says_what_root_would_do(
    env: Mapping[str, str], calls: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BuildError) as caught:
        chromium.fetch(env)

    assert str(caught.value) == golden()

    assert not calls.exists()


def test_an_apt_get_that_fails_is_named(
    env: Mapping[str, str], folder: Path, calls: Path, root: None, golden: Golden
) -> None:
    (folder / "fail").touch()
    with pytest.raises(BuildError) as caught:
        chromium.fetch(env)

    assert str(caught.value) == golden()

    assert len(calls.read_text().splitlines()) == 1


def test_an_install_that_brings_no_browser_is_an_error(
    env: Mapping[str, str], folder: Path, calls: Path, root: None, golden: Golden
) -> None:
    (folder / "empty").touch()
    with pytest.raises(BuildError) as caught:
        chromium.fetch(env)

    assert golden() in str(caught.value)
