"""In `run` a threshold is about the nodes that have some of its resource, and a resize counts."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.model.node_load import LoadClass
from reactive_desched.model.node_table import NodeRole
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_load import LowNodeLoadPlugin
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.state.indexes.node_loads import NodeLoads
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import AnyPlugin, Scenario, plugin_from_policy
from tests.support.swept import swept

A, B = "example.com/gpu-a", "example.com/gpu-b"


def high(thresholds: Mapping[str, float], **args: Any) -> HighNodeUtilizationPlugin:
    return plugin_from_policy(
        HighNodeUtilizationPlugin, HighNodeUtilizationArgs, thresholds=thresholds, **args
    )


def low(
    thresholds: Mapping[str, float], target: Mapping[str, float], **args: Any
) -> LowNodeUtilizationPlugin:
    return plugin_from_policy(
        LowNodeUtilizationPlugin,
        LowNodeUtilizationArgs,
        thresholds=thresholds,
        targetThresholds=target,
        **args,
    )


def host(name: str, **more: str) -> Node:
    has = {"cpu": "10", "memory": "10Gi", "pods": "110"}
    return node(name, allocatable={**has, **{_name(key): amount for key, amount in more.items()}})


def _name(key: str) -> str:
    return {"a": A, "b": B}.get(key, key.replace("_", "-"))


def user(name: str, on: str, cpu: str = "1", **more: str) -> Pod:
    asks = {"cpu": cpu, **{_name(key): amount for key, amount in more.items()}}
    return pod(name, on=on, requests=asks)


def roles(plugin: AnyPlugin, *objects: Node | Pod) -> dict[str, str | None]:
    """Return what each node does, by the plugin's table; None for one that is not in it."""
    scenario = Scenario(plugin, *objects)
    assert isinstance(plugin, HighNodeUtilizationPlugin | LowNodeUtilizationPlugin)
    (table,) = plugin.node_tables(scenario.view)
    found = {each.name: each.role.value for each in table.nodes}
    return {each.name: found.get(each.name) for each in objects if isinstance(each, Node)}


GIVES, TAKES = NodeRole.GIVES.value, NodeRole.TAKES.value


def test_a_node_without_the_resource_of_the_threshold_is_left_alone() -> None:
    objects: list[Node | Pod] = [
        *(host("gpu1", a="8"), host("gpu2", a="8"), host("cpu1"), host("down", a="0")),
        *(user("train", "gpu1", a="6"), user("infer", "gpu2", a="2")),
        *(user("web", "cpu1"), user("job", "down")),
    ]
    plugin = high({A: 40})

    assert Scenario(plugin, *objects).flagged() == {"infer"}
    assert roles(plugin, *objects) == {"gpu1": TAKES, "gpu2": GIVES, "cpu1": None, "down": None}


def test_a_sweep_counts_it_as_hardly_used_as_the_sig_descheduler_does() -> None:
    objects: list[Node | Pod] = [
        *(host("gpu1", a="8"), host("cpu1")),
        *(user("train", "gpu1", a="6"), user("web", "cpu1")),
    ]

    assert swept(high({A: 40}), *objects) == ["web"]
    assert Scenario(high({A: 40}), *objects).flagged() == set()


def test_of_two_kinds_of_a_resource_each_node_is_judged_by_its_own() -> None:
    objects: list[Node | Pod] = [
        *(host("a1", a="8"), host("a2", a="8"), host("b1", b="8")),
        *(user("busy", "a1", a="7"), user("idle", "a2", a="1"), user("full", "b1", b="8")),
    ]

    assert Scenario(high({A: 40, B: 40}), *objects).flagged() == {"idle"}


def test_with_thresholds_of_several_kinds_a_node_is_judged_by_those_it_has() -> None:
    plugin = high({"cpu": 30, A: 30})
    objects: list[Node | Pod] = [
        *(host("cpu1"), host("cpu2"), host("gpu1", a="8")),
        *(user("few", "cpu1"), user("many", "cpu2", "5"), user("train", "gpu1", a="6")),
    ]

    assert roles(plugin, *objects) == {"cpu1": GIVES, "cpu2": TAKES, "gpu1": TAKES}
    assert Scenario(plugin, *objects).flagged() == {"few"}


def test_where_no_destination_has_a_resource_pods_that_request_none_have_room() -> None:
    plugin = low({"cpu": 20, A: 20}, {"cpu": 50, A: 90})
    objects: list[Node | Pod] = [
        *(host("gpu1", a="8"), host("cpu1")),
        *(user(f"web-{number}", "gpu1") for number in range(6)),
        user("train", "gpu1", "1", a="1"),
    ]

    assert len(Scenario(plugin, *objects).flagged()) == 2
    assert "train" not in Scenario(plugin, *objects).flagged()


def test_pods_on_a_node_that_lost_a_resource_do_not_count_as_above_the_target() -> None:
    """Its driver restarts: two devices are requested of a node that has none."""
    plugin = low({"cpu": 20, A: 20}, {"cpu": 50, A: 50})
    objects: list[Node | Pod] = [
        *(host("gpu1", a="0"), host("gpu2", a="8")),
        *(user("train-0", "gpu1", a="1"), user("train-1", "gpu1", a="1")),
    ]

    assert Scenario(plugin, *objects).flagged() == set()
    assert roles(plugin, *objects) == {"gpu1": TAKES, "gpu2": TAKES}


