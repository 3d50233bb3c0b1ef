"""Writes taints and nominations of sets of moves in a preview, as the controller would.

No time passes until one is there. It notes which nodes are empty, and which pods are bound for
which room was made.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from reactive_desched.controller.consolidation import (
    SetProgress,
    SetState,
    acts,
    is_active,
    nodes_kept_free,
    nodes_to_close,
)
from reactive_desched.controller.controller import Controller
from reactive_desched.model.consolidation import (
    EMPTY,
    EMPTYING,
    PLANNED,
    consolidating_taint,
    consolidation_of,
)
from reactive_desched.model.findings import MoveSet, RoomFor
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.plan.report import EmptiedNode, MadeRoom
from reactive_desched.primitives.timers import earliest
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes

LOOK_EVERY_S: Final = 1.0
"""A set that cannot be begun, as its node or pod is gone, is looked at again after so long."""


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
        self._nominated: dict[PodKey, str] = {}
        self._begun: dict[str, tuple[float, int]] = {}
        self._emptied: dict[str, EmptiedNode] = {}
        self._progress = SetProgress()
        self._began_at = -LOOK_EVERY_S

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

    def next_due(self) -> float | None:
        """Return when a set is to begin, or is given up, if nothing happens until then."""
        begins = self._began_at + LOOK_EVERY_S if self._controller.sets_to_begin() else None
        return earliest(begins, self._progress.next_due())

    def advance(self) -> None:
        """Write the taints and nominations that are due now."""
        ready = self._controller.sets_to_begin()
        if ready:
            self._began_at = self._now()
        for each in ready:
            self._begin(each)
        for name in self._controller.nodes_that_follow():
            if (info := self._controller.view.node_info(name)) is not None and info.node:
                self._taint(info.node, PLANNED)
        for node in tuple(nodes_kept_free(self._controller)):
            self._taint(node, EMPTY)
        self._follow_rooms()
        index = self._controller.view.index(ConsolidatedNodes)
        names = sorted((*index.names, *index.planned))
        self._progress.forget_others(names)
        if names:
            found = {
                moved.node
                for each in self._controller.evaluator.queue.pending()
                if (moved := each.decision.finding.move_set) and not moved.rooms
            }
            for name in names:
                self._follow(name, is_found=name in found)

    def is_closed(self, name: str) -> bool:
        """Say whether a node has the taint of a set in this world."""
        info = self._controller.view.node_info(name)
        return info is not None and info.node is not None and bool(consolidation_of(info.node))

    def node_as_here(self, node: Node) -> Node:
        """Return a node of another world with the taint that it has in this one."""
        info = self._controller.view.node_info(node.name)
        if info is None or info.node is None:
            return node
        value = consolidation_of(info.node)
        return node if consolidation_of(node) == value else _tainted(node, value)

    def pod_as_here(self, pod: Pod) -> Pod:
        """Return a pod of another world with the nomination that it has in this one."""
        node = self._nominated.get(pod.uid)
        return _nominated(pod, node) if node and not pod.node else pod

    def _begin(self, moved: MoveSet) -> None:
        for room in moved.rooms:
            self._nominate(room, moved)
        if moved.rooms:
            return
        info = self._controller.view.node_info(moved.node)
        for empty in tuple(nodes_to_close(moved, self._controller.view)):
            self._taint(empty, EMPTY)
        if info is not None and info.node is not None:
            self._begun[moved.node] = self._now(), len(moved.pods)
            self._taint(info.node, EMPTYING)

    def _nominate(self, room: RoomFor, moved: MoveSet) -> None:
        if (pod := self._controller.view.pod(room.pod)) is None or pod.node:
            return
        began = round(self._now(), 3)
        self._rooms[pod.uid] = MadeRoom(str(pod), room.node, len(moved.pods), began, None)
        self._nominated[pod.uid] = room.node
        self._upsert(_nominated(pod, room.node))

    def _follow_rooms(self) -> None:
        """Bind the pods for which there is room now; nominate those in vain no more."""
        if not self._nominated:
            return
        sets = (*self._controller.sets_to_begin(), *self._controller.rooms_under_way())
        under_way = {room.pod for each in sets for room in each.rooms}
        for uid in list(self._nominated):
            pod = self._controller.view.pod(uid)
            if pod is not None and pod.is_pending and (node := self._try_to_bind(pod)):
                bound = round(self._now(), 3)
                self._rooms[uid] = replace(self._rooms[uid], node=node, bound_in_seconds=bound)
                del self._nominated[uid]
            elif pod is None or not pod.is_pending:
                del self._nominated[uid]
            elif uid not in under_way:
                del self._nominated[uid]
                self._upsert(_nominated(pod, ""))

    def _follow(self, name: str, *, is_found: bool) -> None:
        """Mark a node that is empty, and take the taint off where the set does not go on."""
        info = self._controller.view.node_info(name)
        if info is None or info.node is None:
            return
        goes_on = is_active(self._controller, info, is_found=is_found)
        state, _ = self._progress.look(info, self._now(), is_active=goes_on)
        if not acts(self._controller) or state in (SetState.GIVEN_UP, SetState.USED_AGAIN):
            self._emptied.pop(name, None)
            self._taint(info.node, None)
        elif state is SetState.EMPTY and (value := consolidation_of(info.node)) != EMPTY:
            if value != PLANNED:
                began, pods = self._begun.get(name, (0.0, 0))
                emptied = EmptiedNode(name, pods, round(began, 3), round(self._now(), 3))
                self._emptied[name] = emptied
            self._taint(info.node, EMPTY)

    def _taint(self, node: Node, value: str | None) -> None:
        self._upsert(_tainted(node, value))

    def _upsert(self, obj: Node | Pod) -> None:
        self._controller.apply(self._controller.state.upsert(obj))


def _tainted(node: Node, value: str | None) -> Node:
    """Return a node with the taint of this value, or without it."""
    added_s = node.taints_added_s or (None,) * len(node.taints)
    both = zip(node.taints, added_s, strict=True)
    times = {taint: at_s for taint, at_s in both if taint.key != CONSOLIDATING}
    if value is not None:
        times[consolidating_taint(value)] = None
    has_times = any(at_s is not None for at_s in times.values())
    return replace(
        node, taints=tuple(times), taints_added_s=tuple(times.values()) if has_times else ()
    )


def _nominated(pod: Pod, node: str) -> Pod:
    status = replace(pod.status, nominated_node=node)
    return replace(pod, status=status, resource_version=0)
