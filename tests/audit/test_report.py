"""A report says what the journal says, neither more nor less, and says what the journal lacks."""

import json
import re
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from math import ceil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reactive_desched.api import event as api
from reactive_desched.api.reason_codes import GATES
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.audit.report import builder, counting
from reactive_desched.audit.report.builder import as_json, make_report
from reactive_desched.audit.report.counting import LIMIT_GATES
from reactive_desched.audit.report.document_writer import write_document
from reactive_desched.audit.report.html_page import as_html
from reactive_desched.audit.report.markdown_page import as_markdown
from reactive_desched.audit.report.report import PeriodReport, Rows
from reactive_desched.audit.report.sections import MOVE_MEANINGS
from reactive_desched.audit.rows import micros
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.summary import EventFilter
from reactive_desched.model import moves, outcomes
from tests.safety.story import play_story
from tests.support.eviction_story import BEGAN, HOSTILE, Story, moved, who
from tests.support.golden import Golden
from tests.support.journals import write_journal

ENDED = BEGAN + timedelta(days=2)


def report_of(
    directory: Path,
    event_filter: EventFilter | None = None,
    *,
    limit: int = 0,
    since: datetime = BEGAN,
    until: datetime = ENDED,
) -> PeriodReport:
    bounds = {"since": micros(since.isoformat()), "until": micros(until.isoformat())}
    query = RecordQuery(filter=event_filter or EventFilter(), **bounds)
    with open_catalogue(directory, directory / "cache") as catalogue:
        return make_report(catalogue, query, limit, until)


def report_on(story: Story, directory: Path, **how: Any) -> PeriodReport:
    story.write(directory)
    return report_of(directory, **how)


# --- the same numbers, counted in another way from whole events ---


def within(directory: Path, since: datetime = BEGAN, until: datetime = ENDED) -> list[AnyEvent]:
    return [each for each in read_events(directory) if since <= each.time < until]


def by_name(events: Iterable[AnyEvent], name: str) -> dict[str, int]:
    return dict(Counter(_NAMES[name](each) for each in events))


def _workload(event: AnyEvent) -> str:
    pod = event.data.who
    kind, name = (pod.owners[-1].kind, pod.owners[-1].name) if pod.owners else ("Pod", pod.name)
    return f"{pod.namespace}/{kind}/{name}"


_NAMES = {
    "plugins": lambda event: event.data.why.plugin,
    "namespaces": lambda event: event.data.who.namespace,
    "workloads": _workload,
}


def check_against(events: list[AnyEvent], report: PeriodReport) -> None:
    """Hold every figure of a report that leaves nothing out against the events."""
    findings = [each for each in events if each.type == api.FINDING_MADE]
    decisions = [each for each in events if isinstance(each.data, api.DecisionMade)]
    requests = [each for each in events if each.type == api.EVICTION_REQUESTED]
    outcomes = [each for each in events if each.type in api.EVICTION_OUTCOME_TYPES]
    corrections = [each for each in events if each.type == api.EVICTION_CORRECTED]
    corrected = {each.data.corrects for each in corrections}
    ended = [each for each in outcomes if each.id not in corrected] + corrections
    followed = [each for each in events if each.type == api.EVICTION_FOLLOWED_UP]

    def with_result(*results: str) -> list[AnyEvent]:
        return [each for each in ended if each.data.outcome.result in results]

    assert report.totals.findings == len(findings)
    verdicts = Counter(each.data.decision.verdict for each in decisions)
    blocked = [each for each in decisions if each.type != api.DECISION_EVICT]
    assert report.totals.decisions["evict"] == len(decisions) - len(blocked)
    assert report.totals.blocked == len(blocked)
    assert report.totals.requested == len(requests)
    assert report.totals.results == Counter(each.data.outcome.result for each in ended)
    assert report.totals.evicted == len(with_result("evicted"))
    assert report.totals.dry_run == len(with_result("dry_run"))
    assert {(row.owner, row.reason): row.count for row in report.outcomes.rows} == Counter(
        (each.data.outcome.result, each.data.outcome.reason) for each in ended
    )
    assert {(row.owner, row.reason): row.count for row in report.refusals.rows} == Counter(
        (each.data.decision.gate, each.data.decision.reason) for each in blocked
    ), verdicts
    assert report.record.corrected == len(corrections)
    assert {row.cause: row.count for row in report.disruptions.rows} == Counter(
        each.data.cause for each in events if each.type == api.DISRUPTION_OBSERVED
    )
    answered = {each.causationid for each in outcomes}
    assert report.open_requests.count == len({each.id for each in requests} - answered)
    said = {each.causationid for each in followed}
    leaving = with_result("evicted", "unknown")
    left = {getattr(each.data, "corrects", each.id) for each in leaving} - said
    assert report.moves.unfollowed == len(left)
    assert report.moves.results == Counter(each.data.follow_up.result for each in followed)
    for name, rows in _tables(report).items():
        for field, some in (
            ("findings", findings),
            ("evicted", with_result("evicted")),
            ("dry_run", with_result("dry_run")),
            ("unknown", with_result("unknown")),
            ("helped", [each for each in followed if _helped(each)]),
        ):
            counted = {row.name: value for row in rows.rows if (value := getattr(row, field))}
            assert counted == by_name(some, name), (name, field)
    _check_hours(with_result("evicted"), with_result("dry_run"), report)
    _check_ready([each.data.follow_up.ready_ms for each in followed], report)
    _check_limits(decisions, report)
    unrecorded = [each.data.unrecorded for each in events if each.type == api.CHECKPOINT]
    assert report.record.unrecorded_decisions == sum(unrecorded)


