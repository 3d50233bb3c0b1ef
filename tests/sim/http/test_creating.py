"""POST: what is stored, and what is refused."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"

POD: dict[str, Any] = {
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "c", "image": "app:1"}]},
}


async def test_a_create_is_201_with_the_object_as_stored(api: Any) -> None:
    status, body = await api.ask("POST", PODS, POD)
    assert (status, body["kind"], body["apiVersion"]) == (201, "Pod", "v1")
    assert body == api.store.get("pods", "default", "a")


async def test_a_create_takes_the_namespace_of_the_url(api: Any) -> None:
    elsewhere = {**POD, "metadata": {"name": "a", "namespace": "kube-system"}}
    status, body = await api.ask("POST", PODS, elsewhere)
    assert (status, body["reason"]) == (400, "BadRequest")
    assert "does not match the namespace" in body["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param({**POD, "kind": "Node"}, 400, id="another kind"),
        pytest.param({**POD, "apiVersion": "v2"}, 400, id="another version"),
        pytest.param([1], 400, id="not an object"),
        pytest.param({**POD, "spec": "x"}, 400, id="a spec that is no object"),
        pytest.param({**POD, "spec": {}}, 422, id="no containers"),
    ],
)
async def test_a_create_is_refused_for(api: Any, body: Any, code: int) -> None:
    status, answer = await api.ask("POST", PODS, body)
    assert (status, answer["kind"], answer["code"]) == (code, "Status", code)


async def test_a_dry_run_create_stores_nothing(api: Any) -> None:
    status, _ = await api.ask("POST", f"{PODS}?dryRun=All", POD)
    assert status == 201
    assert api.store.get("pods", "default", "a") is None
    status, _ = await api.ask("POST", f"{PODS}?dryRun=Some", POD)
    assert status == 422
