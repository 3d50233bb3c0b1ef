"""Workloads that grow and shrink with what their pods use."""

from typing import Any

import pytest

from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.objects import Obj, name_of
from tests.support.sim_world import SimulatedCluster

USE = "sim.reactive-desched/usage-cpu"
HITS = "sim.reactive-desched/metric.hits"


def scaled(replicas: int = 2, uses: str = "500m", **hpa: Any) -> SimulatedCluster:
    """Return a cluster with a Deployment whose pods ask for a core, and use so much of it."""
    world = SimulatedCluster().nodes("n1", "n2", cpu="64")
    world.deployment("web", replicas, cpu="1", annotations={USE: uses})
    world.advance(40)
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
        annotate(world, "pods", "default", name_of(pod), {USE: cpu})


def annotate(
    world: SimulatedCluster, resource: str, namespace: str, name: str, notes: dict[str, str]
) -> None:
    """Replace the annotations of an object."""

    def change(each: Obj) -> Obj:
        return {**each, "metadata": {**each["metadata"], "annotations": notes}}

    world.store.modify(resource, namespace, name, change)


def hits(average: str) -> list[Obj]:
    """Return the metric of what each pod says of `hits`."""
    target = {"type": "AverageValue", "averageValue": average}
    return [{"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": target}}]


