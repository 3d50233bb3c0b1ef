"""The whole simulated cluster over HTTP."""

import math
from collections.abc import Callable

import aiohttp
import anyio
import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from msgspec.structs import replace

from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.run import Landscape, Simulation, serve_simulation, simulation

pytestmark = pytest.mark.anyio
QUICK = Landscape(nodes=3, pods=12, pace=Pace(start_s=0.01, shutdown_s=0.01))


async def until(running: Simulation, what: Callable[[], bool]) -> None:
    """Wait for the store's writes to make something true."""
    told, news = anyio.create_memory_object_stream[None](math.inf)
    stop = running.store.subscribe(lambda _: told.send_nowait(None))
    with told, news, anyio.fail_after(60):
        while not what():
            await news.receive()
        stop()


def phases(running: Simulation, namespace: str | None = None, app: str = "") -> dict[str, str]:
    """Return the phase of every pod, or of those labelled app=<app>."""
    pods = running.store.list("pods", namespace)
    wanted = [p for p in pods if app in ("", p["metadata"]["labels"]["app"])]
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in wanted}


async def test_a_client_sees_a_populated_cluster_and_evicted_pods_are_replaced() -> None:
    async with simulation(QUICK) as running, aiohttp.ClientSession(running.url) as client:
        await until(running, lambda: set(phases(running).values()) == {"Running"})
        deployment = running.store.list("deployments")[0]["metadata"]
        namespace, app = deployment["namespace"], deployment["name"]
        space = f"/api/v1/namespaces/{namespace}/pods"
        answer = await client.get(space, params={"labelSelector": f"app={app}"})
        before = [pod["metadata"]["name"] for pod in (await answer.json())["items"]]
        assert set(before) == set(phases(running, namespace, app))
        meta = {"name": before[0], "namespace": namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}

        answer = await client.post(f"{space}/{before[0]}/eviction", json=eviction)

        assert answer.status == 201
        await until(running, lambda: before[0] not in phases(running, namespace, app))
        await until(
            running,
            lambda: list(phases(running, namespace, app).values()) == ["Running"] * len(before),
        )


async def test_usage_is_served_for_every_node() -> None:
    async with simulation(QUICK) as running, aiohttp.ClientSession(running.url) as client:
        answer = await client.get("/apis/metrics.k8s.io/v1beta1/nodes")

        items = (await answer.json())["items"]

    assert [item["metadata"]["name"] for item in items] == ["node-1", "node-2", "node-3"]


async def test_two_clusters_of_one_seed_have_the_same_names_and_other_uids() -> None:
    seen = []
    for salt in (1, 2):
        async with simulation(replace(QUICK, uid_salt=salt)) as made:
            spaces = made.store.list("namespaces")
            seen.append({each["metadata"]["name"]: each["metadata"]["uid"] for each in spaces})

    assert seen[0].keys() == seen[1].keys()
    assert set(seen[0].values()).isdisjoint(seen[1].values())


async def test_clients_that_refuse_plain_http_read_that_nothing_is_verified() -> None:
    async with simulation(replace(QUICK, nodes=1, pods=0)) as made:
        (cluster,) = yaml.safe_load(made.kubeconfig)["clusters"]
    assert cluster["cluster"] == {"server": made.url, "insecure-skip-tls-verify": True}


async def test_pods_find_the_api_server_by_the_service_of_every_cluster() -> None:
    async with simulation(replace(QUICK, nodes=1, pods=0)) as made:
        service = made.store.get("services", "default", "kubernetes")
        (slice_of_it,) = made.store.list("endpointslices", "default")
        port = int(made.url.rpartition(":")[2])
    assert service is not None
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert [each["port"] for each in service["spec"]["ports"]] == [443]
    assert [each["addresses"] for each in slice_of_it["endpoints"]] == [["127.0.0.1"]]
    assert [each["port"] for each in slice_of_it["ports"]] == [port]


async def test_an_empty_landscape_has_no_nodes() -> None:
    async with simulation(Landscape(nodes=0)) as running:
        assert running.store.list("nodes") == []


async def test_it_serves_until_cancelled_and_says_when_it_is_ready() -> None:
    told: list[Simulation] = []
    ready = anyio.Event()

    def on_ready(running: Simulation) -> None:
        told.append(running)
        ready.set()

    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await serve_simulation(QUICK, on_ready=on_ready)

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            await ready.wait()
        assert told[0].url in told[0].kubeconfig
        tasks.cancel_scope.cancel()
