"""No step of a plan looks at every node: what holds the event loop is counted in Python calls."""

import sys
from collections.abc import Callable, Iterable, Iterator
from inspect import getgeneratorlocals
from typing import Any

import pytest

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.draining.pending_rooms import PendingRooms
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import TOTAL_LIMIT_REACHED
from reactive_desched.model.findings import LOOKS_PER_SLICE, Finding
from reactive_desched.model.objects import HOSTNAME_LABEL, ClusterObject
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.plugins.consolidate_nodes import ConsolidateNodesArgs, ConsolidateNodesPlugin
from reactive_desched.plugins.fragmentation_aware import (
    FragmentationAwareArgs,
    FragmentationAwarePlugin,
)
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.keep_nodes_free import KeepNodesFreeArgs, KeepNodesFreePlugin
from reactive_desched.plugins.low_node_load import LowNodeLoadPlugin
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.make_room_for_pending import MakeRoomForPendingArgs
from reactive_desched.plugins.scale_down_bin_pack import (
    ScaleDownBinPackArgs,
    ScaleDownBinPackPlugin,
)
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.primitives import bits
from reactive_desched.primitives.long_answers import PORTION, at_once
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.node_loads import NodeLoads
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import build_view, plugin_from_policy
from reactive_desched.testing.topology_spread import WEB, spread_constraint, with_spread

NODES = 600
DOMAINS = 1_200
MOST_CALLS = 12_000
"""A hundred looks at where a pod of a large workload would land take 8,400. Whoever looks so at all
nodes that take pods makes 25,000."""

FEW = 3
"""After so many findings a plan does nothing new."""


def cluster(crowded: int = 4, sparse: int = 1, nodes: int = NODES) -> Iterator[ClusterObject]:
    """Yield nodes of which every other one has many pods, all of one large workload."""
    for number in range(nodes):
        name, pods = f"n{number:04}", sparse if number % 2 else crowded
        yield node(name, zone="abc"[number % 3], allocatable={"cpu": "10", "pods": "110"})
        mine = [
            pod(
                f"{name}-{each}", on=name, labels=WEB, owner="ReplicaSet/web", requests={"cpu": "2"}
            )
            for each in range(pods)
        ]
        yield from mine
        use = {str(each): each.spec.requests for each in mine}
        yield NodeMetric(NODE_METRIC, name, {"cpu": 2_000 * pods}, 0.0, use)


def by_use() -> Any:
    return plugin_from_policy(
        LowNodeLoadPlugin,
        LowNodeLoadArgs,
        lowThresholds={"cpu": 30},
        highThresholds={"cpu": 60},
        anomalyCondition={"consecutiveAbnormalities": 1},
    )


def around_the_mean() -> Any:
    return plugin_from_policy(
        LowNodeLoadPlugin,
        LowNodeLoadArgs,
        useDeviationThresholds=True,
        lowThresholds={"cpu": 10},
        highThresholds={"cpu": 10},
        anomalyCondition={"consecutiveAbnormalities": 1},
    )


def low(target: int = 60) -> Any:
    return plugin_from_policy(
        LowNodeUtilizationPlugin,
        LowNodeUtilizationArgs,
        thresholds={"cpu": 30},
        targetThresholds={"cpu": target},
    )


def high() -> Any:
    return plugin_from_policy(
        HighNodeUtilizationPlugin, HighNodeUtilizationArgs, thresholds={"cpu": 30}
    )


def most_calls(plan: Any) -> tuple[int, int]:
    """Have each finding deferred; return the most calls of one step, and how many were found."""
    most, _, found = calls(plan)
    return most, found


def calls(plan: Any) -> tuple[int, int, int]:
    """Have each finding deferred; return the most calls of a step, all calls, and the findings."""
    counted = most = total = found = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    answer = None
    while True:
        counted = 0
        sys.setprofile(count)
        try:
            opinion = plan.send(answer)
        except StopIteration:
            return max(most, counted), total + counted, found
        finally:
            sys.setprofile(None)
        most, total = max(most, counted), total + counted
        answer = None
        if isinstance(opinion, Finding):
            found += 1
            if found == FEW:
                plan.close()
                return most, total, found
            answer = TOTAL_LIMIT_REACHED.defer(opinion, "no more", retry_at_s=1.0)


@pytest.mark.parametrize("make", [by_use, around_the_mean, low, high])
def test_no_step_of_a_plan_looks_closely_at_every_node(
    make: Callable[[], BalancePlugin[Any, Any]],
) -> None:
    plugin = make()
    state = ClusterState()
    state.keep_indexes(plugin.required_indexes)
    for each in cluster():
        state.upsert(each)
    view = build_view(state, wall_clock=lambda: 1.0)

    most, found = most_calls(plugin.balance(next(iter(plugin.subjects(Resynced(), view))), view))

    assert found
    assert most < MOST_CALLS


def calls_of_a_plan_without_moves(nodes: int) -> int:
    plugin, state = low(target=35), ClusterState()
    state.keep_indexes(plugin.required_indexes)
    for each in cluster(nodes=nodes):
        state.upsert(each)
    view = build_view(state, wall_clock=lambda: 1.0)
    _, total, found = calls(plugin.balance(next(iter(plugin.subjects(Resynced(), view))), view))
    assert not found
    return total


