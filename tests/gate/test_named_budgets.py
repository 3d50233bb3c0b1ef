"""Named budgets: rates for single namespaces, node pools, profiles and plugins."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate.limit_status import BucketStatus, limit_status
from reactive_desched.gate.named_budgets import NamedBudgets
from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.gate.schedules import EvictionSchedules
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import Namespace
from reactive_desched.model.wakes import WakeOnNode
from reactive_desched.policy.settings.limits import NamedBudget
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod, pod_status
from tests.support.evictions import decide, finish, restore, under_way
from tests.support.golden import Golden
from tests.support.limits import make_rate_limiter

SLOW = {"name": "slow", "evictions": 2, "per": "1h", "burst": 1}
PLACES = [(on, of) for of in ("shop", "jobs") for on in ("web-1", "batch-1", "batch-2")]


def read(*written: dict[str, Any]) -> list[NamedBudget]:
    return [NamedBudget.model_validate(each) for each in written]


class Budgets(NamedBudgets):
    """Budgets over three nodes and two namespaces with labels."""

    def __init__(self, *written: dict[str, Any]) -> None:
        self.state = ClusterState()
        for name, pool in (("batch-1", "batch"), ("batch-2", "batch"), ("web-1", "web")):
            self.state.upsert(node(name, labels={"pool": pool}))
        self.state.upsert(Namespace("shop", labels={"tier": "gold"}))
        self.state.upsert(Namespace("jobs", labels={}))
        self.view = ClusterView(self.state, lambda: 0.0)
        super().__init__(read(*written), self.view)

    def decision(
        self, on: str, of: str, now: float = 0.0, *, plugin: str = "Test", profile: str = "p"
    ) -> Defer | Refuse | None:
        return self.of_profile(profile).check(finding(on, of, plugin=plugin), now)

    def evict(
        self, name: str, on: str, of: str, now: float = 0.0, *, happened: bool = True
    ) -> None:
        decide(self, finding(on, of, name), now, profile="p")
        finish(self, name, now, evicted=happened)

    def empty(self, now: float = 0.0) -> list[str]:
        return [f"{of} {on}" for on, of in PLACES if self.decision(on, of, now) is not None]


def finding(on: str, of: str, name: str = "web", plugin: str = "Test") -> Finding:
    return Finding(pod(name, on=on, namespace=of), plugin, "why")


@pytest.mark.parametrize(
    ("whom", "empty", "scope"),
    [
        ({"namespaces": ["shop"]}, ["shop web-1", "shop batch-1", "shop batch-2"], "namespace"),
        (
            {"namespaceSelector": "tier=gold"},
            ["shop web-1", "shop batch-1", "shop batch-2"],
            "namespace",
        ),
        (
            {"nodeSelector": "pool=batch"},
            ["shop batch-1", "shop batch-2", "jobs batch-1", "jobs batch-2"],
            "node",
        ),
        (
            {"nodeSelector": "pool=batch", "each": "node"},
            ["shop batch-1", "jobs batch-1"],
            "node",
        ),
        ({"each": "namespace"}, ["shop web-1", "shop batch-1", "shop batch-2"], "namespace"),
        ({"plugins": ["Test"]}, [f"{of} {on}" for on, of in PLACES], "cluster"),
        ({"profiles": ["p"]}, [f"{of} {on}" for on, of in PLACES], "cluster"),
        ({"profiles": ["another"]}, [], ""),
        ({"plugins": ["Another"]}, [], ""),
    ],
)
def test_a_budget_holds_those_whom_it_concerns(
    whom: dict[str, Any], empty: list[str], scope: str, golden: Golden
) -> None:
    budgets = Budgets({**SLOW, **whom})
    assert budgets.empty() == []

    budgets.evict("a", "batch-1", "shop")

    assert budgets.empty() == empty
    if empty:
        of, on = empty[0].split()
        decision = budgets.of_profile("p").explain(finding(on, of), 0)
        assert decision is not None
        assert decision.reason == "NamedBudgetSpent"
        assert decision.setting == "budgets.named"
        assert decision.scope_exhausted == scope
        assert decision.says(0) == golden()
        assert decision.retry_at_s == 1800
        assert budgets.empty(1800) == []


def test_of_several_budgets_the_one_that_has_a_token_last_is_named() -> None:
    budgets = Budgets(
        {"name": "hour", "evictions": 1, "per": "1h", "namespaces": ["shop"]},
        {"name": "day", "evictions": 1, "per": "1d", "nodeSelector": "pool=batch"},
        {"name": "minute", "evictions": 1, "per": "1m", "plugins": ["Test"]},
    )
    budgets.evict("a", "batch-1", "shop")

    on_batch, on_web = budgets.decision("batch-2", "shop"), budgets.decision("web-1", "shop")

    assert isinstance(on_batch, Refuse)
    assert '"day"' in on_batch.message
    assert on_batch.wake_on == (WakeOnNode("batch-2"),)
    assert on_web is not None
    assert '"hour"' in on_web.message
    of_jobs = budgets.decision("web-1", "jobs")
    assert of_jobs is not None
    assert '"minute"' in of_jobs.message


def test_each_pod_that_waits_is_said_its_own_place_and_time(golden: Golden) -> None:
    budgets = Budgets({"name": "quick", "evictions": 20, "burst": 1})
    budgets.evict("a", "web-1", "shop")
    gate = budgets.of_profile("p")
    names = [f"p{number}" for number in range(40)]

    waiting = [gate.check(finding("web-1", "shop", name), 0.0) for name in names]
    asked = [gate.explain(finding("web-1", "shop", name), 0.0) for name in names]

    ends = [round(each.end.at_s) for each in waiting if each is not None and each.end is not None]
    assert ends == [3 * number for number in range(1, 41)]
    assert asked[16] is not None
    assert asked[16].says(0.0) == golden()
    turn = budgets.turn(finding("web-1", "shop", "p16"), "p", 0.0)
    assert turn is not None
    assert turn.message(0.0) == asked[16].says(0.0)


def test_a_question_takes_no_token_of_any_budget() -> None:
    budgets = Budgets(SLOW, {**SLOW, "name": "none", "namespaces": ["shop"]})
    budgets.evict("a", "web-1", "shop")  # the one of all is empty as well

    for _ in range(3):
        budgets.decision("web-1", "jobs")

    assert budgets.decision("web-1", "jobs", 1800) is None
    assert budgets.decision("web-1", "shop", 1800) is None


def test_a_token_is_held_while_the_eviction_is_under_way_and_free_when_it_did_not_happen() -> None:
    budgets = Budgets({**SLOW, "nodeSelector": "pool=web"})
    decide(budgets, finding("web-1", "shop", "a"), 0)
    assert budgets.empty(7200) == ["shop web-1", "jobs web-1"]

    budgets.state.upsert(node("web-1", labels={"pool": "other"}))
    finish(budgets, "a", 7200, evicted=False)
    budgets.state.upsert(node("web-1", labels={"pool": "web"}))
    assert budgets.empty(7200) == []


def test_pods_that_have_ended_take_no_token() -> None:
    budgets = Budgets(SLOW)
    done = Finding(pod("done", on="web-1", status=pod_status(phase="Failed")), "Test", "why")
    decide(budgets, done, 0)
    finish(budgets, "done", 0)

    assert budgets.empty() == []
    budgets.evict("a", "web-1", "shop")
    assert budgets.of_profile("p").check(done, 0) is None


def past(uid: str, at_s: float, on: str, *, is_open: bool = False) -> PastEviction:
    ended_s, result = (None, "") if is_open else (at_s, "evicted")
    return PastEviction(
        "r", at_s, uid, "shop", uid, on, plugin="Test", ended_s=ended_s, result=result
    )


@pytest.mark.parametrize("is_open", [False, True])
def test_a_restart_gives_no_more_and_reads_labels_once_the_cluster_is_known(
    *, is_open: bool
) -> None:
    budgets = Budgets({**SLOW, "nodeSelector": "pool=batch"})
    nodes = [each.node for each in budgets.view.node_infos() if each.node is not None]
    for each in nodes:
        budgets.state.remove(each)
    on_web, on_batch = past("a", 0, "web-1"), past("b", 0, "batch-1", is_open=is_open)

    restore(budgets, [on_web, on_batch], 100, 1000)
    for each in nodes:
        budgets.state.upsert(each)

    assert budgets.empty(100) == [
        "shop batch-1",
        "shop batch-2",
        "jobs batch-1",
        "jobs batch-2",
    ]
    if is_open:
        finish(budgets, "b", 150, evicted=False)
        assert budgets.empty(150) == []
    else:
        assert budgets.empty(100 + 799) != []  # it was evicted 900 s before
        assert budgets.empty(100 + 800) == []


def test_only_evictions_of_that_budget_are_spent_after_a_restart() -> None:
    budgets = Budgets({**SLOW, "nodeSelector": "pool=batch"})
    restore(budgets, [past("a", 900, "web-1")], 100, 1000)

    assert budgets.empty(100) == []


def test_a_process_that_does_not_know_what_was_evicted_begins_empty() -> None:
    budgets = Budgets({**SLOW, "each": "namespace"})
    budgets.begin_empty(0)

    assert len(budgets.empty(1799)) == len(PLACES)
    assert budgets.empty(1800) == []


def test_another_rate_keeps_what_was_spent_and_another_budget_counts_what_is_under_way() -> None:
    budgets = Budgets({**SLOW, "burst": 2})
    budgets.evict("a", "web-1", "shop")
    decide(budgets, finding("web-1", "shop", "b"), 0)
    assert budgets.empty() != []

    budgets.reconfigure(read({**SLOW, "burst": 3}), 0, under_way(budgets))
    assert budgets.empty() == []
    budgets.reconfigure(read({**SLOW, "burst": 2}), 0, under_way(budgets))
    assert budgets.empty() != []
    budgets.reconfigure(read({**SLOW, "namespaces": ["shop"]}), 0, under_way(budgets))
    assert budgets.empty() == ["shop web-1", "shop batch-1", "shop batch-2"]
    finish(budgets, "b", 0, evicted=False)
    assert budgets.empty() == []


def test_a_status_lists_the_budgets_that_are_not_full() -> None:
    budgets = Budgets({**SLOW, "each": "namespace"}, {**SLOW, "name": "batch", "plugins": ["No"]})
    budgets.evict("a", "web-1", "shop")
    schedules = EvictionSchedules([], budgets.view)

    status = limit_status(make_rate_limiter({}), budgets, PolicyLimits({}), schedules, 0)

    assert status.buckets == (BucketStatus("named", "slow shop", 0.033, 1, 0, 0),)


STEPS = st.lists(
    st.tuples(st.sampled_from(PLACES), st.floats(0, 120), st.booleans(), st.booleans()),
    max_size=60,
)


@given(STEPS, st.integers(1, 3), st.sampled_from([None, "namespace", "node"]))
def test_in_no_stretch_of_time_are_there_more_than_burst_and_rate_allow_over_restarts(
    steps: list[tuple[tuple[str, str], float, bool, bool]], burst: int, each: str | None
) -> None:
    written = {"name": "b", "evictions": 1, "per": "1m", "burst": burst, "each": each}
    whom = {"nodeSelector": "pool=batch"}
    budgets, now = Budgets({**written, **whom}), 0.0
    done: dict[str, list[float]] = {}
    history: list[PastEviction] = []
    for number, ((on, of), pause_s, restarts, happened) in enumerate(steps):
        now += pause_s
        if restarts:
            budgets = Budgets({**written, **whom})
            restore(budgets, history, now, now)
        if budgets.decision(on, of, now) is not None:
            continue
        budgets.evict(f"p{number}", on, of, now, happened=happened)
        if happened:
            of_pod = past(f"p{number}", now, on)
            history.append(
                PastEviction(
                    *("r", now, of_pod.pod_uid, of, of_pod.pod_name, on),
                    ended_s=now,
                    result="evicted",
                )
            )
            if on.startswith("batch"):
                key = {"namespace": of, "node": on}.get(each or "", "")
                done.setdefault(key, []).append(now)
    for times in done.values():
        for first, begin in enumerate(times):
            for count, end in enumerate(times[first:], 1):
                assert count <= burst + (end - begin) / 60 + 1e-6
