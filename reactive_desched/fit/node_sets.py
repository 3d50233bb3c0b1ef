"""Every node in a slot of its own, with what the filters ask of it kept as sets of slots."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.fit import bits
from reactive_desched.fit.change_log import Trail
from reactive_desched.fit.free_amounts import FreeAmounts, left
from reactive_desched.fit.host_ports import NO_PORTS, HeldPorts, Ports
from reactive_desched.fit.labels import NodeLabels
from reactive_desched.fit.reservations import Bookings
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.resources import Amounts
from reactive_desched.model.scheduling import stands_taints
from reactive_desched.model.taints import HARD_EFFECTS, Taint, Tolerations
from reactive_desched.state.nodes import NodeEntry
from reactive_desched.state.view import ClusterView

REMEMBERED_TOLERATIONS: Final = 1_000
"""Tolerations for which it is remembered which nodes they do not suit; at the bound all are
forgotten and found out anew."""


class Refreshed(Struct, frozen=True, gc=False):
    """A slot that was looked at again: whether the node itself differs, and whether it has more."""

    slot: int
    stands_otherwise: bool
    grew: bool


class Nodes:
    """All nodes that are known as objects; follows the state when told to catch up.

    `existing`, `ready`, `counting` and `cordoned` are sets of slots. A slot that becomes free is
    given to the next node.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.touched = view.follow_nodes()
        self.bookings = Bookings(self.touched.add)
        self.existing = self.ready = self.counting = self.cordoned = 0
        self.amounts = FreeAmounts()
        self.ports = HeldPorts()
        self._trail = Trail()
        self._entries: list[NodeEntry | None] = []
        self._nodes: list[Node | None] = []
        self._numbers: dict[str, int] = {}
        self._vacant: list[int] = []
        self._listening: list[tuple[Pod, ...]] = []
        self.labels = NodeLabels(self._nodes, self._numbers, self._trail)
        self._tainted: dict[tuple[Taint, ...], int] = {}
        self._unsuited: dict[int, tuple[Tolerations, int]] = {}

    # --- questions ---

    def number(self, name: str) -> int | None:
        """Return the slot of a node, None for one that is not known as an object."""
        return self._numbers.get(name)

    def name(self, slot: int) -> str:
        """Return the name of the node in a slot."""
        node = self._nodes[slot]
        return "" if node is None else node.name

    def node(self, slot: int) -> Node | None:
        """Return the node in a slot."""
        return self._nodes[slot]

    def entry(self, slot: int) -> NodeEntry | None:
        """Return what sits in a slot."""
        return self._entries[slot]

    def unsuited(self, tolerations: Tolerations) -> int:
        """Return the slots with a taint that keeps off whoever has just these tolerations."""
        known = self._unsuited.get(id(tolerations))
        if known is not None and known[0] is tolerations:
            return known[1]
        found = 0
        for taints, nodes in self._tainted.items():
            if not stands_taints(tolerations, taints):
                found |= nodes
        if len(self._unsuited) >= REMEMBERED_TOLERATIONS:
            self._unsuited.clear()
        self._unsuited[id(tolerations)] = tolerations, found
        return found

    def with_at_least(self, resource: str, amount: int) -> int:
        """Return the slots with so much of a resource free, bookings counted as taken."""
        if not self.amounts.knows(resource):
            self.amounts.begin(resource, [self._left(resource, slot) for slot in self._slots()])
        return self.amounts.with_at_least(resource, amount)

    # --- following the state ---

    @property
    def behind(self) -> bool:
        """Say whether any node may differ from what is known here."""
        return bool(self.touched.names) or self.touched.everything

    def catch_up(self, most: int | None = None) -> list[Refreshed]:
        """Look again at nodes that may differ, at so many at most; say which ones did differ."""
        if self.touched.everything:
            self.touched.everything = False
            names = [entry.name for entry in self._view.everywhere()]
            self.touched.names.update(dict.fromkeys([*names, *self._numbers]))
        waiting = self.touched.names
        found: list[Refreshed] = []
        while waiting and (most is None or len(found) < most):
            name = next(iter(waiting))
            del waiting[name]
            if (refreshed := self._refresh(name)) is not None:
                found.append(refreshed)
        return found

    def _refresh(self, name: str) -> Refreshed | None:
        entry, slot = self._view.room(name), self._numbers.get(name)
        if entry is None or entry.node is None:
            return None if slot is None else self._vacate(slot)
        if slot is None:
            slot = self._occupy(name)
        self._entries[slot] = entry
        otherwise = self._stand(slot, entry.node, counts=entry.counts)
        grew = self.amounts.set(slot, entry.node.allocatable, self._taken(entry))
        freed = self._listen(slot, entry)
        return Refreshed(slot, otherwise, grew or freed)

    def _occupy(self, name: str) -> int:
        if self._vacant:
            slot = self._vacant.pop()
        else:
            slot = len(self._nodes)
            self._nodes.append(None)
            self._entries.append(None)
            self._listening.append(())
            self.amounts.grow()
        self._numbers[name] = slot
        self.existing = bits.with_bit(self.existing, slot, present=True)
        return slot

    def _vacate(self, slot: int) -> Refreshed:
        del self._numbers[self.name(slot)]
        self._mark_taints(slot, self._nodes[slot], None)
        self._nodes[slot] = self._entries[slot] = None
        self._listening[slot] = ()
        self._trail.note(slot)
        gone = ~(1 << slot)
        self.existing &= gone
        self.ready &= gone
        self.counting &= gone
        self.cordoned &= gone
        self.amounts.set(slot, {}, ())
        self.ports.set(slot, NO_PORTS)
        self._vacant.append(slot)
        return Refreshed(slot, stands_otherwise=True, grew=False)

    def _stand(self, slot: int, node: Node, *, counts: bool) -> bool:
        """Take in a node's labels, taints and switches; say whether any of them differs."""
        old = self._nodes[slot]
        self._nodes[slot] = node
        otherwise = counts != bool(self.counting >> slot & 1)
        if otherwise:
            self.counting = bits.with_bit(self.counting, slot, present=counts)
        if old is node:
            return otherwise
        if old is None or old.labels != node.labels or old.name != node.name:
            self._trail.note(slot)
            otherwise = True
        if old is None or old.taints != node.taints:
            self._mark_taints(slot, old, node)
            otherwise = True
        if old is None or (old.is_ready, old.unschedulable) != (node.is_ready, node.unschedulable):
            self.ready = bits.with_bit(self.ready, slot, present=node.is_ready)
            self.cordoned = bits.with_bit(self.cordoned, slot, present=node.unschedulable)
            otherwise = True
        return otherwise

    def _mark_taints(self, slot: int, old: Node | None, new: Node | None) -> None:
        before, after = _hard_taints(old), _hard_taints(new)
        if before == after:
            return
        if before:
            left_over = bits.with_bit(self._tainted[before], slot, present=False)
            if left_over:
                self._tainted[before] = left_over
            else:
                del self._tainted[before]
        if after:
            self._tainted[after] = self._tainted.get(after, 0) | 1 << slot
        self._unsuited.clear()

    def _taken(self, entry: NodeEntry) -> list[Amounts]:
        taken: list[Amounts] = [entry.requested]
        if entry.resizing:
            taken.append(entry.resizing)
        if (booked := self.bookings.held(entry.name)) is not None:
            taken.append(booked)
        return taken

    def _listen(self, slot: int, entry: NodeEntry) -> bool:
        booked = [b.pod for b in self.bookings.on(entry.name) if b.pod.spec.host_ports]
        if entry.listening is self._listening[slot] and not booked:
            return False
        # With bookings the next look must not take this one for granted: they end.
        self._listening[slot] = (*entry.listening, *booked) if booked else entry.listening
        return self.ports.set(slot, _ports_of(self._listening[slot]))

    def _left(self, resource: str, slot: int) -> int:
        entry = self._entries[slot]
        if entry is None or entry.node is None:
            return 0
        return left(resource, entry.node.allocatable, self._taken(entry))

    def _slots(self) -> range:
        return range(len(self._nodes))

    def occupied(self) -> Iterator[int]:
        """Return the slots that have a node."""
        return bits.slots_in(self.existing)


def _hard_taints(node: Node | None) -> tuple[Taint, ...]:
    if node is None or not node.taints:
        return ()
    return tuple(taint for taint in node.taints if taint.effect in HARD_EFFECTS)


def _ports_of(pods: tuple[Pod, ...]) -> Ports:
    return frozenset(port for pod in pods for port in pod.spec.host_ports)
