import json
import re
from typing import Any

import aiohttp
import pytest

from reactive_desched.sim import faults
from reactive_desched.sim.http import openapi
from reactive_desched.sim.http.schema import named_fields
from reactive_desched.sim.server import Settings
from reactive_desched.sim.status import too_large_version
from tests.support.golden import verbatim

pytestmark = pytest.mark.anyio

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_the_version_parses_for_every_client(api: Any) -> None:
    version = await api.get("/version")
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "36", "v1.36.1")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/etcd?verbose"])
async def test_it_is_healthy(api: Any, path: str) -> None:
    assert await api.ask("GET", path) == (200, "ok")


async def test_it_says_what_it_looked_at_for_its_health(api: Any) -> None:
    status, said = await api.ask("GET", "/readyz?verbose&exclude=etcd")
    first, *_, last = said.splitlines()
    assert (status, first, last) == (200, "[+]ping ok", "readyz check passed")
    assert "[+]etcd excluded: ok\n" in said


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/readyzz",
        "/readyz/nowhere",
        "/api/v2/pods",
        "/apis/nobody.example",
        "/apis/x/v1/y",
    ],
)
async def test_an_unknown_path_is_plain_text(api: Any, path: str) -> None:
    assert await api.ask("GET", path) == (404, "404 page not found\n")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/widgets",
        "/apis/apps/v1/widgets",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/a",
        "/api/v1/namespaces/default/pods/a/logs",
    ],
)
async def test_an_unknown_kind_of_a_known_group_is_a_status(
    api: Any, method: str, path: str
) -> None:
    status, body = await api.ask(method, path, {})
    assert (status, body["reason"]) == (404, "NotFound")
    assert body["message"] == verbatim("the server could not find the requested resource")
    assert body["details"]["kind"] in ("widgets", "nodes", "pods")


async def test_plain_discovery_names_groups_kinds_and_the_eviction(api: Any) -> None:
    assert (await api.get("/api"))["versions"] == ["v1"]
    groups = {g["name"]: g for g in (await api.get("/apis"))["groups"]}
    assert groups["policy"]["preferredVersion"] == {"groupVersion": "policy/v1", "version": "v1"}
    assert (await api.get("/apis/policy"))["kind"] == "APIGroup"

    core = await api.get("/api/v1")
    assert core["groupVersion"] == "v1"
    found = {r["name"]: r for r in core["resources"]}
    assert found["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert found["nodes"]["namespaced"] is False
    assert found["pods"]["shortNames"] == ["po"]
    assert "pods/status" in found


async def test_aggregated_discovery_is_one_answer_for_each_root(api: Any) -> None:
    for path, names in (("/api", [""]), ("/apis", None)):
        headers = {"Accept": f"{AGGREGATED},application/json"}
        async with api.http.get(api.url + path, headers=headers) as response:
            assert response.headers["Content-Type"] == AGGREGATED
            body = await response.json()
        assert body["kind"] == "APIGroupDiscoveryList"
        found = [item["metadata"].get("name", "") for item in body["items"]]
        assert names in (None, found)
        assert ("policy" in found) is (path == "/apis")


async def test_aggregated_and_plain_discovery_name_the_same_kinds(api: Any) -> None:
    body = await api.get("/apis", AGGREGATED)
    together = {
        (item["metadata"]["name"], version["version"], resource["resource"])
        for item in body["items"]
        for version in item["versions"]
        for resource in version["resources"]
    }
    apart = set()
    for group in (await api.get("/apis"))["groups"]:
        for version in group["versions"]:
            listed = await api.get(f"/apis/{version['groupVersion']}")
            plain = [r["name"] for r in listed["resources"] if "/" not in r["name"]]
            apart |= {(group["name"], version["version"], name) for name in plain}
    assert together == apart


async def test_every_listed_kind_can_be_listed(api: Any) -> None:
    for group in ("/api/v1", "/apis/apps/v1", "/apis/policy/v1", "/apis/events.k8s.io/v1"):
        for resource in (await api.get(group))["resources"]:
            if "list" in resource["verbs"]:
                listed = await api.get(f"{group}/{resource['name']}")
                assert listed["kind"] == f"{resource['kind']}List"


async def test_openapi_lets_kubectl_leave_validation_to_the_server(api: Any) -> None:
    paths = (await api.get("/openapi/v3"))["paths"]
    document = await api.get(paths["apis/apps/v1"]["serverRelativeURL"])
    operation = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"][
        "patch"
    ]
    assert "fieldValidation" in [p["name"] for p in operation["parameters"]]
    assert operation["x-kubernetes-group-version-kind"]["kind"] == "Deployment"


@pytest.mark.parametrize("group", ["api/v1", "apis/apps/v1", "apis/networking.k8s.io/v1"])
async def test_openapi_describes_every_kind_down_to_its_last_field(api: Any, group: str) -> None:
    document = await api.get(f"/openapi/v3/{group}")
    schemas = document["components"]["schemas"]
    described = {
        known["kind"]
        for schema in schemas.values()
        for known in schema.get("x-kubernetes-group-version-kind", ())
    }
    listed = {r["kind"] for r in (await api.get(f"/{group}"))["resources"] if "list" in r["verbs"]}

    assert listed <= described
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert references <= schemas.keys()


