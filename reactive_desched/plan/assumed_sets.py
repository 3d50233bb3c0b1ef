"""Writes taints and nominations of sets of moves in a preview, as the controller would.

No time passes until one is there. A set that does not go on keeps it to the end. It notes which
nodes are empty, and which pods are bound for which room was made.
"""

from collections.abc import Callable

from msgspec.structs import replace

from reactive_desched.controller.consolidation import nodes_to_close
from reactive_desched.controller.controller import Controller
from reactive_desched.model.consolidation import (
    EMPTY,
    EMPTYING,
    consolidating_taint,
    consolidation_of,
)
from reactive_desched.model.findings import MoveSet
from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.plan.report import EmptiedNode, MadeRoom
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes


class AssumedSets:
    """The sets of one preview; `now` returns seconds since its start.

    `try_to_bind` asks the scheduler for a pod, and returns its node, or an empty text.
    """

    def __init__(
        self,
        controller: Controller,
        now: Callable[[], float],
        try_to_bind: Callable[[Pod], str],
    ) -> None:
        self._controller = controller
        self._now = now
        self._try_to_bind = try_to_bind
        self._rooms: dict[PodKey, MadeRoom] = {}
        self._begun: dict[str, tuple[float, int]] = {}
        self._emptied: dict[str, EmptiedNode] = {}

    @property
    def nodes(self) -> tuple[EmptiedNode, ...]:
        """Return the nodes whose sets began, in that order, with when they were empty."""
        return tuple(
            self._emptied.get(name) or EmptiedNode(name, pods, round(began, 3), None)
            for name, (began, pods) in self._begun.items()
        )

    @property
    def rooms(self) -> tuple[MadeRoom, ...]:
        """Return the pods for which room was made, in the order in which that began."""
        return tuple(self._rooms.values())

    def advance(self) -> None:
        """Write the taints and nominations that are due now."""
        for each in self._controller.sets_to_begin():
            if each.room_for is not None:
                self._nominate(each.room_for, each)
                continue
            info = self._controller.view.node_info(each.node)
            for empty in tuple(nodes_to_close(each, self._controller.view)):
                self._taint(empty, EMPTY)
            if info is not None and info.node is not None:
                self._begun[each.node] = self._now(), len(each.pods)
                self._taint(info.node, EMPTYING)
        for uid, room in list(self._rooms.items()):
            if room.bound_in_seconds is None:
                self._bind(uid, room)
        for name in sorted(self._controller.view.index(ConsolidatedNodes).names):
            self._follow(name)

    def _nominate(self, uid: PodKey, moved: MoveSet) -> None:
        if (pod := self._controller.view.pod(uid)) is None:
            return
        began = round(self._now(), 3)
        self._rooms[uid] = MadeRoom(str(pod), moved.node, len(moved.pods), began, None)
        status = replace(pod.status, nominated_node=moved.node)
        nominated = replace(pod, status=status, resource_version=0)
        self._controller.apply(self._controller.state.upsert(nominated))

    def _bind(self, uid: PodKey, room: MadeRoom) -> None:
        pod = self._controller.view.pod(uid)
        if pod is not None and pod.is_pending and (node := self._try_to_bind(pod)):
            bound = round(self._now(), 3)
            self._rooms[uid] = replace(room, node=node, bound_in_seconds=bound)

    def _follow(self, name: str) -> None:
        info = self._controller.view.node_info(name)
        if info is None or info.node is None:
            return
        state, is_empty = consolidation_of(info.node), all(map(drain_leaves, info.active.values()))
        if state != EMPTY and is_empty:
            began, pods = self._begun.get(name, (0.0, 0))
            emptied = EmptiedNode(name, pods, round(began, 3), round(self._now(), 3))
            self._emptied[name] = emptied
            self._taint(info.node, EMPTY)
        elif state == EMPTY and not is_empty:
            self._emptied.pop(name, None)
            self._taint(info.node, None)

    def _taint(self, node: Node, value: str | None) -> None:
        taints = tuple(each for each in node.taints if each.key != CONSOLIDATING)
        if value is not None:
            taints = (*taints, consolidating_taint(value))
        self._controller.apply(self._controller.state.upsert(replace(node, taints=taints)))
