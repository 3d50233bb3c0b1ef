import asyncio
import random
from typing import Any

import pytest

from reactive_desched.sim.server import Settings

pytestmark = pytest.mark.anyio

PODS = "/api/v1/pods"
STREAMING = f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


async def test_a_watch_from_a_list_sends_what_came_after(api: Any) -> None:
    api.pod("a")
    listed = await api.get(PODS)
    api.pod("b")
    stream = await api.watch(f"{PODS}?resourceVersion={listed['metadata']['resourceVersion']}")
    api.store.delete("pods", "default", "a")

    assert await stream.seen(2) == [("ADDED", "b"), ("DELETED", "a")]


async def test_events_carry_their_kind_and_rising_versions(api: Any) -> None:
    stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv}")
    for name in "abc":
        api.pod(name)

    objects = [(await stream.next())["object"] for _ in "abc"]

    assert {(o["apiVersion"], o["kind"]) for o in objects} == {("v1", "Pod")}
    versions = [int(o["metadata"]["resourceVersion"]) for o in objects]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("version", ["", "resourceVersion=0"])
async def test_a_watch_without_a_version_begins_with_the_state(api: Any, version: str) -> None:
    api.pod("b")
    api.pod("a")
    stream = await api.watch(f"{PODS}?{version}")
    assert await stream.seen(2) == [("ADDED", "a"), ("ADDED", "b")]
    api.pod("c")
    assert await stream.seen(1) == [("ADDED", "c")]


async def test_headers_arrive_before_anything_happens(api: Any) -> None:
    stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv}")
    assert stream.response.headers["Content-Type"] == "application/json"
    assert stream.response.headers["Transfer-Encoding"] == "chunked"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(["in"], [("ADDED", "in")], id="entering is ADDED"),
        pytest.param(["in", "in"], [("ADDED", "in"), ("MODIFIED", "in")], id="staying is MODIFIED"),
        pytest.param(["in", "out"], [("ADDED", "in"), ("DELETED", "in")], id="leaving is DELETED"),
        pytest.param(["out", "in"], [("ADDED", "in")], id="outside is nothing"),
    ],
)
async def test_a_selector_translates_events(
    api: Any, steps: list[str], expected: list[tuple[str, str]]
) -> None:
    stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv}&labelSelector=x=in")
    api.pod("p")
    for number, step in enumerate(steps):
        api.store.modify("pods", "default", "p", labelled(x=step, step=str(number)))
    last = api.store.rv

    seen = [await stream.next() for _ in expected]

    assert [(e["type"], e["object"]["metadata"]["labels"]["x"]) for e in seen] == expected
    assert seen[-1]["object"]["metadata"]["resourceVersion"] == str(last)


def labelled(**labels: str) -> Any:
    return lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": labels}}


async def test_a_field_selector_follows_pods_to_a_node(api: Any) -> None:
    stream = await api.watch(
        f"{PODS}?resourceVersion={api.store.rv}&fieldSelector=spec.nodeName=n1"
    )
    api.pod("a")
    status, _ = await api.ask(
        "POST",
        "/api/v1/namespaces/default/pods/a/binding",
        {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}},
    )
    assert status == 201
    assert await stream.seen(1) == [("ADDED", "a")]


async def test_a_namespaced_watch_receives_only_its_namespace(api: Any) -> None:
    stream = await api.watch(f"/api/v1/namespaces/default/pods?resourceVersion={api.store.rv}")
    api.pod("elsewhere", "kube-system")
    api.pod("here")
    assert await stream.seen(1) == [("ADDED", "here")]


async def test_watching_one_object_by_path(api: Any) -> None:
    api.pod("a")
    stream = await api.watch(f"/api/v1/namespaces/default/pods/a?resourceVersion={api.store.rv}")
    api.pod("b")
    api.store.modify("pods", "default", "a", labelled(x="y"))
    assert await stream.seen(1) == [("MODIFIED", "a")]


async def test_a_forgotten_version_is_an_error_event_and_then_the_end(api: Any) -> None:
    before = api.store.rv
    api.pod("a")
    api.faults.compact()

    stream = await api.watch(f"{PODS}?resourceVersion={before}")

    error = await stream.next()
    assert error["type"] == "ERROR"
    assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
    assert error["object"]["message"].startswith(f"too old resource version: {before} (")
    assert await stream.maybe_next() is None


async def test_an_open_watch_survives_compaction(api: Any) -> None:
    stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv}")
    api.faults.compact()
    api.pod("a")
    assert await stream.seen(1) == [("ADDED", "a")]


async def test_a_watch_from_the_future_stays_silent_until_it_is_reached(api: Any) -> None:
    stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv + 1}")
    api.pod("early")
    api.pod("late")
    assert await stream.seen(1) == [("ADDED", "late")]


async def test_a_watch_ends_cleanly_at_its_timeout(api: Any) -> None:
    stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv}&timeoutSeconds=1")
    assert await stream.maybe_next() is None


async def test_cutting_watches_ends_them_cleanly(api: Any) -> None:
    stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv}")
    api.faults.cut_watches()
    assert await stream.maybe_next() is None


