"""PUT: whole objects, and the parts that have an endpoint of their own."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"


async def test_an_update_replaces(api: Any) -> None:
    api.pod("a")
    made = await api.get(f"{PODS}/a")
    made["metadata"]["labels"] = {"x": "y"}
    status, body = await api.ask("PUT", f"{PODS}/a", made)
    assert (status, body["metadata"]["labels"]) == (200, {"x": "y"})
    status, body = await api.ask("PUT", f"{PODS}/a", made)
    assert (status, body["reason"]) == (409, "Conflict")


async def test_an_update_under_another_name_is_400(api: Any) -> None:
    api.pod("a")
    made = await api.get(f"{PODS}/a")
    status, _ = await api.ask("PUT", f"{PODS}/b", made)
    assert status == 400


async def test_updating_what_is_not_there_is_404_except_for_leases(api: Any) -> None:
    status, body = await api.ask("PUT", f"{PODS}/a", {"metadata": {"name": "a"}})
    assert (status, body["details"]) == (404, {"name": "a", "kind": "pods"})

    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    status, _ = await api.ask("PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": {}})
    assert status == 201


async def test_the_status_has_its_own_endpoint(api: Any) -> None:
    api.pod("a")
    made = await api.get(f"{PODS}/a")
    made["status"]["phase"] = "Running"
    made["metadata"].pop("resourceVersion")
    _, body = await api.ask("PUT", f"{PODS}/a", made)
    assert body["status"]["phase"] == "Pending"
    _, body = await api.ask("PUT", f"{PODS}/a/status", made)
    assert body["status"]["phase"] == "Running"


async def test_a_workload_is_scaled_through_its_scale(api: Any, deployment: Any) -> None:
    await api.ask("POST", DEPLOYMENTS, deployment)
    scale = await api.get(f"{DEPLOYMENTS}/d/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 2}, "a=b")

    scale["spec"]["replicas"] = 4
    status, body = await api.ask("PUT", f"{DEPLOYMENTS}/d/scale", scale)
    assert (status, body["spec"]) == (200, {"replicas": 4})
    _, body = await api.patch(f"{DEPLOYMENTS}/d/scale", MERGE, {"spec": {"replicas": 1}})
    assert api.store.get("deployments", "default", "d")["spec"]["replicas"] == 1
    status, _ = await api.ask("PUT", f"{DEPLOYMENTS}/d/scale", scale)
    assert status == 409
