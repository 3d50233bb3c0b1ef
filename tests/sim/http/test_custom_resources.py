"""Kinds that a client defines are served as the built-in ones are."""

from typing import Any

import pytest

from tests.support.custom_resources import definition

pytestmark = pytest.mark.anyio

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
BETA = WIDGETS.replace("/v1/", "/v1beta1/")
MERGE = "application/merge-patch+json"


@pytest.fixture(autouse=True)
def defined(api: Any) -> None:
    api.store.define(definition())


def widget(name: str = "w", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_custom_resource_is_created_read_changed_and_deleted(api: Any) -> None:
    status, made = await api.ask("POST", WIDGETS, widget(parts=[{}, {"kind": "own"}]))
    assert (status, made["apiVersion"], made["kind"]) == (201, "example.com/v1", "Widget")
    assert made["spec"] == {"size": 3, "parts": [{"kind": "plain"}, {"kind": "own"}]}

    _, changed = await api.patch(f"{WIDGETS}/w", MERGE, {"spec": {"size": 5}, "status": {"a": 1}})
    assert (changed["spec"]["size"], "status" in changed) == (5, False)
    assert changed["metadata"]["generation"] == 2
    _, changed = await api.patch(f"{WIDGETS}/w/status", MERGE, {"status": {"ready": True}})
    assert (changed["status"], changed["metadata"]["generation"]) == ({"ready": True}, 2)

    assert (await api.get(WIDGETS))["kind"] == "WidgetList"
    assert (await api.ask("DELETE", f"{WIDGETS}/w"))[0] == 200
    assert (await api.ask("GET", f"{WIDGETS}/w"))[0] == 404


async def test_each_version_shows_the_same_object(api: Any) -> None:
    await api.ask("POST", BETA, widget())
    assert (await api.get(f"{WIDGETS}/w"))["apiVersion"] == "example.com/v1"
    assert (await api.get(f"{BETA}/w"))["apiVersion"] == "example.com/v1beta1"
    stream = await api.watch(BETA)
    document = await stream.next()
    assert document["object"]["apiVersion"] == "example.com/v1beta1"


async def test_an_update_needs_the_version_that_it_is_made_from(api: Any) -> None:
    _, made = await api.ask("POST", WIDGETS, widget())
    assert (await api.ask("PUT", f"{WIDGETS}/w", widget(size=1)))[0] == 422
    made["spec"]["size"] = 1
    assert (await api.ask("PUT", f"{WIDGETS}/w", made))[0] == 200


async def test_it_is_discovered_and_shown_as_a_table(api: Any) -> None:
    groups = (await api.get("/apis"))["groups"]
    (group,) = (each for each in groups if each["name"] == "example.com")
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]
    (entry, status) = (await api.get("/apis/example.com/v1"))["resources"]
    assert (entry["name"], entry["shortNames"], status["name"]) == (
        "widgets",
        ["wd"],
        "widgets/status",
    )
    await api.ask("POST", WIDGETS, widget())
    table = await api.get(WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [row["cells"][0] for row in table["rows"]] == ["w"]
    assert "apis/example.com/v1" in (await api.get("/openapi/v3"))["paths"]
    schemas = (await api.get("/openapi/v3/apis/example.com/v1"))["components"]["schemas"]
    assert any(name.endswith("Widget") for name in schemas)


async def test_managers_own_its_fields(api: Any) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", **widget(size=1)}
    media, path = "application/apply-patch+yaml", f"{WIDGETS}/w?fieldManager="
    assert (await api.patch(path + "one", media, body))[0] == 201
    body["spec"] = {"size": 2}
    assert (await api.patch(path + "two", media, body))[0] == 409
    status, changed = await api.patch(path + "one", media, body)
    assert (status, changed["spec"]) == (200, {"size": 2})