def condition(world: SimulatedCluster, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition of the autoscaler."""
    found = find_condition(world.get("horizontalpodautoscalers", "web"), kind)
    assert found is not None
    return found["status"], found["reason"]


def size(world: SimulatedCluster) -> int:
    """Return how many pods the Deployment wants."""
    replicas: int = world.get("deployments", "web")["spec"]["replicas"]
    return replicas


def test_it_is_looked_at_after_fifteen_seconds_and_pods_that_use_more_get_company() -> None:
    world = scaled(2, "900m", metrics=percent(60)).advance(14)
    assert size(world) == 2

    world.advance(2)
    assert size(world) == 3
    status = world.status("horizontalpodautoscalers", "web")
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 3)
    assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 90
    assert condition(world, "AbleToScale") == ("True", "SucceededRescale")
    assert len(world.events("SuccessfulRescale")) == 1


def test_within_a_tenth_of_the_target_nothing_changes() -> None:
    world = scaled(4, "540m", metrics=percent(50)).advance(60)

    assert size(world) == 4


def test_a_tolerance_is_of_the_behavior() -> None:
    behavior = {"scaleUp": {"tolerance": "600m"}}
    assert size(scaled(2, "900m", metrics=percent(60), behavior=behavior).advance(60)) == 2


def test_there_are_at_most_twice_as_many_at_once_and_never_more_than_the_bound() -> None:
    world = scaled(5, "3", metrics=percent(50), maxReplicas=12).advance(16)
    assert size(world) == 10
    assert condition(world, "ScalingLimited") == ("True", "ScaleUpLimit")

    world.advance(60)
    assert size(world) == 12
    assert condition(world, "ScalingLimited") == ("True", "TooManyReplicas")


def test_it_shrinks_only_after_five_minutes_of_less_use() -> None:
    world = scaled(4, "500m", metrics=percent(50)).advance(20)
    use(world, "100m")

    world.advance(280)
    assert size(world) == 4
    assert condition(world, "AbleToScale") == ("True", "ScaleDownStabilized")
    world.advance(60)
    assert size(world) == 1


def test_the_window_of_shrinking_is_of_the_behavior() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    world = scaled(4, "100m", metrics=percent(50), behavior=behavior).advance(20)

    assert size(world) == 1


def test_a_window_of_growing_waits_until_it_was_always_so_high() -> None:
    behavior = {"scaleUp": {"stabilizationWindowSeconds": 120}}
    world = scaled(2, "900m", metrics=percent(50), behavior=behavior).advance(100)
    assert size(world) == 2
    assert condition(world, "AbleToScale") == ("True", "ScaleUpStabilized")

    world.advance(60)
    assert size(world) == 4


def down(*policies: tuple[str, int, int], **rules: Any) -> dict[str, Any]:
    """Return a behavior that shrinks by these policies, without a window."""
    listed = [{"type": kind, "value": value, "periodSeconds": s} for kind, value, s in policies]
    return {"scaleDown": {"stabilizationWindowSeconds": 0, "policies": listed, **rules}}


@pytest.mark.parametrize(
    ("behavior", "after_20_s", "after_80_s"),
    [
        pytest.param(down(("Pods", 2, 60)), 6, 4, id="two a minute"),
        pytest.param(down(("Percent", 50, 600)), 4, 4, id="half in ten minutes"),
        pytest.param(down(("Pods", 1, 600), ("Percent", 50, 600)), 4, 4, id="the farther"),
        pytest.param(
            down(("Pods", 1, 600), ("Percent", 50, 600), selectPolicy="Min"), 7, 7, id="the nearer"
        ),
        pytest.param(down(("Pods", 8, 15), selectPolicy="Disabled"), 8, 8, id="never"),
    ],
)
def test_policies_say_how_fast_it_shrinks(
    behavior: dict[str, Any], after_20_s: int, after_80_s: int
) -> None:
    world = scaled(8, "100m", metrics=percent(90), behavior=behavior).advance(20)
    assert size(world) == after_20_s

    world.advance(60)
    assert size(world) == after_80_s


def test_a_pod_without_a_measure_counts_as_none_up_and_as_its_target_down() -> None:
    world = scaled(4, metrics=hits("10"))
    _, *others = world.pods("web")
    for pod in others:
        annotate(world, "pods", "default", name_of(pod), {HITS: "16"})
    world.advance(20)
    assert size(world) == 5  # 48 of four, where the three that say it would want 1.6 times as many

    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    world = scaled(4, metrics=hits("10"), behavior=behavior)
    _, *others = world.pods("web")
    for pod in others:
        annotate(world, "pods", "default", name_of(pod), {HITS: "2"})
    world.advance(20)
    assert size(world) == 2  # 16 of four, where the three would have one


def test_pods_that_start_count_as_using_nothing() -> None:
    world = scaled(2, "900m", metrics=percent(50)).advance(16)
    assert size(world) == 4

    world.advance(15)  # with those that start as none, four use 45 % of what they ask for
    assert size(world) == 4
    world.advance(30)
    assert size(world) == 8


def source(kind: str, target: dict[str, str], **fields: Any) -> list[Obj]:
    """Return the metric of what an object, or a system elsewhere, says of `hits`."""
    said = {"metric": {"name": "hits"}, "target": target, **fields}
    return [{"type": kind, kind.lower(): said}]


HOME = {"describedObject": {"apiVersion": "v1", "kind": "Namespace", "name": "default"}}
SET = {"describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
ALL, EACH = {"type": "Value", "value": "20"}, {"type": "AverageValue", "averageValue": "20"}


@pytest.mark.parametrize(
    ("metrics", "replicas"),
    [
        pytest.param(source("External", ALL), 4, id="of all"),
        pytest.param(source("External", EACH), 3, id="of each"),
        pytest.param(source("Object", ALL, **HOME), 4, id="of the namespace"),
        pytest.param(source("Object", EACH, **HOME), 3, id="of the namespace, for each"),
        pytest.param(source("Object", ALL, **SET), 2, id="of an object that says it is met"),
    ],
)
def test_what_is_not_measured_of_pods_is_made_up_by_annotations(
    metrics: list[Obj], replicas: int
) -> None:
    world = scaled(2, metrics=metrics)
    annotate(world, "namespaces", "", "default", {HITS: "45"})
    annotate(world, "deployments", "default", "web", {HITS: "20"})
    world.advance(16)

    assert size(world) == replicas


def test_a_metric_that_fails_lets_others_grow_and_not_shrink() -> None:
    for uses, replicas in (("900m", 3), ("100m", 2)):
        behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
        world = scaled(2, uses, metrics=[*hits("10"), *percent(60)], behavior=behavior).advance(16)
        assert size(world) == replicas
        assert world.events("FailedGetPodsMetric")


def test_a_container_is_measured_by_itself() -> None:
    target = {"type": "Utilization", "averageUtilization": 60}
    for name, replicas in (("main", 3), ("other", 2)):
        of = {"name": "cpu", "container": name, "target": target}
        world = scaled(2, "900m", metrics=[{"type": "ContainerResource", "containerResource": of}])
        assert size(world.advance(16)) == replicas


OTHER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}


@pytest.mark.parametrize(
    ("change", "reason", "kind"),
    [
        pytest.param({"scaleTargetRef": OTHER}, "FailedGetScale", "AbleToScale", id="no target"),
        pytest.param(
            {"scaleTargetRef": {**OTHER, "kind": "DaemonSet"}},
            "FailedGetScale",
            "AbleToScale",
            id="a kind without a size",
        ),
        pytest.param(
            {"metrics": source("External", ALL)},
            "FailedGetExternalMetric",
            "ScalingActive",
            id="a metric that nobody made up",
        ),
        pytest.param(
            {"metrics": source("Object", ALL, **HOME)},
            "FailedGetObjectMetric",
            "ScalingActive",
            id="an object that does not say it",
        ),
    ],
)
def test_what_cannot_be_scaled_is_said_and_left_as_it_is(
    change: dict[str, Any], reason: str, kind: str
) -> None:
    world = scaled(2, "900m", **change).advance(30)

    assert condition(world, kind) == ("False", reason)
    assert world.events(reason)
    assert size(world) == 2


def test_of_two_that_scale_the_same_pods_none_does() -> None:
    world = scaled(2, "900m", metrics=percent(60))
    spec = world.get("horizontalpodautoscalers", "web")["spec"]
    world.create("horizontalpodautoscalers", "again", spec)
    world.advance(31)

    assert condition(world, "ScalingActive") == ("False", "AmbiguousSelector")


@pytest.mark.parametrize(("replicas", "scaled_to"), [(1, 3), (9, 6)])
def test_a_workload_outside_of_its_bounds_is_brought_into_them(
    replicas: int, scaled_to: int
) -> None:
    world = scaled(replicas, metrics=hits("10"), minReplicas=3, maxReplicas=6).advance(16)

    assert size(world) == scaled_to


def test_a_workload_of_no_pods_is_not_scaled() -> None:
    world = scaled(0, metrics=percent(50)).advance(30)

    assert size(world) == 0
    assert condition(world, "ScalingActive") == ("False", "ScalingDisabled")
