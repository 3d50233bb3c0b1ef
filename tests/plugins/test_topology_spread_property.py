"""Whatever happens, reacting finds what a full scan finds."""

from collections import Counter
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.api.scope import Namespaces
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.work_queue import PodBackoff
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model import findings
from reactive_desched.model.decisions import Decision, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ClusterObject,
    Node,
    Pod,
    PodDisruptionBudget,
    PodStatus,
)
from reactive_desched.plugins import topology_spread
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.primitives import long_answers
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes import selectors
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import Scenario, build_view
from reactive_desched.testing.topology_spread import WEB, spread_constraint, with_spread

DB = {"app": "db"}
SOFT: dict[str, Any] = {"when_unsatisfiable": "ScheduleAnyway"}
CONSTRAINTS = (
    (spread_constraint(),),
    (spread_constraint(),),
    (spread_constraint(key=HOSTNAME_LABEL),),
    (spread_constraint(**SOFT), spread_constraint(2, HOSTNAME_LABEL)),
    (spread_constraint(), spread_constraint(key=HOSTNAME_LABEL)),
    (spread_constraint(**SOFT), spread_constraint(key=HOSTNAME_LABEL, **SOFT)),
    (spread_constraint(key=HOSTNAME_LABEL), spread_constraint(label_selector=LabelSelector())),
    (spread_constraint(label_selector=LabelSelector(DB), node_taints_policy="Honor"),),
    (spread_constraint(label_selector=LabelSelector(), match_label_keys=("app",)),),
    (spread_constraint(node_affinity_policy="Ignore"),),
    (),
)
SPECS = tuple(
    with_spec(
        pod("x", tolerates=tolerates, priority=priority),
        topology_spread_constraints=constraints,
        node_selector=selector,
    ).spec
    for constraints in CONSTRAINTS
    for tolerates, priority, selector in (
        ((), None, {}),
        (("gpu",), 5, {}),
        ((), None, {"disk": "ssd"}),
        ((), 2_000_000_000, {}),
    )
)
OWNERS = tuple(pod("x", owner=owner).owners for owner in ("ReplicaSet/a", "ReplicaSet/b", None))
pods = st.builds(
    lambda name, on, labels, spec, owners, phase, deletion_s, evict: replace(
        pod(name.rpartition("/")[2], uid=name, on=on, status=PodStatus(phase), evict=evict),
        namespace=name.partition("/")[0],
        labels=labels,
        spec=spec,
        owners=owners,
        deletion_s=deletion_s,
    ),
    st.sampled_from([f"default/p{number}" for number in range(6)] + ["shop/q1", "shop/q2"]),
    st.sampled_from(["n1", "n1", "n1", "n2", "n3", None]),
    st.sampled_from([WEB, WEB, DB, {}]),
    st.just(SPECS[0]) | st.just(SPECS[3]) | st.sampled_from(SPECS),
    st.sampled_from(OWNERS[:1] + OWNERS),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
    st.sampled_from([None, None, None, 1]),
    st.sampled_from([None, None, None, ""]),
)
nodes = st.builds(
    lambda name, zone, taint, disk, ready, unschedulable, deleted: replace(
        node(
            name,
            *([taint] if taint else []),
            zone=zone,
            labels={"disk": disk},
            ready=ready,
            unschedulable=unschedulable,
        ),
        is_terminating=deleted,
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from([None, None, "gpu:NoSchedule"]),
    st.sampled_from(["ssd", "ssd", "hdd"]),
    st.sampled_from(["True", "True", "True", "False"]),
    st.sampled_from([False, False, True]),
    st.sampled_from([False, False, False, True]),
)
budgets = st.builds(
    lambda labels: PodDisruptionBudget("default", "b", selector=LabelSelector(labels)),
    st.sampled_from([WEB, DB]),
)
changes = (
    st.tuples(st.just("apply"), nodes)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), budgets)
    | st.tuples(st.just("remove"), nodes | pods | budgets)
)
steps = st.lists(changes, min_size=8, max_size=30)
START: tuple[ClusterObject, ...] = (
    node("n1", zone="a", labels={"disk": "ssd"}),
    node("n2", zone="b", labels={"disk": "ssd"}),
    *(
        replace(pod(f"p{number}", uid=f"default/p{number}#0", on="n1", labels=WEB), spec=SPECS[0])
        for number in range(3)
    ),
)
arguments = st.sampled_from(
    [
        {},
        {"constraints": ("DoNotSchedule", "ScheduleAnyway")},
        {"constraints": ("ScheduleAnyway",), "topology_balance_node_fit": False},
        {"namespaces": Namespaces(include=("default",))},
        {"label_selector": LabelSelector(WEB)},
    ]
)
evictors = st.sampled_from(
    [
        {},
        {"minReplicas": 2},
        {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}},
    ]
)


