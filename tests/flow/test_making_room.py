"""Sets that make room: the pod that waits is nominated first, then its room is made as a whole."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.api.event import RoomBegun, RoomEnded
from reactive_desched.app.rooms import AGAIN_S, RETRY_S, Rooms
from reactive_desched.errors import RequestRejected
from reactive_desched.gate.move_sets import BOUND_AFTER_S, LOST_AFTER_S
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.consolidation import ROOM_TAINT
from reactive_desched.model.modes import ACT, OBSERVE, PROPOSE, Mode
from reactive_desched.model.node_marks import MAKING_ROOM
from reactive_desched.model.objects import Annotations, Node, Pod, PodCondition, PodStatus
from reactive_desched.model.outcomes import DryRun
from reactive_desched.model.taints import Taint
from reactive_desched.plugins.make_room_for_pending import (
    MakeRoomForPendingArgs,
    MakeRoomForPendingPlugin,
)
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.why.explanation import NOTHING, Explainer
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

NOWHERE = PodStatus("Pending", conditions=(PodCondition("PodScheduled", "False", "Unschedulable"),))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def small(name: str) -> Node:
    return node(name, allocatable={"cpu": "4", "memory": "8Gi", "pods": "20"})


def web(name: str, on: str | None, cpu: str = "500m", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": "256Mi"}, **more)


def waits(name: str = "big", cpu: str = "3") -> Pod:
    made = web(name, None, cpu, owner="ReplicaSet/big")
    return replace(made, status=NOWHERE, condition_transitions=(0,))


class MakingRoom(FakeEdgesController):
    """A controller whose nominations come back as the watch would bring them."""

    def __init__(self, *, mode: Mode = ACT, max_moves: int = 3, **parts: Any) -> None:
        args = MakeRoomForPendingArgs.model_validate({"wait": 0.0, "maxMoves": max_moves})
        super().__init__(MakeRoomForPendingPlugin(args), **{"moves": UNLIMITED_MOVES, **parts})
        self.act_as(mode)
        self.writes: list[tuple[str, str]] = []
        self.refusal: RequestRejected | None = None
        self._held: tuple[str, ...] = ()
        self.log = RecordingLogger()
        write = None if parts.get("dry_run") else self._nominate
        self.taints: list[tuple[str, bool]] = []
        self.taint_refusal: RequestRejected | None = None
        self.rooms = Rooms(self.pipeline, self.intent_store, write, self._taint, self.log)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Run the controller, and what nominates pods, while the block lasts."""
        async with self.running(), anyio.create_task_group() as group:
            group.start_soon(self.rooms.run)
            await anyio.sleep(10)
            yield
            group.cancel_scope.cancel()

    def now(self, uid: str) -> Pod:
        found = self.controller.view.pod(uid)
        assert found is not None
        return found

    def update(self, uid: str, **fields: Any) -> None:
        before = self.now(uid)
        version = before.resource_version + 1
        self.deliver(replace(before, resource_version=version, **fields))

    def hold_nominations_of(self, *names: str) -> None:
        """Have the watch not show these nominations, and no others."""
        self._held = names

    def nominate(self, uid: str, name: str) -> None:
        self.update(uid, status=replace(self.now(uid).status, nominated_node=name))

    async def _nominate(self, of: Pod, name: str) -> bool:
        self.writes.append((of.name, name))
        if self.refusal is not None:
            raise self.refusal
        await anyio.lowlevel.checkpoint()
        if of.name not in self._held:
            self.nominate(of.uid, name)
        return True

    async def _taint(self, node: Node, key: str, taint: Taint | None) -> None:
        assert key == MAKING_ROOM
        self.taints.append((node.name, taint is not None))
        if self.taint_refusal is not None:
            raise self.taint_refusal
        await anyio.lowlevel.checkpoint()
        taints = () if taint is None else (taint,)
        version = node.resource_version + 1
        self.deliver(replace(node, taints=taints, resource_version=version))

    async def land(self, gone: str, on: str) -> None:
        """Let an evicted pod end, and its replacement be bound."""
        of = self.now(gone)
        self.delete(of)
        self.deliver(replace(of, name=f"{of.name}x", uid=f"{of.uid}x", node=on))
        await anyio.sleep(2)

    @property
    def results(self) -> list[str]:
        """Say what became of rooms, by the events."""
        return [
            "begun" if isinstance(each, RoomBegun) else each.result
            for each in self.intent_store.events
            if isinstance(each, RoomBegun | RoomEnded)
        ]


