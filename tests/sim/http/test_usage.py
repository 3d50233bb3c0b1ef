import random
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import serve
from reactive_desched.sim.store import Store

pytestmark = pytest.mark.anyio

ROOT = "/apis/metrics.k8s.io/v1beta1"


class Measured:
    def node(self, name: str) -> Mapping[str, str] | None:
        return {"cpu": "100m", "memory": "1Gi"} if name == "n1" else None

    def pod(self, namespace: str, name: str) -> Sequence[tuple[str, Mapping[str, str]]] | None:
        return [("c", {"cpu": "1m"})] if (namespace, name) == ("default", "a") else None


async def test_usage_is_shown_for_what_was_measured() -> None:
    store = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(store)
    for name in ("n1", "n2"):
        store.create("nodes", {"metadata": {"name": name}})
    for name in "ab":
        spec = {"containers": [{"name": "c", "image": "app:1"}]}
        store.create("pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    async with serve(store, usage=Measured()) as url, aiohttp.ClientSession(url) as http:

        async def get(path: str) -> tuple[int, Any]:
            async with http.get(ROOT + path) as response:
                return response.status, await response.json()

        _, nodes = await get("/nodes")
        assert [(n["metadata"]["name"], n["usage"]["cpu"]) for n in nodes["items"]] == [
            ("n1", "100m")
        ]
        assert nodes["kind"] == "NodeMetricsList"
        _, pods = await get("/namespaces/default/pods")
        assert [p["containers"] for p in pods["items"]] == [[{"name": "c", "usage": {"cpu": "1m"}}]]
        status, node = await get("/nodes/n1")
        assert (status, node["timestamp"]) == (200, "2027-01-15T08:00:00Z")
        status, error = await get("/nodes/n2")
        assert (status, error["message"]) == (404, 'nodes.metrics.k8s.io "n2" not found')
        _, described = await get("")
        assert [r["name"] for r in described["resources"]] == ["nodes", "pods"]
