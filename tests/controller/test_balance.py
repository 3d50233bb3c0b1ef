"""A balance plugin on the reactive path: told decisions, blocked findings, evictability."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api import BalancePlugin, PluginArgs, View
from reactive_desched.api.balance_plugin import Plan
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.work_queue import PodBackoff
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.changes import (
    Change,
    NamespaceChanged,
    NodeTaintsChanged,
    PdbChanged,
    Resynced,
)
from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import WakeOnNamespace, WakeOnPdb
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.cluster import ClusterState
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, build_view
from tests.support.evictions import gate_of
from tests.support.limits import make_rate_limiter
from tests.support.owner_limit import OwnerLimit, OwnerLimitArgs

PODS = [pod(name, on="n1") for name in "abc"]
TAINTED = NodeTaintsChanged("n1")


class Everything(BalancePlugin[str, PluginArgs]):
    """One subject, of which it proposes every pod; it notes each decision that it receives."""

    name = "Everything"
    reacts_to = (Resynced, NodeTaintsChanged)

    def __init__(self) -> None:
        super().__init__(PluginArgs())
        self.received: list[Decision] = []

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        return ("all",)

    def balance(self, subject: Hashable, view: View) -> Plan:
        for found in PODS:
            decision = yield Finding(found, self.name, "too many")
            self.received.append(decision)
            if decision.scope_exhausted == "cluster":
                return


class Fixed:
    """A gate with one answer for each pod."""

    def __init__(self, **decide: Callable[[Finding], Decision]) -> None:
        self.decide_by_name = decide

    def decide(self, finding: Finding, _: float) -> Decision:
        return self.decide_by_name.get(finding.pod.name, Evict)(finding)

    def held_since(self, finding: Finding, _: float) -> str:
        raise NotImplementedError


class Bench:
    """An evaluator with the plugin that proposes everything, behind a gate."""

    def __init__(self, gate: Any) -> None:  # a Gate, or one with fixed answers
        state = ClusterState()
        state.upsert(node("n1"))
        for found in PODS:
            state.upsert(found)
        self.plugin = Everything()
        self.view = build_view(state)
        self.capacity = SchedulerNodeFit(self.view, lambda: 0)
        self.evaluations: list[Evaluation] = []
        at_once = DebounceConfig(0, 0)
        self.evaluator = Evaluator(
            [PluginInstance("p", self.plugin, gate, self.view, at_once)],
            PodBackoff(RetrySettings()),
            self.capacity,
        )
        self.evaluator.resync(0)
        self.work(0)

    def see(self, change: Change, now: float) -> list[tuple[str, bool]]:
        """Apply a change; return the pods evaluated for it, and whether their decision differs."""
        self.evaluations.clear()
        self.evaluator.apply_changes([change], now)
        self.work(now)
        return [(each.finding.pod.name, each.changed) for each in self.evaluations]

    def work(self, now: float) -> None:
        self.evaluations += self.evaluator.process_due(now, lambda: False)


def refuse(message: str, *wakes: Any) -> Callable[[Finding], Decision]:  # wakes of any type
    return lambda finding: Refuse(finding, "Test", "TestRefusal", message, wakes)


def test_the_blocked_findings_of_one_subject_do_not_overwrite_each_other() -> None:
    gate = Fixed(a=refuse("no a", WakeOnNamespace("x")), b=refuse("no b", WakeOnPdb("y")))
    bench = Bench(gate)
    assert bench.evaluator.queue.blocked_by_gate == {"Test": 2}

    assert bench.see(TAINTED, 1) == [("a", False), ("b", False), ("c", True)]
    assert bench.evaluator.queue.blocked_by_gate == {"Test": 2}


def test_a_decision_with_another_message_and_the_same_reason_is_not_a_change() -> None:
    messages = iter(range(9))
    gate = Fixed(a=lambda f: Refuse(f, "Test", "TestRefusal", f"{next(messages)} are in the way"))
    bench = Bench(gate)

    assert bench.see(TAINTED, 1)[0] == ("a", False)


def test_each_of_them_wakes_the_subject() -> None:
    gate = Fixed(a=refuse("no a", WakeOnNamespace("x")), b=refuse("no b", WakeOnPdb("y")))
    bench = Bench(gate)

    assert bench.see(NamespaceChanged("other"), 1) == []
    assert len(bench.see(NamespaceChanged("x"), 2)) == len(PODS)
    assert len(bench.see(PdbChanged("y", "web"), 3)) == len(PODS)


def test_a_finding_that_is_not_made_again_is_blocked_no_longer() -> None:
    exhausted = Fixed(
        a=lambda f: Refuse(f, "Limit", "Spent", "it is spent", scope_exhausted="cluster")
    )
    bench = Bench(Fixed(a=refuse("no"), b=refuse("no"), c=refuse("no")))
    bench.evaluator.reconfigure(
        [PluginInstance("p", bench.plugin, exhausted, bench.view)],
        bench.capacity,
        1,
    )
    bench.work(1)

    assert bench.evaluator.queue.blocked_by_gate == {"Limit": 1}


@pytest.mark.parametrize(
    ("rates", "limits"),
    [
        pytest.param({"cluster": TokenRate(0.1, 1)}, {}, id="the tokens are spent"),
        pytest.param({}, {"cluster": 1}, id="the window is full"),
    ],
)
def test_a_plan_ends_at_the_first_finding_behind_an_exhausted_scope(
    rates: Any, limits: Any
) -> None:  # as their classes take them
    gate = gate_of(PolicyLimits(limits), make_rate_limiter(rates))
    bench = Bench(gate)

    assert [type(decision).__name__ for decision in bench.plugin.received] == ["Evict", "Defer"]
    assert [decision.scope_exhausted for decision in bench.plugin.received] == ["", "cluster"]


def test_the_plan_is_made_anew_when_the_limit_allows_more() -> None:
    rates = make_rate_limiter({"cluster": TokenRate(0.1, 1)})
    bench = Bench(gate_of(rates))
    due = bench.evaluator.next_due(0)

    assert due is not None
    bench.plugin.received.clear()
    bench.work(due)
    assert len(bench.plugin.received) > 0


def test_an_evictor_filter_that_changes_its_answer_wakes_the_profile() -> None:
    old = [pod(f"p{n}", on="n1") for n in range(3)]
    cluster = Scenario(
        OwnerLimit(OwnerLimitArgs()),
        node("n1"),
        node("n2"),
        *old,
        evictor=DefaultEvictorArgs.model_validate({"minReplicas": 4}),
    )
    assert cluster.flagged() == set()

    cluster.apply(pod("p3", on="n2"), node("n3"))

    assert cluster.flagged() == {"p0"}


def test_time_alone_makes_a_pod_evictable() -> None:
    young = [msgspec.structs.replace(pod(f"p{n}", on="n1"), start_delay_s=100) for n in range(2)]
    cluster = Scenario(
        OwnerLimit(OwnerLimitArgs()),
        node("n1"),
        node("n2"),
        *young,
        now_s=100,
        evictor=DefaultEvictorArgs.model_validate({"minPodAge": "60s"}),
    )
    cluster.wait(59)
    assert cluster.flagged() == set()

    cluster.wait(1)

    assert cluster.flagged() == {"p0"}


# A tiny world, so that generated objects collide often.
nodes = st.builds(
    node, st.sampled_from(["n1", "n2", "n3"]), ready=st.sampled_from(["True", "False"])
)
owners = {f"p{n}": owner for n, owner in enumerate(["ReplicaSet/a"] * 3 + ["ReplicaSet/b"] * 2)}
owners["p5"] = "DaemonSet/c"
pods = st.builds(
    lambda name, on, evict: pod(name, on=on, evict=evict, owner=owners[name]),
    st.sampled_from(sorted(owners)),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from([None, "true"]),
)
unprotected = {"podProtections": {"defaultDisabled": ("DaemonSetPods",)}}
evictors = st.sampled_from([{}, {"minReplicas": 2}, unprotected])


@given(evictors, st.lists(nodes | pods, min_size=6, max_size=30))
def test_reacting_plans_exactly_what_a_sweep_plans(evictor: Any, objects: list[Any]) -> None:
    args = DefaultEvictorArgs.model_validate(evictor)
    cluster = Scenario(OwnerLimit(OwnerLimitArgs()), *objects[:3], evictor=args)

    for obj in objects[3:]:
        cluster.apply(obj)

        assert cluster.flagged() == cluster.flagged_by_full_scan()