def test_twice_the_nodes_with_no_room_for_a_pod_are_twice_the_work() -> None:
    once, twice = calls_of_a_plan_without_moves(NODES // 2), calls_of_a_plan_without_moves(NODES)

    assert twice < 2.2 * once


def test_no_step_of_a_plan_looks_closely_at_every_pod_of_a_node() -> None:
    plugin = plugin_from_policy(
        FragmentationAwarePlugin, FragmentationAwareArgs, imbalanceThreshold=0.1
    )
    state = ClusterState()
    state.upsert(node("n1", allocatable={"cpu": "100", "memory": "100Gi", "pods": "500"}))
    for number in range(400):
        state.upsert(pod(f"p{number}", on="n1", requests={"cpu": "200m"}))
    view = build_view(state, wall_clock=lambda: 1.0)

    most, total, _ = calls(plugin.balance("n1", view))

    assert most < total / 2


def test_the_nodes_of_a_pool_are_classed_and_ordered_in_steps() -> None:
    rule = next(each for each in by_use().required_indexes if each[0] is NodeLoads)
    state = ClusterState()
    state.keep_indexes(by_use().required_indexes)
    for each in cluster():
        state.upsert(each)
    loads = build_view(state, wall_clock=lambda: 1.0).index(*rule)
    steps = list(loads.count_classes(-1.0))
    classes = loads.classes(-1.0)
    found = classes.find(*classes.by_class)

    assert len(steps) >= NODES
    assert len(list(found)) >= NODES / PORTION
    assert [each.load.name for each in classes.of(*classes.by_class)] == sorted(loads.selected)


def keep_free(view: Any) -> Any:  # a generator
    plugin = plugin_from_policy(KeepNodesFreePlugin, KeepNodesFreeArgs, nodes=1)
    return plugin.balance(next(iter(plugin.subjects(Resynced(), view))), view)


def consolidate(view: Any) -> Iterator[object]:
    plugin = plugin_from_policy(ConsolidateNodesPlugin, ConsolidateNodesArgs)
    return plugin.balance(next(iter(plugin.subjects(Resynced(), view))), view)


def make_room(view: Any) -> Iterator[object]:
    return PendingRooms(view, MakeRoomForPendingArgs().rules, at_once(view.try_moves())).begin()


def rank(view: Any) -> Iterator[object]:
    return plugin_from_policy(ScaleDownBinPackPlugin, ScaleDownBinPackArgs).deletion_costs(view)


@pytest.mark.parametrize("begin", [keep_free, consolidate, make_room, rank])
def test_no_step_lists_every_node(
    begin: Callable[[Any], Iterator[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, looked = ClusterState(), [0]
    for number in range(3 * LOOKS_PER_SLICE):
        state.upsert(node(f"n{number:04}"))
        state.upsert(pod(f"p{number:04}", on=f"n{number:04}", owner="ReplicaSet/web"))
    state.upsert(node("free"))
    view = build_view(state, wall_clock=lambda: 1.0)

    def counted(items: Iterable[Any]) -> Iterator[Any]:
        for each in items:
            looked[-1] += 1
            yield each

    names, slots_in = ClusterView.node_names, bits.slots_in
    monkeypatch.setattr(ClusterView, "node_names", lambda self: counted(names(self)))
    monkeypatch.setattr(bits, "slots_in", lambda found: counted(slots_in(found)))

    steps = begin(view)
    looked[:] = [0]
    for opinion in steps:
        looked.append(0)
        if isinstance(opinion, Finding):
            break

    assert sum(looked) >= 3 * LOOKS_PER_SLICE
    assert max(looked) <= LOOKS_PER_SLICE + 1


def test_no_step_of_a_plan_frees_every_node_that_it_counted() -> None:
    state = ClusterState()
    for number in range(NODES):
        state.upsert(node(f"n{number:04}"))
        state.upsert(pod(f"p{number:04}", on=f"n{number:04}", owner="ReplicaSet/web"))
    state.upsert(node("free"))
    view = build_view(state, wall_clock=lambda: 1.0)
    plan, left = keep_free(view), list[int]()
    for _ in plan:
        if (counted := getgeneratorlocals(plan).get("nodes")) is not None:
            left.append(len(counted._cheapest))

    assert max(left) == NODES
    assert left[-1] < NODES / 2


def test_no_step_of_a_plan_of_a_spread_looks_closely_at_every_domain() -> None:
    plugin = TopologySpreadPlugin(TopologySpreadArgs())
    state = ClusterState()
    state.keep_indexes(plugin.required_indexes)
    for number in range(DOMAINS):
        state.upsert(node(f"n{number:04}"))
    for number in range(60):
        web = pod(f"web-{number}", on=f"n{number % 20:04}", labels=WEB, owner="ReplicaSet/web")
        state.upsert(with_spread(web, spread_constraint(1, HOSTNAME_LABEL)))
    view = build_view(state, wall_clock=lambda: 1.0)

    (group, *_) = plugin.subjects(Resynced(), view)
    most, found = most_calls(plugin.balance(group, view))

    assert found
    assert most < MOST_CALLS