A, B = web("a", "n1"), web("b", "n1")
OTHERS = web("c", "n1", owner="ReplicaSet/c"), web("d", "n1", owner="ReplicaSet/d")
KEPT1, KEPT2 = web("k1", "n1", "1", owner=None), web("k2", "n2", "2500m", owner=None)
NODES = small("n1"), small("n2")
CLUSTER = (*NODES, A, B, KEPT1, KEPT2)
"""n1 has 2 CPUs free, and 3 once both have moved, for which there is room on n2."""


async def test_a_place_that_is_kept_for_no_one_ends_and_the_pod_that_waits_gets_it() -> None:
    """`late` fits on n3 once `m` has moved, for which the replacements of a and b leave no room."""
    others = small("n3"), web("m", "n3", "1"), web("k3", "n3", "1500m", owner=None)
    controller = MakingRoom()
    controller.sync_and_resume(*CLUSTER, *others, waits())
    async with controller.following():
        assert sorted(controller.evicted_names) == ["a", "b"]
        controller.delete(controller.now("a"))
        controller.delete(controller.now("b"))
        controller.update("big", node="n1")
        controller.deliver(waits("late", "2500m"))
        await anyio.sleep(60)
        assert sorted(controller.evicted_names) == ["a", "b"]
        await anyio.sleep(180)

    assert sorted(controller.evicted_names) == ["a", "b", "m"]


async def test_no_further_pod_moves_for_one_that_waits_no_more() -> None:
    controller = MakingRoom(max_concurrent=1)
    controller.evictor.slow_s = 1.0
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.running(), anyio.create_task_group() as group:
        group.start_soon(controller.rooms.run)
        await controller.evictor.called.wait()
        controller.update("big", node="n2")
        await anyio.sleep(60)
        assert len(controller.evicted_names) == 1
        group.cancel_scope.cancel()


async def test_the_pod_is_nominated_before_the_first_one_leaves_and_until_it_is_bound() -> None:
    controller = MakingRoom()
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        assert controller.writes == [("big", "n1")]
        assert sorted(controller.evicted_names) == ["a", "b"]
        await controller.land("a", "n2")
        await controller.land("b", "n2")
        assert controller.results == ["begun"]
        controller.update("big", node="n1")
        await anyio.sleep(120)

    assert controller.results == ["begun", "bound"]
    assert sorted(controller.evicted_names) == ["a", "b"]  # a second look finds nothing


async def test_a_nomination_that_the_scheduler_takes_back_is_written_again() -> None:
    controller = MakingRoom()
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        controller.nominate("big", "")
        await anyio.sleep(2 * AGAIN_S)
        assert controller.writes == [("big", "n1")] * 2
        assert controller.now("big").status.nominated_node == "n1"


async def test_what_a_guard_keeps_is_found_before_the_first_pod_leaves() -> None:
    held = replace(B, annotations=Annotations(do_not_evict="true"))
    controller = MakingRoom(guards=GuardSettings())
    controller.sync_and_resume(*NODES, A, held, KEPT1, KEPT2, waits())
    async with controller.following():
        await anyio.sleep(900)
        assert controller.writes == []
        assert controller.evicted_names == []
        assert controller.blocking()["b"] == "DoNotEvict"
        controller.update("b", annotations=Annotations())
        await anyio.sleep(30)

    assert controller.writes == [("big", "n1")]
    assert sorted(controller.evicted_names) == ["a", "b"]


