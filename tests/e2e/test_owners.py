"""What a real API server shows of owners' owners to the role in deploy/."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from reactive_desched.controller.readiness import sync_pause
from reactive_desched.kube.client.session import (
    KubeConfigOptions,
    Session,
    open_session,
)
from reactive_desched.kube.codec import Codec
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.settings import ReflectorSettings
from reactive_desched.model.objects import Job, Pod, ReplicaSet
from reactive_desched.state.indexes.namespace_pods import NamespacePods
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import JOBS, NODES, PODS, REPLICA_SETS
from tests.support.codecs import make_codecs
from tests.support.flow import FakeEdgesController
from tests.support.kubectl import Object
from tests.support.manual_clock import wait_until
from tests.support.playground import OWNER, E2ENamespace

pytestmark = [pytest.mark.real, pytest.mark.anyio]

ZONE = "topology.kubernetes.io/zone"
FOLLOWED = (REPLICA_SETS, JOBS, NODES, PODS)


@pytest.fixture
async def session(kubeconfig: Path) -> AsyncIterator[Session]:
    """Connect as the controller does, with its own role and no other right."""
    async with open_session(KubeConfigOptions(kubeconfig=str(kubeconfig))) as opened:
        yield opened


def nightly(ours: E2ENamespace) -> Object:
    """Return a CronJob that never comes up by itself."""
    template = {
        "containers": [{"name": "main", "image": "example.invalid/nothing"}],
        "restartPolicy": "Never",
        "nodeSelector": {OWNER: ours.namespace},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"namespace": ours.namespace, "name": "nightly"},
        "spec": {
            "schedule": "0 0 31 2 *",
            "jobTemplate": {"spec": {"template": {"spec": template}}},
        },
    }


class Followed:
    """The part of the cluster that chains need, kept up to date by real reflectors."""

    def __init__(self, session: Session, *, streaming: bool) -> None:
        codec, flow = make_codecs(InternTables()), FakeEdgesController()
        self.state, self.view = flow.controller.state, flow.controller.view
        self.pauses = flow.readiness.pauses
        kinds: dict[str, Codec[ReplicaSet] | Codec[Job] | Codec[Pod]] = {
            REPLICA_SETS: codec.replica_sets,
            JOBS: codec.jobs,
            NODES: codec.nodes,  # type: ignore[dict-item]  # records differ, and nobody mixes them
            PODS: codec.pods,
        }
        settings = ReflectorSettings(streaming=streaming)
        self.reflectors = [
            Reflector(session, kind, flow.handlers[resource], settings=settings)
            for resource, kind in kinds.items()
        ]

    def is_synced(self) -> bool:
        return not any(self.pauses[sync_pause(resource)].reason for resource in FOLLOWED)

    def chains(self, space: str) -> set[tuple[str, ...]]:
        """Tell the chains of a namespace's pods, each owner as version, kind and name."""
        return {
            tuple(
                f"{owner.api_version} {owner}" for owner in self.view.index(OwnerIndex).chain(pod)
            )
            for pod in self.state.index(NamespacePods).pods_of(space)
        }


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "paged"])
async def test_a_pods_chain_leads_to_its_deployment_or_cron_job(
    playground: E2ENamespace, session: Session, *, streaming: bool
) -> None:
    space, kubectl = playground.namespace, playground.kubectl
    playground.add_nodes("n1", **{ZONE: "z1"})
    playground.deploy("web", 2)
    kubectl.apply(nightly(playground))
    kubectl.run("create", "job", "-n", space, "--from=cronjob/nightly", "by-hand")
    [web] = kubectl.get("replicasets", "-n", space)
    chains = {
        (f"apps/v1 ReplicaSet/{web['metadata']['name']}", "apps/v1 Deployment/web"),
        ("batch/v1 Job/by-hand", "batch/v1 CronJob/nightly"),
    }
    followed = Followed(session, streaming=streaming)

    async with anyio.create_task_group() as beside:
        for reflector in followed.reflectors:
            beside.start_soon(reflector.run)
        await wait_until(followed.is_synced, within_s=60)
        await wait_until(lambda: followed.chains(space) == chains, within_s=60)

        # A set that only a watch tells of: the next revision.
        kubectl.run("set", "image", "-n", space, "deployment/web", "main=example.invalid/other")
        tops = {chain[-1] for chain in chains}
        await wait_until(
            lambda: (
                len(found := followed.chains(space)) == 3 and {chain[-1] for chain in found} == tops
            ),
            within_s=60,
        )
        beside.cancel_scope.cancel()
    assert followed.view.zone(playground.node("n1")) == "z1"
    assert [each.status.malformed for each in followed.reflectors] == [0, 0, 0, 0]
    assert [each.status.last_error for each in followed.reflectors] == ["", "", "", ""]
    deployment = kubectl.get("deployments", "-n", space)[0]["metadata"]["uid"]
    owners = followed.view.index(OwnerIndex)
    pods = followed.state.index(NamespacePods).pods_of(space)
    assert deployment in {owners.chain(pod)[-1].uid for pod in pods}
