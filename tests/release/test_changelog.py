"""`make changelog` moves every fragment into CHANGELOG.md, under its kind."""

import re
import shutil
from pathlib import Path

import pytest

from tests.release.conftest import ROOT, TOOLS, ran

KINDS = ("added", "changed", "fixed", "removed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/changelog.md.jinja", tmp_path / "tools")
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    for kind in KINDS:  # right after a release there is no other fragment
        (tmp_path / f"changes/1-one.{kind}.md").write_text(f"One thing was {kind}.\n")
    (tmp_path / "changes/1-list.fixed.md").write_text("- One thing.\n- Another\n  thing.\n")
    return tmp_path


def compose(tree: Path, version: str) -> str:
    words = ("build", "--yes", "--version", version, "--date", "2026-12-01")
    ran(TOOLS / "towncrier", *words, cwd=tree)
    return (tree / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_fragment_stands_once_under_its_kind_and_is_gone(tree: Path) -> None:
    fragments = {
        path: path.read_text(encoding="utf-8").strip()
        for path in (tree / "changes").iterdir()
        if path.name != "README.md"
    }
    text = compose(tree, "9.9.9")
    latest = text.partition("\n## 9.9.9")[2].partition("\n## ")[0]
    parts = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", latest, re.MULTILINE | re.DOTALL))

    assert "\n## 9.9.9 (2026-12-01)\n\n### Added\n\n- " in text
    for path, fragment in fragments.items():
        part = parts[path.suffixes[-2].removeprefix(".").capitalize()]
        flat = [" ".join(each.split()) for each in (fragment, part)]
        assert flat[1].count(flat[0]) == 1, path.name
    assert [path.name for path in (tree / "changes").iterdir()] == ["README.md"]
    assert "\n- One thing.\n- Another\n  thing.\n" in text


def test_the_next_release_stands_above_the_last(tree: Path) -> None:
    compose(tree, "9.9.9")
    (tree / "changes/2.fixed.md").write_text("Something more.\n")

    text = compose(tree, "9.9.10")

    assert re.findall(r"^#+ .*", text, re.MULTILINE)[:4] == [
        "# Changelog",
        "## 9.9.10 (2026-12-01)",
        "### Fixed",
        "## 9.9.9 (2026-12-01)",
    ]
    assert "- Something more.\n\n" in text
