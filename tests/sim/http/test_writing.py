from typing import Any

import msgspec
import pytest

from reactive_desched.sim.server import Settings

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

POD: dict[str, Any] = {
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "c", "image": "app:1"}]},
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}


async def patch(api: Any, path: str, media: str, body: Any) -> tuple[int, Any]:
    data = msgspec.json.encode(body)
    answered: tuple[int, Any] = await api.ask(
        "PATCH", path, None, data=data, headers={"Content-Type": media}
    )
    return answered


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


MISSPELT = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replica": 3}}


async def test_an_unknown_field_is_dropped_and_warned_of(api: Any) -> None:
    async with api.http.post(api.url + DEPLOYMENTS, json=MISSPELT) as response:
        assert response.status == 201
        assert response.headers.getall("Warning") == ['299 - "unknown field \\"spec.replica\\""']
    assert "replica" not in api.store.get("deployments", "default", "d")["spec"]


async def test_an_unknown_field_is_refused_if_the_client_is_strict(api: Any) -> None:
    path = f"{DEPLOYMENTS}?fieldValidation=Strict"
    complaint = 'strict decoding error: unknown field "spec.replica"'
    status, body = await api.ask("POST", path, MISSPELT)
    assert (status, body["reason"]) == (400, "BadRequest")
    assert body["message"].endswith(f"cannot be handled as a Deployment: {complaint}")

    await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)
    change = {"spec": {"replica": 3}}
    path = f"{DEPLOYMENTS}/d?fieldValidation=Strict"
    status, body = await patch(api, path, STRATEGIC, change)
    assert (status, body["reason"]) == (422, "Invalid")
    assert complaint in body["message"]


async def test_an_unknown_field_is_nothing_to_a_client_that_does_not_care(api: Any) -> None:
    url = f"{api.url}{DEPLOYMENTS}?fieldValidation=Ignore"
    async with api.http.post(url, json=MISSPELT) as response:
        assert (response.status, "Warning" in response.headers) == (201, False)


async def test_a_way_to_validate_that_does_not_exist_is_422(api: Any) -> None:
    status, body = await api.ask("POST", f"{DEPLOYMENTS}?fieldValidation=Loud", DEPLOYMENT)
    assert (status, body["details"]["kind"]) == (422, "CreateOptions")


async def test_a_value_of_another_type_is_400_in_a_body_and_422_in_a_patch(api: Any) -> None:
    wrong = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": "two"}}
    status, body = await api.ask("POST", DEPLOYMENTS, wrong)
    assert (status, body["reason"]) == (400, "BadRequest")
    assert "cannot unmarshal string into field spec.replicas" in body["message"]

    await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)
    status, body = await patch(api, f"{DEPLOYMENTS}/d", MERGE, {"spec": {"replicas": "two"}})
    assert (status, body["reason"]) == (422, "Invalid")
    assert api.store.get("deployments", "default", "d")["spec"]["replicas"] == 2


async def test_a_body_that_is_not_json_is_400(api: Any) -> None:
    headers = {"Content-Type": "application/json"}
    status, _ = await api.ask("POST", PODS, None, data=b"{", headers=headers)
    assert status == 400


async def test_a_body_nobody_can_read_is_415(api: Any) -> None:
    headers = {"Content-Type": "application/xml"}
    status, body = await api.ask("POST", PODS, None, data=b"<a/>", headers=headers)
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")


async def test_a_dry_run_create_stores_nothing(api: Any) -> None:
    status, _ = await api.ask("POST", f"{PODS}?dryRun=All", POD)
    assert status == 201
    assert api.store.get("pods", "default", "a") is None
    status, _ = await api.ask("POST", f"{PODS}?dryRun=Some", POD)
    assert status == 422


async def test_an_update_replaces(api: Any) -> None:
    _, made = await api.ask("POST", PODS, POD)
    made["metadata"]["labels"] = {"x": "y"}
    status, body = await api.ask("PUT", f"{PODS}/a", made)
    assert (status, body["metadata"]["labels"]) == (200, {"x": "y"})
    status, body = await api.ask("PUT", f"{PODS}/a", made)
    assert (status, body["reason"]) == (409, "Conflict")


async def test_an_update_under_another_name_is_400(api: Any) -> None:
    _, made = await api.ask("POST", PODS, POD)
    status, _ = await api.ask("PUT", f"{PODS}/b", made)
    assert status == 400


