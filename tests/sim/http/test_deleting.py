"""DELETE: what it takes, and what it answers with."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def test_deleting_a_pod_answers_with_the_pod(api: Any) -> None:
    api.pod("a", on="n1")
    status, body = await api.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5})
    assert (status, body["kind"]) == (200, "Pod")
    assert body["metadata"]["deletionGracePeriodSeconds"] == 5


async def test_delete_options_may_come_in_the_query(api: Any) -> None:
    api.pod("a", on="n1")
    await api.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    assert api.store.get("pods", "default", "a") is None


async def test_deleting_other_kinds_answers_with_a_status(api: Any, deployment: Any) -> None:
    _, made = await api.ask("POST", DEPLOYMENTS, deployment)
    status, body = await api.ask("DELETE", f"{DEPLOYMENTS}/d")
    assert (status, body["status"]) == (200, "Success")
    uid = made["metadata"]["uid"]
    details = {"name": "d", "group": "apps", "kind": "deployments", "uid": uid}
    assert body["details"] == details


JOBS = "/apis/batch/v1/namespaces/default/jobs"
MAIN = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        (None, ["orphan"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"orphanDependents": False}, None),
    ],
    ids=["nothing said", "Orphan", "Foreground", "not orphaned"],
)
@pytest.mark.parametrize("place", [f"{JOBS}/j", JOBS], ids=["one", "all"])
async def test_pods_of_a_job_stay_unless_its_deletion_says_otherwise(
    api: Any, options: dict[str, Any] | None, finalizers: list[str] | None, place: str
) -> None:
    await api.ask("POST", JOBS, {"metadata": {"name": "j"}, "spec": {"template": {"spec": MAIN}}})

    async with api.http.delete(api.url + place, json=options) as response:
        warned = "Warning" in response.headers
    left = api.store.get("jobs", "default", "j")
    assert (left and left["metadata"]["finalizers"], warned) == (finalizers, options is None)


async def test_deleting_for_another_uid_is_409(api: Any) -> None:
    api.pod("a")
    status, _ = await api.ask("DELETE", f"{PODS}/a", {"preconditions": {"uid": "other"}})
    assert status == 409
    assert api.store.get("pods", "default", "a") is not None


async def test_deleting_a_collection_takes_what_is_selected(api: Any) -> None:
    api.pod("a", app="web")
    api.pod("b", app="db")
    status, body = await api.ask("DELETE", f"{PODS}?labelSelector=app=web")
    assert (status, [p["metadata"]["name"] for p in body["items"]]) == (200, ["a"])
    assert [p["metadata"]["name"] for p in api.store.list("pods")] == ["b"]
