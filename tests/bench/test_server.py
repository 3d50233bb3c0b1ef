"""The load server shows a whole cluster, page by page, and its lists agree with its events."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench import stage
from bench.generate import LIST_VERSION
from bench.server import Listener, LoadServer
from bench.wire import LAST_CHUNK, WATCH_HEAD

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


class Client:
    """Speaks to the server as bytes on a socket."""

    def __init__(self, server: LoadServer, port: int) -> None:
        self._watchers = server.stage.watchers
        self._address = ("127.0.0.1", port)

    def send(self, method: str, target: str, body: bytes = b"") -> socket.socket:
        sock = socket.create_connection(self._address, timeout=10)
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        sock.sendall(f"{method} {target} HTTP/1.1\r\n{length}\r\n".encode() + body)
        return sock

    def ask(self, target: str, method: str = "GET", body: bytes = b"") -> tuple[int, Any]:
        with self.send(method, target, body) as sock:
            head, answer = self._read(sock)
        return int(head.split(b" ")[1]), json.loads(answer)

    def _read(self, sock: socket.socket) -> tuple[bytes, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            data += sock.recv(1 << 16)
        head, answer = data.split(b"\r\n\r\n", 1)
        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        while len(answer) < length:
            answer += sock.recv(1 << 16)
        return head, answer

    def page_by_page(self, path: str, limit: int) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            _, page = self.ask(f"{path}?limit={limit}{token and '&continue=' + token}")
            yield page
            if not (token := page["metadata"].get("continue", "")):
                return

    def watch(self, path: str, count: int, since: int | str = "") -> Iterator[dict[str, Any]]:
        """Begin a watch, which gets whatever happens from now on, and return its events."""
        before = list(self._watchers[path])
        sock = self.send("GET", f"{path}?watch=true&timeoutSeconds=60&resourceVersion={since}")
        while not since and self._watchers[path] == before:
            time.sleep(0.001)  # one without a version gets only what comes once it is there
        return self._events(sock, count)

    def _events(self, sock: socket.socket, count: int) -> Iterator[dict[str, Any]]:
        with sock:
            data = b""
            while len(data) < len(WATCH_HEAD):
                data += sock.recv(len(WATCH_HEAD) - len(data))
            file = sock.makefile("rb")
            for _ in range(count + 1):
                size = int(file.readline(), 16)
                if not size:
                    return
                yield json.loads(file.read(size + 2))


@contextmanager
def listening(server: LoadServer) -> Iterator[Listener]:
    listener = Listener(server, None)
    thread = threading.Thread(target=listener.serve, daemon=True)
    thread.start()
    yield listener
    listener.close()
    thread.join(10)


@pytest.fixture
def client(server: LoadServer) -> Iterator[Client]:
    with listening(server) as listener:
        yield Client(server, listener.port)


@pytest.mark.parametrize("limit", [7, 100, 500, 0])
def test_pages_of_any_size_add_up_to_the_whole_list(
    client: Client, server: LoadServer, limit: int
) -> None:
    pages = list(client.page_by_page(PODS, limit))

    cluster = server.stage.cluster
    names = [item["metadata"]["name"] for page in pages for item in page["items"]]
    assert names == [cluster.values(owner, ordinal).name for owner, ordinal in cluster.order]
    assert {page["metadata"]["resourceVersion"] for page in pages} == {str(LIST_VERSION)}
    left = [page["metadata"].get("remainingItemCount", 0) for page in pages]
    assert left == [max(0, len(names) - limit * (n + 1)) if limit else 0 for n in range(len(left))]


def test_every_resource_we_watch_has_a_list(client: Client, server: LoadServer) -> None:
    for path, resource in server.stage.resources.items():
        status, answer = client.ask(path)
        assert status == 200
        assert answer["kind"] == f"{resource.kind}List"
        assert len(answer["items"]) == len(resource.items)
    generated = {resource.name for resource in server.stage.resources.values() if resource.items}
    assert generated >= {"pods", "nodes", "replicasets"}


def test_a_streaming_list_is_refused_unless_it_was_asked_for(client: Client) -> None:
    status, answer = client.ask(f"{PODS}?watch=true&sendInitialEvents=true")

    assert status == 422
    assert answer["kind"] == "Status"


def test_a_list_in_chunks_is_the_same_list(server: LoadServer) -> None:
    chunked = LoadServer(server.stage, chunked=True)
    with (
        listening(chunked) as listener,
        Client(chunked, listener.port).send("GET", f"{NODES}?limit=3") as sock,
    ):
        data = b""
        while not data.endswith(LAST_CHUNK):
            data += sock.recv(1 << 16)
    lines = data[len(WATCH_HEAD) :].split(b"\r\n")
    answer = json.loads(b"".join(lines[1::2]))

    whole = [server.stage.resources[NODES].items.item(n) for n in range(3)]
    assert answer["items"] == [json.loads(item) for item in whole]


@pytest.mark.parametrize("script", ["status", "flap", "probe", "bound"])
def test_what_was_sent_is_in_later_lists(client: Client, script: str) -> None:
    path = NODES if script in ("flap", "probe") else PODS
    _, count = client.ask(f"/bench/prepare?script={script}&count=5", "POST")
    events = client.watch(path, count)
    client.ask("/bench/play?pace=100", "POST")
    received = [next(events)["object"] for _ in range(count)]

    _, answer = client.ask(path)

    listed = {item["metadata"]["uid"]: item for item in answer["items"]}
    assert count == 5
    for obj in received:
        kind, api = obj.pop("kind"), obj.pop("apiVersion")
        assert (kind, api) == (answer["kind"].removesuffix("List"), "v1")
        assert listed[obj["metadata"]["uid"]] == obj
    assert int(answer["metadata"]["resourceVersion"]) >= max(version(obj) for obj in received)


def version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


@pytest.mark.parametrize("script", ["status", "flap"])
def test_an_event_differs_from_the_one_before_of_the_same_object(
    server: LoadServer, script: str
) -> None:
    count = 2 * len(server.stage.cluster.order) if script == "status" else 40
    server.stage.prepare(script, count, "")

    latest: dict[int, Any] = {}
    for event in server.stage.prepared[""]:
        obj = json.loads(event.obj)
        shown = (obj["spec"].get("taints"), obj["status"].get("conditions"))
        assert latest.get(event.number) != shown
        latest[event.number] = shown


def test_events_of_one_resource_carry_ever_later_versions(server: LoadServer) -> None:
    seen = LIST_VERSION
    for _ in range(2):
        server.stage.prepare("status", 50, "")
        for event in server.stage.prepared[""]:
            found = version(json.loads(event.obj))
            assert found > seen
            seen = found


def test_two_scripts_of_one_resource_that_play_at_once_are_one_line_of_versions(
    client: Client,
) -> None:
    for script, slot in (("status", "beside"), ("bound", "main")):
        client.ask(f"/bench/prepare?script={script}&count=20&slot={slot}", "POST")
    events = client.watch(PODS, 40)
    play(client, "main", "beside")

    received = [version(next(events)["object"]) for _ in range(40)]

    assert received == sorted(set(received))


def play(client: Client, *slots: str) -> None:
    for slot in slots:
        client.ask(f"/bench/play?pace=200&slot={slot}", "POST")


def test_an_eviction_is_stamped_after_the_event_that_led_to_it(client: Client) -> None:
    _, count = client.ask("/bench/prepare?script=bound&count=1", "POST")
    client.ask("/bench/play?pace=100", "POST")
    _, stats = client.ask("/stats")
    (name,) = stats["sent"]

    status, _ = client.ask(f"/api/v1/namespaces/any/pods/{name}/eviction", "POST", b"{}")

    _, stats = client.ask("/stats?evictions=1&within=5")
    assert (count, status) == (1, 201)
    ((evicted, stamp),) = stats["evictions"]
    assert evicted == name
    assert stamp > stats["sent"][name]


def test_an_evicted_pod_is_gone_from_lists_once_it_is_deleted(client: Client) -> None:
    client.ask("/bench/prepare?script=probe&count=1", "POST")
    client.ask("/bench/play?pace=100", "POST")
    _, stats = client.ask("/stats")
    (name,) = stats["sent"]
    (pod,) = [p for p in client.ask(PODS)[1]["items"] if p["metadata"]["name"] == name]
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"
    assert client.ask(path)[0] == 200
    client.ask(f"{path}/eviction", "POST", b"{}")

    client.ask("/bench/delete", "POST")

    _, answer = client.ask(PODS)
    assert name not in {item["metadata"]["name"] for item in answer["items"]}
    assert client.ask(path)[0] == 404


def test_an_expired_watch_ends_with_the_error_that_demands_a_new_list(client: Client) -> None:
    events = client.watch(PODS, 2)
    client.ask(f"/bench/expire?path={PODS}", "POST")

    received = list(events)

    assert [event["object"]["code"] for event in received] == [410]


def test_a_watch_begins_with_what_came_after_the_version_that_it_names(client: Client) -> None:
    events = client.watch(PODS, 3)
    client.ask("/bench/prepare?script=status&count=3", "POST")
    play(client, "")
    first, *others = (version(next(events)["object"]) for _ in range(3))

    again = client.watch(PODS, 2, since=first)

    assert [version(next(again)["object"]) for _ in range(2)] == others


def test_a_watch_that_begins_before_what_is_kept_has_to_list_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "KEPT_EVENTS", 3)
    versions = sent_versions(client, 5)

    too_old = list(client.watch(PODS, 2, since=LIST_VERSION))
    behind = client.watch(PODS, 2, since=versions[2])

    assert [event["object"]["code"] for event in too_old] == [410]
    assert [version(next(behind)["object"]) for _ in range(2)] == versions[3:]


def sent_versions(client: Client, count: int) -> list[int]:
    client.ask(f"/bench/prepare?script=status&count={count}", "POST")
    events = client.watch(PODS, count)
    play(client, "")
    return [version(next(events)["object"]) for _ in range(count)]


def test_a_connection_serves_on_after_its_watch_has_ended(client: Client) -> None:
    with client.send("GET", f"{PODS}?watch=true&timeoutSeconds=0.01") as sock:
        data = b""
        while not data.endswith(LAST_CHUNK):
            data += sock.recv(1 << 16)
        sock.sendall(b"GET /version HTTP/1.1\r\n\r\n")
        assert sock.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_pod_that_an_event_added_can_be_read_until_it_is_deleted(client: Client) -> None:
    client.ask("/bench/prepare?script=bound&count=1", "POST")
    client.ask("/bench/play?pace=100", "POST")
    (name,) = client.ask("/stats")[1]["sent"]
    (pod,) = [p for p in client.ask(PODS)[1]["items"] if p["metadata"]["name"] == name]
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"

    status, shown = client.ask(path)

    assert (status, shown["metadata"]["uid"]) == (200, pod["metadata"]["uid"])
    client.ask(f"{path}/eviction", "POST", b"{}")
    client.ask("/bench/delete", "POST")
    assert client.ask(path)[0] == 404


def test_an_interrupted_server_cuts_every_connection_and_comes_back_on_the_same_port(
    server: LoadServer,
) -> None:
    with listening(server) as listener:
        client = Client(server, listener.port)
        with client.send("GET", f"{PODS}?watch=true") as watch:
            assert watch.recv(len(WATCH_HEAD)) == WATCH_HEAD
            interrupted = threading.Thread(target=listener.interrupt, args=(0.5,))
            interrupted.start()
            assert watch.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                client.ask("/version")
            interrupted.join()

        assert client.ask("/version")[0] == 200


def test_an_eviction_of_an_earlier_script_is_counted_apart(client: Client) -> None:
    names = []
    for _ in range(2):
        client.ask("/bench/prepare?script=bound&count=1", "POST")
        client.ask("/bench/play?pace=100", "POST")
        names += client.ask("/stats")[1]["sent"]
    for name in names:
        client.ask(f"/api/v1/namespaces/any/pods/{name}/eviction", "POST", b"{}")

    _, stats = client.ask("/stats")

    assert [name for name, _ in stats["evictions"]] == names[1:]
    assert stats["late"] == 1


def test_a_pod_is_overdue_until_its_eviction_comes_and_is_deleted_then(client: Client) -> None:
    client.ask("/bench/prepare?script=bound&count=1", "POST")
    client.ask("/bench/play?pace=100", "POST")
    (name,) = client.ask("/stats")[1]["sent"]
    client.ask("/bench/prepare?script=bound&count=0", "POST")
    assert client.ask("/stats")[1]["overdue"] == [name]

    client.ask(f"/api/v1/namespaces/any/pods/{name}/eviction", "POST", b"{}")

    assert client.ask("/stats")[1]["overdue"] == []
    assert name in {item["metadata"]["name"] for item in client.ask(PODS)[1]["items"]}
    client.ask("/bench/delete", "POST")
    assert name not in {item["metadata"]["name"] for item in client.ask(PODS)[1]["items"]}