async def test_updating_what_is_not_there_is_404_except_for_leases(api: Any) -> None:
    status, body = await api.ask("PUT", f"{PODS}/a", POD)
    assert (status, body["details"]) == (404, {"name": "a", "kind": "pods"})

    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    status, _ = await api.ask("PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": {}})
    assert status == 201


async def test_the_status_has_its_own_endpoint(api: Any) -> None:
    _, made = await api.ask("POST", PODS, POD)
    made["status"]["phase"] = "Running"
    made["metadata"].pop("resourceVersion")
    _, body = await api.ask("PUT", f"{PODS}/a", made)
    assert body["status"]["phase"] == "Pending"
    _, body = await api.ask("PUT", f"{PODS}/a/status", made)
    assert body["status"]["phase"] == "Running"


async def test_cordon_as_kubectl_does_it(api: Any) -> None:
    await api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    _, node = await patch(api, "/api/v1/nodes/n1", STRATEGIC, {"spec": {"unschedulable": True}})
    assert node["spec"]["unschedulable"] is True
    _, node = await patch(api, "/api/v1/nodes/n1", STRATEGIC, {"spec": {"unschedulable": False}})
    assert "unschedulable" not in node["spec"]


async def test_each_kind_of_patch(api: Any) -> None:
    await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)
    path = f"{DEPLOYMENTS}/d"

    containers = {"containers": [{"name": "c", "image": "app:2"}]}
    _, body = await patch(api, path, STRATEGIC, {"spec": {"template": {"spec": containers}}})
    [container] = body["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["terminationMessagePolicy"]) == ("app:2", "File")

    _, body = await patch(api, path, MERGE, {"metadata": {"labels": {"x": "y"}}})
    assert body["metadata"]["labels"] == {"x": "y"}

    step = {"op": "replace", "path": "/spec/replicas", "value": 5}
    _, body = await patch(api, path, JSON_PATCH, [step])
    assert body["spec"]["replicas"] == 5


async def test_a_patch_from_an_old_version_is_409_only_if_it_names_the_version(api: Any) -> None:
    await api.ask("POST", PODS, POD)
    status, _ = await patch(api, f"{PODS}/a", MERGE, {"metadata": {"resourceVersion": "1"}})
    assert status == 409
    status, _ = await patch(api, f"{PODS}/a", MERGE, {"metadata": {"labels": {"x": "y"}}})
    assert status == 200


async def test_an_unknown_kind_of_patch_is_415(api: Any) -> None:
    await api.ask("POST", PODS, POD)
    status, _ = await patch(api, f"{PODS}/a", "application/json", {})
    assert status == 415


async def test_a_patch_cannot_rename(api: Any) -> None:
    await api.ask("POST", PODS, POD)
    status, _ = await patch(api, f"{PODS}/a", MERGE, {"metadata": {"name": "b"}})
    assert status == 400


async def test_apply_creates_what_is_missing_and_merges_the_rest(api: Any) -> None:
    path = f"{DEPLOYMENTS}/d?fieldManager=test"
    status, _ = await patch(api, path, APPLY, DEPLOYMENT)
    assert status == 201
    status, body = await patch(api, path, APPLY, {"spec": {"replicas": 7}})
    assert (status, body["spec"]["replicas"]) == (200, 7)
    status, _ = await patch(api, f"{DEPLOYMENTS}/d", APPLY, DEPLOYMENT)
    assert status == 422


async def test_a_dry_run_patch_shows_the_result_and_stores_nothing(api: Any) -> None:
    _, made = await api.ask("POST", PODS, POD)
    change = {"metadata": {"labels": {"x": "y"}}}
    _, body = await patch(api, f"{PODS}/a?dryRun=All", MERGE, change)
    assert body["metadata"]["labels"] == {"x": "y"}
    assert api.store.get("pods", "default", "a") == made


async def test_deleting_a_pod_answers_with_the_pod(api: Any) -> None:
    await api.ask("POST", PODS, {**POD, "spec": {**POD["spec"], "nodeName": "n1"}})
    status, body = await api.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5})
    assert (status, body["kind"]) == (200, "Pod")
    assert body["metadata"]["deletionGracePeriodSeconds"] == 5


async def test_delete_options_may_come_in_the_query(api: Any) -> None:
    await api.ask("POST", PODS, {**POD, "spec": {**POD["spec"], "nodeName": "n1"}})
    await api.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    assert api.store.get("pods", "default", "a") is None


async def test_deleting_other_kinds_answers_with_a_status(api: Any) -> None:
    _, made = await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)
    status, body = await api.ask("DELETE", f"{DEPLOYMENTS}/d")
    assert (status, body["status"]) == (200, "Success")
    uid = made["metadata"]["uid"]
    details = {"name": "d", "group": "apps", "kind": "deployments", "uid": uid}
    assert body["details"] == details


