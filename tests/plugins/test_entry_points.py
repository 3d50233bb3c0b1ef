"""Entry points are those that Python's own reader of package metadata finds."""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from reactive_desched.plugins.entry_points import EntryPoint, entry_points

GROUP = "reactive_desched.plugins"
HEAD = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"


def install(folder: Path, name: str, version: str, text: str, ending: str = "dist-info") -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.{ending}"
    info.mkdir(parents=True)
    head = HEAD.format(name, version)
    (info / ("METADATA" if ending == "dist-info" else "PKG-INFO")).write_text(f"{head}\nLong: no\n")
    (info / "entry_points.txt").write_text(text)


def found(group: str) -> set[tuple[str, str, str]]:
    return {(each.name, each.value, each.package) for each in entry_points(group)}


def found_by_python(group: str) -> set[tuple[str, str, str]]:
    return {
        (each.name, each.value, f"{each.dist.name} {each.dist.version}")
        for each in metadata.entry_points(group=group)
        if each.dist
    }


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("group", [GROUP, "console_scripts", "pytest11", "no.such.group"])
def test_of_what_is_installed_here_python_finds_the_same(group: str) -> None:
    assert found(group) == found_by_python(group)


def test_groups_comments_and_blanks_are_read_as_python_reads_them(path: Path) -> None:
    own = "[own]\n\n# c = no:C\n d=m.n:C.D \ne = m [x,y]\n"
    install(path, "own-pods", "1.0", f"a = before:Groups\n[other]\nb = o:B\n{own}[more]\nf=g\n")
    install(path, "egg", "2.0", "[own]\ng = e:G\n", "egg-info")

    assert found("own") == found_by_python("own")
    assert found("own") == {
        ("d", "m.n:C.D", "own-pods 1.0"),
        ("e", "m [x,y]", "own-pods 1.0"),
        ("g", "e:G", "egg 2.0"),
    }


def test_of_a_package_that_is_installed_twice_the_first_on_the_path_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(path, "own.pods", "1.0", "[own]\na = old:A\n")
    install(path / "newer", "Own-Pods", "2.0", "[own]\nb = new:B\n")
    monkeypatch.syspath_prepend(str(path / "newer"))

    assert found("own") == found_by_python("own") == {("b", "new:B", "Own-Pods 2.0")}


def test_a_package_in_an_archive_is_found_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("packed-1.0.dist-info/METADATA", HEAD.format("packed", "1.0"))
        packed.writestr("packed-1.0.dist-info/entry_points.txt", "[own]\na = packed:A\n")
    monkeypatch.syspath_prepend(str(archive))

    assert found("own") == {("a", "packed:A", "packed 1.0")}


def test_a_package_of_another_finder_is_found_too(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(path / "hidden", "hidden", "1.0", "[own]\na = hidden:A\n")

    class Finder(metadata.DistributionFinder):
        def find_distributions(
            self, context: metadata.DistributionFinder.Context | None = None
        ) -> list[metadata.PathDistribution]:
            return [metadata.PathDistribution(path / "hidden" / "hidden-1.0.dist-info")]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])

    assert found("own") == {("a", "hidden:A", "hidden 1.0")}


@pytest.mark.parametrize("value", ["json.decoder:JSONDecoder.decode", "json.decoder", "json [a]"])
def test_loading_gives_what_python_loads(value: str) -> None:
    assert EntryPoint("x", value).load() is metadata.EntryPoint("x", value, GROUP).load()


def test_a_package_whose_metadata_cannot_be_read_is_named_by_their_path(path: Path) -> None:
    install(path, "own", "1.0", "[own]\na = own:A\n")
    (path / "own-1.0.dist-info" / "METADATA").unlink()

    assert found("own") == {("a", "own:A", str(path / "own-1.0.dist-info" / "METADATA"))}
    assert EntryPoint("a", "own:A").package == "an unnamed package"
