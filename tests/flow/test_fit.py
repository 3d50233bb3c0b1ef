"""Pods leave only for a place that is really there, one pod for one place."""

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.model.decisions import Refuse
from reactive_desched.model.objects import Pod, PodStatus
from reactive_desched.model.outcomes import PdbRefused
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

TAINTED = node("n1", "gpu:NoSchedule")
ONE_PLACE = {"cpu": "4", "memory": "8Gi", "pods": "1"}
A = pod("a", on="n1", requests={"cpu": "1"})
B = msgspec.structs.replace(A, name="b", uid="b")
C = msgspec.structs.replace(A, name="c", uid="c")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def fitting() -> FakeEdgesController:
    args = DefaultEvictorArgs(node_fit=True)
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), evictor_args=args)


def replacement(on: str, name: str = "new") -> Pod:
    return msgspec.structs.replace(A, name=name, uid=name, node=on)


async def test_one_place_moves_one_pod_and_the_next_place_another() -> None:
    async with fitting().running() as flow:
        flow.sync_and_resume(TAINTED, node("n2", allocatable=ONE_PLACE), A, B, C)
        await anyio.sleep(1)
        assert flow.evicted_names == ["a"]
        assert flow.controller.evaluator.queue.blocked_by_gate == {"NodeFit": 2}

        flow.delete(A)
        flow.deliver(replacement("n2"))
        await anyio.sleep(30)
        assert flow.evicted_names == ["a"], "its replacement took the place"

        flow.deliver(node("n3", allocatable=ONE_PLACE))
        await anyio.sleep(1)
        assert flow.evicted_names == ["a", "b"]
        assert flow.controller.evaluator.queue.blocked_by_gate == {"NodeFit": 1}


async def test_a_new_node_with_places_for_many_moves_as_many_at_once() -> None:
    async with fitting().running() as flow:
        flow.sync_and_resume(TAINTED, node("n2", allocatable={**ONE_PLACE, "pods": "0"}), A, B, C)
        await anyio.sleep(1)
        assert flow.evicted_names == []

        flow.deliver(node("n3", allocatable={**ONE_PLACE, "pods": "2"}))
        await anyio.sleep(0.01)

    assert set(flow.evicted_names) == {"a", "b"}


async def test_the_replacement_that_lands_elsewhere_leaves_the_place_to_the_next() -> None:
    async with fitting().running() as flow:
        flow.sync_and_resume(TAINTED, node("n2", allocatable=ONE_PLACE), A, B)
        await anyio.sleep(1)
        assert flow.evicted_names == ["a"]

        flow.deliver(replacement("n9"))
        await anyio.sleep(0.01)

    assert flow.evicted_names == ["a", "b"]


async def test_an_eviction_that_is_refused_leaves_the_place_to_the_next() -> None:
    async with fitting().running() as flow:
        flow.evictor.script["a"] = [PdbRefused("not now")] * 9
        flow.sync_and_resume(TAINTED, node("n2", allocatable=ONE_PLACE), A, B)
        await anyio.sleep(1)

    assert flow.evicted_names == ["a", "b"]


async def test_a_reservation_that_no_pod_takes_ends() -> None:
    async with fitting().running() as flow:
        flow.sync_and_resume(TAINTED, node("n2", allocatable=ONE_PLACE), A, B)
        await anyio.sleep(119)
        assert flow.evicted_names == ["a"]

        await anyio.sleep(2)

    assert flow.evicted_names == ["a", "b"]


async def test_a_pod_that_another_gate_stops_leaves_the_reservation_to_the_next() -> None:
    young = msgspec.structs.replace(A, start_delay_s=0)
    args = DefaultEvictorArgs(node_fit=True)
    async with FakeEdgesController(
        NodeTaintsPlugin(NodeTaintsArgs()), evictor_args=args, limits={"namespace": 1}
    ).running() as flow:
        elsewhere = msgspec.structs.replace(B, namespace="bank")
        other = msgspec.structs.replace(young, name="first", uid="first")
        flow.sync_and_resume(TAINTED, node("n2", allocatable=ONE_PLACE), other, A, elsewhere)
        await anyio.sleep(1)
        assert flow.evicted_names == ["first"]

        flow.deliver(replacement("n2"))
        flow.deliver(
            node("n3", allocatable=ONE_PLACE)
        )  # the limit stops the one who is woken first
        await anyio.sleep(1)

    assert flow.evicted_names == ["first", "b"]


async def test_ended_pods_make_room_when_they_end() -> None:
    blocker = pod("blocker", on="n2")
    async with fitting().running() as flow:
        flow.sync_and_resume(TAINTED, node("n2", allocatable=ONE_PLACE), A, blocker)
        await anyio.sleep(60)
        assert flow.evicted_names == []

        flow.deliver(msgspec.structs.replace(blocker, status=PodStatus("Succeeded")))
        await anyio.sleep(0.01)

    assert flow.evicted_names == ["a"]


async def test_a_capacity_hint_wakes_no_pod_that_could_not_use_it() -> None:
    async with fitting().running() as flow:
        flow.sync_and_resume(TAINTED, node("n2", unschedulable=True), A, B, pod("x", on="n2"))
        await anyio.sleep(1)
        looks = flow.controller.evaluator.evaluations

        flow.delete(pod("x", on="n2"))
        await anyio.sleep(1)

        assert flow.controller.evaluator.evaluations == looks


async def test_another_plan_leaves_what_is_booked() -> None:
    async with fitting().running() as flow:
        flow.sync_and_resume(TAINTED, node("n2", allocatable=ONE_PLACE), A, B)
        await anyio.sleep(1)
        policy = msgspec.structs.replace(flow.config.policy, grace_period_s=9)
        flow.reconfigure(msgspec.structs.replace(flow.config, policy=policy))
        await anyio.sleep(1)
        assert flow.evicted_names == ["a"]


async def test_a_refusal_has_a_code_and_the_numbers_in_its_message(golden: Golden) -> None:
    async with fitting().running() as flow:
        flow.sync_and_resume(
            TAINTED, node("n2", allocatable={**ONE_PLACE, "cpu": "0"}), node("n3", "x:NoExecute"), A
        )
        await anyio.sleep(1)

    [judgement] = flow.observer.evaluations
    assert isinstance(judgement.decision, Refuse)
    assert judgement.decision.reason == "NoOtherNodeFits"
    assert judgement.decision.message == golden()
