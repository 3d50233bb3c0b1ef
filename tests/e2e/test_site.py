"""The documentation site that `make docs` built; that build itself fails on a broken link."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"?(https?:)?//[^>]*"
)


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """Every page of the site, by its path."""
    if not (SITE / "index.html").is_file():
        pytest.skip("`make docs` was not run")
    pages = SITE.rglob("*.html")
    return {page.relative_to(SITE).as_posix(): page.read_text("utf-8") for page in pages}


def test_the_site_has_every_page_of_the_documentation(site: dict[str, str]) -> None:
    names = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    built = {name.replace("README.md", "index.html").replace(".md", ".html") for name in names}

    assert built - site.keys() == set()


def test_the_site_has_what_pages_link_to_beside_the_documentation(site: dict[str, str]) -> None:
    assert "repository/CONTRIBUTING.html" in site
    assert 'href="repository/CONTRIBUTING.html"' in site["index.html"]
    assert (SITE / "repository/examples/plugin/retiring_nodes.py").is_file()


def test_no_page_of_the_site_fetches_anything_from_another_host(site: dict[str, str]) -> None:
    found = [(name, tag[0]) for name, text in site.items() for tag in FETCHED.finditer(text)]

    assert found == []
    assert any("url(http" in sheet.read_text("utf-8") for sheet in SITE.rglob("*.css")) is False


def test_steps_keep_their_numbers_in_the_site(site: dict[str, str]) -> None:
    steps = site["howto/dry-run.html"].partition("<ol>")[2].partition("</ol>")[0]

    assert len(re.findall(r"^<li>", steps, re.MULTILINE)) == 4
    assert steps.count("<pre>") == 3
