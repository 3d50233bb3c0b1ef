"""What a metrics server would say."""

import pytest

from reactive_desched.model.resources import parse_resource_list
from reactive_desched.sim.usage import SimulatedUsage
from tests.support.sim_world import SimulatedCluster

GI = 2**30


def test_a_running_pod_uses_part_of_what_it_requests_and_always_the_same() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", cpu="1", memory="1Gi")
    usage = SimulatedUsage(world.store, world.cluster.index)
    assert usage.pod("default", "p") is None
    world.advance(5)

    measured = usage.pod("default", "p")

    assert measured is not None
    ((name, used),) = measured
    assert name == "main"
    assert 300 <= parse_resource_list(used)["cpu"] <= 900
    assert 0.3 * GI <= parse_resource_list(used)["memory"] + 1024 <= 0.9 * GI + 1024
    assert usage.pod("default", "p") == measured


@pytest.mark.parametrize(("text", "cpu_m"), [("250m", 250), ("2", 2000)])
def test_an_annotation_sets_the_usage_by_hand(text: str, cpu_m: int) -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", cpu="1", annotations={"sim.reactive-desched/usage-cpu": text})
    world.advance(5)

    measured = SimulatedUsage(world.store, world.cluster.index).pod("default", "p")

    assert measured is not None
    assert parse_resource_list(measured[0][1])["cpu"] == cpu_m


def test_a_mistyped_annotation_counts_as_absent() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", cpu="1", annotations={"sim.reactive-desched/usage-cpu": "much"})
    world.advance(5)

    measured = SimulatedUsage(world.store, world.cluster.index).pod("default", "p")

    assert measured is not None
    assert 300 <= parse_resource_list(measured[0][1])["cpu"] <= 900


def test_a_node_uses_what_its_running_pods_use_and_a_little_for_itself() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    usage = SimulatedUsage(world.store, world.cluster.index)
    empty = usage.node("n2")
    notes = {"sim.reactive-desched/usage-cpu": "2"}
    world.pod("p", nodeName="n2", annotations=notes)
    brief = {**notes, "sim.reactive-desched/run-seconds": "1"}
    ended = {**brief, "sim.reactive-desched/profile": "complete"}
    world.pod("done", nodeName="n2", annotations=ended, restartPolicy="Never")
    world.advance(5)
    assert world.phases() == {"p": "Ready", "done": "Succeeded"}

    busy = usage.node("n2")

    assert empty is not None
    assert busy is not None
    assert parse_resource_list(busy)["cpu"] - parse_resource_list(empty)["cpu"] == 2000
    assert usage.node("nowhere") is None
