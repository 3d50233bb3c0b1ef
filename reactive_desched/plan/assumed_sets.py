"""Writes taints and nominations of sets of moves in a preview, as the controller would.

No time passes until one is there, unless it is known when the controller wrote it. It notes which
nodes are empty, and which pods are bound for which room was made.
"""

from collections.abc import Callable, Collection, Iterator
from math import ceil, inf
from typing import Final

from msgspec.structs import replace

from reactive_desched.controller.consolidation import (
    SetState,
    SetTaints,
    TaintWrite,
    closes_nodes,
)
from reactive_desched.controller.controller import Controller
from reactive_desched.model.consolidation import ROOM_TAINT, consolidating_taint, consolidation_of
from reactive_desched.model.findings import MoveSet, RoomFor
from reactive_desched.model.node_marks import CONSOLIDATING, MAKING_ROOM
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.taints import Taint
from reactive_desched.plan.report import EmptiedNode, MadeRoom
from reactive_desched.primitives.timers import earliest
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes

LOOK_EVERY_S: Final = 1.0
"""The controller looks so often at the nodes whose pods leave as a set.

A set that cannot be begun, as its node or pod is gone, is looked at again after so long.
"""

REFUSED: Final = inf

WrittenIn = Callable[[str, str | None], float | None]
"""Says in how many seconds the recorded controller wrote a node's taint of a value.

That is None if it did not about now, and `REFUSED` if it tried in vain.
"""


