"""The pages say what the code does: generated pages are up to date, links lead somewhere."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from reactive_desched.model.decisions import GateReason
from reactive_desched.model.outcomes import OutcomeReason
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.state.resources import PLAN_RESOURCES
from tools.declared import declared
from tools.write_reference import (
    codes_with_a_remedy,
    metrics_page,
    plugins_page,
    settings_page,
)

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_pages_get_with_kubectl_what_plan_needs() -> None:
    lists = [
        set(names.split(","))
        for page in PAGES
        for names in re.findall(r"kubectl get (\S+) -A -o json", page.read_text(encoding="utf-8"))
        if "," in names
    ]

    assert lists
    assert all(names == PLAN_RESOURCES for names in lists)


def test_every_setting_and_argument_says_what_it_does() -> None:
    rows = [line for line in (settings_page() + plugins_page()).splitlines() if line[:3] == "| `"]

    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_link_of_a_page_leads_to_a_file_and_a_heading() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}#{heading}"
        for page in PAGES
        for link, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text("utf-8"))
        if "://" not in link
        and not (
            (target := page.parent / link if link else page).is_file()
            and (not heading or heading in anchors(target))
        )
    ]

    assert broken == []


@cache
def anchors(page: Path) -> set[str]:
    """Return what a link may name of a page: its headings, as GitHub and our site name them."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line) for line in text.splitlines())
    return {
        re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")
        for heading in headings
        if heading.startswith("#")
    }


_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|ya?ml|json|toml|html|js|svg|sh|txt))`")
PACKAGE = ROOT / "reactive_desched"


def missing_files(text: str) -> list[str]:
    """Return the files of our folders that a page names and that there are not.

    A name with a word in capitals, as `tests/ROOM/test_x.py`, stands for many. A decision that is
    superseded names what was.
    """
    if re.search(r"^Superseded by ", text, re.MULTILINE):
        return []
    folders = {each.name for base in (ROOT, PACKAGE) for each in base.iterdir() if each.is_dir()}
    return [
        name
        for name in _PATH.findall(text)
        if name.split("/")[0] in folders
        and not re.search(r"\b[A-Z]{2}", name)
        and not ((ROOT / name).is_file() or (PACKAGE / name).is_file())
    ]


def test_every_file_that_a_page_names_is_there() -> None:
    missing = {
        str(page.relative_to(ROOT)): missing_files(page.read_text("utf-8")) for page in PAGES
    }

    assert {page: names for page, names in missing.items() if names} == {}


def test_a_file_that_moved_is_found_unless_the_decision_is_superseded() -> None:
    text = "Clocks are in `controller/clocks.py`, as `tests/ROOM/test_x.py` and `gate/gate.py` say."

    assert missing_files(text) == ["controller/clocks.py"]
    assert missing_files(f"Superseded by [ADR 1](x.md).\n\n{text}") == []


def test_the_ten_pages_of_the_first_day_have_6000_words_at_most() -> None:
    section = (ROOT / "docs/README.md").read_text("utf-8").partition("## In a day")[2]
    pages = re.findall(r"^\d+\. \[.*?\]\((.*?)\)", section.partition("\n## ")[0], re.MULTILINE)
    words = {page: len((ROOT / "docs" / page).read_text("utf-8").split()) for page in pages}

    assert len(words) == 10
    assert {"../README.md", "tutorial.md", "howto/from-the-sig-descheduler.md"} < words.keys()
    assert sum(words.values()) <= 6_000, words  # as `wc -w` counts


def test_the_runbook_on_reasons_has_sections_on_reasons_alone() -> None:
    known = {each.code for each in declared(GateReason)}
    known |= {each.code for each in declared(OutcomeReason)}

    assert codes_with_a_remedy()
    assert codes_with_a_remedy() - known == set()
    assert {"Futile", "FindingStorm", "Denied"} <= codes_with_a_remedy()


def test_each_alert_has_a_runbook_and_each_runbook_of_an_alert_its_alert() -> None:
    named = re.findall(
        r"runbook: (\S+)", (ROOT / "deploy/monitoring/alerts.yaml").read_text("utf-8")
    )
    pages = {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs/runbooks").glob("Rea*.md")}
    index = (ROOT / "docs/howto/monitoring.md").read_text(encoding="utf-8")

    assert set(named) == pages
    assert [page for page in pages if page.removeprefix("docs/") not in index] == []


@pytest.mark.parametrize("folder", ["explain", "howto", "reference"])
def test_every_page_begins_with_what_it_is_for_and_ends_with_where_to_go(folder: str) -> None:
    for page in (ROOT / "docs" / folder).glob("*.md"):
        title, gap, purpose, *_, last = page.read_text(encoding="utf-8").splitlines()
        assert (title[:2], gap, purpose[:1] not in "#|") == ("# ", "", True), page
        assert not purpose.startswith("```"), page
        assert last.startswith("Next: "), page


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("changes_total", "`change`"),
        ("outcomes_total", "`result`, `reason`, `plugin`"),
        ("reflector_synced", "`resource`"),
        ("sink_lag_records", "`sink`"),
        ("journal_healthy", "-"),
        ("loop_lag_seconds", "-"),
    ],
)
def test_the_metrics_page_names_the_labels_of_each(name: str, labels: str) -> None:
    rows = [line.split(" | ") for line in metrics_page().splitlines()]

    [row] = [row for row in rows if row[0] == f"| `reactive_desched_{name}`"]
    assert row[2] == labels


@pytest.mark.parametrize("name", sorted(plugin_registry().built_in()))
def test_the_readme_names_every_plugin(name: str) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert name in text


def test_each_decision_record_has_a_number_of_its_own() -> None:
    numbers = Counter(path.name[:4] for path in (ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [number for number, count in numbers.items() if count > 1] == []