async def test_a_streaming_list_ends_its_state_with_a_marked_bookmark(api: Any) -> None:
    api.pod("b")
    api.pod("a")
    stream = await api.watch(f"{STREAMING}&allowWatchBookmarks=true")

    assert await stream.seen(2) == [("ADDED", "a"), ("ADDED", "b")]
    mark = await stream.next()
    assert mark["type"] == "BOOKMARK"
    assert (mark["object"]["kind"], mark["object"]["apiVersion"]) == ("Pod", "v1")
    meta = mark["object"]["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert meta["resourceVersion"] == str(api.store.rv)
    api.pod("c")
    assert await stream.seen(1) == [("ADDED", "c")]


async def test_without_leave_to_send_bookmarks_a_streaming_list_has_no_end_mark(api: Any) -> None:
    stream = await api.watch(STREAMING)
    api.pod("a")
    assert await stream.seen(1) == [("ADDED", "a")]


async def test_a_streaming_list_of_nothing_is_a_bookmark(api: Any) -> None:
    stream = await api.watch(f"{STREAMING}&allowWatchBookmarks=true")
    assert (await stream.next())["type"] == "BOOKMARK"


async def test_a_watch_that_wants_no_state_begins_now(api: Any) -> None:
    api.pod("a")
    stream = await api.watch(f"{PODS}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
    api.pod("b")
    assert await stream.seen(1) == [("ADDED", "b")]


async def test_a_streaming_list_of_a_future_version_is_a_timeout_event(api: Any) -> None:
    stream = await api.watch(f"{STREAMING}&resourceVersion={api.store.rv + 1000}")
    error = await stream.next()
    assert (error["type"], error["object"]["code"]) == ("ERROR", 504)
    assert error["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    "query",
    [
        "sendInitialEvents=true",
        "sendInitialEvents=false",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
    ],
)
async def test_a_watch_that_makes_no_sense_is_422(api: Any, query: str) -> None:
    status, body = await api.ask("GET", f"{PODS}?watch=true&{query}")
    assert (status, body["reason"], body["details"]["kind"]) == (422, "Invalid", "ListOptions")


async def test_a_watch_from_what_is_no_version_is_500_as_on_a_real_server(api: Any) -> None:
    status, body = await api.ask("GET", f"{PODS}?watch=true&resourceVersion=abc")
    assert (status, body["message"].partition(":")[0]) == (500, "resourceVersion")


class TestWithoutStreamingLists:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(watch_list=False)

    async def test_a_streaming_list_is_refused(self, api: Any) -> None:
        status, _ = await api.ask("GET", f"{STREAMING}&watch=true")
        assert status == 422


class TestWithFrequentBookmarks:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(bookmark_every_s=0.01)

    async def test_a_bookmark_gives_the_version_that_a_silent_watch_has_reached(
        self, api: Any
    ) -> None:
        start = api.store.rv
        stream = await api.watch(f"{PODS}?resourceVersion={start}&allowWatchBookmarks=true")
        api.store.create("configmaps", {"metadata": {"name": "x", "namespace": "default"}})

        mark = await stream.next()
        while mark["object"]["metadata"]["resourceVersion"] == str(start):
            mark = await stream.next()

        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"] == {"resourceVersion": str(api.store.rv)}

    async def test_a_client_that_does_not_allow_bookmarks_gets_none(self, api: Any) -> None:
        stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv}")
        for name in "abc":
            api.pod(name)
            assert await stream.seen(1) == [("ADDED", name)]
            await asyncio.sleep(0.02)


class TestWithASmallBuffer:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(watch_buffer=5)

    async def test_a_watch_that_cannot_keep_up_is_closed_without_a_word(self, api: Any) -> None:
        stream = await api.watch(f"{PODS}?resourceVersion={api.store.rv}")
        for number in range(6):
            api.pod(f"p{number}")
        assert await stream.maybe_next() is None


async def test_a_client_that_lists_and_watches_loses_and_repeats_nothing(api: Any) -> None:
    """Writers never stop; every client's picture, rebuilt across reconnects, is the last list."""
    rng = random.Random(11)
    pictures = await asyncio.gather(
        write_for_a_while(api, rng), *(follow(api, seed) for seed in range(4))
    )
    expected = {
        p["metadata"]["name"]: p["metadata"]["resourceVersion"] for p in api.store.list("pods")
    }
    for picture in pictures[1:]:
        assert picture == expected


async def write_for_a_while(api: Any, rng: random.Random) -> None:
    for number in range(400):
        name = f"p{rng.randrange(12)}"
        if api.store.get("pods", "default", name) is None:
            api.pod(name, x=str(number))
        elif rng.random() < 0.4:
            api.store.delete("pods", "default", name)
        else:
            api.store.modify("pods", "default", name, labelled(x=str(number)))
        if rng.random() < 0.02:
            api.faults.cut_watches()
        if rng.random() < 0.3:
            await asyncio.sleep(0)
    api.pod("the-end")


async def follow(api: Any, number: int) -> dict[str, str]:
    """List and watch as clients do, until the writer's last object has been seen."""
    listed = await api.get(f"{PODS}?limit=5")
    while token := listed["metadata"].get("continue"):
        more = await api.get(f"{PODS}?limit=5&continue={token}")
        more["items"] = listed["items"] + more["items"]
        listed = more
    picture = {p["metadata"]["name"]: p["metadata"]["resourceVersion"] for p in listed["items"]}
    version = int(listed["metadata"]["resourceVersion"])
    while "the-end" not in picture:
        stream = await api.watch(f"{PODS}?resourceVersion={version}&allowWatchBookmarks=true")
        while (event := await stream.maybe_next()) is not None:
            meta = event["object"]["metadata"]
            assert int(meta["resourceVersion"]) > version, "versions only rise"
            version = int(meta["resourceVersion"])
            applied(picture, event)
            if "the-end" in picture:
                stream.response.close()
                break
    return picture


def applied(picture: dict[str, str], event: dict[str, Any]) -> None:
    meta = event["object"]["metadata"]
    if event["type"] == "ADDED":
        assert meta["name"] not in picture, "nothing is told twice"
    elif event["type"] != "BOOKMARK":
        assert meta["name"] in picture, "nothing is lost"
    if event["type"] == "DELETED":
        del picture[meta["name"]]
    elif event["type"] != "BOOKMARK":
        picture[meta["name"]] = meta["resourceVersion"]