async def test_a_set_that_waits_for_its_turn_goes_on_though_the_nomination_was_taken_back() -> None:
    controller = MakingRoom(rates={"node": TokenRate(per_second=1 / 60, burst=1)})
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        assert len(controller.evicted_names) == 1
        controller.nominate("big", "")
        await controller.land(controller.evicted_names[0], "n2")
        await anyio.sleep(90)

    assert sorted(controller.evicted_names) == ["a", "b"]
    assert controller.results == ["begun"]


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "bound elsewhere"])
async def test_the_set_stops_when_the_pod_is_bound_or_gone(*, gone: bool) -> None:
    controller = MakingRoom(rates={"node": TokenRate(per_second=1 / 60, burst=1)})
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        assert len(controller.evicted_names) == 1
        if gone:
            controller.delete(controller.now("big"))
        else:
            controller.deliver(small("n3"))
            controller.update("big", node="n3")
        await anyio.sleep(200)

    assert len(controller.evicted_names) == 1
    assert controller.results == ["begun", "gone" if gone else "elsewhere"]


async def test_who_deletes_a_pod_before_it_is_bound_has_no_more_pods_moved_for_others_of_it() -> (
    None
):
    moves = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 1000.0})
    controller = MakingRoom(moves=moves)
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        assert sorted(controller.evicted_names) == ["a", "b"]
        controller.delete(controller.now("big"), A, B)
        controller.deliver(*OTHERS)
        for number in range(3):
            controller.deliver(waits(f"big{number}"))
            await anyio.sleep(60)
            controller.delete(controller.now(f"big{number}"))
        controller.deliver(waits("last"))
        await anyio.sleep(60)
        assert sorted(controller.evicted_names) == ["a", "b"]
        assert set(controller.blocking().values()) == {"RoomRests"}
        controller.delete(controller.now("last"))
        controller.deliver(replace(waits("other"), namespace="other"))
        await anyio.sleep(60)

    assert sorted(controller.evicted_names) == ["a", "b", "c", "d"]


async def test_a_pod_for_which_nothing_moves_takes_no_room_from_the_pods_behind_it() -> None:
    moves = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 1000.0})
    controller = MakingRoom(moves=moves)
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        controller.delete(controller.now("big"), A, B)
        first = with_spec(waits("again"), priority=1000, never_preempts=True)
        controller.deliver(*OTHERS, first)
        await anyio.sleep(240)  # until the places of a and b on n2 are free again
        controller.deliver(waits("more"))
        await anyio.sleep(20)
        assert set(controller.blocking().values()) == {"RoomRests"}
        controller.deliver(replace(waits("other"), namespace="other"))
        await anyio.sleep(60)
        assert controller.now("again").is_pending

    assert sorted(controller.evicted_names) == ["a", "b", "c", "d"]


async def test_a_namespace_whose_pod_was_bound_in_its_room_does_not_rest() -> None:
    moves = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 1000.0})
    controller = MakingRoom(moves=moves)
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        await controller.land("a", "n2")
        await controller.land("b", "n2")
        controller.update("big", node="n1")
        await anyio.sleep(10)
        controller.delete(*map(controller.now, ("big", "ax", "bx")))
        controller.deliver(*OTHERS, waits("next"))
        await anyio.sleep(60)

    assert sorted(controller.evicted_names) == ["a", "b", "c", "d"]


async def test_a_pod_that_is_not_bound_in_its_room_is_nominated_no_more_and_rests() -> None:
    moves = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 1000.0})
    controller = MakingRoom(moves=moves, max_moves=2)
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        await controller.land("a", "n2")
        await controller.land("b", "n2")
        controller.deliver(web("thief", "n1", "500m"))
        await anyio.sleep(30)
        assert controller.blocking() == {"thief": "OtherSet"}  # no more than two may move
        await anyio.sleep(BOUND_AFTER_S)
        assert controller.results == ["begun", "given_up"]
        assert controller.writes[-1] == ("big", "")
        await anyio.sleep(30)
        assert controller.blocking() == {"thief": "RoomRests"}
        await anyio.sleep(800)
        assert sorted(controller.evicted_names) == ["a", "b"]
        await anyio.sleep(300)

    assert controller.evicted_names[2:] == ["thief"]


