"""What every write must come with: a body that can be read, in a shape the kind has."""

from typing import Any

import pytest

from reactive_desched.sim.http.duplicate_fields import twice_in_patch, twice_in_yaml
from reactive_desched.sim.server import Settings
from tests.support.golden import verbatim

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


@pytest.fixture
def misspelt(deployment: dict[str, Any]) -> dict[str, Any]:
    return {**deployment, "spec": {**deployment["spec"], "replica": 3}}


async def test_a_body_that_is_not_json_is_400(api: Any) -> None:
    headers = {"Content-Type": "application/json"}
    status, _ = await api.ask("POST", PODS, None, data=b"{", headers=headers)
    assert status == 400


async def test_an_unreadable_body_is_415(api: Any) -> None:
    headers = {"Content-Type": "application/xml"}
    status, body = await api.ask("POST", PODS, None, data=b"<a/>", headers=headers)
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")


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


async def test_an_unknown_field_is_dropped_and_warned_of(api: Any, misspelt: Any) -> None:
    async with api.http.post(api.url + DEPLOYMENTS, json=misspelt) as response:
        assert response.status == 201
        assert response.headers.getall("Warning") == ['299 - "unknown field \\"spec.replica\\""']
    assert "replica" not in api.store.get("deployments", "default", "d")["spec"]


async def test_an_annotation_without_effect_is_warned_of(api: Any, deployment: Any) -> None:
    notes = {"metadata": {"annotations": {"sim.reactive-desched/profile": "fial"}}}
    wrong = {**deployment, "spec": {**deployment["spec"]}}
    wrong["spec"]["template"] = {**wrong["spec"]["template"]}
    meta = wrong["spec"]["template"].get("metadata") or {}
    wrong["spec"]["template"]["metadata"] = {**meta, **notes["metadata"]}

    async with api.http.post(api.url + DEPLOYMENTS, json=wrong) as response:
        assert (response.status, len(response.headers.getall("Warning"))) == (201, 1)
    headers = {"Content-Type": MERGE}
    patched = api.http.patch(f"{api.url}{DEPLOYMENTS}/d", json=notes, headers=headers)
    async with patched as response:
        assert (response.status, len(response.headers.getall("Warning"))) == (200, 2)


async def test_an_unknown_field_is_refused_if_the_client_is_strict(
    api: Any, misspelt: Any, deployment: Any
) -> None:
    path = f"{DEPLOYMENTS}?fieldValidation=Strict"
    complaint = 'strict decoding error: unknown field "spec.replica"'
    status, body = await api.ask("POST", path, misspelt)
    assert (status, body["reason"]) == (400, "BadRequest")
    assert body["message"].endswith(verbatim(f"cannot be handled as a Deployment: {complaint}"))

    await api.ask("POST", DEPLOYMENTS, deployment)
    change = {"spec": {"replica": 3}}
    path = f"{DEPLOYMENTS}/d?fieldValidation=Strict"
    status, body = await api.patch(path, STRATEGIC, change)
    assert (status, body["reason"]) == (422, "Invalid")
    assert complaint in body["message"]


TWICE = (
    b'{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},'
    b'"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":['
    b'{"name":"c","image":"x:1","image":"y:1"}]}},"replicas":3,"replicas":2}}'
)


@pytest.mark.parametrize(
    ("mode", "status", "warned"),
    [("Strict", 400, 0), ("Warn", 201, 2), ("", 201, 2), ("Ignore", 201, 0)],
)
async def test_a_field_that_comes_twice_is_said_as_the_client_asks(
    api: Any, mode: str, status: int, warned: int
) -> None:
    headers = {"Content-Type": "application/json"}
    url = f"{api.url}{DEPLOYMENTS}?fieldValidation={mode}"

    async with api.http.post(url, data=TWICE, headers=headers) as response:
        body = await response.json()
        warnings = response.headers.getall("Warning", [])

    assert (response.status, len(warnings)) == (status, warned)
    complaints = (
        'duplicate field "spec.template.spec.containers[0].image"',
        'duplicate field "spec.replicas"',
    )
    if mode == "Strict":
        assert body["message"].endswith("strict decoding error: " + ", ".join(complaints))
    else:
        assert body["spec"]["replicas"] == 2
        assert all(each.replace('"', '\\"') in "".join(warnings) for each in complaints[:warned])


async def test_an_unknown_field_is_nothing_to_a_client_that_does_not_care(
    api: Any, misspelt: Any
) -> None:
    url = f"{api.url}{DEPLOYMENTS}?fieldValidation=Ignore"
    async with api.http.post(url, json=misspelt) as response:
        assert (response.status, "Warning" in response.headers) == (201, False)


async def test_a_way_to_validate_that_does_not_exist_is_422(api: Any, deployment: Any) -> None:
    status, body = await api.ask("POST", f"{DEPLOYMENTS}?fieldValidation=Loud", deployment)
    assert (status, body["details"]["kind"]) == (422, "CreateOptions")


async def test_a_value_of_another_type_is_400_in_a_body_and_422_in_a_patch(
    api: Any, deployment: Any
) -> None:
    wrong = {**deployment, "spec": {**deployment["spec"], "replicas": "two"}}
    status, body = await api.ask("POST", DEPLOYMENTS, wrong)
    assert (status, body["reason"]) == (400, "BadRequest")
    assert "cannot unmarshal string into field spec.replicas" in body["message"]

    await api.ask("POST", DEPLOYMENTS, deployment)
    status, body = await api.patch(f"{DEPLOYMENTS}/d", MERGE, {"spec": {"replicas": "two"}})
    assert (status, body["reason"]) == (422, "Invalid")
    assert api.store.get("deployments", "default", "d")["spec"]["replicas"] == 2


class TestWithASmallBodyLimit:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(most_body_bytes=1000)

    async def test_a_body_past_the_limit_is_413(self, api: Any) -> None:
        large = {"metadata": {"name": "a", "annotations": {"x": "y" * 2000}}}
        status, body = await api.ask("POST", PODS, large)
        assert (status, body["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("written", "found"),
    [
        pytest.param("a: 1\nb: 2\n", (), id="none"),
        pytest.param("a: 1\na: 2\n", (verbatim('line 2: key "a" already set in map'),), id="one"),
        pytest.param(
            "a: 1\na:\n  # a line\n  b: 2\n",
            (verbatim('line 4: key "a" already set in map'),),
            id="below",
        ),
        pytest.param(
            "- a: {b: 1, b: 2}\n  a: 3\n",
            (
                verbatim('line 1: key "b" already set in map'),
                verbatim('line 2: key "a" already set in map'),
            ),
            id="within one that comes again",
        ),
        pytest.param(
            '{"a": 1, "a": 2}', (verbatim('line 1: key "a" already set in map'),), id="as JSON"
        ),
        pytest.param("a: [", (), id="not YAML"),
    ],
)
def test_keys_that_come_twice_in_yaml_are_named_by_the_line_of_the_value(
    written: str, found: tuple[str, ...]
) -> None:
    twice = twice_in_yaml(written.encode())

    assert twice.warnings == found
    assert twice.refusal == (("\n  ".join(("yaml: unmarshal errors:", *found)),) if found else ())


def test_a_json_patch_has_the_fields_of_operations_alone() -> None:
    written = b'[{"op": "test", "op": "add", "odd": {"a": 1, "a": 2}, "value": {"b": 1, "b": 2}}]'
    assert twice_in_patch(written).warnings == (
        verbatim('json patch duplicate field "[0].op"'),
        verbatim('json patch unknown field "[0].odd"'),
        verbatim('json patch duplicate field "[0].value.b"'),
    )
