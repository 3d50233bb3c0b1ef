"""One version: whatever names it names the same, and a command changes it everywhere."""

import shutil
from pathlib import Path

import pytest

from reactive_desched._version import __version__
from tools.release import PLACES, ROOT, versions, write_version


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for file in {file for file, _ in PLACES}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def test_package_chart_manifests_image_and_pages_name_one_version() -> None:
    assert {place: version for place, version in versions(ROOT) if version != __version__} == {}


def test_a_new_version_is_written_wherever_one_stands(copied: Path) -> None:
    write_version(copied, "12.0.3")

    assert {version for _, version in versions(copied)} == {"12.0.3"}
    for file in {file for file, _ in PLACES}:
        assert __version__ not in (copied / file).read_text(encoding="utf-8"), file


def test_every_page_that_names_this_version_is_changed_with_it() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    changed = {ROOT / file for file, _ in PLACES}

    assert [
        page.name
        for page in pages
        if page.parent.name != "adr"
        and __version__ in page.read_text(encoding="utf-8")
        and page not in changed
    ] == []


@pytest.mark.parametrize("wrong", ["", "1.2", "v1.2.3", "1.2.3rc1", "1.2.3\n"])
def test_what_helm_would_not_call_a_version_is_refused(wrong: str, copied: Path) -> None:
    with pytest.raises(ValueError, match="no version such as"):
        write_version(copied, wrong)

    assert {version for _, version in versions(copied)} == {__version__}


def test_a_file_that_no_longer_names_the_version_is_an_error(copied: Path) -> None:
    (copied / "Dockerfile").write_text("FROM scratch\n", encoding="utf-8")

    with pytest.raises(ValueError, match="Dockerfile has no version"):
        list(versions(copied))
