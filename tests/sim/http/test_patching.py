"""PATCH in each of its kinds, server-side apply among them."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


async def test_cordon_as_kubectl_does_it(api: Any) -> None:
    await api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    _, node = await api.patch("/api/v1/nodes/n1", STRATEGIC, {"spec": {"unschedulable": True}})
    assert node["spec"]["unschedulable"] is True
    _, node = await api.patch("/api/v1/nodes/n1", STRATEGIC, {"spec": {"unschedulable": False}})
    assert "unschedulable" not in node["spec"]


async def test_each_kind_of_patch(api: Any, deployment: Any) -> None:
    await api.ask("POST", DEPLOYMENTS, deployment)
    path = f"{DEPLOYMENTS}/d"

    containers = {"containers": [{"name": "c", "image": "app:2"}]}
    _, body = await api.patch(path, STRATEGIC, {"spec": {"template": {"spec": containers}}})
    [container] = body["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["terminationMessagePolicy"]) == ("app:2", "File")

    _, body = await api.patch(path, MERGE, {"metadata": {"labels": {"x": "y"}}})
    assert body["metadata"]["labels"] == {"x": "y"}

    step = {"op": "replace", "path": "/spec/replicas", "value": 5}
    _, body = await api.patch(path, JSON_PATCH, [step])
    assert body["spec"]["replicas"] == 5


async def test_a_patch_from_an_old_version_is_409_only_if_it_names_the_version(api: Any) -> None:
    api.pod("a")
    status, _ = await api.patch(f"{PODS}/a", MERGE, {"metadata": {"resourceVersion": "1"}})
    assert status == 409
    status, _ = await api.patch(f"{PODS}/a", MERGE, {"metadata": {"labels": {"x": "y"}}})
    assert status == 200


async def test_an_unknown_kind_of_patch_is_415(api: Any) -> None:
    api.pod("a")
    status, _ = await api.patch(f"{PODS}/a", "application/json", {})
    assert status == 415


async def test_a_patch_cannot_rename(api: Any) -> None:
    api.pod("a")
    status, _ = await api.patch(f"{PODS}/a", MERGE, {"metadata": {"name": "b"}})
    assert status == 400


async def test_apply_creates_what_is_missing_and_merges_the_rest(api: Any, deployment: Any) -> None:
    path = f"{DEPLOYMENTS}/d?fieldManager=test"
    status, _ = await api.patch(path, APPLY, deployment)
    assert status == 201
    deployment["spec"]["replicas"] = 7
    status, body = await api.patch(path, APPLY, deployment)
    assert (status, body["spec"]["replicas"]) == (200, 7)
    status, _ = await api.patch(f"{DEPLOYMENTS}/d", APPLY, deployment)
    assert status == 422


async def test_a_dry_run_patch_shows_the_result_and_stores_nothing(api: Any) -> None:
    made = api.pod("a")
    change = {"metadata": {"labels": {"x": "y"}}}
    _, body = await api.patch(f"{PODS}/a?dryRun=All", MERGE, change)
    assert body["metadata"]["labels"] == {"x": "y"}
    assert api.store.get("pods", "default", "a") == made
