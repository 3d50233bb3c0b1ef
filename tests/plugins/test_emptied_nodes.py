"""The controller moves no pod to a node that is being deleted or emptied by others."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.consolidation import EMPTY, EMPTYING, PLANNED, consolidating_taint
from reactive_desched.model.node_load import LoadClass, ceilings, classify, make_rule, measure
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.topology_spread import (
    TopologySpreadArgs,
    TopologySpreadPlugin,
    UnsatisfiableConstraintAction,
)
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import AnyPlugin, Scenario, plugin_from_policy
from reactive_desched.testing.topology_spread import spread_constraint

HAS = {"cpu": "10", "memory": "10Gi", "pods": "10"}
WEB = {"app": "web"}


def pods(count: int, on: str, cpu: str = "2") -> list[Pod]:
    """Build pods of one owner, with a constraint that spreads them over zones."""
    plain = (
        pod(f"{on}-{number}", on=on, labels=WEB, requests={"cpu": cpu}, created=number)
        for number in range(count)
    )
    return [with_spec(each, topology_spread_constraints=(spread_constraint(1),)) for each in plain]


def low_utilization() -> AnyPlugin:
    return plugin_from_policy(
        LowNodeUtilizationPlugin,
        LowNodeUtilizationArgs,
        thresholds={"cpu": 20},
        targetThresholds={"cpu": 50},
    )


def high_utilization() -> AnyPlugin:
    return plugin_from_policy(
        HighNodeUtilizationPlugin, HighNodeUtilizationArgs, thresholds={"cpu": 50}
    )


def duplicates() -> AnyPlugin:
    return plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)


def topology_spread() -> AnyPlugin:
    return plugin_from_policy(TopologySpreadPlugin, TopologySpreadArgs)


@pytest.mark.parametrize(
    "emptied",
    [
        pytest.param(lambda n: replace(n, is_terminating=True), id="being deleted"),
        pytest.param(
            lambda n: replace(n, taints=node("x", "karpenter.sh/disrupted:NoSchedule").taints),
            id="disrupted",
        ),
    ],
)
@pytest.mark.parametrize(
    ("make_plugin", "there"),
    [
        pytest.param(low_utilization, [], id="LowNodeUtilization"),
        pytest.param(high_utilization, pods(3, "n2"), id="HighNodeUtilization"),
        pytest.param(duplicates, [], id="RemoveDuplicates"),
        pytest.param(topology_spread, [], id="topology spread"),
    ],
)
def test_pods_move_once_a_node_that_stays_is_in_its_place(
    make_plugin: Callable[[], AnyPlugin],
    there: list[Pod],
    emptied: Callable[[Node], Node],
) -> None:
    here = pods(2, "n1") if there else pods(3, "n1")
    n1, n2 = node("n1", zone="a", allocatable=HAS), node("n2", zone="b", allocatable=HAS)
    everything: list[Any] = [n1, *here, *there]
    if not there and make_plugin is not duplicates:
        here[0] = replace(here[0], spec=replace(here[0].spec, requests={"cpu": 6000}))
        everything = [n1, *here]
    cluster = Scenario(make_plugin(), emptied(n2), *everything)
    assert cluster.flagged() == set()

    cluster.apply(n2)
    assert cluster.flagged()
    assert cluster.flagged() == cluster.flagged_by_full_scan()

    cluster.apply(emptied(n2))
    assert cluster.flagged_by_full_scan() == set()
    assert cluster.flagged() == set()


def soft_spread() -> AnyPlugin:
    both = ["DoNotSchedule", "ScheduleAnyway"]
    return plugin_from_policy(TopologySpreadPlugin, TopologySpreadArgs, constraints=both)


@pytest.mark.parametrize("value", [EMPTY, EMPTYING, PLANNED])
@pytest.mark.parametrize(
    ("make_plugin", "hard", "counts"),
    [
        pytest.param(duplicates, True, False, id="RemoveDuplicates"),
        pytest.param(soft_spread, False, False, id="a soft constraint"),
        pytest.param(soft_spread, True, True, id="a hard constraint, as the scheduler counts"),
    ],
)
def test_pods_are_not_spread_over_nodes_that_a_set_of_moves_empties(
    make_plugin: Callable[[], AnyPlugin], value: str, *, hard: bool, counts: bool
) -> None:
    """Else one plugin would undo what the other does."""
    how = "DoNotSchedule" if hard else "ScheduleAnyway"
    constraint = spread_constraint(1, when_unsatisfiable=UnsatisfiableConstraintAction(how))
    here = [with_spec(each, topology_spread_constraints=(constraint,)) for each in pods(3, "n1")]
    n1, n2 = node("n1", zone="a", allocatable=HAS), node("n2", zone="b", allocatable=HAS)
    closed = replace(n2, taints=(consolidating_taint(value),))
    cluster = Scenario(make_plugin(), n1, closed, *here)

    assert bool(cluster.flagged()) is counts
    cluster.apply(n2)
    assert cluster.flagged()
    cluster.apply(closed)
    assert bool(cluster.flagged()) is counts


@pytest.mark.parametrize(
    ("follows_pods", "expected"), [(True, LoadClass.BETWEEN), (False, LoadClass.BOTH_LOW)]
)
def test_by_measured_load_it_has_room_in_a_sweep_alone(
    *, follows_pods: bool, expected: LoadClass
) -> None:
    rule = replace(make_rule({"cpu": 30}, {"cpu": 60}, {}, {}), follows_pods=follows_pods)
    staying, metric = node("n1", allocatable=HAS), NodeMetric(NODE_METRIC, "n1", {"cpu": 100}, 1.0)

    def load_class(measured: Node) -> LoadClass:
        load = measure(rule, measured, (), metric)
        return classify(load, ceilings(rule, load, None))

    assert load_class(replace(staying, is_terminating=True)) is expected
    assert load_class(staying) is LoadClass.BOTH_LOW
