"""Koordinator's agents report what each node and each of its pods uses."""

import random
from typing import Any

from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.cluster import ClusterOptions, SimCluster
from reactive_desched.sim.profiles import PREFIX
from tests.support.sim_world import START_S, SimulatedCluster


def status(world: SimulatedCluster, node: str) -> Any:
    metric = world.store.get("nodemetrics", "", node)
    assert metric is not None
    return metric["status"]


def reported(world: SimulatedCluster, node: str) -> float:
    """Return how many seconds after the start a node's use was last reported."""
    return parse_time(status(world, node)["updateTime"]) - START_S


def test_use_is_reported_a_second_after_a_node_came_and_then_every_minute() -> None:
    world = SimulatedCluster(node_agents=True).nodes("n1")
    world.advance(30)
    assert reported(world, "n1") == 1

    world.advance(100)

    assert reported(world, "n1") == 121


def test_nodes_that_are_older_than_the_agents_are_reported_at_once() -> None:
    world = SimulatedCluster().nodes("n1").advance(3600)

    SimCluster(world.store, random.Random(1), ClusterOptions(node_agents=True)).settle()

    assert reported(world, "n1") == 3600


def test_a_report_has_the_node_its_system_and_each_running_pod() -> None:
    world = SimulatedCluster(node_agents=True).nodes("n1")
    world.pod("web", annotations={f"{PREFIX}usage-cpu": "300m"})
    world.advance(70)

    found = status(world, "n1")
    [pod] = found["podsMetric"]
    assert (pod["namespace"], pod["name"]) == ("default", "web")
    assert pod["podUsage"]["resources"]["cpu"] == "300m"
    assert found["nodeMetric"]["systemUsage"]["resources"]["cpu"] == "100m"
    assert found["nodeMetric"]["nodeUsage"]["resources"]["cpu"] == "400m"


def test_a_stopped_node_falls_silent_until_it_starts_again() -> None:
    world = SimulatedCluster(node_agents=True).nodes("n1")
    world.advance(10)
    world.cluster.stop_node("n1")
    world.advance(200)
    assert reported(world, "n1") == 1

    world.cluster.start_node("n1")
    world.advance(2)

    assert reported(world, "n1") == 211


def test_no_node_reports_unless_asked() -> None:
    assert SimulatedCluster().nodes("n1").advance(90).store.list("nodemetrics") == []