async def test_what_takes_the_room_moves_too_as_long_as_so_many_pods_may_move() -> None:
    controller = MakingRoom()
    third = small("n3"), web("k3", "n3", "3", owner=None)
    controller.sync_and_resume(*CLUSTER, *third, waits())
    async with controller.following():
        await controller.land("a", "n2")
        await controller.land("b", "n2")
        controller.deliver(web("thief", "n1", "500m"))
        await anyio.sleep(LOST_AFTER_S - 10)
        assert controller.blocking() == {"thief": "OtherSet"}
        await anyio.sleep(40)
        assert controller.evicted_names[2:] == ["thief"]
        await controller.land("thief", "n3")
        controller.deliver(web("fourth", "n1", "500m"))
        await anyio.sleep(60)
        assert controller.blocking() == {"fourth": "OtherSet"}
        controller.update("big", node="n1")
        await anyio.sleep(5)

    assert controller.evicted_names[2:] == ["thief"]
    assert controller.results == ["begun", "bound"]


async def test_the_node_with_the_room_has_a_taint_from_before_the_first_move_to_the_end() -> None:
    controller = MakingRoom()
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        assert controller.taints == [("n1", True)]
        assert controller.writes == [("big", "n1")]
        assert sorted(controller.evicted_names) == ["a", "b"]
        controller.nominate("big", "")  # as the scheduler does
        await controller.land("a", "n2")
        await controller.land("b", "n2")
        assert controller.taints == [("n1", True)]
        controller.update("big", node="n1")
        await anyio.sleep(5)

    assert controller.taints == [("n1", True), ("n1", False)]


async def test_a_taint_that_an_earlier_process_left_is_taken_off_where_no_room_is_made() -> None:
    controller = MakingRoom()
    left = replace(small("n2"), taints=(ROOM_TAINT,))
    controller.sync_and_resume(small("n1"), left)
    async with controller.following():
        await anyio.sleep(5)

    assert controller.taints == [("n2", False)]


async def test_where_taints_are_refused_room_is_made_without_and_a_line_names_the_remedy() -> None:
    controller = MakingRoom()
    controller.taint_refusal = RequestRejected("403", retryable=False, is_denied=True)
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        await controller.land("a", "n2")
        await controller.land("b", "n2")
        controller.update("big", node="n1")
        await anyio.sleep(5)

    text = "the taint of a node with room for a pod that waits cannot be written"
    [line] = controller.log.values_of(text)
    assert "deploy/room/rbac.yaml" in line["remedy"]
    assert controller.results == ["begun", "bound"]


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "refused"])
async def test_a_taint_that_is_refused_for_one_node_is_written_to_others(*, is_gone: bool) -> None:
    """What is no lack of a right names none, and a node that is gone needs no line."""
    controller = MakingRoom()
    controller.taint_refusal = RequestRejected("no", retryable=False, is_gone=is_gone)
    left = replace(small("n3"), taints=(ROOM_TAINT,)), web("k3", "n3", "2500m", owner=None)
    controller.sync_and_resume(*CLUSTER, *left, waits())
    async with controller.following():
        assert {name for name, _ in controller.taints} == {"n1", "n3"}

    text = "the taint of a node with room for a pod that waits cannot be written"
    lines = controller.log.values_of(text)
    named = {(line["node"], line["remedy"]) for line in lines}
    assert named == (set() if is_gone else {("n1", None), ("n3", None)})


async def test_room_on_a_node_that_is_gone_ends_and_is_made_on_another_at_once() -> None:
    """The moves were in vain by no choice of ours, so nothing rests."""
    third, fourth = small("n3"), small("n4")
    kept = web("k3", "n3", "2500m", owner=None), web("k4", "n4", "1", owner=None)
    controller = MakingRoom()
    controller.sync_and_resume(*CLUSTER, third, fourth, *kept, web("m", "n4", "1"), waits())
    async with controller.following():
        assert controller.evicted_names == ["m"]
        await controller.land("m", "n3")
        controller.delete(controller.now("k4"))
        controller.delete(replace(fourth, taints=(ROOM_TAINT,)))
        await anyio.sleep(20)

    assert controller.results == ["begun", "given_up", "begun"]
    assert sorted(controller.evicted_names) == ["a", "b", "m"]
    assert controller.taints == [("n4", True), ("n1", True)]


