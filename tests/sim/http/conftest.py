"""A running API server over a store the test holds, and a client to speak to it."""

import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.faults import FaultPlan
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import Settings, serve
from reactive_desched.sim.store import Store

PATIENCE_S = 10


class Stream:
    """An open watch, read one document at a time."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._rest = b""

    async def next(self) -> dict[str, Any]:
        """Return the next document; fail when the stream has ended."""
        document = await self.maybe_next()
        assert document is not None, "the watch has ended"
        return document

    async def maybe_next(self) -> dict[str, Any] | None:
        """Return the next document, or None at the end of the stream."""
        while b"\n" not in self._rest:
            piece = await self.response.content.readany()
            if not piece:
                return None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        document: dict[str, Any] = msgspec.json.decode(line)
        return document

    async def seen(self, count: int) -> list[tuple[str, str]]:
        """Return type and name of the next documents."""
        documents = [await self.next() for _ in range(count)]
        return [(d["type"], d["object"]["metadata"].get("name", "")) for d in documents]


class Api:
    """The server under test, from the inside and the outside."""

    def __init__(self, store: Store, url: str, faults: FaultPlan, http: aiohttp.ClientSession):
        self.store, self.url, self.faults, self.http = store, url, faults, http
        self._streams: list[Stream] = []

    async def ask(
        self, method: str, path: str, body: Any = None, **options: Any
    ) -> tuple[int, Any]:
        """Send a request; return the status and the decoded body."""
        async with self.http.request(method, self.url + path, json=body, **options) as response:
            raw = await response.read()
            if response.content_type != "application/json":
                return response.status, raw.decode()
            return response.status, msgspec.json.decode(raw)

    async def get(self, path: str, accept: str = "") -> Any:
        """Return the body of a GET that must succeed."""
        headers = {"Accept": accept} if accept else {}
        status, body = await self.ask("GET", path, headers=headers)
        assert status == 200, body
        return body

    async def patch(self, path: str, media: str, change: Any) -> tuple[int, Any]:
        """Send a patch of a media type; return the status and the decoded body."""
        data, headers = msgspec.json.encode(change), {"Content-Type": media}
        return await self.ask("PATCH", path, data=data, headers=headers)

    async def watch(self, path: str, accept: str = "") -> Stream:
        """Open a watch."""
        headers = {"Accept": accept} if accept else {}
        separator = "&" if "?" in path else "?"
        url = f"{self.url}{path}{separator}watch=true"
        response = await self.http.get(url, headers=headers)
        assert response.status == 200, await response.text()
        self._streams.append(Stream(response))
        return self._streams[-1]

    def close(self) -> None:
        """Hang up every watch that a test left open."""
        for stream in self._streams:
            stream.response.close()

    def pod(
        self, name: str, namespace: str = "default", *, on: str = "", **labels: str
    ) -> dict[str, Any]:
        """Create a pod, on a node if one is named."""
        meta = {"name": name, "namespace": namespace, "labels": labels}
        spec = {"containers": [{"name": "c", "image": "app:1"}], **({"nodeName": on} if on else {})}
        return self.store.create("pods", {"metadata": meta, "spec": spec})


@pytest.fixture
def deployment() -> dict[str, Any]:
    """A manifest, as a client sends it."""
    containers = [{"name": "c", "image": "app:1"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


@pytest.fixture
def settings() -> Settings:
    return Settings(freshness_wait_s=0.05)


@pytest.fixture
def store() -> Store:
    made = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(made)
    return made


@pytest.fixture
async def api(store: Store, settings: Settings) -> AsyncIterator[Api]:
    faults = FaultPlan()
    timeout = aiohttp.ClientTimeout(sock_read=PATIENCE_S)
    async with (
        serve(store, faults=faults, settings=settings) as url,
        aiohttp.ClientSession(timeout=timeout) as http,
    ):
        api = Api(store, url, faults, http)
        yield api
        api.close()
