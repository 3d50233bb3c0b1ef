from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PODS = "/api/v1/pods"


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_a_list_has_a_kind_and_its_items_have_none(api: Any) -> None:
    api.pod("a")
    listed = await api.get(PODS)
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert listed["metadata"] == {"resourceVersion": str(api.store.rv)}
    assert not {"kind", "apiVersion"} & listed["items"][0].keys()


async def test_an_empty_list_is_a_list(api: Any) -> None:
    assert (await api.get(PODS))["items"] == []


async def test_the_version_of_a_list_is_the_servers_not_the_items(api: Any) -> None:
    api.pod("a")
    api.store.create("configmaps", {"metadata": {"name": "x", "namespace": "default"}})
    listed = await api.get(PODS)
    assert int(listed["metadata"]["resourceVersion"]) > int(
        listed["items"][0]["metadata"]["resourceVersion"]
    )


async def test_selectors_choose(api: Any) -> None:
    api.pod("a", app="web")
    api.pod("b", app="db")
    assert names(await api.get(f"{PODS}?labelSelector=app in (web)")) == ["a"]
    assert names(await api.get(f"{PODS}?fieldSelector=metadata.name!=a")) == ["b"]
    assert names(await api.get("/api/v1/namespaces/kube-system/pods")) == []


async def test_pages_show_the_moment_of_the_first_one(api: Any) -> None:
    for name in "abcde":
        api.pod(name)
    first = await api.get(f"{PODS}?limit=2")
    api.store.delete("pods", "default", "d")
    api.pod("bb")

    second = await api.get(f"{PODS}?limit=2&continue={first['metadata']['continue']}")
    third = await api.get(f"{PODS}?limit=2&continue={second['metadata']['continue']}")

    assert [names(first), names(second), names(third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert first["metadata"]["remainingItemCount"] == 3
    assert "continue" not in third["metadata"]
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


async def test_pages_of_one_namespace(api: Any) -> None:
    for name in "abc":
        api.pod(name)
        api.pod(name, "kube-system")
    path = "/api/v1/namespaces/default/pods?limit=2"
    first = await api.get(path)
    second = await api.get(f"{path}&continue={first['metadata']['continue']}")
    assert names(first) + names(second) == ["a", "b", "c"]


async def test_with_a_selector_the_remaining_items_are_not_counted(api: Any) -> None:
    for name in "abc":
        api.pod(name, app="web")
    page = await api.get(f"{PODS}?limit=2&labelSelector=app=web")
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


async def test_version_zero_ignores_the_limit_as_the_watch_cache_does(api: Any) -> None:
    for name in "abc":
        api.pod(name)
    assert names(await api.get(f"{PODS}?limit=2&resourceVersion=0")) == ["a", "b", "c"]


async def test_a_forgotten_page_is_410_with_a_token_for_the_latest_state(api: Any) -> None:
    for name in "abcd":
        api.pod(name)
    first = await api.get(f"{PODS}?limit=2")
    api.pod("cc")
    api.faults.compact()

    path = f"{PODS}?limit=2&continue={first['metadata']['continue']}"
    status, body = await api.ask("GET", path)

    assert (status, body["reason"]) == (410, "Expired")
    rest = await api.get(f"{PODS}?continue={body['metadata']['continue']}")
    assert names(rest) == ["c", "cc", "d"]


@pytest.mark.parametrize("token", ["nonsense", "e30", "%25"])
async def test_a_malformed_token_is_a_bad_request(api: Any, token: str) -> None:
    status, _ = await api.ask("GET", f"{PODS}?limit=2&continue={token}")
    assert status == 400


async def test_an_exact_version_is_shown_exactly(api: Any) -> None:
    api.pod("a")
    then = api.store.rv
    api.pod("b")
    exact = f"{PODS}?resourceVersion={then}&resourceVersionMatch=Exact"
    assert names(await api.get(exact)) == ["a"]
    assert names(await api.get(f"{PODS}?resourceVersion={then}&limit=9")) == ["a"]
    assert names(await api.get(f"{PODS}?resourceVersion={then}")) == ["a", "b"]
    later = f"{PODS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan&limit=9"
    assert names(await api.get(later)) == ["a", "b"]


async def test_an_exact_version_that_is_forgotten_is_410(api: Any) -> None:
    then = api.store.rv
    api.faults.compact()
    api.pod("a")
    status, body = await api.ask(
        "GET", f"{PODS}?resourceVersion={then - 1}&resourceVersionMatch=Exact"
    )
    assert (status, body["reason"]) == (410, "Expired")


async def test_a_version_this_server_has_not_reached_is_504(api: Any) -> None:
    status, body = await api.ask("GET", f"{PODS}?resourceVersion={api.store.rv + 1000}")
    assert (status, body["reason"]) == (504, "Timeout")
    assert body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert body["details"]["retryAfterSeconds"] == 1


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Sometimes", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=abc", 400),
        ("sendInitialEvents=true", 422),
        ("limit=many", 400),
        ("labelSelector=a in", 400),
        ("fieldSelector=spec.color=red", 400),
        ("resourceVersion=5&continue=abc", 400),
    ],
)
async def test_a_list_that_makes_no_sense(api: Any, query: str, code: int) -> None:
    status, body = await api.ask("GET", f"{PODS}?{query}")
    assert (status, body["code"], body["kind"]) == (code, code, "Status")


async def test_a_long_list_is_whole(api: Any) -> None:
    for number in range(450):
        api.pod(f"p{number:03}")
    listed = await api.get(PODS)
    assert names(listed) == [f"p{number:03}" for number in range(450)]
    assert (listed["kind"], listed["metadata"]["resourceVersion"]) == (
        "PodList",
        str(api.store.rv),
    )


async def test_a_table_has_the_columns_of_the_kind_and_the_metadata_of_rows(api: Any) -> None:
    api.pod("a")
    table = await api.get(PODS, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    shown = [c["name"] for c in table["columnDefinitions"] if not c["priority"]]
    assert shown == ["Name", "Ready", "Status", "Restarts", "Age"]
    [row] = table["rows"]
    assert row["cells"][:5] == ["a", "0/1", "Pending", "0", "0s"]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == (
        "PartialObjectMetadata",
        "a",
    )


async def test_metadata_alone_can_be_listed_and_watched(api: Any) -> None:
    api.pod("a")
    as_list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listed = await api.get(PODS, as_list)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0].keys() == {"kind", "apiVersion", "metadata"}

    as_one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    stream = await api.watch(PODS, as_one)
    assert (await stream.next())["object"]["kind"] == "PartialObjectMetadata"
    status, _ = await api.ask("GET", PODS, headers={"Accept": as_one})
    assert status == 406


async def test_a_type_that_cannot_be_served_is_406(api: Any) -> None:
    status, body = await api.ask("GET", PODS, headers={"Accept": "application/xml"})
    assert (status, body["reason"]) == (406, "NotAcceptable")


async def test_protobuf_or_json_is_json(api: Any) -> None:
    listed = await api.get(PODS, "application/vnd.kubernetes.protobuf,application/json")
    assert listed["kind"] == "PodList"
