"""The eviction endpoint: what it grants, and with which words it refuses."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"


async def test_an_eviction_is_201_and_of_a_pod_that_is_gone_404(api: Any) -> None:
    api.pod("a")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    status, body = await api.ask("POST", f"{PODS}/a/eviction", eviction)
    assert (status, body["status"], body["code"]) == (201, "Success", 201)
    status, body = await api.ask("POST", f"{PODS}/a/eviction", eviction)
    assert (status, body["reason"]) == (404, "NotFound")


@pytest.mark.parametrize(("stale", "header"), [(False, None), (True, "10")])
async def test_retry_after_is_sent_only_while_the_budget_is_stale(
    api: Any, *, stale: bool, header: str | None
) -> None:
    api.pod("a")
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.store.modify(
        "pods", "default", "a", lambda p: {**p, "status": running}, subresource="status"
    )
    budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {}}}
    api.store.create("poddisruptionbudgets", budget)
    told = {"observedGeneration": 0 if stale else 1, "disruptionsAllowed": 0}
    api.store.modify(
        "poddisruptionbudgets",
        "default",
        "b",
        lambda b: {**b, "status": told},
        subresource="status",
    )
    url = f"{api.url}{PODS}/a/eviction"
    async with api.http.post(url, json={"metadata": {"name": "a"}}) as response:
        assert response.status == 429
        assert response.headers.get("Retry-After") == header
        body = await response.json()
    assert body["details"].get("retryAfterSeconds") == (10 if stale else None)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": {"name": "b"}}, id="another name"),
        pytest.param({"metadata": {"name": "a", "namespace": "x"}}, id="another namespace"),
        pytest.param({"apiVersion": "policy/v2", "metadata": {"name": "a"}}, id="another version"),
        pytest.param({"kind": "Binding", "metadata": {"name": "a"}}, id="another kind"),
    ],
)
async def test_an_eviction_that_does_not_fit_its_url_is_400(api: Any, body: Any) -> None:
    api.pod("a")
    status, _ = await api.ask("POST", f"{PODS}/a/eviction", body)
    assert status == 400
    assert api.store.get("pods", "default", "a") is not None


async def test_dry_run_asked_in_either_place_evicts_nothing(api: Any) -> None:
    api.pod("a")
    plain, dry = {"metadata": {"name": "a"}}, {"dryRun": ["All"]}
    assert (await api.ask("POST", f"{PODS}/a/eviction?dryRun=All", plain))[0] == 201
    both = {**plain, "deleteOptions": dry}
    assert (await api.ask("POST", f"{PODS}/a/eviction", both))[0] == 201
    assert api.store.get("pods", "default", "a") is not None