class AssumedSets:
    """The sets of one preview; `now` returns seconds since its start.

    `try_to_bind` asks the scheduler for a pod, and returns its node, or an empty text. With
    `written_in` nodes are looked at as often as the controller does it, and a taint is written when
    the recorded controller wrote it: what comes until then is the same as there.
    """

    def __init__(
        self,
        controller: Controller,
        now: Callable[[], float],
        try_to_bind: Callable[[Pod], str],
        written_in: WrittenIn | None = None,
    ) -> None:
        self._controller = controller
        self._now = now
        self._try_to_bind = try_to_bind
        self._written_in = written_in
        self._rooms: dict[PodKey, MadeRoom] = {}
        self._nominated: dict[PodKey, str] = {}
        self._nominated_at = -LOOK_EVERY_S
        self._begun: dict[str, tuple[float, int]] = {}
        self._emptied: dict[str, EmptiedNode] = {}
        self._taints = SetTaints(controller)
        self._closes = closes_nodes(controller)
        self._writes: Iterator[TaintWrite | None] = iter(())
        self._next: TaintWrite | None = None
        self._due: float | None = None
        self._looked_at = now() - LOOK_EVERY_S
        self._is_changed = True

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

    def note_change(self) -> None:
        """Note that the cluster has changed: nodes are looked at once more."""
        self._is_changed = True

    def next_due(self) -> float | None:
        """Return when a set is to begin, or is given up, if nothing happens until then."""
        ready = self._controller.sets_to_begin()
        again = self._nominated_at + LOOK_EVERY_S if any(each.rooms for each in ready) else None
        return earliest(again, self._next_look(begins=any(not each.rooms for each in ready)))

    def advance(self) -> None:
        """Write the taints and nominations that are due now."""
        self._begin_rooms()
        self._follow_rooms()
        if self._written_in is None:
            self._look(self._now())
        elif self._due is not None and self._due <= self._now():
            due, self._due = self._due, None
            if self._next is None:
                self._look(due)
            else:
                self._write_next(due)

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

    # --- taints ---

    def _next_look(self, *, begins: bool) -> float | None:
        """Return when nodes are looked at next, or when a taint is written that is due later."""
        ends_at = self._taints.next_due()
        if self._written_in is None:
            return earliest(self._looked_at + LOOK_EVERY_S if begins else None, ends_at)
        if self._due is None and (begins or ends_at is not None or self._may_differ()):
            passed = ceil((self._now() - self._looked_at) / LOOK_EVERY_S)
            self._due = self._looked_at + LOOK_EVERY_S * max(1, passed)
        return self._due

    def _may_differ(self) -> bool:
        """Say whether another look may find what the last one did not."""
        return self._is_changed and (self._closes or bool(self._taints.nodes()))

    def _look(self, at: float) -> None:
        """Look at the nodes; no time of a pause counts."""
        passed, self._looked_at = at - self._looked_at, at
        if self._controller.pauses.check():
            self._taints.hold(passed)
            return
        self._is_changed = False
        nodes = self._taints.nodes()
        found = self._found() if nodes else frozenset[str]()
        self._writes = self._taints.look(nodes, found, self._now)
        self._write_on()

    def _write_next(self, at: float) -> None:
        """Write the taint whose time has come, and what is to be written after it."""
        each, self._next, self._looked_at = self._next, None, at
        assert each is not None, "it was due"
        self._write(each)
        self._write_on()

    def _write_on(self) -> None:
        """Write one taint after the other, up to one that is due later."""
        for each in self._writes:
            if each is None:
                continue
            in_s = self._written_in(each.node.name, each.value) if self._written_in else None
            if not in_s:
                self._write(each)
            elif in_s == REFUSED:
                self._taints.refused(each, self._now())
                self._is_changed = True
            else:
                self._next, self._due = each, self._now() + in_s
                return

    def _write(self, each: TaintWrite) -> None:
        name = each.node.name
        info = self._controller.view.node_info(name)
        if info is None or info.node is None:
            return
        if (moved := each.begun) is not None:
            self._begun[name] = self._now(), len(moved.pods)
        if each.ended is not None and each.ended[0] is SetState.EMPTY:
            began, pods = self._begun.get(name, (0.0, 0))
            emptied = EmptiedNode(name, pods, round(began, 3), round(self._now(), 3))
            self._emptied[name] = emptied
        elif each.value is None:
            self._emptied.pop(name, None)
        self._upsert(_tainted(info.node, each.value))

    def _found(self) -> Collection[str]:
        """Return the nodes of which a pod is found as one of a set, and waits."""
        pending = self._controller.evaluator.queue.pending()
        sets = (each.decision.finding.move_set for each in pending)
        return {moved.node for moved in sets if moved is not None and not moved.rooms}

    # --- rooms ---

    def _begin_rooms(self) -> None:
        self._close_nodes_with_room()
        for moved in self._controller.sets_to_begin():
            for room in moved.rooms:
                self._nominated_at = self._now()
                self._nominate(room, moved)

    def _close_nodes_with_room(self) -> None:
        """Let the nodes have the taint on which room is made, or a place, and no others."""
        view = self._controller.view
        sets = (*self._controller.sets_to_begin(), *self._controller.rooms_under_way())
        wanted = {name for moved in sets if moved.rooms for name in moved.nodes}
        for name in sorted(wanted ^ set(view.index(ConsolidatedNodes).with_room)):
            info = view.node_info(name)
            if info is None or info.node is None:
                continue
            taint = ROOM_TAINT if name in wanted else None
            self._upsert(_with_taint(info.node, MAKING_ROOM, taint))

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

    def _upsert(self, obj: Node | Pod) -> None:
        self._controller.apply(self._controller.state.upsert(obj))


def _tainted(node: Node, value: str | None) -> Node:
    """Return a node with the taint of this value, or without it."""
    taint = None if value is None else consolidating_taint(value)
    return _with_taint(node, CONSOLIDATING, taint)


def _with_taint(node: Node, key: str, taint: Taint | None) -> Node:
    """Return a node with this taint in place of those of the key, None for none."""
    added_s = node.taints_added_s or (None,) * len(node.taints)
    both = zip(node.taints, added_s, strict=True)
    times = {each: at_s for each, at_s in both if each.key != key}
    if taint is not None:
        times[taint] = None
    has_times = any(at_s is not None for at_s in times.values())
    return replace(
        node, taints=tuple(times), taints_added_s=tuple(times.values()) if has_times else ()
    )


def _nominated(pod: Pod, node: str) -> Pod:
    status = replace(pod.status, nominated_node=node)
    return replace(pod, status=status, resource_version=0)
