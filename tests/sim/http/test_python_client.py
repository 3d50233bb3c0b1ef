"""The kubernetes_asyncio client, as anybody would use it, against the simulated API server."""

import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.sim.server import kubeconfig

pytestmark = pytest.mark.anyio


@pytest.fixture
def client() -> Any:
    """The package, which takes long to import: only a worker that runs these tests does."""
    return importlib.import_module("kubernetes_asyncio.client")


@pytest.fixture
async def kube(api: Any, client: Any, tmp_path: Path) -> AsyncIterator[Any]:
    from kubernetes_asyncio import config

    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(api.url))
    await config.load_kube_config(str(path))
    async with client.ApiClient() as opened:
        yield opened


async def test_it_lists_creates_patches_and_deletes(api: Any, client: Any, kube: Any) -> None:
    core = client.CoreV1Api(kube)
    spec = client.V1PodSpec(containers=[client.V1Container(name="c", image="app:1")])
    made = await core.create_namespaced_pod(
        "default", client.V1Pod(metadata=client.V1ObjectMeta(generate_name="p-"), spec=spec)
    )
    assert made.spec.termination_grace_period_seconds == 30

    name = made.metadata.name
    patched = await core.patch_namespaced_pod(name, "default", {"metadata": {"labels": {"a": "b"}}})
    assert patched.metadata.labels == {"a": "b"}
    listed = await core.list_pod_for_all_namespaces(label_selector="a=b")
    assert [pod.metadata.name for pod in listed.items] == [name]
    await core.delete_namespaced_pod(name, "default")
    assert api.store.list("pods") == []


async def test_it_evicts_and_understands_the_refusal(api: Any, client: Any, kube: Any) -> None:
    core = client.CoreV1Api(kube)
    api.pod("a")
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="a", namespace="default"))
    await core.create_namespaced_pod_eviction("a", "default", eviction)
    with pytest.raises(client.ApiException) as refused:
        await core.create_namespaced_pod_eviction("a", "default", eviction)
    assert refused.value.status == 404


async def test_it_watches_from_a_list(api: Any, client: Any, kube: Any) -> None:
    from kubernetes_asyncio import watch

    core = client.CoreV1Api(kube)
    listed = await core.list_node()
    api.store.create("nodes", {"metadata": {"name": "n1"}})
    api.store.create("nodes", {"metadata": {"name": "n2"}})
    seen = []
    async with watch.Watch() as watching:
        version = listed.metadata.resource_version
        async for event in watching.stream(
            core.list_node, resource_version=version, timeout_seconds=5
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 2:
                watching.stop()
    assert seen == [("ADDED", "n1"), ("ADDED", "n2")]


async def test_it_holds_a_lease(api: Any, client: Any, kube: Any) -> None:
    leases = client.CoordinationV1Api(kube)
    lease = client.V1Lease(
        metadata=client.V1ObjectMeta(name="l"),
        spec=client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15),
    )
    made = await leases.create_namespaced_lease("default", lease)
    made.spec.holder_identity = "you"
    taken = await leases.replace_namespaced_lease("l", "default", made)
    assert taken.spec.holder_identity == "you"
    with pytest.raises(client.ApiException) as refused:
        await leases.replace_namespaced_lease("l", "default", made)
    assert refused.value.status == 409