def _tables(report: PeriodReport) -> dict[str, Rows[Any]]:
    return {
        "plugins": report.plugins,
        "namespaces": report.namespaces,
        "workloads": report.workloads,
    }


def _helped(event: AnyEvent) -> bool:
    said = event.data.follow_up
    return said.result in ("moved", "returned") and said.finding_holds is False


def _check_hours(evicted: list[AnyEvent], dry: list[AnyEvent], report: PeriodReport) -> None:
    size = timedelta(hours=report.bar_hours)
    starts = [datetime.fromisoformat(each.start) for each in report.over_time]
    assert [b - a for a, b in pairwise(starts)] == [size] * (len(starts) - 1)
    for each, start in zip(report.over_time, starts, strict=True):
        assert each.evicted == sum(start <= event.time < start + size for event in evicted)
        assert each.dry_run == sum(start <= event.time < start + size for event in dry)
    assert sum(each.evicted for each in report.over_time) == len(evicted)
    assert [each.evicted for each in report.hours_of_day] == [
        sum(event.time.hour == hour for event in evicted) for hour in range(24)
    ]


def _check_ready(times: list[int | None], report: PeriodReport) -> None:
    ready = sorted(each for each in times if each is not None)
    bounds = [-1, *(s * 1000 for s, _ in report.ready.by_bound if s is not None), 10**12]
    assert [count for _, count in report.ready.by_bound] == [
        sum(a < each <= b for each in ready) for a, b in pairwise(bounds)
    ]
    assert report.ready.count == len(ready)
    if ready:
        rounded = [int(_THREE_DIGITS.create_decimal(each)) for each in ready]
        assert report.ready.median_ms == rounded[ceil(len(ready) / 2) - 1]
        assert report.ready.p90_ms == rounded[ceil(len(ready) * 9 / 10) - 1]
        assert report.ready.longest_ms == ready[-1]


_THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)