ClusterT = TypeVar("ClusterT", Scenario, "InTurns")


class Story(Generic[ClusterT]):
    """A cluster in which a name may come back as another pod, and no pod that ended runs again."""

    def __init__(self, cluster: ClusterT) -> None:
        self.cluster: ClusterT = cluster
        self._lives: Counter[str] = Counter()
        for each in START:
            cluster.apply(each)

    def tell(self, step: str, thing: ClusterObject) -> None:
        if isinstance(thing, Pod):
            name = thing.uid
            thing = replace(thing, uid=f"{name}#{self._lives[name]}")
            known = self.cluster.state.pods.get(thing.uid)
            if known is not None and known.node and step == "apply":
                phase = known.status if not known.is_active else thing.status
                thing = replace(thing, node=known.node, status=phase)
            self._lives[name] += step == "remove"
        getattr(self.cluster, step)(thing)


@given(steps, arguments, evictors)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, ClusterObject]], args: dict[str, Any], evictor: dict[str, Any]
) -> None:
    plugin = TopologySpreadPlugin(TopologySpreadArgs(**args))
    story = Story(Scenario(plugin, evictor=DefaultEvictorArgs.model_validate(evictor)))
    for step, thing in steps:
        story.tell(step, thing)
        assert story.cluster.flagged() == story.cluster.flagged_after_restart()
        assert story.cluster.flagged() == story.cluster.flagged_by_full_scan()


class InTurns:
    """A cluster whose plans are interrupted wherever they may be, and no finding of them leaves."""

    def __init__(self, plugin: TopologySpreadPlugin) -> None:
        self.state = ClusterState()
        self._view = build_view(self.state)
        self._evaluator = Evaluator(
            [PluginInstance("p", plugin, self, self._view, DebounceConfig(0, 0))],
            PodBackoff(RetrySettings()),
            SchedulerNodeFit(self._view, lambda: 0),
        )
        self.state.keep_indexes(plugin.required_indexes)
        self._evaluator.resync(0)

    def decide(self, finding: Finding, _: float) -> Decision:
        return Refuse(finding, "Test", "TestRefusal", "it stays")

    def held_since(self, finding: Finding, _: float) -> str:
        raise NotImplementedError

    def apply(self, thing: ClusterObject) -> None:
        self._evaluator.apply_changes(self.state.upsert(thing), 0)

    def remove(self, thing: ClusterObject) -> None:
        self._evaluator.apply_changes(self.state.remove(thing), 0)

    def turn(self) -> bool:
        """Work until the first interruption; say whether there is more to do."""
        for _ in self._evaluator.process_due(0, lambda: True):
            pass
        due = self._evaluator.next_due(0)
        return due is not None and due <= 0

    def flagged(self) -> set[str]:
        found = [each.decision.finding.pod for each in self._evaluator.queue.pending()]
        return {pod.name for pod in found if self._view.active_pod(pod.uid) is not None}


