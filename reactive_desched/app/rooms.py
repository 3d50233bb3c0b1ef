"""Nominates pods for the nodes on which room is made for them, until they are bound.

Before that these nodes get a taint with the effect PreferNoSchedule, so that other pods, those that
move among them, go elsewhere also while the kube-scheduler has taken a nomination back; nodes on
which an earlier move makes a place for a later one get it as well.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from reactive_desched.api.event import EventData, RoomBegun, RoomEnded
from reactive_desched.app.consolidation import WriteTaint
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.errors import ClusterError
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.model.consolidation import ROOM_TAINT
from reactive_desched.model.findings import MoveSet, RoomFor
from reactive_desched.model.node_marks import MAKING_ROOM
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge

POLL_S: Final = 0.25
"""How often pods that wait are looked at."""

AGAIN_S: Final = 1.0
"""How long a nomination is left to the watch, and then written once more if it is not there."""

RETRY_S: Final = 30.0
"""How long a nomination waits that was refused."""

BEING_MADE: Final = gauge(
    "rooms_being_made", "Pods that wait, and for which others move to make room."
)
ENDED: Final = counter(
    "rooms_ended",
    "Pods for which room was made, by what became of them: bound there, bound elsewhere, gone, or "
    "given up.",
    "result",
)
RIGHT: Final = "kubectl apply -f deploy/room/rbac.yaml gives the right to patch pods/status"
RIGHT_OF_TAINTS: Final = "kubectl apply -f deploy/room/rbac.yaml gives the right to patch nodes"

Nominate = Callable[[Pod, str], Awaitable[bool]]
"""Nominates a pod for a node, empty for none; says whether it is now; raises ClusterError."""


class _Making(Struct, frozen=True):
    """A room that is being made, and the pod that waits as it was last seen."""

    node: str
    pod: Pod


class Rooms:
    """Follows the sets that make room; `nominate` is None in a dry run, which writes nothing.

    The kube-scheduler takes a nomination back when it tries the pod before its room is free: then
    it is nominated once more. Where the taints of nodes cannot be written, room is made without.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        recorder: Recorder,
        nominate: Nominate | None,
        write_taint: WriteTaint,
        log: Logger,
    ) -> None:
        self._controller = pipeline.controller
        self._recorder = recorder
        self._write = nominate
        self._write_taint = write_taint
        self._taints_retry_at = 0.0
        self._taint_retry_at: dict[str, float] = {}
        self._log = log
        self._making: dict[PodKey, _Making] = {}
        self._retry_at: dict[PodKey, float] = {}
        self._ended = dict.fromkeys(("bound", "elsewhere", "gone", "given_up"), 0)

    def collect(self) -> Iterator[Metric]:
        """Yield the rooms that are being made, and those that have ended."""
        yield BEING_MADE.value(len(self._making))
        yield ENDED.by_label(self._ended)

    async def run(self) -> None:
        """Nominate pods, while this process acts, until cancelled."""
        await self._controller.initial_sync_done.wait()
        while True:
            if self._write is not None and not self._controller.pauses.check():
                await self._look(self._write)
            await anyio.sleep(POLL_S)

    async def _look(self, write: Nominate) -> None:
        controller, now = self._controller, anyio.current_time()
        self._retry_at = {uid: at for uid, at in self._retry_at.items() if at > now}
        sets = [each for each in controller.sets_to_begin() if each.rooms]
        sets += controller.rooms_under_way()
        await self._close_nodes({name for moved in sets for name in moved.nodes})
        for moved in sets:
            for room in moved.rooms:
                await self._nominate(room, moved, write)
        current = {room.pod for moved in sets for room in moved.rooms}
        for uid in [uid for uid in self._making if uid not in current]:
            await self._end(self._making.pop(uid), write)

    async def _close_nodes(self, names: Collection[str]) -> None:
        """Let these nodes have the taint, and no others.

        What was written a moment ago is left to the watch; what failed is tried again after that,
        and what is refused later: without the right to, for all nodes.
        """
        now, view = anyio.current_time(), self._controller.view
        with_room = view.index(ConsolidatedNodes).with_room
        infos = map(view.node_info, {*with_room, *names})
        nodes = {info.name: info.node for info in infos if info is not None and info.node}
        there, wanted = nodes.keys() & with_room, nodes.keys() & names
        self._taint_retry_at = {n: at for n, at in self._taint_retry_at.items() if now < at}
        for name in sorted(there ^ wanted):
            if now < self._taints_retry_at:
                return
            if name in self._taint_retry_at:
                continue
            self._taint_retry_at[name] = now + AGAIN_S
            try:
                taint = None if name in there else ROOM_TAINT
                await self._write_taint(nodes[name], MAKING_ROOM, taint)
            except ClusterError as error:
                if error.retryable or error.is_gone:  # others write taints, and the watch is late
                    continue
                self._taint_retry_at[name] = now + RETRY_S
                if error.is_denied:
                    self._taints_retry_at = now + RETRY_S
                text = "the taint of a node with room for a pod that waits cannot be written"
                remedy = error.if_denied(RIGHT_OF_TAINTS)
                self._log.warning(text, node=name, message=str(error), remedy=remedy)

    async def _nominate(self, room: RoomFor, moved: MoveSet, write: Nominate) -> None:
        pod = self._controller.view.pod(room.pod)
        if pod is None or pod.node:
            await checkpoint()
            return
        if pod.status.nominated_node != room.node and not await self._set(pod, room.node, write):
            return
        if pod.uid not in self._making:
            self._log.info(
                "a pod is nominated, and others leave to make room", pod=str(pod), node=room.node
            )
            self._record(RoomBegun(**_named(pod, room.node), pods=len(moved.pods)), pod)
        self._making[pod.uid] = _Making(room.node, pod)

    async def _set(self, pod: Pod, node: str, write: Nominate) -> bool:
        """Nominate a pod, unless that was tried a moment ago; say whether it was done."""
        now = anyio.current_time()
        if now < self._retry_at.get(pod.uid, now):
            await checkpoint()
            return False
        self._retry_at[pod.uid] = now + AGAIN_S
        try:
            return await write(pod, node)
        except ClusterError as error:
            self._retry_at[pod.uid] = now + RETRY_S
            text = "a pod cannot be nominated for a node"
            remedy = error.if_denied(RIGHT)
            self._log.warning(text, pod=str(pod), node=node, message=str(error), remedy=remedy)
            return False

    async def _end(self, making: _Making, write: Nominate) -> None:
        """Record what became of a room; a pod that still waits is nominated no more."""
        pod = self._controller.view.pod(making.pod.uid)
        if pod is None or pod.is_terminating or pod.has_ended:
            result = "gone"
        elif pod.node:
            result = "bound" if pod.node == making.node else "elsewhere"
        else:
            result = "given_up"
            if pod.status.nominated_node == making.node:
                self._retry_at.pop(pod.uid, None)
                await self._set(pod, "", write)
        self._ended[result] += 1
        self._log.info("the room made for a pod has ended", pod=str(making.pod), result=result)
        self._record(RoomEnded(**_named(making.pod, making.node), result=result), making.pod)
        await checkpoint()

    def _record(self, event: EventData, pod: Pod) -> None:
        self._recorder.record(event, "rooms", version=pod.uid, cause="pods")


def _named(pod: Pod, node: str) -> dict[str, str]:
    return {"waiting": str(pod), "waiting_uid": pod.uid, "node": node}