async def test_openapi_says_what_a_container_may_ask_for(api: Any) -> None:
    schemas = (await api.get("/openapi/v3/api/v1"))["components"]["schemas"]
    container = schemas["io.k8s.api.core.Container"]["properties"]
    amounts = schemas["io.k8s.api.core.ResourceRequirements"]["properties"]["requests"]

    assert container["resources"]["allOf"][0]["$ref"].endswith("core.ResourceRequirements")
    assert container["args"]["type"] == "array"
    assert container["args"]["items"] == {"type": "string"}
    assert amounts["additionalProperties"]["allOf"][0]["$ref"].endswith("resource.Quantity")


@pytest.mark.parametrize(
    ("group", "kind", "fields"),
    [
        ("api/v1", "core.v1.Pod", {"apiVersion", "kind", "metadata", "spec", "status"}),
        ("api/v1", "core.PodSpec", set(named_fields("core.PodSpec"))),
        ("api/v1", "core.Container", {"image", "resources", "env"}),
        ("api/v1", "core.NodeSpec", {"taints", "unschedulable"}),
        ("apis/apps/v1", "apps.DeploymentSpec", set(named_fields("apps.DeploymentSpec"))),
        ("apis/apps/v1", "apps.StatefulSetSpec", set(named_fields("apps.StatefulSetSpec"))),
        (
            "apis/policy/v1",
            "policy.PodDisruptionBudgetSpec",
            set(named_fields("policy.PodDisruptionBudgetSpec")),
        ),
        ("apis/slo.koordinator.sh/v1alpha1", "slo.koordinator.sh.v1alpha1.NodeMetric", {"kind"}),
    ],
)
async def test_openapi_says_what_fields_mean(
    api: Any, group: str, kind: str, fields: set[str]
) -> None:
    schema = (await api.get(f"/openapi/v3/{group}"))["components"]["schemas"][f"io.k8s.api.{kind}"]

    assert schema["description"]
    described = {name for name, field in schema["properties"].items() if field.get("description")}
    assert fields <= described


def test_what_is_said_of_fields_is_said_of_fields_that_there_are() -> None:
    texts = openapi._texts()

    for message, said in texts.items():
        if message != "*":
            fields = named_fields(message).keys()
            assert said.keys() <= {"_", *fields}, message
            assert all(text.endswith(".") for text in said.values()), message


async def test_without_credentials_a_client_may_do_everything(api: Any) -> None:
    question = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    status, body = await api.ask("POST", path, question)
    assert (status, body["status"]["allowed"], body["spec"]) == (201, True, question["spec"])


async def test_without_a_source_of_usage_there_is_no_metrics_group(api: Any) -> None:
    status, _ = await api.ask("GET", "/apis/metrics.k8s.io/v1beta1/nodes")
    assert status == 404
    names = [g["name"] for g in (await api.get("/apis"))["groups"]]
    assert "metrics.k8s.io" not in names


async def test_an_overloaded_server_is_not_a_status(api: Any) -> None:
    api.faults.add(faults.throttled(), target="/pods", times=2)
    for _ in range(2):
        async with api.http.get(f"{api.url}/api/v1/pods") as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "1")
            assert await response.text() == "Too many requests, please try again later."
    await api.get("/api/v1/pods")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (faults.server_error(), 500),
        (faults.unavailable(), 503),
        (faults.refused(too_large_version(9, 1)), 504),
    ],
)
async def test_a_planned_failure_happens_once(api: Any, fault: faults.Fault, code: int) -> None:
    api.faults.add(fault, method="GET", target="^/api/v1/nodes")
    assert (await api.ask("GET", "/api/v1/pods"))[0] == 200
    assert (await api.ask("GET", "/api/v1/nodes"))[0] == code
    assert (await api.ask("GET", "/api/v1/nodes"))[0] == 200


async def test_a_planned_reset_cuts_the_connection(api: Any) -> None:
    api.faults.add(faults.reset(), method="POST")
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    assert api.store.get("namespaces", "", "a") is None


async def test_a_planned_delay_only_delays(api: Any) -> None:
    api.faults.add(faults.delayed(0.001))
    await api.get("/api/v1/pods")


async def test_the_plan_remembers_what_was_asked(api: Any) -> None:
    await api.get("/api/v1/pods?limit=5")
    assert list(api.faults.requests) == ["GET /api/v1/pods?limit=5"]


async def test_people_get_indented_answers(api: Any) -> None:
    async with api.http.get(f"{api.url}/version?pretty=1") as response:
        assert '\n  "major"' in await response.text()
    async with api.http.get(f"{api.url}/version") as response:
        assert "\n" not in await response.text()


class TestWithoutAggregatedDiscovery:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(aggregated_discovery=False)

    async def test_both_roots_answer_plainly(self, api: Any) -> None:
        assert (await api.get("/api", AGGREGATED))["kind"] == "APIVersions"
        assert (await api.get("/apis", AGGREGATED))["kind"] == "APIGroupList"


async def test_the_older_openapi_describes_nothing_in_either_form(api: Any) -> None:
    assert (await api.get("/openapi/v2"))["definitions"] == {}
    mime = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    headers = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    async with api.http.get(api.url + "/openapi/v2", headers=headers) as response:
        assert (response.status, response.content_type) == (200, mime)
        assert await response.read() == b""


async def test_what_is_posted_to_an_unknown_kind_is_not_even_read(api: Any) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    status, _ = await api.ask("POST", path, data=b"k8s\x00\xff", headers=headers)
    assert status == 404
