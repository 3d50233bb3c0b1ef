"""Schedules: nothing in business hours, none on Fridays, a few at night."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from reactive_desched.gate.schedules import EvictionSchedules
from reactive_desched.model.decisions import Defer
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.policy.settings.limits import EvictionSchedule
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.view import ClusterView
from reactive_desched.testing.builders import pod
from tests.support.evictions import decide, finish, restore, under_way
from tests.support.golden import Golden

BUSINESS = {
    "schedule": "0 9 * * mon-fri",
    "timeZone": "Europe/Berlin",
    "duration": "8h",
    "evictions": 0,
}
FRIDAYS = {"schedule": "0 0 * * fri", "duration": "24h", "evictions": 0}
NIGHTS = {"schedule": "0 22 * * *", "timeZone": "Europe/Berlin", "duration": "8h", "evictions": 3}


def berlin(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


def finding(name: str = "web", plugin: str = "Test") -> Finding:
    return Finding(pod(name, on="n1"), plugin, "why")


class Schedules(EvictionSchedules):
    """Schedules with a wall clock that a test sets; monotonic time is 1000 unless given."""

    def __init__(self, at: str, *written: dict[str, Any], pods: int = 10) -> None:
        state = ClusterState()
        for number in range(pods):
            state.upsert(pod(f"other-{number}", on="n1"))
        self.wall_s = berlin(at)
        entries = [EvictionSchedule.model_validate(entry) for entry in written]
        super().__init__(entries, ClusterView(state, lambda: self.wall_s))

    def deferral(self, plugin: str = "Test", now: float = 1000) -> Defer | None:
        return self.check(finding(plugin=plugin), now)

    def evict(self, name: str = "web", plugin: str = "Test", *, happened: bool = True) -> None:
        decide(self, finding(name, plugin), at_s=self.wall_s)
        finish(self, name, 0, evicted=happened)

    def left(self) -> list[float]:
        [metric] = self.collect()
        return [value for value in metric.samples.values() if isinstance(value, (int, float))]


def test_in_business_hours_nothing_goes_and_the_message_says_until_when(golden: Golden) -> None:
    schedules = Schedules("2026-11-23T16:40", BUSINESS)

    decision = schedules.deferral()

    assert decision is not None
    assert (decision.gate, decision.reason) == ("Schedule", "ScheduleAllowsNone")
    assert decision.message == golden()
    assert decision.retry_at_s == 1000 + 20 * 60
    assert decision.scope_exhausted == "cluster"


@pytest.mark.parametrize(
    ("at", "is_open"),
    [
        ("2026-11-23T08:59:59", False),
        ("2026-11-23T09:00", True),
        ("2026-11-23T16:59:59.9", True),
        ("2026-11-23T17:00", False),
        ("2026-11-22T12:00", False),
        ("2026-03-30T09:00", True),
        ("2026-03-30T08:59", False),
        ("2026-10-26T16:59", True),
        ("2026-10-26T17:00", False),
    ],
)
def test_business_hours_are_those_of_the_zone_also_after_the_clocks_change(
    at: str, *, is_open: bool
) -> None:
    assert (Schedules(at, BUSINESS).deferral() is not None) is is_open


def test_a_window_opens_and_closes_while_the_process_runs() -> None:
    schedules = Schedules("2026-11-23T08:00", BUSINESS)
    seen = []
    for hour in range(72):
        schedules.wall_s = berlin("2026-11-26T08:30") + hour * 3600  # a Thursday
        seen.append(schedules.deferral() is not None)

    open_hours = [hour for hour, blocked in enumerate(seen) if blocked]
    assert open_hours == [*range(1, 9), *range(25, 33)]


def test_a_clock_that_is_set_is_followed_at_once_and_a_long_wait_looks_again_each_hour() -> None:
    schedules = Schedules("2026-11-23T10:00", BUSINESS)
    decision = schedules.deferral()
    assert decision is not None
    assert decision.retry_at_s == 1000 + 3600

    schedules.wall_s = berlin("2026-11-23T18:00")
    assert schedules.deferral() is None
    schedules.wall_s = berlin("2026-11-20T10:00")
    assert schedules.deferral() is not None


def test_so_many_go_while_the_window_is_open_and_afresh_in_the_next(golden: Golden) -> None:
    schedules = Schedules("2026-11-23T23:00", NIGHTS)
    for number in range(3):
        assert schedules.deferral() is None
        schedules.evict(f"p{number}")

    decision = schedules.deferral()
    assert decision is not None
    assert decision.reason == "ScheduleLimitReached"
    assert golden() in decision.message
    assert schedules.left() == [0]
    schedules.wall_s = berlin("2026-11-24T12:00")
    assert schedules.deferral() is None
    assert schedules.left() == []
    schedules.wall_s = berlin("2026-11-24T23:00")
    assert schedules.deferral() is None
    assert schedules.left() == [3]


def test_a_clock_set_to_and_fro_grants_nothing_afresh() -> None:
    schedules = Schedules("2026-11-23T23:00", NIGHTS)
    for number in range(3):
        schedules.evict(f"p{number}")
    schedules.wall_s = berlin("2026-11-25T23:00")
    assert schedules.deferral() is None

    schedules.wall_s = berlin("2026-11-23T22:30")
    assert schedules.deferral() is not None


def test_an_eviction_under_way_counts_and_one_that_did_not_happen_does_not() -> None:
    schedules = Schedules("2026-11-23T23:00", {**NIGHTS, "evictions": 1})
    decide(schedules, finding("a"), at_s=schedules.wall_s)
    assert schedules.deferral() is not None

    schedules.wall_s = berlin("2026-11-24T07:00")
    finish(schedules, "a", 0, evicted=False)
    schedules.wall_s = berlin("2026-11-24T05:00")
    assert schedules.deferral() is None


def test_a_schedule_may_be_for_some_plugins() -> None:
    schedules = Schedules("2026-11-23T10:00", {**BUSINESS, "plugins": ["Test", "Other"]})

    assert schedules.deferral("Test") is not None
    assert schedules.deferral("Another") is None


def test_of_several_open_windows_the_strictest_counts_and_the_last_to_end_is_waited_for() -> None:
    schedules = Schedules("2026-11-20T16:30", BUSINESS, FRIDAYS, {**NIGHTS, "evictions": 9})

    decision = schedules.deferral()
    assert decision is not None
    assert "0 0 * * fri UTC for 1d until Sat 2026-11-21 00:00 UTC" in decision.message
    schedules.wall_s = berlin("2026-11-20T23:30")
    assert schedules.deferral() is not None
    schedules.wall_s = berlin("2026-11-21T02:00")
    assert schedules.deferral() is None


@pytest.mark.parametrize(
    ("evictions", "pods", "limit"), [("10%", 25, 3), ("1%", 5, 1), ("0%", 50, 0), ("0.5%", 1000, 5)]
)
def test_a_share_of_the_pods_is_rounded_up(evictions: str, pods: int, limit: int) -> None:
    schedules = Schedules("2026-11-23T23:00", {**NIGHTS, "evictions": evictions}, pods=pods)

    assert schedules.left() == [limit]


def past(uid: str, requested: str, *, is_open: bool = False, plugin: str = "Test") -> PastEviction:
    at_s = berlin(requested)
    ended_s, result = (None, "") if is_open else (at_s + 1, "evicted")
    place = ("default", uid, "n1")
    return PastEviction("r", at_s, uid, *place, plugin=plugin, ended_s=ended_s, result=result)


def test_after_a_restart_the_window_continues_where_it_was() -> None:
    schedules = Schedules("2026-11-23T23:00", NIGHTS)
    evictions = [
        past("a", "2026-11-23T04:00"),
        past("b", "2026-11-23T21:00"),
        past("c", "2026-11-23T22:30"),
        past("d", "2026-11-23T22:59", is_open=True),
    ]

    restore(schedules, evictions, 0, schedules.wall_s)

    assert schedules.left() == [1]
    finish(schedules, "d", 5, evicted=False)
    assert schedules.left() == [2]


def test_an_eviction_of_the_future_counts_as_one_of_now() -> None:
    schedules = Schedules("2026-11-23T23:00", NIGHTS)
    restore(schedules, [past("a", "2026-11-25T12:00")], 0, schedules.wall_s)

    assert schedules.left() == [2]


def test_another_set_of_schedules_keeps_the_counts_of_those_that_stay() -> None:
    schedules = Schedules("2026-11-23T23:00", NIGHTS)
    schedules.evict("a")
    more = {**NIGHTS, "schedule": "0 21 * * *"}
    written = [EvictionSchedule.model_validate(entry) for entry in (more, NIGHTS)]

    schedules.reconfigure(written, under_way(schedules))

    assert schedules.left() == [3, 2]
