"""Owners' owners and triggers through the whole pipeline: known to records, deciding nothing."""

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.controller.readiness import STARTUP, sync_pause
from reactive_desched.model.evaluation import Trigger
from reactive_desched.model.objects import Job, OwnerReference, ReplicaSet
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.resources import NODES, OWNER_RESOURCES, PODS, REPLICA_SETS
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

SET = OwnerReference("ReplicaSet", "web-1", "r1", controller=True, api_version="apps/v1")
DEPLOYMENT = OwnerReference("Deployment", "web", "d1", controller=True, api_version="apps/v1")
WEB = msgspec.structs.replace(pod("web", on="n1"), owners=(SET,))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def made() -> FakeEdgesController:
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))


async def test_an_evaluation_names_the_version_of_the_object_received() -> None:
    async with made().running() as flow:
        flow.sync_and_resume(node("n1", version=3), node("n2", version=4), WEB)
        flow.deliver(node("n1", "gpu:NoSchedule", version=42))
        await anyio.sleep(1)

    [judgement] = flow.observer.evaluations
    assert judgement.trigger.record == Trigger("NodeTaintsChanged", "node n1", "42")


async def test_a_chain_is_known_when_a_finding_is_judged_and_follows_changes() -> None:
    async with made().running() as flow:
        flow.sync_and_resume(node("n1"), WEB, ReplicaSet("r1", 5, DEPLOYMENT))
        assert flow.controller.view.index(OwnerIndex).chain(WEB) == (SET, DEPLOYMENT)
        flow.delete(ReplicaSet("r1", 6, DEPLOYMENT))
        assert flow.controller.view.index(OwnerIndex).chain(WEB) == (SET,)


async def test_a_changed_owner_has_nothing_evaluated() -> None:
    async with made().running() as flow:
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), node("n2"), WEB)
        await anyio.sleep(1)
        looks = flow.controller.evaluator.evaluations
        flow.deliver(ReplicaSet("r1", 5, DEPLOYMENT), Job("j1", 6, None))
        flow.delete(ReplicaSet("r1", 7, DEPLOYMENT))
        await anyio.sleep(60)

        assert (flow.controller.evaluator.evaluations, len(flow.controller.evaluator.queue)) == (
            looks,
            0,
        )


async def test_owners_that_may_not_be_read_are_done_without() -> None:
    async with made().running() as flow:
        for resource, feed in flow.handlers.items():
            if resource in OWNER_RESOURCES:
                feed.mark_stale("403")
            else:
                feed.begin_replace()
        for thing, resource in ((node("n1"), NODES), (node("n2"), NODES), (WEB, PODS)):
            flow.handlers[resource].upsert(thing)
        for resource, feed in flow.handlers.items():
            if resource not in OWNER_RESOURCES:
                feed.end_replace()
                feed.mark_synced()
        flow.resume(STARTUP)
        pauses = {f"sync/{resource}: 403" for resource in OWNER_RESOURCES}
        assert flow.controller.pauses.check() in pauses

        for resource in sorted(OWNER_RESOURCES):
            flow.handlers[resource].mark_denied("403")
        missing = [(resource, reason) for resource, _, reason in flow.observer.missing]
        assert missing == [(resource, "403") for resource in sorted(OWNER_RESOURCES)]
        assert "403" in flow.readiness.pauses[sync_pause(REPLICA_SETS)].note
        flow.deliver(node("n1", "gpu:NoSchedule"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]
    assert flow.controller.view.index(OwnerIndex).chain(WEB) == (SET,)
    assert not any(map(flow.controller.state.is_readable, OWNER_RESOURCES))
