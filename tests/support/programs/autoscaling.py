"""A program about HorizontalPodAutoscalers: each scales by another metric, or has another fault."""

import json
import re
from contextlib import suppress
from typing import Any

from tests.support.control_plane import wait_until
from tests.support.programs.objects import apps, core, make_ready, pod_spec, pods_of, workload
from tests.support.two_planes import MERGE, Plane, Planes, plain

__all__ = ["autoscalers"]

Object = dict[str, Any]  # a Kubernetes object as JSON
PREFIX = "sim.reactive-desched/"
NAMES = {"metric": {"name": "hits"}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "front"}
SHARE = {"type": "Utilization", "averageUtilization": 60}


def _resource(name: str, **target: object) -> Object:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def _average(value: str) -> Object:
    return {"type": "AverageValue", "averageValue": value}


def _object(target: Object, **described: str) -> Object:
    source = {**NAMES, "describedObject": {**SERVICE, **described}, "target": target}
    return {"type": "Object", "object": source}


def _external(target: Object, name: str = "lag", **metric: object) -> Object:
    return {"type": "External", "external": {"metric": {"name": name, **metric}, "target": target}}


def _pods(value: str, name: str = "hits", **metric: object) -> Object:
    source = {"metric": {"name": name, **metric}, "target": _average(value)}
    return {"type": "Pods", "pods": source}


CPU = _resource("cpu", **SHARE)
STEADY = {"scaleDown": {"stabilizationWindowSeconds": 0}}
ONE_A_MINUTE = [{"type": "Pods", "value": 1, "periodSeconds": 600}]
HALF = [{"type": "Percent", "value": 50, "periodSeconds": 600}]

