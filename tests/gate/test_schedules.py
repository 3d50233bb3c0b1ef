"""Schedules: nothing in business hours, none on Fridays, a few at night."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from reactive_desched.gate.schedules import EvictionSchedules
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import Namespace
from reactive_desched.model.wakes import WakeOnNamespace, WakeOnNode
from reactive_desched.policy.settings.limits import EvictionSchedule
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod, pod_status
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


def namespace(name: str, labels: dict[str, str]) -> Namespace:
    return Namespace(name, labels=labels)


def finding(name: str = "web", plugin: str = "Test") -> Finding:
    return Finding(pod(name, on="n1"), plugin, "why")


class Schedules(EvictionSchedules):
    """Schedules with a wall clock that a test sets; monotonic time is 1000 unless given."""

    def __init__(self, at: str, *written: dict[str, Any], pods: int = 10) -> None:
        self.state = ClusterState()
        self.state.upsert(node("n1"))
        for number in range(pods):
            self.state.upsert(pod(f"other-{number}", on="n1"))
        self.wall_s = berlin(at)
        entries = [EvictionSchedule.model_validate(entry) for entry in written]
        super().__init__(entries, ClusterView(self.state, lambda: self.wall_s))

    def deferral(self, plugin: str = "Test", now: float = 1000) -> Defer | Refuse | None:
        return self.of_profile("p").check(finding(plugin=plugin), now)

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
    assert '"0 0 * * fri UTC for 1d" allows no' in decision.message
    assert "until Sat 2026-11-21 00:00 UTC" in decision.message
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


def test_a_share_is_of_the_pods_on_nodes_that_there_are() -> None:
    schedules = Schedules("2026-11-23T23:00", {**NIGHTS, "evictions": "10%"}, pods=20)

    for number in range(1_000):
        schedules.state.upsert(pod(f"waits-{number}", namespace="tenant"))
        schedules.state.upsert(pod(f"nowhere-{number}", on="nowhere", namespace="tenant"))
        ended = pod(f"ended-{number}", on="n1", namespace="tenant", status=pod_status("Failed"))
        schedules.state.upsert(ended)

    assert schedules.left() == [2]


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


TUE_TO_THU = {"allow": ["tue-thu 10:00-16:00"], "timeZone": "Europe/Berlin"}
FREEZE = {"close": ["2026-12-20 to 2027-01-06"], "timeZone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("at", "opens"),
    [
        ("2026-11-24T10:00", None),  # a Tuesday
        ("2026-11-24T15:59", None),
        ("2026-11-24T16:00", "2026-11-25T10:00"),
        ("2026-11-26T16:00", "2026-12-01T10:00"),
        ("2026-12-17T17:00", "2027-01-07T10:00"),
        ("2026-12-29T12:00", "2027-01-07T10:00"),
    ],
)
def test_where_windows_allow_all_else_is_closed_and_what_closes_comes_first(
    at: str, opens: str | None, golden: Golden
) -> None:
    schedules = Schedules(at, TUE_TO_THU, FREEZE)

    decision = schedules.deferral()

    if opens is None:
        assert decision is None
        return
    assert decision is not None
    assert decision.reason == "ScheduleAllowsNone"
    assert decision.message == golden()
    assert decision.end is not None
    assert decision.end.at_s == 1000 + berlin(opens) - schedules.wall_s
    schedules.wall_s = berlin(opens) - 1
    assert schedules.deferral() is not None
    schedules.wall_s = berlin(opens)
    assert schedules.deferral() is None


def test_of_several_entries_that_allow_one_window_is_enough() -> None:
    fridays = {**TUE_TO_THU, "allow": ["fri 10:00-14:00"]}
    schedules = Schedules("2026-11-27T13:00", TUE_TO_THU, fridays)
    assert schedules.deferral() is None

    schedules.wall_s = berlin("2026-11-27T15:00")
    decision = schedules.deferral()
    assert decision is not None
    assert "tue-thu" in decision.message


def test_a_window_that_allows_a_number_is_spent_and_the_next_one_waited_for(golden: Golden) -> None:
    schedules = Schedules("2026-11-24T10:00", {**TUE_TO_THU, "evictions": 2})
    schedules.evict("a")
    assert schedules.deferral() is None
    schedules.evict("b")

    decision = schedules.deferral()
    assert decision is not None
    assert decision.reason == "ScheduleLimitReached"
    assert decision.message == golden()
    assert decision.end is not None
    assert decision.end.at_s == 1000 + 24 * 3600


def test_windows_that_leave_no_time_are_said_to_close_for_good(golden: Golden) -> None:
    always = {"close": ["mon-sun"]}
    past_dates = {"allow": ["2025-12-24"]}
    by_turns = [{"schedule": f"0 {h} * * *", "duration": "12h", "evictions": 0} for h in (0, 12)]

    messages = []
    for written in ([always], [past_dates], by_turns):
        decision = Schedules("2026-11-24T10:00", *written).deferral()
        assert decision is not None
        messages.append(decision.message)
        assert decision.end is None
        assert decision.retry_at_s == 1000 + 3600

    assert "\n".join(messages) == golden()


class Places:
    """Schedules over two nodes and two namespaces with labels, for findings of two profiles."""

    def __init__(self, at: str, *written: dict[str, Any]) -> None:
        self.state = ClusterState()
        self.state.upsert(node("batch-1", labels={"pool": "batch"}))
        self.state.upsert(node("web-1", labels={"pool": "web"}))
        self.state.upsert(namespace("shop", labels={"tier": "gold"}))
        self.state.upsert(namespace("jobs", labels={"tier": "none"}))
        self.state.upsert(pod("any", on="web-1", namespace="shop"))
        entries = [EvictionSchedule.model_validate(entry) for entry in written]
        self.wall_s = berlin(at)
        self.view = ClusterView(self.state, lambda: self.wall_s)
        self.schedules = EvictionSchedules(entries, self.view)

    @staticmethod
    def finding(on: str, of: str, name: str = "web", plugin: str = "Test") -> Finding:
        return Finding(pod(name, on=on, namespace=of), plugin, "why")

    def decision(self, on: str, of: str, profile: str = "p") -> Defer | Refuse | None:
        return self.schedules.of_profile(profile).check(self.finding(on, of), 1000)

    def closed(self, profile: str = "p") -> list[str]:
        places = [(on, of) for of in ("shop", "jobs") for on in ("web-1", "batch-1")]
        return [f"{of} {on}" for on, of in places if self.decision(on, of, profile) is not None]


WHOM: list[tuple[dict[str, Any], list[str], str]] = [
    ({"namespaces": ["shop"]}, ["shop web-1", "shop batch-1"], "namespace"),
    ({"namespaceSelector": "tier=gold"}, ["shop web-1", "shop batch-1"], "namespace"),
    ({"nodeSelector": "pool=batch"}, ["shop batch-1", "jobs batch-1"], "node"),
    ({"nodeSelector": "pool=batch", "namespaces": ["jobs"]}, ["jobs batch-1"], ""),
    (
        {"namespaces": ["jobs"], "namespaceSelector": "tier=gold", "nodeSelector": "pool=web"},
        ["shop web-1", "jobs web-1"],
        "",
    ),
    (
        {"profiles": ["p"]},
        ["shop web-1", "shop batch-1", "jobs web-1", "jobs batch-1"],
        "cluster",
    ),
    ({"profiles": ["another"]}, [], ""),
]


@pytest.mark.parametrize(("whom", "closed", "scope"), WHOM)
def test_a_schedule_closes_for_whom_it_concerns(
    whom: dict[str, Any], closed: list[str], scope: str, golden: Golden
) -> None:
    places = Places("2026-11-24T10:00", {"close": ["tue 09:00-17:00"], **whom})

    assert places.closed() == closed
    if closed:
        of, on = closed[0].split()
        decision = places.decision(on, of)
        assert decision is not None
        assert decision.scope_exhausted == scope
        assert decision.message == golden()


@pytest.mark.parametrize(("whom", "concerned", "scope"), WHOM)
def test_a_window_allows_those_whom_it_concerns_and_others_are_free(
    whom: dict[str, Any], concerned: list[str], scope: str
) -> None:
    del scope
    places = Places("2026-11-24T10:00", {"allow": ["tue 12:00-13:00"], **whom})
    assert places.closed() == concerned

    places.wall_s = berlin("2026-11-24T13:30")  # 12:30 UTC
    assert places.closed() == []


def test_a_label_that_changes_lets_the_finding_be_evaluated_again() -> None:
    whom = {"namespaceSelector": "tier=gold", "nodeSelector": "pool=web"}
    places = Places("2026-11-24T10:00", {"close": ["tue 09:00-17:00"], **whom})

    decision = places.decision("web-1", "shop")

    assert isinstance(decision, Refuse)
    assert decision.wake_on == (WakeOnNamespace("shop"), WakeOnNode("web-1"))
    assert decision.retry_at_s == 1000 + 3600
    places.state.upsert(namespace("shop", labels={}))
    assert places.decision("web-1", "shop") is None


def test_what_is_not_listed_may_have_the_labels() -> None:
    written = {"close": ["tue 09:00-17:00"]}
    by_namespace = Places("2026-11-24T10:00", {**written, "namespaceSelector": "tier=gold"})
    by_node = Places("2026-11-24T10:00", {**written, "nodeSelector": "pool=batch"})

    assert by_namespace.decision("web-1", "unknown") is not None
    assert by_node.decision("unknown", "jobs") is not None


def test_only_the_evictions_that_a_schedule_concerns_count_in_it() -> None:
    night = {"schedule": "0 22 * * *", "duration": "8h", "evictions": 1, "nodeSelector": "pool=web"}
    places = Places("2026-11-23T23:30", night)
    decide(places.schedules, places.finding("batch-1", "shop", "a"), at_s=places.wall_s)
    assert places.closed() == []

    decide(places.schedules, places.finding("web-1", "jobs", "b"), at_s=places.wall_s)
    assert places.closed() == ["shop web-1", "jobs web-1"]
    places.state.upsert(node("web-1", labels={"pool": "other"}))
    finish(places.schedules, "b", evicted=False)
    places.state.upsert(node("web-1", labels={"pool": "web"}))
    assert places.closed() == []


def test_an_eviction_of_another_profile_does_not_count() -> None:
    night = {"schedule": "0 22 * * *", "duration": "8h", "evictions": 1, "profiles": ["p"]}
    places = Places("2026-11-23T23:30", night)
    finding = places.finding("web-1", "shop", "a")
    decide(places.schedules, finding, at_s=places.wall_s, profile="another")
    assert places.closed() == []

    finding = places.finding("web-1", "shop", "b")
    decide(places.schedules, finding, at_s=places.wall_s, profile="p")
    assert places.closed() != []
    assert places.closed("another") == []


def test_after_a_restart_labels_are_read_once_the_cluster_is_known() -> None:
    night = {"schedule": "0 22 * * *", "duration": "8h", "evictions": 1, "nodeSelector": "pool=web"}
    at_s = berlin("2026-11-23T23:15")
    evictions = [
        PastEviction("r", at_s, uid, "shop", uid, on, ended_s=at_s + 1, result="evicted")
        for uid, on in (("a", "batch-1"), ("b", "web-1"))
    ]
    for past_ones, closed in ((evictions[:1], False), (evictions, True)):
        places = Places("2026-11-23T23:30", night)
        nodes = [each.node for each in places.view.node_infos() if each.node is not None]
        for each in nodes:
            places.state.remove(each)
        restore(places.schedules, past_ones, 0, places.wall_s)
        for each in nodes:
            places.state.upsert(each)

        assert (places.decision("web-1", "shop") is not None) is closed


def test_a_calendar_closes_while_an_event_takes_place_and_holds_until_it_is_read(
    golden: Golden,
) -> None:
    entry = {"name": "freezes", "calendar": {"file": "a.ics"}, "timeZone": "Europe/Berlin"}
    schedules = Schedules("2026-12-24T10:00", entry)
    decision = schedules.deferral()
    assert decision is not None
    assert decision.message == golden("unread")
    assert decision.retry_at_s == 1000 + 3600

    read = [EvictionSchedule.model_validate(entry)]
    events = ((berlin("2026-12-24T00:00"), berlin("2026-12-27T00:00")),)
    schedules.reconfigure(read, (), {0: events})
    decision = schedules.deferral()
    assert decision is not None
    assert decision.message == golden("read")
    schedules.wall_s = berlin("2026-12-27T00:00")
    assert schedules.deferral() is None
    schedules.reconfigure(read, (), {0: ((berlin("2026-12-26T00:00"), berlin("2026-12-28")),)})
    assert schedules.deferral() is not None


def test_a_calendar_may_close_nothing_until_it_is_read() -> None:
    entry = {"name": "freezes", "calendar": {"file": "a.ics", "whileUnread": "open"}}

    assert Schedules("2026-12-24T10:00", entry).deferral() is None
