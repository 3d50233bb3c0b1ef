"""A plugin that moves pods to certain nodes: only these count for node fit, and are reserved."""

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.gate.evictor import NO_TARGET_NODE_FITS
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.labels import LabelSelector, parse_selector
from reactive_desched.model.objects import Node, Pod, PodDisruptionBudget
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import READY, node, pod
from tests.support.flow import FakeEdgesController
from tests.support.moving import Moving, MovingArgs

pytestmark = pytest.mark.anyio

A = pod("a", on="n1", requests={"cpu": "1"})
B = msgspec.structs.replace(A, name="b", uid="b")
C = msgspec.structs.replace(A, name="c", uid="c")
ROOMY = node("n3")


def target(slots: int, name: str = "n2", ready: str = "True") -> Node:
    return node(name, allocatable={"cpu": "8", "memory": "8Gi", "pods": str(slots)}, ready=ready)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def moving(*targets: str, **evictor: object) -> FakeEdgesController:
    args = DefaultEvictorArgs.model_validate({"nodeFit": True, **evictor})
    plugin = Moving(MovingArgs(targets=frozenset(targets or ("n2",))))
    return FakeEdgesController(plugin, evictor_args=args)


def reasons(flow: FakeEdgesController) -> dict[str, str]:
    """Return the last refusal of each pod."""
    return {
        each.finding.pod.name: each.decision.reason
        for each in flow.observer.evaluations
        if isinstance(each.decision, Refuse)
    }


def replacement(on: str, name: str = "new") -> Pod:
    return msgspec.structs.replace(A, name=name, uid=name, node=on)


async def test_only_the_targets_count() -> None:
    async with moving().running() as flow:
        flow.sync_and_resume(node("n1"), target(0), ROOMY, A, B)
        await anyio.sleep(1)

    assert flow.evicted_names == []
    assert reasons(flow) == dict.fromkeys("ab", NO_TARGET_NODE_FITS.code)
    assert "0/1 nodes are available" in flow.observer.evaluations[0].decision.message  # type: ignore[union-attr]  # refused


async def test_capacity_is_reserved_on_a_target() -> None:
    async with moving().running() as flow:
        flow.sync_and_resume(node("n1"), target(1), ROOMY, A, B)
        await anyio.sleep(1)

        assert flow.evicted_names == ["a"]
        assert reasons(flow) == {"b": NO_TARGET_NODE_FITS.code}


async def test_every_blocked_pod_is_evaluated_again_when_a_target_gets_room() -> None:
    async with moving("n2", "n4").running() as flow:
        flow.sync_and_resume(node("n1"), target(0), target(0, "n4"), ROOMY, A, B, C)
        await anyio.sleep(1)
        flow.deliver(target(1))
        await anyio.sleep(1)
        assert flow.evicted_names == ["a"]

        flow.deliver(target(9, "n4"))
        await anyio.sleep(1)

    assert sorted(flow.evicted_names) == ["a", "b", "c"]


async def test_a_target_must_be_ready_and_of_the_evictors_selection() -> None:
    async with moving().running() as flow:
        flow.sync_and_resume(node("n1"), target(9, ready="False"), ROOMY, A)
        await anyio.sleep(1)
        assert flow.evicted_names == []

        flow.deliver(target(9))
        await anyio.sleep(1)
        assert flow.evicted_names == ["a"]
    async with moving(nodeSelector=parse_selector("pool=x")).running() as flow:
        flow.sync_and_resume(node("n1"), target(9), ROOMY, A)
        await anyio.sleep(1)
        assert flow.evicted_names == []


async def test_without_a_demand_for_node_fit_targets_are_not_checked() -> None:
    async with moving(nodeFit=False).running() as flow:
        flow.sync_and_resume(node("n1"), target(0), ROOMY, A)
        await anyio.sleep(1)

    assert flow.evicted_names == ["a"]


async def test_no_targets_fit_nothing() -> None:
    plugin = Moving(MovingArgs(targets=frozenset()))
    flow = FakeEdgesController(plugin, evictor_args=DefaultEvictorArgs(node_fit=True))
    async with flow.running():
        flow.sync_and_resume(node("n1"), ROOMY, A)
        await anyio.sleep(1)

    assert flow.evicted_names == []


async def test_a_pod_that_fits_and_stays_does_not_wake_its_own_plan() -> None:
    """Of two pods of a template one fits, and its budget keeps it; the other one fits nowhere."""
    plugin = Moving(MovingArgs(sources=("n1", "n2"), targets=frozenset({"n2"})))
    flow = FakeEdgesController(plugin, evictor_args=DefaultEvictorArgs(node_fit=True))
    budget = PodDisruptionBudget("default", "web", selector=LabelSelector())
    ready = [replacement("n2", "a"), msgspec.structs.replace(B, status=READY)]
    async with flow.running():
        flow.sync_and_resume(node("n1"), target(9), ROOMY, budget, *ready)
        await anyio.sleep(30)

    assert reasons(flow) == {"a": NO_TARGET_NODE_FITS.code, "b": "DisruptionBudget"}
    assert plugin.plans == 1