async def test_deleting_for_another_uid_is_409(api: Any) -> None:
    await api.ask("POST", PODS, POD)
    status, _ = await api.ask("DELETE", f"{PODS}/a", {"preconditions": {"uid": "other"}})
    assert status == 409


async def test_deleting_a_collection_takes_what_is_selected(api: Any) -> None:
    api.pod("a", app="web")
    api.pod("b", app="db")
    status, body = await api.ask("DELETE", f"{PODS}?labelSelector=app=web")
    assert (status, [p["metadata"]["name"] for p in body["items"]]) == (200, ["a"])
    assert [p["metadata"]["name"] for p in api.store.list("pods")] == ["b"]


async def test_a_workload_is_scaled_through_its_scale(api: Any) -> None:
    await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)
    scale = await api.get(f"{DEPLOYMENTS}/d/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 2}, "a=b")

    scale["spec"]["replicas"] = 4
    status, body = await api.ask("PUT", f"{DEPLOYMENTS}/d/scale", scale)
    assert (status, body["spec"]) == (200, {"replicas": 4})
    _, body = await patch(api, f"{DEPLOYMENTS}/d/scale", MERGE, {"spec": {"replicas": 1}})
    assert api.store.get("deployments", "default", "d")["spec"]["replicas"] == 1
    status, _ = await api.ask("PUT", f"{DEPLOYMENTS}/d/scale", scale)
    assert status == 409


async def test_an_eviction_is_201_and_a_refusal_carries_its_headers(api: Any) -> None:
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


async def test_dry_run_asked_in_either_place_evicts_nothing(api: Any) -> None:
    api.pod("a")
    plain, dry = {"metadata": {"name": "a"}}, {"dryRun": ["All"]}
    assert (await api.ask("POST", f"{PODS}/a/eviction?dryRun=All", plain))[0] == 201
    both = {**plain, "deleteOptions": dry}
    assert (await api.ask("POST", f"{PODS}/a/eviction", both))[0] == 201
    assert api.store.get("pods", "default", "a") is not None


async def test_the_two_views_of_an_event(api: Any) -> None:
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "x/y",
        "reportingInstance": "y-1",
        "action": "Descheduled",
        "reason": "TooOld",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "moved",
    }
    events = "namespaces/default/events"
    status, _ = await api.ask("POST", f"/apis/events.k8s.io/v1/{events}", event)
    assert status == 201

    core = await api.get(f"/api/v1/{events}/e")
    assert (core["apiVersion"], core["message"]) == ("v1", "moved")
    assert (core["involvedObject"]["name"], core["reportingComponent"]) == ("p", "x/y")
    shown = await api.get(f"/apis/events.k8s.io/v1/{events}/e")
    assert event.items() <= {**shown, "metadata": event["metadata"]}.items()

    series = {"count": 2, "lastObservedTime": "2027-01-15T08:00:01.000000Z"}
    status, body = await patch(
        api, f"/apis/events.k8s.io/v1/{events}/e", STRATEGIC, {"series": series}
    )
    assert (status, body["series"]) == (200, series)


async def test_an_event_without_its_reporter_is_422(api: Any) -> None:
    event = {"metadata": {"name": "e"}, "type": "Normal", "note": "x" * 1025}
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    status, body = await api.ask("POST", path, event)
    fields = {c["field"] for c in body["details"]["causes"]}
    assert (status, {"reportingController", "action", "note"} <= fields) == (422, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{PODS}/a"),
        ("PUT", PODS),
        ("PATCH", PODS),
        ("GET", f"{PODS}/a/eviction"),
        ("DELETE", f"{PODS}/a/status"),
        ("POST", "/api/v1/pods"),
        ("DELETE", "/api/v1/pods"),
    ],
)
async def test_a_verb_that_does_not_belong_is_405(api: Any, method: str, path: str) -> None:
    status, body = await api.ask(method, path, {"metadata": {"name": "a"}})
    assert (status, body["reason"]) == (405, "MethodNotAllowed")


class TestWithASmallBodyLimit:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(most_body_bytes=1000)

    async def test_a_body_past_the_limit_is_413(self, api: Any) -> None:
        large = {**POD, "metadata": {"name": "a", "annotations": {"x": "y" * 2000}}}
        status, body = await api.ask("POST", PODS, large)
        assert (status, body["reason"]) == (413, "RequestEntityTooLarge")
