"""Pods of a StatefulSet leave from the highest ordinal; one that cannot leave holds up no other."""

from functools import partial
from typing import Any

from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.policy.settings.guards import GuardSettings
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster

DUPLICATES = DuplicatesPlugin(DuplicatesArgs())


def crowded(pods: int) -> SimulatedCluster:
    """Return a cluster whose pods of a StatefulSet all run on one node."""
    world = SimulatedCluster().nodes("n1", cpu="8")
    world.stateful_set("db", pods, cpu="500m", memory="64Mi")
    return world.advance(60)


def run(world: SimulatedCluster, seconds: float) -> DescheduledCluster:
    guarded = DescheduledCluster(world, DUPLICATES, guards=GuardSettings(), nodeFit=True)
    return guarded.run(seconds)


def resized(pod: Any, cpu: str) -> Any:
    [container] = pod["spec"]["containers"]
    resources = {"requests": {**container["resources"]["requests"], "cpu": cpu}}
    containers = [{**container, "resources": resources}]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def test_one_that_fits_no_node_lets_lower_ones_leave() -> None:
    world = crowded(4)
    for name in ("db-2", "db-3"):
        world.store.modify("pods", "default", name, partial(resized, cpu="2"), subresource="resize")

    assert run(world.nodes("n2", cpu="1"), 600).evicted == ["db-1"]


def test_where_none_fits_a_node_they_are_not_evaluated_again_and_again() -> None:
    cluster = run(crowded(4).nodes("n2", cpu="100m"), 600)
    before = len(cluster.evaluations)
    cluster.run(3600)

    assert cluster.evicted == []
    assert len(cluster.evaluations) - before < 100
