"""HorizontalPodAutoscalers, which two versions show, each in its own words."""

import json
from typing import Any

import pytest

from reactive_desched.sim.resources import by_preference

pytestmark = pytest.mark.anyio

FIRST = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
SECOND = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
METRICS = "autoscaling.alpha.kubernetes.io/metrics"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def resource(name: str, **target: object) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


async def test_what_the_first_version_wrote_the_second_shows(api: Any) -> None:
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 4, "targetCPUUtilizationPercentage": 60}
    status, made = await api.ask("POST", FIRST, {"metadata": {"name": "web"}, "spec": spec})
    assert status == 201
    assert made["apiVersion"] == "autoscaling/v1"
    assert made["spec"] == {**spec, "minReplicas": 1}

    shown = await api.get(f"{SECOND}/web")
    cpu = resource("cpu", type="Utilization", averageUtilization=60)
    assert shown["apiVersion"] == "autoscaling/v2"
    assert shown["spec"]["metrics"] == [cpu]


def described(name: str) -> dict[str, Any]:
    return {"name": name, "selector": {"matchLabels": {"a": "b"}}}


OTHERS = [
    resource("memory", type="AverageValue", averageValue="1Gi"),
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "main",
            "target": {"type": "Utilization", "averageUtilization": 50},
        },
    },
    {
        "type": "Pods",
        "pods": {
            "metric": described("requests"),
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": TARGET,
            "metric": described("queue"),
            "target": {"type": "Value", "value": "5"},
        },
    },
    {
        "type": "External",
        "external": {
            "metric": described("lag"),
            "target": {"type": "AverageValue", "averageValue": "30"},
        },
    },
]


async def test_every_metric_survives_a_client_of_the_first_version(api: Any) -> None:
    cpu = resource("cpu", type="Utilization", averageUtilization=60)
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    rules = {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [policy]}
    behavior = {"scaleUp": rules, "scaleDown": rules}
    spec = {
        "scaleTargetRef": TARGET,
        "minReplicas": 2,
        "maxReplicas": 4,
        "metrics": [*OTHERS, cpu],
        "behavior": behavior,
    }
    await api.ask("POST", SECOND, {"metadata": {"name": "web"}, "spec": spec})

    first = await api.get(f"{FIRST}/web")
    assert first["spec"]["targetCPUUtilizationPercentage"] == 60
    noted = json.loads(first["metadata"]["annotations"][METRICS])
    assert noted[0] == {
        "type": "Resource",
        "resource": {"name": "memory", "targetAverageValue": "1Gi"},
    }
    assert noted[-1]["external"] == {
        "metricName": "lag",
        "metricSelector": {"matchLabels": {"a": "b"}},
        "targetAverageValue": "30",
    }
    first["spec"]["maxReplicas"] = 9
    status, _ = await api.ask("PUT", f"{FIRST}/web", first)
    assert status == 200

    second = await api.get(f"{SECOND}/web")
    assert second["spec"] == {**spec, "maxReplicas": 9}
    assert METRICS not in second["metadata"].get("annotations", {})


async def test_the_second_version_is_preferred(api: Any) -> None:
    group = await api.get("/apis/autoscaling")
    assert [each["version"] for each in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"


def test_versions_are_sorted_as_the_api_server_sorts_them() -> None:
    mixed = ["v1alpha1", "foo1", "v2", "v10", "v1", "v11beta2", "v3beta1", "v11alpha2", "foo10"]
    stable, beta, alpha = ["v10", "v2", "v1"], ["v11beta2", "v3beta1"], ["v11alpha2", "v1alpha1"]
    assert by_preference(mixed) == [*stable, *beta, *alpha, "foo1", "foo10"]
