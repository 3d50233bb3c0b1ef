"""A clock that is set wrong and right again: the record stays whole, and evictions go on."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import (
    DECISION_DEFER,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    EVICTION_SUCCEEDED,
    EvictionRequested,
)
from reactive_desched.audit.verification import verify
from reactive_desched.journal.events import read_events
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signed_note import parse_key
from tests.support.entries import WEB, outcome_data
from tests.support.journals import correlation_of, make_pod_event, write_journal
from tests.support.limits import UNLIMITED
from tests.support.shifted_clock import BOOT_VARIABLE, VARIABLE

DAY_S = 86_400.0


class Shift:
    """The file that says by how much the controller's time of day is wrong."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set(days=0)

    def set(self, days: float) -> None:
        """Set the clock, in one step."""
        new = self._path.with_suffix(".new")
        new.write_text(str(days * DAY_S), encoding="utf-8")
        new.replace(self._path)


@pytest.fixture
def shift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shift:
    path = tmp_path / "shift"
    monkeypatch.setenv(VARIABLE, str(path))
    return Shift(path)


@pytest.fixture
def settings() -> str:
    return f"{UNLIMITED}journal: {{maxSegmentBytes: 4096}}\n"


@pytest.fixture
def controller(
    start: Callable[..., Any], cluster: Any, policy: Path, tmp_path: Path, shift: Shift
) -> Callable[[], Any]:
    """Start the controller on the shifted clock, and wait until it knows the cluster."""

    def start_one() -> Any:
        program = start(
            "run",
            *("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig)),
            *("--journal", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
            module="tests.support.shifted_clock",
        )
        program.wait_for("the cluster is synced")
        return program

    return start_one


def movable(cluster: Any, node: str) -> set[str]:  # from the fixture
    return {uid for uid, kind in cluster.pods_on(node).items() if kind != "DaemonSet"}


def drain(cluster: Any, program: Any, node: str, meanwhile: Callable[[], None]) -> set[str]:
    """Have everybody evicted from a node; return who was."""
    there = movable(cluster, node)
    assert there
    cluster.taint(node, "gpu")
    program.wait_until(lambda: len(there & movable(cluster, node)) < len(there))
    meanwhile()
    program.wait_until(lambda: not there & movable(cluster, node))
    cluster.untaint(node)
    return there


def firsts(journal: Path) -> list[int]:
    return [one.first_seq for one in list_segments(journal)]


def test_a_clock_forty_days_ahead_costs_no_eviction_and_one_old_segment_a_round(
    cluster: Any, controller: Callable[[], Any], shift: Shift, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    first = controller()
    due = drain(cluster, first, "node-1", lambda: None)
    assert first.stop() == 0
    before, kept = list(read_events(journal)), firsts(journal)
    assert len(kept) > 2
    shift.set(days=40)
    program = controller()
    program.wait_until(lambda: kept[0] not in firsts(journal))

    due |= drain(cluster, program, "node-2", lambda: None)
    due |= drain(cluster, program, "node-3", lambda: shift.set(days=-40))
    due |= drain(cluster, program, "node-4", lambda: shift.set(days=0))

    assert program.stop() == 0
    removed = re.findall(r"removed old segments.*segments=(\d+)", program.output)
    assert set(removed) == {"1"}, "one in a round"
    check_record(journal, before, due)


def check_record(journal: Path, before: list[AnyEvent], evicted: set[str]) -> None:
    """Hold that the chain is whole, and that every eviction has one end, those before with it."""
    keys = [parse_key(line) for line in (journal / "checkpoint.pub").read_text().split()]
    report = verify(journal, keys, "", None)
    assert report.ok, report.bad
    events = {e.id: e for e in (*before, *read_events(journal))}.values()
    intents = {e.id: e.data.who.uid for e in events if e.type == EVICTION_REQUESTED}
    outcomes = [e for e in events if e.type in EVICTION_OUTCOME_TYPES]
    assert sorted(e.causationid for e in outcomes) == sorted(intents)
    assert {e.data.who.uid for e in outcomes if e.data.outcome.result == "evicted"} == evicted


class TestOneEvictionAnHour:
    """A limit holds over a restart for as long as it says, whatever the clocks say."""

    @pytest.fixture
    def settings(self) -> str:
        return UNLIMITED.replace("cluster: null", "cluster: {evictions: 1, per: 1h, burst: 1}", 1)

    @pytest.mark.parametrize("boot", ["", "another"], ids=["same machine", "another machine"])
    def test_holds_over_a_restart_where_the_time_of_day_is_another(
        self,
        cluster: Any,
        controller: Callable[[], Any],
        shift: Shift,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        boot: str,
    ) -> None:
        journal = tmp_path / "journal"
        cluster.taint("node-1", "gpu")
        first = controller()
        first.wait_until(lambda: EVICTION_REQUESTED in (e.type for e in read_events(journal)))
        assert first.stop() == 0
        before = [event.id for event in read_events(journal)]
        waiting = movable(cluster, "node-1")
        assert waiting
        shift.set(days=2)
        monkeypatch.setenv(BOOT_VARIABLE, boot)

        second = controller()

        def deferred() -> set[str]:
            events = [e for e in read_events(journal) if e.id not in before]
            return {event.data.who.uid for event in events if event.type == DECISION_DEFER}

        second.wait_until(lambda: waiting <= deferred())
        assert second.stop() == 0
        requested = [e for e in read_events(journal) if e.type == EVICTION_REQUESTED]
        assert len(requested) == 1


class TestOneEvictionInThreeDays:
    """A limit that is longer than a day counts what a journal has of all that time."""

    @pytest.fixture
    def settings(self) -> str:
        return UNLIMITED.replace("cluster: null", "cluster: {evictions: 1, per: 3d, burst: 1}", 1)

    def test_counts_an_eviction_of_two_days_ago(
        self, cluster: Any, controller: Callable[[], Any], tmp_path: Path
    ) -> None:
        journal, at = tmp_path / "journal", datetime.now(UTC) - timedelta(days=2)
        journal.mkdir()
        about = outcome_data("evicted")
        fields = {name: getattr(about, name) for name in ("mode", "trigger", "what", "who", "why")}
        case = correlation_of(WEB, "a")
        request = EvictionRequested(attempt=1, **fields)
        events = (
            make_pod_event(EVICTION_REQUESTED, case, at, request, "a", "found"),
            make_pod_event(EVICTION_SUCCEEDED, case, at, about, "end-a", "a"),
        )
        write_journal(journal, events)
        cluster.taint("node-1", "gpu")

        program = controller()

        program.wait_for("deferred .*EvictionRateLimited")
        assert program.stop() == 0
        assert "] evicted " not in program.output