def second_node_cluster() -> tuple[Any, ...]:
    """n1 gets room once `a` leaves it; that fits on n2 alone, once `m` has gone to n3 from there.

    `a` and `b` of n1 ask for memory that only n2 has.
    """
    big = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    small_memory = {**big, "memory": "4Gi"}
    return (
        node("n1", allocatable=big),
        node("n2", allocatable=big),
        node("n3", allocatable=small_memory),
        pod("a", on="n1", requests={"cpu": "1", "memory": "5Gi"}),
        web("k1", "n1", "1", owner=None),
        web("m", "n2", "1"),
        web("k2", "n2", "2500m", owner=None),
        web("k3", "n3", "2500m", owner=None),
    )


async def test_a_pod_of_a_second_node_moves_first_and_makes_the_place_for_one_of_the_first() -> (
    None
):
    controller = MakingRoom()
    controller.sync_and_resume(*second_node_cluster(), waits())
    async with controller.following():
        assert controller.writes == [("big", "n1")]
        assert controller.taints == [("n1", True), ("n2", True)]
        assert controller.evicted_names == ["m"]
        assert controller.blocking()["a"] == "EarlierMoves"
        controller.delete(controller.now("m"))
        await anyio.sleep(20)
        assert controller.evicted_names == ["m"]  # its replacement might still come to n2
        controller.deliver(web("mx", "n3", "1"))
        await anyio.sleep(5)
        assert controller.evicted_names == ["m", "a"]
        await controller.land("a", "n2")
        controller.update("big", node="n1")
        await anyio.sleep(60)

    assert controller.results == ["begun", "bound"]
    assert controller.evicted_names == ["m", "a"]
    assert controller.taints[2:] == [("n1", False), ("n2", False)]


async def test_a_dry_run_names_the_moves_of_both_nodes() -> None:
    controller = MakingRoom(dry_run=True)
    controller.evictor.script |= {"a": [DryRun()], "m": [DryRun()]}
    controller.sync_and_resume(*second_node_cluster(), waits())
    async with controller.following():
        await anyio.sleep(1)

    assert (controller.writes, controller.taints) == ([], [])
    assert sorted(controller.evicted_names) == ["a", "m"]


async def test_nothing_leaves_a_second_node_where_the_pod_of_the_first_is_kept() -> None:
    controller = MakingRoom(guards=GuardSettings())
    a = pod("a", on="n1", requests={"cpu": "1", "memory": "5Gi"})
    held = replace(a, annotations=Annotations(do_not_evict="true"))
    others = [each for each in second_node_cluster() if each.name != "a"]
    controller.sync_and_resume(*others, held, waits())
    async with controller.following():
        await anyio.sleep(900)
        assert (controller.writes, controller.evicted_names) == ([], [])
        controller.update("a", annotations=Annotations())
        await anyio.sleep(30)

    assert controller.evicted_names == ["m"]


async def test_where_the_place_that_was_made_is_taken_nothing_else_moves_and_the_set_ends() -> None:
    controller = MakingRoom()
    controller.sync_and_resume(*second_node_cluster(), waits())
    async with controller.following():
        controller.delete(controller.now("m"))
        controller.deliver(web("mx", "n3", "1"), web("late", "n2", "1", owner=None))
        await anyio.sleep(3600)
        assert controller.evicted_names == ["m"]

    assert controller.results == ["begun", "given_up"]
    assert controller.taints[2:] == [("n1", False), ("n2", False)]