@pytest.mark.parametrize("resource", ["hugepages_2Mi", "ephemeral_storage", "a"])
def test_the_mean_is_one_of_the_nodes_that_have_the_resource(resource: str) -> None:
    plugin = low({_name(resource): 10}, {_name(resource): 10}, useDeviationThresholds=True)
    has, asks = {resource: "100"}, {resource: "20"}
    objects: list[Node | Pod] = [
        *(host("n1", **has), host("n2", **has), *(host(f"none{n}") for n in range(8))),
        *(user(f"p{number}", "n1", "100m", **asks) for number in range(4)),
    ]
    scenario = Scenario(plugin, *objects)
    (table,) = plugin.node_tables(scenario.view)

    assert table.means == {_name(resource): 40.0}
    assert scenario.flagged() == {"p0", "p1"}


def test_a_node_that_gets_the_resource_is_judged_by_it_at_once() -> None:
    scenario = Scenario(
        high({A: 40}),
        host("gpu1", a="8"),
        host("gpu2"),
        user("train", "gpu1", a="6"),
        user("web", "gpu2"),
    )
    assert scenario.flagged() == set()

    scenario.apply(host("gpu2", a="8"))

    assert scenario.flagged() == {"web"} == scenario.flagged_by_full_scan()


# --- LowNodeLoad ---


def metric(name: str, used: Mapping[str, int], **pods: Mapping[str, int]) -> NodeMetric:
    by_pod = {f"default/{pod}": amounts for pod, amounts in pods.items()}
    return NodeMetric(NODE_METRIC, name, dict(used), 0.0, by_pod)


def load(**thresholds: Mapping[str, float]) -> LowNodeLoadPlugin:
    at_once = {"consecutiveAbnormalities": 1}
    return plugin_from_policy(
        LowNodeLoadPlugin, LowNodeLoadArgs, anomalyCondition=at_once, **thresholds
    )


def classes(plugin: LowNodeLoadPlugin, scenario: Scenario) -> dict[str, LoadClass]:
    (pool,) = (args for kind, args in plugin.required_indexes if kind is NodeLoads)
    found = scenario.view.index(NodeLoads, pool).classes(-1.0)
    return {each.load.name: each.load_class for each in found.of(*LoadClass)}


def test_by_measured_load_a_node_without_the_resource_is_in_no_pool() -> None:
    plugin = load(lowThresholds={A: 30}, highThresholds={A: 60})
    scenario = Scenario(
        plugin,
        *(host("gpu1", a="10"), host("gpu2", a="10"), host("cpu1")),
        *(metric("gpu1", {A: 8}), metric("gpu2", {A: 1}), metric("cpu1", {"cpu": 9000})),
    )

    assert classes(plugin, scenario) == {"gpu1": LoadClass.HIGH, "gpu2": LoadClass.BOTH_LOW}


def test_by_measured_load_a_node_is_judged_by_what_it_has() -> None:
    plugin = load(lowThresholds={"cpu": 30, A: 30}, highThresholds={"cpu": 60, A: 60})
    scenario = Scenario(
        plugin,
        *(host("gpu1", a="10"), host("cpu1"), host("cpu2")),
        metric("gpu1", {"cpu": 8000, A: 1}, hot={"cpu": 3000}),
        *(metric("cpu1", {"cpu": 500}), metric("cpu2", {"cpu": 500, A: 3})),
        pod("hot", on="gpu1", requests={"cpu": "3"}),
    )

    assert classes(plugin, scenario) == {
        "gpu1": LoadClass.HIGH,
        "cpu1": LoadClass.BOTH_LOW,
        "cpu2": LoadClass.BOTH_LOW,
    }
    assert scenario.flagged() == {"hot"}


# --- a pod that is resized ---


def resized(name: str, on: str, spec: str, more: int) -> Pod:
    return replace(pod(name, on=on, requests={"cpu": spec}), resize_delta={"cpu": more})


def test_a_pod_counts_by_what_it_holds_during_a_resize() -> None:
    plugin = low({"cpu": 25}, {"cpu": 50})
    objects: list[Node | Pod] = [
        *(host("n1"), host("n2")),
        *(user(f"p{number}", "n1") for number in range(4)),
        resized("shrinking", "n1", "1", 1000),
    ]

    assert len(Scenario(plugin, *objects).flagged()) == 1
    assert swept(plugin, *objects) == []


def test_the_end_of_a_resize_is_seen() -> None:
    plugin = low({"cpu": 25}, {"cpu": 50})
    scenario = Scenario(
        plugin,
        *(host("n1"), host("n2")),
        *(user(f"p{number}", "n1") for number in range(4)),
        resized("shrinking", "n1", "1", 1000),
    )
    assert scenario.flagged()

    scenario.apply(resized("shrinking", "n1", "1", 0))

    assert scenario.flagged() == set() == scenario.flagged_by_full_scan()


def test_a_pod_that_came_since_a_measurement_counts_as_it_is_resized() -> None:
    plugin = load(lowThresholds={"cpu": 30}, highThresholds={"cpu": 60})
    scenario = Scenario(
        plugin, host("n1"), metric("n1", {"cpu": 2000}), resized("new", "n1", "1", 5000)
    )

    assert classes(plugin, scenario) == {"n1": LoadClass.HIGH}


def test_the_beginning_of_a_resize_makes_a_node_give_pods() -> None:
    scenario = Scenario(
        low({"cpu": 25}, {"cpu": 50}),
        *(host("n1"), host("n2")),
        *(user(f"p{number}", "n1") for number in range(4)),
        resized("growing", "n1", "1", 0),
    )
    assert scenario.flagged() == set()

    scenario.apply(resized("growing", "n1", "1", 1000))

    assert scenario.flagged() == {"growing"} == scenario.flagged_by_full_scan()
