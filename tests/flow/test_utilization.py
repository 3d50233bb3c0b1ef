"""LowNodeUtilization behind the real gates: what earlier evictions promised, and its own limit."""

from typing import Any

import anyio
import msgspec
import pytest

from reactive_desched.draining.landing import RESERVED_RECHECK_S
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.outcomes import ServerError
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.policy.policy import WINDOW_S
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

QUERY = {"source": "Prometheus", "prometheus": {"query": "up"}}


def low(moves: MoveSettings = UNLIMITED_MOVES, **args: Any) -> FakeEdgesController:
    args = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 50}, **args}
    plugin = plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **args)
    return FakeEdgesController(plugin, moves=moves)


def small(name: str) -> Node:
    return node(name, allocatable={"cpu": "1", "memory": "1Gi", "pods": "99"})


def tenths(count: int, on: str) -> list[Pod]:
    return [
        pod(f"{on}-{i}", on=on, requests={"cpu": "100m"}, owner=f"ReplicaSet/{on}")
        for i in range(count)
    ]


def replacement(gone: Pod, on: str) -> Pod:
    return msgspec.structs.replace(gone, name=f"{gone.name}-new", uid=f"{gone.uid}-new", node=on)


def measure(flow: FakeEdgesController, **percent: int) -> None:
    """Let a query measure nodes."""
    for name, value in percent.items():
        sample = NodeUsage("Prometheus/up", name, {"MetricResource": value}, anyio.current_time())
        flow.controller.apply(flow.controller.state.upsert(sample))
    flow.pipeline.worker.wake()


async def test_what_one_eviction_was_promised_the_next_one_does_not_get() -> None:
    """n2 has room for one more pod below its target; n1 and n3 have one each to give."""
    first, second = tenths(6, "n1"), tenths(6, "n3")
    async with low().running() as flow:
        nodes = map(small, ("n1", "n2", "n3", "n4"))
        middling = pod("n4", on="n4", requests={"cpu": "450m"})
        flow.sync_and_resume(*nodes, *first, *second, *tenths(4, "n2"), middling)
        await anyio.sleep(1)
        assert flow.evicted_names == ["n1-0"]

        flow.delete(first[0])
        await anyio.sleep(1)
        assert flow.evicted_names == ["n1-0"]

        flow.deliver(replacement(first[0], "n4"))  # which neither gives pods nor takes them
        await anyio.sleep(RESERVED_RECHECK_S)
        assert flow.evicted_names == ["n1-0", "n3-0"]


async def test_once_the_replacement_fills_the_destination_nothing_more_moves() -> None:
    first, second = tenths(6, "n1"), tenths(6, "n3")
    async with low().running() as flow:
        flow.sync_and_resume(*map(small, ("n1", "n2", "n3")), *first, *second, *tenths(4, "n2"))
        await anyio.sleep(1)
        flow.delete(first[0])
        flow.deliver(replacement(first[0], "n2"))
        await anyio.sleep(10 * RESERVED_RECHECK_S)

    assert flow.evicted_names == ["n1-0"]


async def test_where_pods_cannot_be_measured_a_node_gives_one_in_five_minutes() -> None:
    metric = {"MetricResource": 30}
    pods = tenths(6, "n1")
    flow = low(metricsUtilization=QUERY, thresholds=metric, targetThresholds={"MetricResource": 50})
    async with flow.running():
        flow.sync_and_resume(small("n1"), small("n2"), *pods)
        await anyio.sleep(1)
        assert flow.evicted_names == []

        measure(flow, n1=90, n2=0)
        await anyio.sleep(1)
        assert flow.evicted_names == ["n1-0"]

        flow.delete(pods[0])
        for _ in range(4):
            measure(flow, n1=88, n2=2)  # a rate over minutes falls slowly
            await anyio.sleep(60)
        assert flow.evicted_names == ["n1-0"]

        await anyio.sleep(WINDOW_S - 200)
        assert flow.evicted_names == ["n1-0", "n1-1"]


async def test_a_failed_eviction_is_made_up_for() -> None:
    pods = tenths(6, "n1")
    flow = low()
    flow.evictor.script["n1-0"] = [ServerError(500, "two budgets")]
    async with flow.running():
        flow.sync_and_resume(small("n1"), small("n2"), *pods)
        await anyio.sleep(60)

    assert flow.evicted_names == ["n1-0", "n1-0"]


@pytest.mark.parametrize("relabelled", [False, True])
async def test_a_node_that_took_a_pod_gives_none_for_its_cooldown(*, relabelled: bool) -> None:
    """n2 takes a pod of n1, and is overutilized soon after; n3 has room all the time."""
    first = tenths(6, "n1")
    resting = UNLIMITED_MOVES.model_copy(update={"node_cooldown_s": 60.0})
    async with low(resting).running() as flow:
        flow.sync_and_resume(*map(small, ("n1", "n2", "n3")), *first)
        await anyio.sleep(1)
        flow.delete(first[0])
        flow.deliver(replacement(first[0], "n2"))
        await anyio.sleep(5)
        flow.deliver(*tenths(6, "n2"))
        if relabelled:
            flow.deliver(msgspec.structs.replace(small("n2"), labels={"pool": "b"}))
        await anyio.sleep(5)
        evicted = set(flow.evicted_names) - {"n1-0"}
        if not relabelled:
            assert evicted == set()
            assert {each.decision.reason for each in flow.controller.evaluator.queue.pending()} == {
                "NodeCoolingDown"
            }
            await anyio.sleep(60)
            evicted = set(flow.evicted_names) - {"n1-0"}

    assert evicted
    assert all(name.startswith("n2-") or name == "n1-0-new" for name in evicted)