async def test_what_is_assumed_of_earlier_moves_leaves_nothing_behind() -> None:
    """Node fit reserves nothing where the set does not begin: `n3` takes another pod meanwhile."""
    controller = MakingRoom()
    controller.refusal = RequestRejected("403", retryable=False, is_denied=True)
    controller.sync_and_resume(*second_node_cluster(), waits())
    async with controller.following():
        assert controller.writes == [("big", "n1")]
        fit = controller.controller.gates.node_fit
        assert fit.reserved_by_node() == {}
        assert fit.find_node_among(controller.now("a"), {"n2"}) is None
        assert fit.find_node_among(controller.now("m"), {"n3"}) == "n3"


async def test_one_room_is_made_after_the_other() -> None:
    third, fourth = small("n3"), small("n4")
    more = web("c", "n3", "1500m"), web("k3", "n3", "500m", owner=None)
    full = web("k4", "n4", "2", owner=None)
    controller = MakingRoom()
    controller.evictor.slow_s = 0.1
    controller.sync_and_resume(
        *CLUSTER, third, fourth, *more, full, waits("big"), waits("bulk", "3500m")
    )
    async with controller.following():
        assert len(controller.writes) == 1
        await anyio.sleep(20)
        assert controller.results == ["begun"]


GROUP = {"scheduling.x-k8s.io/pod-group": "train"}
THREE = small("n1"), small("n2"), small("n3")
OF_GANG = (
    *(web(f"k{n}", f"n{n}", "1500m", owner=None) for n in "12"),
    *(web(f"m{n}", f"n{n}", owner=f"ReplicaSet/m{n}") for n in "12"),
    web("k3", "n3", "2500m", owner=None),
)
"""n1 and n2 have 2 CPUs free, and 2.5 once m1 and m2 have moved, for which n3 has room."""


def member(number: int) -> Pod:
    return replace(waits(f"g{number}", "2500m"), labels=GROUP)


async def test_all_pods_of_a_gang_are_nominated_before_the_first_pod_leaves() -> None:
    controller = MakingRoom()
    controller.hold_nominations_of("g1")
    controller.sync_and_resume(*THREE, *OF_GANG, member(0), member(1))
    async with controller.following():
        assert {name for name, _ in controller.writes} == {"g0", "g1"}
        assert controller.evicted_names == []
        controller.hold_nominations_of()
        await anyio.sleep(5)
        assert sorted(controller.evicted_names) == ["m1", "m2"]
        await controller.land("m1", "n3")
        await controller.land("m2", "n3")
        for pod_, name in set(controller.writes):
            controller.update(pod_, node=name)
        await anyio.sleep(120)

    assert {name for _, name in controller.writes} == {"n1", "n2"}
    assert sorted(controller.results) == ["begun", "begun", "bound", "bound"]
    assert sorted(controller.evicted_names) == ["m1", "m2"]


async def test_a_pod_of_a_gang_that_is_declared_late_gets_room_with_the_others() -> None:
    """The set for the first has begun by then, and none of its pods has left."""
    controller = MakingRoom()
    controller.hold_nominations_of("g0")
    controller.sync_and_resume(*THREE, *OF_GANG, member(0))
    async with controller.following():
        [(_, name)] = set(controller.writes)
        controller.hold_nominations_of()
        controller.nominate("g0", name)
        controller.deliver(member(1))
        await anyio.sleep(15)

    assert sorted(controller.evicted_names) == ["m1", "m2"]
    assert {each for each, _ in controller.writes} == {"g0", "g1"}


async def test_for_a_gang_of_which_one_pod_has_no_room_none_is_nominated() -> None:
    controller = MakingRoom()
    controller.sync_and_resume(*THREE, *OF_GANG, *map(member, range(3)))
    async with controller.following():
        await anyio.sleep(60)

    assert (controller.writes, controller.evicted_names) == ([], [])


async def test_what_a_guard_keeps_on_one_node_keeps_the_room_of_the_whole_gang() -> None:
    [m2] = [each for each in OF_GANG if each.name == "m2"]
    held = replace(m2, annotations=Annotations(do_not_evict="true"))
    others = [each for each in OF_GANG if each.name != "m2"]
    controller = MakingRoom(guards=GuardSettings())
    controller.sync_and_resume(*THREE, *others, held, member(0), member(1))
    async with controller.following():
        await anyio.sleep(60)
        assert (controller.writes, controller.evicted_names) == ([], [])
        controller.update("m2", annotations=Annotations())
        await anyio.sleep(30)

    assert sorted(controller.evicted_names) == ["m1", "m2"]


