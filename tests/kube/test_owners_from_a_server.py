"""Owners' owners as the simulated API server tells them to those who ask for metadata alone."""

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from reactive_desched.controller.readiness import sync_pause
from reactive_desched.kube.client.session import KubeConfigOptions, Session, open_session
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.settings import ReflectorSettings
from reactive_desched.model.objects import OwnerReference, ReplicaSet
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import serve
from reactive_desched.sim.store import DeleteOptions, Store
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import REPLICA_SETS
from reactive_desched.testing.builders import pod
from tests.support.codecs import make_codecs
from tests.support.flow import FakeEdgesController
from tests.support.manual_clock import wait_until

pytestmark = pytest.mark.anyio

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d1"}
ABOVE = OwnerReference("Deployment", "web", "d1", controller=True, api_version="apps/v1")


@pytest.fixture
def store() -> Store:
    made = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(made)
    return made


@pytest.fixture
async def session(store: Store, kubeconfig: Callable[[str], Path]) -> AsyncIterator[Session]:
    async with (
        serve(store) as url,
        open_session(KubeConfigOptions(kubeconfig=str(kubeconfig(url)))) as opened,
    ):
        yield opened


def replica_set(store: Store, name: str) -> str:
    """Create one that a Deployment controls; return its uid."""
    metadata = {"name": name, "namespace": "default"}
    owners = [DEPLOYMENT | {"controller": True}]
    labels = {"app": name}
    spec: dict[str, Any] = {  # any JSON value
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "app:1"}]},
        },
    }
    obj = {"metadata": metadata | {"ownerReferences": owners}, "spec": spec}
    uid: str = store.create("replicasets", obj)["metadata"]["uid"]
    return uid


@pytest.mark.parametrize("streaming", [False, True], ids=["paged", "streamed"])
async def test_chains_follow_what_a_server_lists_and_watches_show(
    store: Store, session: Session, *, streaming: bool
) -> None:
    listed = replica_set(store, "listed")
    flow = FakeEdgesController()
    state, pauses = flow.controller.state, flow.readiness.pauses
    codec = make_codecs(InternTables()).replica_sets
    reflector: Reflector[ReplicaSet] = Reflector(
        session,
        codec,
        flow.handlers[REPLICA_SETS],  # type: ignore[arg-type]  # of one kind
        settings=ReflectorSettings(streaming=streaming),
    )
    async with anyio.create_task_group() as beside:
        beside.start_soon(reflector.run)
        await wait_until(lambda: not pauses[sync_pause(REPLICA_SETS)].reason)
        assert list(state.keys(REPLICA_SETS)) == [listed]

        told = replica_set(store, "told")
        await wait_until(lambda: len(list(state.keys(REPLICA_SETS))) == 2)
        direct = OwnerReference("ReplicaSet", "told", told, controller=True)
        web = msgspec.structs.replace(pod("web"), owners=(direct,))
        assert ClusterView(state, lambda: 0).index(OwnerIndex).chain(web) == (direct, ABOVE)

        store.delete("replicasets", "default", "told", DeleteOptions())
        await wait_until(lambda: list(state.keys(REPLICA_SETS)) == [listed])
        beside.cancel_scope.cancel()
    assert (reflector.status.malformed, reflector.status.failures) == (0, 0)
