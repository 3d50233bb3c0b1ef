"""Workloads that grow and shrink with what their pods use."""

from typing import Any

import pytest

from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.objects import Obj, name_of
from tests.support.sim_world import SimulatedCluster

USE = "sim.reactive-desched/usage-cpu"


def scaled(replicas: int = 2, uses: str = "500m", **hpa: Any) -> SimulatedCluster:
    """Return a cluster with a Deployment whose pods ask for a core, and use so much of it."""
    world = SimulatedCluster().nodes("n1", "n2", cpu="64")
    world.deployment("web", replicas, cpu="1", annotations={USE: uses})
    world.advance(5)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 20, **hpa}
    world.create("horizontalpodautoscalers", "web", spec)
    return world


def percent(target: int) -> list[Obj]:
    """Return the metric of a utilization of the requested cores."""
    return [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": target},
            },
        }
    ]


def use(world: SimulatedCluster, cpu: str) -> None:
    """Let every pod of the Deployment use so much from now on."""
    for pod in world.pods("web"):
        world.store.modify(
            "pods",
            "default",
            name_of(pod),
            lambda each: {**each, "metadata": {**each["metadata"], "annotations": {USE: cpu}}},
        )


def size(world: SimulatedCluster) -> int:
    """Return how many pods the Deployment wants."""
    replicas: int = world.get("deployments", "web")["spec"]["replicas"]
    return replicas


def test_pods_that_use_more_than_the_target_get_company() -> None:
    world = scaled(2, "900m", metrics=percent(60)).advance(1)

    assert size(world) == 3
    status = world.status("horizontalpodautoscalers", "web")
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 3)
    assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 90
    assert len(world.events("SuccessfulRescale")) == 1


def test_within_a_tenth_of_the_target_nothing_changes() -> None:
    world = scaled(4, "540m", metrics=percent(50)).advance(60)

    assert size(world) == 4


def test_there_are_at_most_twice_as_many_at_once_and_never_more_than_the_bound() -> None:
    world = scaled(5, "3", metrics=percent(50), maxReplicas=12).advance(1)
    assert size(world) == 10

    world.advance(30)
    assert size(world) == 12


def test_it_shrinks_only_after_five_minutes_of_less_use() -> None:
    world = scaled(4, "500m", metrics=percent(50)).advance(20)
    use(world, "100m")

    world.advance(280)
    assert size(world) == 4
    world.advance(60)
    assert size(world) == 1


def test_the_window_of_shrinking_is_of_the_behavior() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    world = scaled(4, "100m", metrics=percent(50), behavior=behavior).advance(20)

    assert size(world) == 1


@pytest.mark.parametrize(
    ("change", "reason", "kind"),
    [
        pytest.param(
            {"scaleTargetRef": {"kind": "Deployment", "name": "other"}},
            "FailedGetScale",
            "AbleToScale",
            id="no target",
        ),
        pytest.param(
            {"metrics": [{"type": "External"}]},
            "FailedGetResourceMetric",
            "ScalingActive",
            id="another metric",
        ),
    ],
)
def test_what_cannot_be_scaled_is_said_and_left_as_it_is(
    change: dict[str, Any], reason: str, kind: str
) -> None:
    world = scaled(2, "900m", **change).advance(30)

    condition = find_condition(world.get("horizontalpodautoscalers", "web"), kind)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert size(world) == 2


def test_a_workload_of_no_pods_is_not_scaled() -> None:
    world = scaled(0, metrics=percent(50)).advance(30)

    assert size(world) == 0