async def test_a_pod_of_the_gang_that_is_gone_ends_the_set_and_the_nomination_of_the_others() -> (
    None
):
    moves = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 1000.0})
    slowly = TokenRate(per_second=1 / 600, burst=1)
    controller = MakingRoom(moves=moves, rates={"cluster": slowly})
    controller.sync_and_resume(*THREE, *OF_GANG, member(0), member(1))
    async with controller.following():
        assert len(controller.evicted_names) == 1
        controller.delete(controller.now("g1"))
        await anyio.sleep(30)
        assert controller.now("g0").status.nominated_node == ""
        assert set(controller.results[2:]) == {"gone", "given_up"}
        controller.deliver(replace(member(1), uid="again"))
        await anyio.sleep(900)

    assert len(controller.evicted_names) == 1
    assert "RoomRests" in controller.blocking().values()


async def test_the_room_of_a_gang_that_an_earlier_process_began_goes_on() -> None:
    """m1 is leaving, and the pods are nominated otherwise than they would be now."""
    others = [each for each in OF_GANG if each.name != "m1"]
    [m1] = [each for each in OF_GANG if each.name == "m1"]
    nominated = [
        replace(member(number), status=replace(NOWHERE, nominated_node=name))
        for number, name in enumerate(("n2", "n1"))
    ]
    controller = MakingRoom()
    controller.sync_and_resume(*THREE, *others, replace(m1, deletion_s=5), *nominated)
    async with controller.following():
        assert controller.evicted_names == ["m2"]

    assert controller.writes == []


async def test_a_dry_run_nominates_no_pod_and_shows_the_whole_set() -> None:
    controller = MakingRoom(dry_run=True)
    controller.evictor.script |= {"a": [DryRun()], "b": [DryRun()]}
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        await anyio.sleep(1)

    assert controller.writes == []
    assert sorted(controller.evicted_names) == ["a", "b"]


@pytest.mark.parametrize("mode", [PROPOSE, OBSERVE])
async def test_what_is_not_carried_out_nominates_no_pod(mode: Mode) -> None:
    controller = MakingRoom(mode=mode)
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        await anyio.sleep(60)

    assert controller.writes == []
    assert controller.evicted_names == []


async def test_without_the_right_nothing_leaves_and_a_line_names_the_remedy() -> None:
    controller = MakingRoom()
    controller.refusal = RequestRejected("403", retryable=False, is_denied=True)
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        await anyio.sleep(2.5 * RETRY_S)

    assert controller.evicted_names == []
    assert 2 <= len(controller.writes) <= 4
    [line, *_] = controller.log.values_of("a pod cannot be nominated for a node")
    assert "deploy/room/rbac.yaml" in line["remedy"]
    assert controller.results == []


async def test_a_room_that_an_earlier_process_began_goes_on() -> None:
    leaving = replace(A, deletion_s=5)
    nominated = replace(waits(), status=replace(NOWHERE, nominated_node="n1"))
    controller = MakingRoom()
    controller.sync_and_resume(*NODES, leaving, B, KEPT1, KEPT2, nominated)
    async with controller.following():
        assert controller.evicted_names == ["b"]

    assert controller.writes == []


async def test_why_of_the_pod_that_waits_says_what_would_make_room(golden: Golden) -> None:
    controller = MakingRoom(guards=GuardSettings())
    controller.sync_and_resume(*CLUSTER, waits())
    async with controller.following():
        answer = Explainer(controller.controller, (), ClockPair(0.0, 0.0)).explain(waits())
        assert answer.summary == golden("has room")
        assert [each.answer for each in answer.plugins] == [NOTHING]
        controller.deliver(web("thief", "n2", "1", owner=None))
        await anyio.sleep(1)
        answer = Explainer(controller.controller, (), ClockPair(0.0, 0.0)).explain(waits())
        assert answer.summary == golden("has none")