# Of each autoscaler: how many pods there are, the annotations of the pods, and its own fields.
CASES: dict[str, tuple[int, dict[str, str], Object]] = {
    "cpu": (2, {"usage-cpu": "900m"}, {"metrics": [CPU]}),
    "default": (2, {"usage-cpu": "820m"}, {}),
    "near": (2, {"usage-cpu": "640m"}, {"metrics": [CPU]}),
    "memory": (
        3,
        {"usage-memory": "300Mi"},
        {"metrics": [_resource("memory", **_average("99Mi"))]},
    ),
    "share": (2, {"usage-memory": "1Gi"}, {"metrics": [_resource("memory", **SHARE)]}),
    "pods": (2, {"metric.hits": "30"}, {"metrics": [_pods("10")]}),
    "milli": (2, {"metric.hits": "1234500m"}, {"metrics": [_pods("1200")]}),
    "labelled": (
        2,
        {"metric.hits": "30"},
        {"metrics": [_pods("10", selector={"matchLabels": {"queue": "a"}})]},
    ),
    "unheard": (2, {}, {"metrics": [_pods("10")]}),
    "object": (2, {}, {"metrics": [_object({"type": "Value", "value": "20"})]}),
    "shared": (2, {}, {"metrics": [_object(_average("12"))]}),
    "no-object": (2, {}, {"metrics": [_object({"type": "Value", "value": "20"}, name="back")]}),
    "home": (
        2,
        {},
        {
            "metrics": [
                {
                    "type": "Object",
                    "object": {
                        "metric": {"name": "lag"},
                        "describedObject": {"apiVersion": "v1", "kind": "Namespace", "name": "x"},
                        "target": {"type": "Value", "value": "100"},
                    },
                }
            ]
        },
    ),
    "lag": (2, {}, {"metrics": [_external({"type": "Value", "value": "100"})]}),
    "lag-each": (2, {}, {"metrics": [_external(_average("90"))]}),
    "lag-none": (2, {}, {"metrics": [_external(_average("90"), "none")]}),
    "lag-labelled": (
        2,
        {},
        {"metrics": [_external(_average("90"), selector={"matchLabels": {"queue": "a"}})]},
    ),
    "container": (
        2,
        {"usage-cpu": "900m"},
        {
            "metrics": [
                {
                    "type": "ContainerResource",
                    "containerResource": {"name": "cpu", "container": "main", "target": SHARE},
                }
            ]
        },
    ),
    "no-container": (
        2,
        {"usage-cpu": "900m"},
        {
            "metrics": [
                {
                    "type": "ContainerResource",
                    "containerResource": {"name": "cpu", "container": "b", "target": SHARE},
                }
            ]
        },
    ),
    "two": (2, {"usage-cpu": "900m", "metric.hits": "50"}, {"metrics": [CPU, _pods("20")]}),
    "one-of-two": (2, {"usage-cpu": "900m"}, {"metrics": [_pods("20"), CPU]}),
    "none-of-two": (2, {"usage-cpu": "100m"}, {"metrics": [_pods("20"), CPU]}),
    "shrinks": (6, {"usage-cpu": "100m"}, {"metrics": [CPU], "behavior": STEADY}),
    "stays": (6, {"usage-cpu": "100m"}, {"metrics": [CPU]}),
    "never-down": (
        6,
        {"usage-cpu": "100m"},
        {
            "metrics": [CPU],
            "behavior": {"scaleDown": {"selectPolicy": "Disabled"} | STEADY["scaleDown"]},
        },
    ),
    "slowly-down": (
        6,
        {"usage-cpu": "100m"},
        {
            "metrics": [CPU],
            "behavior": {"scaleDown": {"policies": ONE_A_MINUTE} | STEADY["scaleDown"]},
        },
    ),
    "least-down": (
        6,
        {"usage-cpu": "100m"},
        {
            "metrics": [CPU],
            "behavior": {
                "scaleDown": {"policies": [*ONE_A_MINUTE, *HALF], "selectPolicy": "Min"}
                | STEADY["scaleDown"]
            },
        },
    ),
    "most-up": (
        3,
        {"metric.hits": "90"},
        {"metrics": [_pods("10")], "behavior": {"scaleUp": {"policies": [*ONE_A_MINUTE, *HALF]}}},
    ),
    "late-up": (
        3,
        {"metric.hits": "90"},
        {"metrics": [_pods("10")], "behavior": {"scaleUp": {"stabilizationWindowSeconds": 600}}},
    ),
    "tolerant": (
        2,
        {"usage-cpu": "900m"},
        {"metrics": [CPU], "behavior": {"scaleUp": {"tolerance": "0.6"}}},
    ),
    "above": (5, {"usage-cpu": "700m"}, {"maxReplicas": 3}),
    "below": (2, {"usage-cpu": "700m"}, {"minReplicas": 4}),
    "zero": (0, {}, {}),
}
BOUNDS: tuple[Object, ...] = (
    {"minReplicas": 0},
    {"maxReplicas": 0},
    {"maxReplicas": -1},
    {"minReplicas": 3, "maxReplicas": 2},
)
FAULTY = {
    "nowhere": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nowhere"},
    "unknown": {"apiVersion": "apps/v1", "kind": "Thing", "name": "unknown"},
    "no-version": {"kind": "Deployment", "name": "cpu"},
    "no-name": {"apiVersion": "apps/v1", "kind": "Deployment"},
    "no-kind": {"apiVersion": "apps/v1", "name": "cpu"},
    "no-scale": {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cpu"},
}


def autoscalers(planes: Planes) -> None:
    """Scale by every type of metric, within every kind of limit; say what cannot be followed."""
    home = f"api/v1/namespaces/{planes.namespace}"
    notes = {"metadata": {"annotations": {f"{PREFIX}metric.lag": "250"}}}
    planes.send("PATCH", home, notes, MERGE, only=lambda _: None)
    front = {"name": "front", "annotations": {f"{PREFIX}metric.hits": "50"}}
    made = {"metadata": front, "spec": {"ports": [{"port": 80}]}}
    planes.send("POST", core(planes, "services"), made, only=lambda _: None)
    for name, (replicas, annotations, _) in CASES.items():
        planes.send("POST", apps(planes, "deployments"), _workload(name, replicas, annotations))
    unasked = _workload("unasked", 2, {"usage-cpu": "900m"})
    del unasked["spec"]["template"]["spec"]["containers"][0]["resources"]
    planes.send("POST", apps(planes, "deployments"), unasked)
    for name in CASES:
        count = CASES[name][0]
        planes.each(lambda plane, name=name, count=count: _all_ready(plane, name, count))  # type: ignore[misc]
    planes.each(lambda plane: _all_ready(plane, "unasked", 2))
    place = f"apis/autoscaling/v2/namespaces/{planes.namespace}/horizontalpodautoscalers"
    for name, (_, _, fields) in CASES.items():
        planes.send("POST", place, _autoscaler(name, **fields))
    planes.send("POST", place, _autoscaler("unasked"))
    planes.send("POST", place, _autoscaler("twice", scaleTargetRef=_target("default")))
    for number, bounds in enumerate(BOUNDS):
        planes.send("POST", place, _autoscaler(f"bounds-{number}", **bounds))
    for name, target in FAULTY.items():
        planes.send("POST", place, _autoscaler(name, scaleTargetRef=target))

    def look(plane: Plane) -> object:
        return _in_order(shown(plane))

    def shown(plane: Plane) -> Object:
        found = {each["metadata"]["name"]: each.get("status") for each in plane.items(place)}
        sizes = plane.items(f"apis/apps/v1/namespaces/{plane.namespace}/deployments")
        return {
            "autoscalers": found,
            "sizes": {each["metadata"]["name"]: each["spec"]["replicas"] for each in sizes},
        }

    def agree() -> bool:
        seen = [plain(look(plane)) for plane in planes.both]
        return bool(
            seen[0] == seen[1]
            and all("conditions" in each for each in seen[0]["autoscalers"].values())
        )

    try:
        wait_until(agree, within_s=300, what="both planes show the same autoscalers")
    except TimeoutError:
        planes.compare("autoscalers", *[plain(look(plane)) for plane in planes.both])
    _compare_events(planes)


def _compare_events(planes: Planes) -> None:
    """Wait until the real plane has the Events of the simulator.

    It writes them later, and has more where its metrics server was busy.
    """
    alone: set[tuple[str, ...]] = set()

    def all_seen() -> bool:
        alone.clear()
        alone.update(_events(planes.sim) - _events(planes.real))
        return not alone

    with suppress(TimeoutError):
        wait_until(all_seen, within_s=120, what="the Events of both")
    planes.compare("Events of the simulator alone", [], sorted(alone))


def _events(plane: Plane) -> set[tuple[str, ...]]:
    """Return what Events say of the autoscalers, each once."""
    found = plane.items(f"api/v1/namespaces/{plane.namespace}/events")
    return {
        tuple(str(plain(each[field])) for field in ("type", "reason", "message"))
        for each in _in_order(found)
        if each["involvedObject"]["kind"] == "HorizontalPodAutoscaler"
    }


def _in_order(value: object) -> Any:
    """Return a value in whose texts lists in brackets, which are a map of Go's, have one order."""
    text = json.dumps(value)
    return json.loads(
        re.sub(
            r"HPAs: \[([^]]*)\]",
            lambda it: f"HPAs: {sorted(it[1].split())}",
            text.replace('\\"', "'"),
        )
    )


def _workload(name: str, replicas: int, annotations: dict[str, str]) -> Object:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "i", "resources": {"requests": requests}}
    made = workload("Deployment", name, pod_spec(containers=[container]), replicas=replicas)
    notes = {f"{PREFIX}{key}": value for key, value in annotations.items()}
    made["spec"]["template"]["metadata"]["annotations"] = notes
    return made


def _autoscaler(name: str, **fields: object) -> Object:
    spec = {"scaleTargetRef": _target(name), "minReplicas": 1, "maxReplicas": 8, **fields}
    return {"metadata": {"name": name}, "spec": spec}


def _target(name: str) -> Object:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}


def _all_ready(plane: Plane, name: str, count: int) -> None:
    wait_until(lambda: len(pods_of(plane, name)) == count, within_s=60, what=f"pods of {name}")
    for each in pods_of(plane, name):
        make_ready(plane, each)