def _check_limits(decisions: list[AnyEvent], report: PeriodReport) -> None:
    """Follow each case by itself: its gates since the last agreement, and when each came first."""
    found, passed = Counter[str](), Counter[str]()
    waits = defaultdict[str, list[int]](list)
    cases = defaultdict[str, list[AnyEvent]](list)
    for each in decisions:
        cases[each.correlationid].append(each)
    for case in cases.values():
        first: dict[str, datetime] = {}
        for each in case:
            gate = each.data.decision.gate
            if each.type == api.DECISION_EVICT:
                passed.update(first.keys())
                for name, since in first.items():
                    waits[name].append(max(0, (each.time - since) // timedelta(milliseconds=1)))
                first = {}
            elif gate in LIMIT_GATES and gate not in first:
                first[gate] = each.time
                found[gate] += 1
    assert {row.gate: row.findings for row in report.limits} == found
    assert {row.gate: row.evicted for row in report.limits if row.evicted} == passed
    assert {row.gate: row.longest_wait_ms for row in report.limits if row.evicted} == {
        gate: max(each) for gate, each in waits.items()
    }


results = st.sampled_from(
    [None, "open", "evicted", "evicted", "evicted", "dry_run", "unknown", "pdb_refused", "failed",
     "not_found", "of_a_later_version"]
)  # fmt: skip
evictions = st.fixed_dictionaries(
    {
        "at_s": st.floats(-20_000, 200_000) | st.just(0.0),
        "result": results,
        "pod": st.builds(who, st.integers(0, 5), namespace=st.sampled_from(["shop", "bank"])),
        "plugin": st.sampled_from(["PodLifeTime", "RemoveDuplicates"]),
        "waits": st.lists(
            st.tuples(
                st.sampled_from(["EvictionRateLimit", "MaxMoving", "NodeFit"]),
                st.floats(0, 4000),
            ),
            max_size=3,
        ),
        "follow_up": st.none()
        | st.builds(
            api.FollowUp,
            result=st.sampled_from([*MOVE_MEANINGS, "of_a_later_version"]),
            finding_holds=st.sampled_from([None, True, False]),
            ready_ms=st.none() | st.sampled_from([2000, 600_000]) | st.integers(0, 900_000),
        ),
        "reason": st.sampled_from(["", "EvictionAccepted"]),
    }
)


@given(st.lists(evictions, max_size=25))
def test_every_figure_is_that_of_the_journal(told: list[dict[str, Any]]) -> None:
    story = Story()
    for each in told:
        story.eviction(**each)
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        story.write(directory, per_segment=7, compress=True)

        report = report_of(directory)

        check_against(within(directory), report)
        assert report.record.missing == 0
        assert not report.record.is_at_most


@pytest.mark.parametrize("seed", [4, 6])
def test_a_report_on_a_cluster_in_trouble_is_that_of_its_journal(seed: int, tmp_path: Path) -> None:
    """Requests fail, time out and are refused, processes crash, and the clock is set."""
    play_story(Random(seed), tmp_path)
    events = list(read_events(tmp_path))
    first, last = min(each.time for each in events), max(each.time for each in events)
    middle = first + (last - first) / 3

    for since, until in (
        (first, last + timedelta(seconds=1)),
        (middle, last - (last - first) / 4),
    ):
        report = report_of(tmp_path, since=since, until=until)
        check_against(within(tmp_path, since, until), report)


def test_a_choice_of_pods_is_counted_alone_and_named(tmp_path: Path) -> None:
    story = Story()
    story.eviction(1)
    story.eviction(2, pod=who(1, namespace="bank"), follow_up=moved())
    story.own(api.CHECKPOINT, 3, api.Checkpoint(note="", root="", size=1, unrecorded=9))

    report = report_on(story, tmp_path, event_filter=EventFilter(namespaces=("bank",)))

    assert [row.name for row in report.workloads.rows] == ["bank/Deployment/web"]
    assert report.totals.evicted == 1
    assert report.record.unrecorded_decisions == 9
    assert write_document(report).scope == "Only namespaces: bank."


def test_brakes_are_counted_with_the_time_between_engaging_and_release(tmp_path: Path) -> None:
    def engaged(brake: str) -> api.BrakeEngaged:
        return api.BrakeEngaged(brake=brake, message="many", mode="live", scope="cluster")

    released = api.BrakeReleased(brake="storm", message="", mode="live", scope="cluster")
    story = Story()
    story.own(api.BRAKE_ENGAGED, 10, engaged("storm"))
    story.own(api.BRAKE_RELEASED, 70, released)
    story.own(api.BRAKE_RELEASED, 80, released)
    story.own(api.BRAKE_ENGAGED, 90, engaged("manual"))

    rows = report_on(story, tmp_path).brakes.rows

    assert [(row.brake, row.times, row.engaged_ms, row.is_engaged) for row in rows] == [
        ("manual", 1, 0, True),
        ("storm", 1, 60_000, False),
    ]


# --- what is missing ---


def test_a_period_without_records_has_a_report_that_says_so(tmp_path: Path, golden: Golden) -> None:
    story = Story()
    story.eviction(1)
    story.write(tmp_path)

    report = report_of(tmp_path, since=BEGAN + timedelta(days=9), until=BEGAN + timedelta(days=16))
    document = write_document(report)

    assert [each.heading for each in document.sections] == ["Nothing in this period", "The record"]
    assert report.record.counted == 0
    assert {each.evicted for each in report.over_time} == {0}
    for page in (as_html(document), as_markdown(document)):
        assert golden() in "".join(page)


def test_a_choice_of_pods_of_which_there_is_no_record_is_said_and_brakes_are_shown(
    tmp_path: Path,
    golden: Golden,
) -> None:
    story = Story()
    story.eviction(1)
    pause = api.BrakeEngaged(brake="manual", message="m", mode="live", scope="cluster")
    story.own(api.BRAKE_ENGAGED, 2, pause)

    report = report_on(story, tmp_path, event_filter=EventFilter(namespaces=("bank",)))

    text = "".join(as_markdown(write_document(report)))
    assert golden() in text
    assert "| `manual` | `cluster` | 1 |" in text
    assert report.record.about_pods == 0


def test_a_journal_that_is_only_begun_has_a_report(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "journal-00000000000000000001.jsonl").touch()

    report = report_of(tmp_path)

    assert report.record.first_sequence is None
    assert golden() in "".join(as_markdown(write_document(report)))


def test_records_that_are_gone_or_damaged_are_counted_and_said(
    tmp_path: Path, golden: Golden
) -> None:
    story = Story()
    for number in range(10):
        story.eviction(number)
    story.write(tmp_path)
    path = list_segments(tmp_path)[0].path
    lines = path.read_bytes().splitlines(keepends=True)
    lines[7] = b"{" + lines[7]
    del lines[20:23]
    path.write_bytes(b"".join(lines))

    report = report_of(tmp_path)

    assert (report.record.missing, report.record.damaged_lines) == (4, 1)
    warnings = " ".join(write_document(report).warnings)
    assert golden() in warnings
    assert "1 damaged line" in warnings
    check_against(within(tmp_path), report)


def test_what_came_before_the_first_record_is_not_shown_as_hours_without_evictions(
    tmp_path: Path,
    golden: Golden,
) -> None:
    story = Story()
    story.eviction(5 * 3600)
    write_journal(tmp_path, story.events(), began=BEGAN + timedelta(hours=4))
    path = list_segments(tmp_path)[0].path
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    path.rename(tmp_path / "journal-00000000000000000002.jsonl")

    report = report_of(tmp_path)

    assert report.over_time[0].start == "2026-05-01T05:00:00Z"
    (warning,) = write_document(report).warnings
    assert warning.startswith(golden())


def test_decisions_left_out_above_the_rate_and_faults_of_the_disk_are_said(
    tmp_path: Path, golden: Golden
) -> None:
    story = Story()
    story.eviction(1)
    story.own(api.CHECKPOINT, 3, api.Checkpoint(note="", root="", size=1, unrecorded=1200))
    resumed = api.JournalResumed(down_ms=90_000, message="full", refused=2)
    story.own(api.JOURNAL_RESUMED, 4, resumed)
    lost = api.EpochBegan(first_missing=7, last_missing=9, previous="", message="cut")
    story.own(api.EPOCH_BEGAN, 5, lost)

    warnings = " ".join(write_document(report_on(story, tmp_path)).warnings)

    assert golden("decisions left out") in warnings
    assert golden("faults of the disk") in warnings
    assert "records 7 to 9 are missing" in warnings


def test_beyond_its_bounds_a_report_counts_together_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MAX_GROUPS", 2)
    monkeypatch.setattr(counting, "MAX_OPEN", 1)
    story = Story()
    for number in range(1, 6):
        story.eviction(number, pod=who(number, name=f"w{number}"))
        story.eviction(number, "open", waits=[("MaxMoving", 0)])

    report = report_on(story, tmp_path)

    assert [row.evicted for row in report.workloads.rows] == [1, 0]
    assert report.workloads.pooled is not None
    assert report.workloads.pooled.evicted == 4
    assert report.totals.evicted == 5
    assert report.open_requests.count >= 5
    assert len(report.open_requests.listed) == 1
    document = write_document(report)
    assert any("is an upper bound" in each for each in document.warnings)
    assert "(further workloads, counted together)" in "".join(as_html(document))


def test_a_long_period_has_longer_bars_and_none_is_left_out(tmp_path: Path) -> None:
    story = Story()
    story.eviction(0)
    story.eviction(400 * 86_400)

    report = report_on(story, tmp_path, until=BEGAN + timedelta(days=401))

    assert report.bar_hours == 7 * 24
    assert len(report.over_time) <= builder.MAX_BARS
    assert sum(each.evicted for each in report.over_time) == 2


# --- words ---


def test_tables_are_cut_and_say_what_is_left_out(tmp_path: Path, golden: Golden) -> None:
    story = Story()
    for number in (1, 1, 1, 2, 3, 5):
        story.eviction(number, pod=who(number, name=f"w{number}"))

    document = write_document(report_on(story, tmp_path, limit=2))

    workloads = {section.heading: section for section in document.sections}["Most moved workloads"]
    assert workloads.findings == (golden(),)
    assert [row[0] for row in workloads.tables[0].rows] == [
        "Deployment shop/w1",
        "Deployment shop/w2",
    ]
    assert workloads.tables[0].rest == "and 2 other workloads, with 2 evictions"


def test_a_dry_run_is_called_one_everywhere(tmp_path: Path) -> None:
    story = Story()
    story.eviction(1, outcomes.DRY_RUN)

    document = write_document(report_on(story, tmp_path))

    assert document.figures[0].label == "Would have been evicted"
    text = "".join(as_markdown(document))
    assert "1 pod would have been evicted" in text
    assert "Would be evicted" in text


def test_a_share_is_nothing_or_all_only_where_it_is_just_that() -> None:
    from reactive_desched.text.counts import share

    assert [share(each, 1000) for each in (0, 1, 5, 714, 996, 1000)] == [
        "0 %", "under 1 %", "1 %", "71 %", "over 99 %", "100 %",
    ]  # fmt: skip
    assert share(0, 0) == "\N{EN DASH}"


def test_every_gate_of_a_limit_and_every_result_of_a_move_is_one_that_there_is() -> None:
    assert set(GATES) >= LIMIT_GATES
    assert set(MOVE_MEANINGS) == {
        *(moves.MOVED, moves.RETURNED, moves.NOT_READY, moves.UNSCHEDULED),
        *(moves.NOT_REPLACED, moves.OWNER_GONE, moves.NOT_FOLLOWED),
    }


# --- pages ---


class Page(HTMLParser):
    """The tables of a page as rows of texts, its elements and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self._cell: list[str] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "rect", "path"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("rect", "path"):
            return
        assert self.open.pop() == tag, f"{tag} is closed out of turn"
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append("".join(self._cell))
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data
        if self._cell is not None:
            self._cell.append(data)


def markdown_tables(text: str) -> list[list[list[str]]]:
    return Page(MarkdownIt("commonmark").enable("table").render(text)).tables


@pytest.fixture
def hostile(tmp_path: Path) -> PeriodReport:
    story = Story()
    for name in ("web", HOSTILE):
        pod = who(1, namespace=f"ns-{name}", name=name)
        story.eviction(1, pod=pod, plugin=f"P{name}", follow_up=moved(), waits=[(name, 1)])
        story.eviction(2, "open", pod=pod)
        story.eviction(3, outcomes.FAILED, pod=pod, reason=name)
    told: Any = {"brake": HOSTILE, "message": HOSTILE, "mode": "live", "scope": HOSTILE}
    story.own(api.BRAKE_ENGAGED, 4, api.BrakeEngaged(by=HOSTILE, **told))
    loaded = api.PolicyLoaded(
        cluster=HOSTILE, mode="live", revision=HOSTILE, source=HOSTILE, version="1"
    )
    story.own(api.POLICY_LOADED, 5, loaded)
    return report_on(story, tmp_path)


def test_html_and_markdown_have_the_same_tables_whatever_names_are_in_them(
    hostile: PeriodReport,
) -> None:
    document = write_document(hostile)
    told = [
        [[column.heading for column in table.columns], *map(list, table.rows)]
        for section in document.sections
        for table in section.tables
    ]
    shown = [[[cell.replace("\u202e", "�") for cell in row] for row in rows] for rows in told]

    page = Page("".join(as_html(document)))
    html_tables = [[row for row in rows if len(row) > 1] for rows in page.tables]

    assert html_tables == shown
    assert markdown_tables("".join(as_markdown(document)))[1:] == shown
    assert any(HOSTILE[:-1] in cell for rows in shown for row in rows for cell in row)


def test_a_page_runs_nothing_and_refers_to_nothing(hostile: PeriodReport) -> None:
    text = "".join(as_html(write_document(hostile)))
    page = Page(text)

    assert not page.open
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "a", "form", "image", "use"}
    names = {name for _, attributes in page.elements for name in attributes}
    assert not names & {"style", "href", "src", "srcset", "action", "xlink:href"}
    assert not any(name.startswith("on") for name in names)
    metas = [found for tag, found in page.elements if tag == "meta"]
    (policy,) = [m["content"] for m in metas if m.get("http-equiv") == "Content-Security-Policy"]
    (style,) = re.findall("<style>(.*)</style>", text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in style
    assert "@import" not in style


def test_every_table_has_a_caption_and_headers_and_every_chart_a_title(
    hostile: PeriodReport,
) -> None:
    page = Page("".join(as_html(write_document(hostile))))
    counts = Counter(tag for tag, _ in page.elements)
    charts = [found for tag, found in page.elements if tag == "svg" and found.get("role") == "img"]
    ids = [found["id"] for _, found in page.elements if "id" in found]

    assert counts["table"] == counts["caption"] == counts["thead"]
    assert counts["desc"] == len(charts) == 3
    assert len(ids) == len(set(ids))
    for chart in charts:
        assert set(str(chart["aria-labelledby"]).split()) <= set(ids)
    rows = sum(len(rows) for rows in page.tables)
    assert (
        sum(found.get("scope") == "row" for _, found in page.elements) + 2 * counts["table"] >= rows
    )


def test_markdown_has_no_link_no_html_and_no_mention_of_its_own(hostile: PeriodReport) -> None:
    rendered = (
        MarkdownIt("commonmark")
        .enable("table")
        .render("".join(as_markdown(write_document(hostile))))
    )
    page = Page(rendered)

    assert not {tag for tag, _ in page.elements} & {"a", "script", "em", "img"}
    text = "".join(as_markdown(write_document(hostile)))
    assert "http://" not in text
    assert "@me" not in text


# --- the command ---


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    story = Story()
    story.eviction(3600, follow_up=moved())
    story.eviction(7200, outcomes.PDB_REFUSED, reason="DisruptionBudget")
    story.write(tmp_path / "journal")
    return tmp_path / "journal"


def call(journal: Path, *told: str) -> int:
    return main(["audit", "report", "--journal", str(journal), *told])


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_the_same_records_and_times_give_the_same_report(
    journal: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], form: str
) -> None:
    out = tmp_path / "report"

    assert call(journal, "--since=2026-05-01", "--until=2026-05-03T00:00:00Z", "-o", form) == 0
    shown = capsysbinary.readouterr().out
    told = ("--since=2026-05-01T00:00:00Z", "--until=2026-05-03", "-o", form, "--out", str(out))
    assert call(journal, *told) == 0

    assert capsysbinary.readouterr().out == b""
    assert out.read_bytes() == shown
    begins = {"md": b"# Evictions", "html": b"<!doctype html>", "json": b"{"}
    assert shown.startswith(begins[form])


def test_without_since_the_report_is_on_seven_days_before_its_end(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(journal, "-o", "json", "--until", "2026-05-03") == 0
    found = json.loads(capsys.readouterr().out)
    assert call(journal) == 0

    assert found["since"] == "2026-04-26T00:00:00Z"
    assert found["totals"]["results"] == {"evicted": 1, "pdb_refused": 1}
    assert "Nothing in this period" in capsys.readouterr().out


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(["--since", "Monday"], id="--since Monday"),
        pytest.param(["--since", "2d", "--until", "3d"], id="--since 2d --until 3d"),
        pytest.param(["--since", "2999-01-01"], id="--since 2999-01-01"),
        pytest.param(["--plugin", "PodLifeTim"], id="--plugin PodLifeTim"),
        pytest.param(["-n", "a,,b"], id="-n a,,b"),
        pytest.param(["--out", "/nowhere/report.html"], id="--out /nowhere/report.html"),
    ],
)
def test_a_wrong_flag_is_named_with_its_remedy(
    journal: Path, capsys: pytest.CaptureFixture[str], told: list[str], golden: Golden
) -> None:
    assert call(journal, *told) in (1, 2)

    shown = capsys.readouterr()
    assert golden() in shown.err
    assert shown.out == ""


def test_the_words_for_json_are_those_of_the_report(journal: Path) -> None:
    assert list(json.loads(as_json(report_of(journal)))) == [
        *("cluster", "source", "since", "until", "selection", "version", "totals"),
        *("barHours", "overTime", "hoursOfDay", "plugins", "namespaces", "workloads", "ready"),
        *("moves", "refusals", "outcomes", "limits", "brakes", "disruptions", "openRequests"),
        *("policiesLoaded", "policies", "record"),
    ]
