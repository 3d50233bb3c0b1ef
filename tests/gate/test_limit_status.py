"""What `/debug/limits` answers."""

from datetime import UTC, datetime

import msgspec

from reactive_desched.gate.limit_status import BucketStatus, limit_status
from reactive_desched.gate.named_budgets import NamedBudgets
from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.gate.schedules import EvictionSchedules
from reactive_desched.model.findings import Finding
from reactive_desched.policy.settings.limits import EvictionSchedule
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import pod
from tests.support.evictions import decide, finish, take
from tests.support.limits import make_rate_limiter

NOON_S = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


def test_every_limit_is_listed_in_which_something_counts_the_least_left_first() -> None:
    rates = make_rate_limiter({"cluster": TokenRate(0.5, 10), "node": TokenRate(0.1, 3)})
    windows = PolicyLimits({"cluster": 50, "node": 2}, 300)
    hours = {"schedule": "0 9 * * mon-fri", "duration": "8h", "evictions": 5}
    written = [
        hours,
        {**hours, "schedule": "0 22 * * *"},
        {"name": "quiet days", "allow": ["tue-thu 10:00-16:00"]},
        {"name": "all day", "allow": ["mon"]},
    ]
    view = ClusterView(ClusterState(), lambda: NOON_S)
    schedules = EvictionSchedules([EvictionSchedule.model_validate(each) for each in written], view)
    finding = Finding(pod("web", on="n1"), "Test", "why")
    assert take(rates, finding, 0) is None
    decide(windows, finding)
    decide(schedules, finding, at_s=NOON_S)

    status = limit_status(
        rates, NamedBudgets([], ClusterView(ClusterState(), lambda: NOON_S)), windows, schedules, 0
    )

    assert status.buckets == (
        BucketStatus("node", "n1", 6, 3, 2, 1),
        BucketStatus("cluster", "cluster", 30, 10, 9, 1),
    )
    assert msgspec.to_builtins(status)["windows"] == (
        {"scope": "node", "name": "n1", "limit": 2, "counted": 1},
        {"scope": "cluster", "name": "cluster", "limit": 50, "counted": 1},
    )
    assert msgspec.to_builtins(status)["schedules"] == (
        {
            "schedule": "0 9 * * mon-fri UTC for 8h",
            "until": "2026-11-23T17:00:00Z",
            "limit": 5,
            "counted": 1,
            "allow": False,
            "next": "2026-11-24T09:00:00Z",
            "unread": False,
        },
        {
            "schedule": "0 22 * * * UTC for 8h",
            "until": None,
            "limit": None,
            "counted": None,
            "allow": False,
            "next": "2026-11-23T22:00:00Z",
            "unread": False,
        },
        {
            "schedule": "quiet days",
            "until": None,
            "limit": None,
            "counted": None,
            "allow": True,
            "next": "2026-11-24T10:00:00Z",
            "unread": False,
        },
        {
            "schedule": "all day",
            "until": "2026-11-24T00:00:00Z",
            "limit": None,
            "counted": 1,
            "allow": True,
            "next": "2026-11-30T00:00:00Z",
            "unread": False,
        },
    )
    assert status.warm_up_ratio == 1


def test_what_has_refilled_and_what_left_its_window_is_not_listed() -> None:
    rates = make_rate_limiter({"node": TokenRate(0.1, 3)})
    windows = PolicyLimits({"node": 2}, 300)
    finding = Finding(pod("web", on="n1"), "Test", "why")
    take(rates, finding, 0)
    decide(windows, finding)
    finish(rates, "web", 0, evicted=True)
    finish(windows, "web", 0, evicted=True)
    schedules = EvictionSchedules([], ClusterView(ClusterState(), lambda: NOON_S))

    assert (
        limit_status(
            rates,
            NamedBudgets([], ClusterView(ClusterState(), lambda: NOON_S)),
            windows,
            schedules,
            299,
        ).windows
        != ()
    )
    later = limit_status(
        rates,
        NamedBudgets([], ClusterView(ClusterState(), lambda: NOON_S)),
        windows,
        schedules,
        300,
    )
    assert (later.buckets, later.windows, later.schedules) == ((), (), ())
