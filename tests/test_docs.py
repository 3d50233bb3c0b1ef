"""The pages say what the code does: generated pages are up to date, links lead somewhere."""

import re
from pathlib import Path

import pytest

from reactive_desched.planning import BUILT_IN
from tools.write_reference import REFERENCE, metrics_page, plugins_page, settings_page

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_settings_page_is_what_the_code_says() -> None:
    assert (REFERENCE / "settings.md").read_text(encoding="utf-8") == settings_page()


def test_the_plugins_page_is_what_the_code_says() -> None:
    assert (REFERENCE / "plugins.md").read_text(encoding="utf-8") == plugins_page()


def test_every_setting_and_argument_says_what_it_does() -> None:
    rows = [line for line in (settings_page() + plugins_page()).splitlines() if line[:3] == "| `"]

    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]

    assert broken == []


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_readme_names_every_plugin(name: str) -> None:
    assert name in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_metrics_page_is_what_the_code_says() -> None:
    assert (REFERENCE / "metrics.md").read_text(encoding="utf-8") == metrics_page()
