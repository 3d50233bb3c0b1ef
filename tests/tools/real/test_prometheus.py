"""Finding and unpacking Prometheus, with stand-ins for apt-get and dpkg-deb."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.real import prometheus
from tools.real.cache import BuildError

# Notes each call. apt-get downloads a package once its lists are there; dpkg-deb unpacks a program,
# unless the package is to hold none.
FAKE = """#!{python}
import pathlib, sys
here, name = pathlib.Path(__file__).parent, pathlib.Path(__file__).name
with (here / "calls").open("a") as calls:
    calls.write(" ".join((name, *sys.argv[1:])) + chr(10))
if "update" in sys.argv:
    (here / "no lists").unlink()
if "download" in sys.argv:
    if (here / "no lists").exists():
        sys.exit(100)
    pathlib.Path("prometheus_2_amd64.deb").touch()
if "-x" in sys.argv:
    folder = pathlib.Path(sys.argv[-1]) / "usr" / "bin"
    folder.mkdir(parents=True)
    if not (here / "empty").exists():
        (folder / "prometheus").touch(0o755)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The only folder on PATH; apt-get and dpkg-deb are there."""
    made = tmp_path / "path"
    made.mkdir()
    for name in ("apt-get", "dpkg-deb"):
        (made / name).write_text(FAKE.format(python=sys.executable))
        (made / name).chmod(0o755)
    return made


@pytest.fixture
def env(folder: Path, tmp_path: Path) -> Mapping[str, str]:
    return {"PATH": str(folder), "REACTIVE_DESCHED_REAL_TOOLS": str(tmp_path / "cache")}


def calls(folder: Path) -> list[str]:
    made = folder / "calls"
    return made.read_text().splitlines() if made.exists() else []


def test_the_package_is_downloaded_and_unpacked_once(
    env: Mapping[str, str], folder: Path, tmp_path: Path
) -> None:
    prometheus.fetch(env)
    prometheus.fetch(env)

    unpacked = tmp_path / "cache" / "prometheus" / "package" / "usr" / "bin" / "prometheus"
    assert prometheus.find(env) == unpacked
    assert calls(folder) == [
        "apt-get -q download prometheus",
        "dpkg-deb -x prometheus_2_amd64.deb package",
    ]


def test_root_renews_the_lists_of_packages_where_they_do_not_have_it(
    env: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (folder / "no lists").touch()

    prometheus.fetch(env)

    assert prometheus.find(env) is not None
    assert calls(folder)[:3] == [
        "apt-get -q download prometheus",
        "apt-get -q update",
        "apt-get -q download prometheus",
    ]


def test_without_root_the_message_says_what_to_do(
    env: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (folder / "no lists").touch()

    with pytest.raises(
        BuildError, match=r"`apt-get -q download prometheus` failed.*PROMETHEUS_BIN"
    ):
        prometheus.fetch(env)


def test_one_on_the_path_is_used_and_nothing_is_fetched(
    env: Mapping[str, str], folder: Path
) -> None:
    (folder / "prometheus").touch(0o755)
    prometheus.fetch(env)

    assert prometheus.find(env) == folder / "prometheus"
    assert calls(folder) == []


def test_one_that_the_environment_names_is_used_first(
    env: Mapping[str, str], folder: Path, tmp_path: Path
) -> None:
    (folder / "prometheus").touch(0o755)
    (tmp_path / "mine").touch(0o755)

    assert prometheus.find({**env, "PROMETHEUS_BIN": str(tmp_path / "mine")}) == tmp_path / "mine"
    with pytest.raises(BuildError, match="PROMETHEUS_BIN=/nowhere is not a file"):
        prometheus.find({**env, "PROMETHEUS_BIN": "/nowhere"})


@pytest.mark.parametrize("name", ["apt-get", "dpkg-deb"])
def test_without_the_tools_the_answer_says_what_to_install(
    env: Mapping[str, str], folder: Path, name: str
) -> None:
    (folder / name).unlink()

    with pytest.raises(BuildError, match=rf"no {name}: install Debian's package `prometheus`"):
        prometheus.fetch(env)


def test_a_package_without_the_program_is_an_error(env: Mapping[str, str], folder: Path) -> None:
    (folder / "empty").touch()

    with pytest.raises(BuildError, match="holds no usr/bin/prometheus"):
        prometheus.fetch(env)
