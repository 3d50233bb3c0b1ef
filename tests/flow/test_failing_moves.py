"""Where replacements do not come up, other workloads keep their pods."""

from typing import Final

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.model.objects import ClusterObject, Pod, PodCondition, PodStatus, StatefulSet
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.moves import MaxMovingSettings, MoveSettings
from reactive_desched.testing.builders import READY, node, pod, pod_status
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.descheduled import DescheduledCluster
from tests.support.flow import FakeEdgesController
from tests.support.sim_world import SimulatedCluster

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TAINTS: Final = NodeTaintsPlugin(NodeTaintsArgs())
MINUTE_S: Final = 60.0
UNREADY: Final = PodCondition("Ready", "False")


def member(number: int, namespace: str = "default", took_s: int = 10) -> Pod:
    """Return the only pod of a StatefulSet; each is on a node of its own."""
    return pod(
        f"db{number}-0",
        uid=f"{namespace}-{number}",
        namespace=namespace,
        on=f"n{number}",
        owner=f"StatefulSet/{namespace}-db{number}",
        status=pod_status(conditions=(PodCondition("Ready", "True"),)),
        changed={"Ready": took_s},
    )


def begin(flow: FakeEdgesController, *pods: Pod) -> None:
    """Begin with pods, their workloads and their nodes, and one node that has room."""
    sets: list[ClusterObject] = [
        StatefulSet(each.namespace, each.owners[0].name, each.owners[0].uid, replicas=1)
        for each in pods
    ]
    flow.sync_and_resume(*(node(each.node) for each in pods), node("free"), *pods, *sets)


async def leaves(flow: FakeEdgesController, each: Pod) -> bool:
    """Taint the node of a pod; say whether it is evicted, and delete it then."""
    flow.deliver(node(each.node, "repair:NoSchedule"))
    await anyio.sleep(2)
    if each.name not in flow.evicted_names:
        return False
    flow.delete(each)
    return True


async def comes_back(flow: FakeEdgesController, each: Pod, status: PodStatus = READY) -> None:
    """Create the replacement of a pod, in a status."""
    made = int(anyio.current_time())
    flow.deliver(replace(each, uid=f"{each.uid}-new", created_s=made, node="free", status=status))
    await anyio.sleep(5)


def messages(flow: FakeEdgesController) -> list[str]:
    """Return what is said of pods that wait."""
    return [each.decision.message for each in flow.controller.evaluator.queue.pending()]


def flow_of(moves: MoveSettings = UNLIMITED_MOVES) -> FakeEdgesController:
    return FakeEdgesController(TAINTS, moves=moves)


async def test_what_two_workloads_of_a_namespace_lack_no_third_one_loses() -> None:
    pods = [member(number) for number in range(5)]
    async with flow_of().running() as flow:
        begin(flow, *pods)
        assert [await leaves(flow, each) for each in pods[:2]] == [True, True]
        await anyio.sleep(MINUTE_S)  # nothing was created
        assert not await leaves(flow, pods[2])
        assert not await leaves(flow, pods[3])
        held = messages(flow)[0]
        assert "StatefulSet default/default-db0 created none" in held
        assert "kubectl describe statefulset -n default default-db0" in held

        await anyio.sleep(10 * MINUTE_S)
        tried = flow.evicted_names[2:]
        assert len(tried) == 1
        flow.delete(*(each for each in pods if each.name in tried))
        await anyio.sleep(15 * MINUTE_S)
        assert len(flow.evicted_names) == 3
        await anyio.sleep(6 * MINUTE_S)  # twice as long
        assert len(flow.evicted_names) == 4


async def test_one_that_comes_up_lets_the_others_go() -> None:
    pods = [member(number) for number in range(4)]
    async with flow_of().running() as flow:
        begin(flow, *pods)
        assert [await leaves(flow, each) for each in pods[:2]] == [True, True]
        await anyio.sleep(MINUTE_S)
        assert not await leaves(flow, pods[2])
        await anyio.sleep(11 * MINUTE_S)  # the first two are not followed any more
        flow.delete(pods[2])
        assert not await leaves(flow, pods[3])
        await comes_back(flow, pods[0])
        await anyio.sleep(MINUTE_S)

    assert flow.evicted_names == [each.name for each in pods]


@pytest.mark.parametrize(("took_s", "held"), [(10, True), (240, False)])
async def test_one_that_is_not_ready_in_time_counts_and_time_is_what_it_took_before(
    took_s: int,
    held: bool,  # noqa: FBT001 -- a row
) -> None:
    pods = [member(number, took_s=took_s) for number in range(3)]
    starting = pod_status(conditions=(UNREADY,))
    async with flow_of().running() as flow:
        begin(flow, *pods)
        await anyio.sleep(1000)
        for each in pods[:2]:
            assert await leaves(flow, each)
            await comes_back(flow, each, starting)
        await anyio.sleep(3 * MINUTE_S)

        assert await leaves(flow, pods[2]) is not held


async def test_a_pod_that_is_not_ready_may_leave() -> None:
    pods = [member(number) for number in range(3)]
    pods[2] = replace(pods[2], status=pod_status(conditions=(UNREADY,)))
    async with flow_of().running() as flow:
        begin(flow, *pods)
        for each in pods[:2]:
            assert await leaves(flow, each)
        await anyio.sleep(MINUTE_S)

        assert await leaves(flow, pods[2])


async def test_what_three_namespaces_lack_no_fourth_one_loses() -> None:
    pods = [member(number, namespace=f"team{number}") for number in range(5)]
    async with flow_of().running() as flow:
        begin(flow, *pods)
        assert [await leaves(flow, each) for each in pods[:2]] == [True, True]
        await anyio.sleep(MINUTE_S)
        assert await leaves(flow, pods[2])
        await anyio.sleep(MINUTE_S)

        assert not await leaves(flow, pods[3])
        assert "several namespaces" in messages(flow)[0]


async def test_a_workload_that_wants_no_pod_any_more_says_nothing() -> None:
    pods = [member(number) for number in range(3)]
    async with flow_of().running() as flow:
        begin(flow, *pods)
        for each in pods[:2]:
            assert await leaves(flow, each)
        owner = pods[0].owners[0]
        flow.delete(StatefulSet("default", owner.name, owner.uid, replicas=1))
        await anyio.sleep(MINUTE_S)

        assert await leaves(flow, pods[2])


def test_a_quota_that_is_used_up_costs_few_workloads_their_pod() -> None:
    world = SimulatedCluster().nodes("n1")
    for number in range(8):
        world.deployment(f"web-{number}", 1)
    world.nodes("n2").advance(3600)
    world.create("resourcequotas", "all", {"hard": {"pods": "2"}})
    two_at_once = MoveSettings(max_moving=MaxMovingSettings(cluster=2))
    descheduler = DescheduledCluster(world, TAINTS, moves=two_at_once)
    began_s = world.clock.now()
    world.edit("nodes", "n1", taints=[{"key": "repair", "effect": "NoSchedule"}])

    descheduler.run(3600)
    assert [round(at_s - began_s, -1) for at_s in descheduler.evicted_at_s] == [0, 0, 600, 1800]
    world.delete("resourcequotas", "all")
    descheduler.run(1800)
    assert len(descheduler.evicted) == 8