@given(st.lists(st.tuples(changes, st.integers(0, 6)), min_size=8, max_size=30), arguments)
def test_plans_find_the_same_whatever_happens_while_they_are_interrupted(
    steps: list[tuple[tuple[str, ClusterObject], int]], args: dict[str, Any]
) -> None:
    plugin = TopologySpreadPlugin(TopologySpreadArgs(**args))
    with pytest.MonkeyPatch.context() as patch:
        for module in (long_answers, selectors):
            patch.setattr(module, "PORTION", 1)
        for module in (findings, topology_spread):
            patch.setattr(module, "LOOKS_PER_SLICE", 1)
        story: Story[InTurns] = Story(InTurns(plugin))
        for (step, thing), turns in steps:
            story.tell(step, thing)
            for _ in range(turns):
                story.cluster.turn()
        while story.cluster.turn():
            pass

    state = story.cluster.state
    fresh = Scenario(
        plugin, *state.store(Node), *state.store(Pod), *state.store(PodDisruptionBudget)
    )
    assert story.cluster.flagged() == fresh.flagged()


def test_a_pod_that_counts_for_another_constraint_alone_alters_which_pod_leaves() -> None:
    declared = (
        spread_constraint(),
        spread_constraint(5, HOSTNAME_LABEL, label_selector=LabelSelector({"tier": "front"})),
    )
    on = {"p0": "n1", "p1": "n1", "p2": "n2"}
    front = {"tier": "front"}
    web = [with_spread(pod(n, on=at, labels=WEB | front), *declared) for n, at in on.items()]
    nodes = [node(name, zone=zone) for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"))]
    cluster = Scenario(TopologySpreadPlugin(TopologySpreadArgs()), *nodes, *web)
    assert cluster.flagged() == {"p1"}

    for name in ("q0", "q1"):
        cluster.apply(pod(name, on="n2", labels=front))

    assert cluster.flagged() == cluster.flagged_by_full_scan() == {"p2"}


# --- nodes that are away for a moment ---

ZONES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
C2 = node("c2", zone="c")
AWAY_S = 300.0


def web_pods(name: str) -> list[Pod]:
    names = (f"{name}-{number}" for number in range(4))
    return [with_spread(pod(each, on=name, labels=WEB), spread_constraint()) for each in names]


def spread_over_zones() -> Scenario:
    """Return a cluster with four pods on each node, where a node may be away for five minutes."""
    nodes = [node(name, zone=zone) for name, zone in ZONES.items()]
    web = [each for name in ZONES for each in web_pods(name)]
    plugin = TopologySpreadPlugin(TopologySpreadArgs())
    cluster = Scenario(plugin, *nodes, *web, standing_s=AWAY_S)
    cluster.wait(1000)
    assert cluster.flagged() == set()
    return cluster


AWAY = [
    pytest.param(replace(C2, ready_status="False"), id="not Ready"),
    pytest.param(replace(C2, labels={HOSTNAME_LABEL: "c2"}), id="without its zone"),
]


@pytest.mark.parametrize("away", AWAY)
def test_a_domain_whose_node_is_away_for_a_moment_takes_no_pods(away: Node) -> None:
    cluster = spread_over_zones()
    cluster.apply(away)
    cluster.wait(AWAY_S - 10)
    assert cluster.flagged() == cluster.flagged_by_full_scan() == set()

    cluster.apply(C2)
    cluster.wait(AWAY_S)

    assert cluster.flagged() == cluster.flagged_by_full_scan() == set()


@pytest.mark.parametrize("away", AWAY)
def test_a_domain_whose_node_stays_away_takes_pods(away: Node) -> None:
    cluster = spread_over_zones()
    cluster.apply(away)

    cluster.wait(AWAY_S + 1)

    assert cluster.flagged() == cluster.flagged_by_full_scan() != set()


def test_a_node_that_is_away_makes_its_domain_no_source() -> None:
    cluster = spread_over_zones()
    new = with_spread(pod("new", on="c1", labels=WEB), spread_constraint())

    cluster.apply(replace(C2, ready_status="False"), new)

    assert cluster.flagged() == cluster.flagged_by_full_scan() == set()


def test_a_node_that_is_deleted_is_not_waited_for() -> None:
    cluster = spread_over_zones()

    cluster.remove(C2, *web_pods("c2"))

    assert cluster.flagged() == cluster.flagged_by_full_scan() != set()
