"""Every node in a slot of its own, and what the filters ask of it as sets of slots."""

from collections import OrderedDict, deque
from collections.abc import Collection, Generator, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from reactive_desched.api.index import NodeInfo
from reactive_desched.fit.change_log import ChangeLog, NodeChanges
from reactive_desched.fit.free_amounts import FreeResources, remaining
from reactive_desched.fit.host_ports import NO_PORTS, HostPortIndex, Ports
from reactive_desched.fit.koordinator_reservations import KoordinatorReservations
from reactive_desched.fit.labels import READ_AT_ONCE, NodeLabels
from reactive_desched.fit.reservations import Reservations, VacatedPlaces
from reactive_desched.model.node_marks import is_being_emptied
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.resources import PODS, ResourceList
from reactive_desched.model.scheduling import tolerates_all
from reactive_desched.model.taints import HARD_EFFECTS, Taint, Tolerations
from reactive_desched.primitives import bits
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.state.cluster import ClusterView

MAX_CACHED_TOLERATIONS: Final = 1_000
"""How many tolerations have their rejecting nodes cached; at the bound the cache is emptied."""


MAX_MISSING: Final = 1_000
"""How many resources are remembered that pods ask for and no node offers; at the bound all are
forgotten, and who waits for one is evaluated again after some minutes."""


class NodeUpdate(Struct, frozen=True, gc=False):
    """A refreshed slot: whether the node's attributes changed, and whether its capacity grew."""

    slot: int
    attributes_changed: bool
    capacity_grew: bool


class NodeSets:
    """All Nodes; follows the cluster when `sync` is called.

    `existing`, `ready`, `eligible`, `cordoned` and `emptied` are sets of slots; `emptied` are the
    nodes that are being deleted or emptied. A free slot is given to the next node.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._node_changes: NodeChanges | None = None
        self._cursor = -1
        self._dirty: OrderedDict[str, None] = OrderedDict()
        self._unread: deque[NodeInfo] = deque()
        self.reservations = Reservations(self._mark_dirty)
        self.vacated = VacatedPlaces(self._mark_dirty)
        self.existing = self.ready = self.eligible = self.cordoned = self.emptied = 0
        self.free = FreeResources()
        self.ports = HostPortIndex()
        self._label_changes: ChangeLog[int] = ChangeLog()
        self._node_infos: list[NodeInfo | None] = []
        self._nodes: list[Node | None] = []
        self._slots_by_name: dict[str, int] = {}
        self._free_slots: list[int] = []
        self._host_port_pods: list[tuple[Pod, ...]] = []
        self.labels = NodeLabels(self._nodes, self._slots_by_name, self._label_changes)
        self._tainted: dict[tuple[Taint, ...], int] = {}
        self._untolerated: dict[int, tuple[Tolerations, int]] = {}
        self._declaring: dict[str, int] = {}
        self._offering: dict[str, int] = {}
        self._missing: set[str] = set()
        self._last_named: tuple[frozenset[str], int, int] = frozenset(), -1, 0

    # --- questions ---

    def slot_of(self, name: str) -> int | None:
        """Return the slot of a node; None where there is no Node of that name."""
        return self._slots_by_name.get(name)

    def named(self, names: Collection[str]) -> int:
        """Return the slots of the nodes with these names; it is quick for the same set again."""
        last, cursor, found = self._last_named
        if last is names and cursor == self._label_changes.end:
            return found
        steps = self._slots_named(names)
        if isinstance(names, frozenset) and len(names) > READ_AT_ONCE:
            self.labels.await_steps(steps)
        return at_once(steps)

    def _slots_named(self, names: Collection[str]) -> Generator[None, None, int]:
        cursor, slots, left = self._label_changes.end, list[int](), iter(names)
        while portion := list(islice(left, READ_AT_ONCE)):
            slots += [
                slot for name in portion if (slot := self._slots_by_name.get(name)) is not None
            ]
            yield
        found = bits.of_slots(slots)
        if isinstance(names, frozenset):
            self._last_named = names, cursor, found
        return found

    def name(self, slot: int) -> str:
        """Return the name of the node in a slot."""
        node = self._nodes[slot]
        return "" if node is None else node.name

    def node(self, slot: int) -> Node | None:
        """Return the node in a slot."""
        return self._nodes[slot]

    def node_info(self, slot: int) -> NodeInfo | None:
        """Return what is known of the node in a slot."""
        return self._node_infos[slot]

    def untolerated(self, tolerations: Tolerations) -> int:
        """Return the slots with a hard taint that these tolerations do not tolerate."""
        known = self._untolerated.get(id(tolerations))
        if known is not None and known[0] is tolerations:
            return known[1]
        found = 0
        for taints, nodes in self._tainted.items():
            if not tolerates_all(tolerations, taints):
                found |= nodes
        if len(self._untolerated) >= MAX_CACHED_TOLERATIONS:
            self._untolerated.clear()
        self._untolerated[id(tolerations)] = tolerations, found
        return found

    def lacking(self, features: tuple[str, ...]) -> int:
        """Return the slots whose nodes do not declare all of these features.

        As kube-scheduler's NodeDeclaredFeatures filter, which is on by default since 1.36; earlier
        ones with the feature gates of such pods may lack it.
        """
        if not features:
            return 0
        having = self.existing
        for feature in features:
            having &= self._declaring.get(feature, 0)
        return self.existing & ~having

    def lacks(self, node: Node, features: tuple[str, ...]) -> bool:
        """Say the same of one node as it is now."""
        return not set(features) <= set(node.declared_features)

    @property
    def labels_revision(self) -> int:
        """Return a number that is another one once a node came, went or has other labels."""
        return self._label_changes.end

    def with_at_least(self, resource: str, amount: int) -> int:
        """Return the slots with this amount of a resource free, at least one, and not reserved."""
        if not self.free.tracks(resource):
            if resource not in self._offering:
                self._remember_missing(resource)
                return 0
            free = [0] * len(self._nodes)
            for slot in bits.slots_in(self._offering[resource]):
                free[slot] = self._free_amount(resource, slot)
            self.free.track(resource, free)
        return self.free.with_at_least(resource, amount)

    def offering(self, resource: str) -> int:
        """Return the slots that have any of a resource, be it taken or free."""
        found = self._offering.get(resource, 0)
        for slot in bits.slots_in(found):
            node = self.node(slot)
            if node is None or not node.allocatable.get(resource):
                found &= ~(1 << slot)
        return found

    # --- following the state ---

    @property
    def is_stale(self) -> bool:
        """Say whether any node, or what is reserved there, may differ from the sets."""
        changes = self._view.index(NodeChanges)
        return (
            bool(self._dirty)
            or bool(self._unread)
            or changes is not self._node_changes
            or changes.log.end != self._cursor
        )

    def sync(self, limit: int | None = None) -> list[NodeUpdate]:
        """Refresh dirty nodes, at most `limit` of them; return those that were refreshed."""
        self._read_changes()
        found: list[NodeUpdate] = []
        while (limit is None or len(found) < limit) and (name := self._next_dirty()) is not None:
            if (refreshed := self._refresh(name)) is not None:
                found.append(refreshed)
        return found

    def _next_dirty(self) -> str | None:
        """Take out the next node to refresh; those that were never read come last."""
        if self._dirty:
            return self._dirty.popitem(last=False)[0]
        return self._unread.popleft().name if self._unread else None

    def _read_changes(self) -> None:
        """Mark the nodes dirty that changed since the last call; at the first, read them all."""
        changes = self._view.index(NodeChanges)
        if changes is not self._node_changes:
            self._node_changes, self._cursor = changes, -1
        changed = changes.log.since(self._cursor)
        if changed is None:
            changed = self._slots_by_name
            self._unread = deque(self._view.node_infos())
        self._dirty.update(dict.fromkeys(changed))
        self._cursor = changes.log.end

    def _mark_dirty(self, name: str) -> None:
        self._dirty[name] = None

    def _refresh(self, name: str) -> NodeUpdate | None:
        entry, slot = self._view.node_info(name), self._slots_by_name.get(name)
        if entry is None or entry.node is None:
            return None if slot is None else self._free_slot(slot)
        if slot is None:
            slot = self._assign_slot(name)
        self._node_infos[slot] = entry
        otherwise = self._update_attributes(slot, entry.node, eligible=entry.eligible)
        grew = self.free.update(slot, entry.node.allocatable, self._container_requests(entry))
        freed = self._update_ports(slot, entry)
        return NodeUpdate(slot, otherwise, grew or freed)

    def _assign_slot(self, name: str) -> int:
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = len(self._nodes)
            self._nodes.append(None)
            self._node_infos.append(None)
            self._host_port_pods.append(())
            self.free.add_slot()
        self._slots_by_name[name] = slot
        self.existing = bits.with_bit(self.existing, slot, present=True)
        return slot

    def _free_slot(self, slot: int) -> NodeUpdate:
        del self._slots_by_name[self.name(slot)]
        self._update_taints(slot, self._nodes[slot], None)
        self._update_features(slot, self._nodes[slot], None)
        self._update_offers(slot, self._nodes[slot], None)
        self._nodes[slot] = self._node_infos[slot] = None
        self._host_port_pods[slot] = ()
        self._label_changes.append(slot)
        gone = ~(1 << slot)
        self.existing &= gone
        self.ready &= gone
        self.eligible &= gone
        self.cordoned &= gone
        self.emptied &= gone
        self.free.update(slot, {}, ())
        self.ports.update(slot, NO_PORTS)
        self._free_slots.append(slot)
        return NodeUpdate(slot, attributes_changed=True, capacity_grew=False)

    def _update_attributes(self, slot: int, node: Node, *, eligible: bool) -> bool:
        """Update the sets from a Node's labels, taints and conditions; say whether any changed."""
        old = self._nodes[slot]
        self._nodes[slot] = node
        changed = eligible != bool(self.eligible >> slot & 1)
        if changed:
            self.eligible = bits.with_bit(self.eligible, slot, present=eligible)
        if old is node:
            return changed
        if old is None or old.labels != node.labels or old.name != node.name:
            self._label_changes.append(slot)
            changed = True
        if old is None or old.taints != node.taints:
            self._update_taints(slot, old, node)
            changed = True
        changed |= self._update_features(slot, old, node)
        self._update_offers(slot, old, node)
        emptied = is_being_emptied(node)
        if emptied != bool(self.emptied >> slot & 1):
            self.emptied = bits.with_bit(self.emptied, slot, present=emptied)
            changed = True
        if old is None or (old.is_ready, old.unschedulable) != (node.is_ready, node.unschedulable):
            self.ready = bits.with_bit(self.ready, slot, present=node.is_ready)
            self.cordoned = bits.with_bit(self.cordoned, slot, present=node.unschedulable)
            changed = True
        return changed

    def _update_features(self, slot: int, old: Node | None, new: Node | None) -> bool:
        """Update which slots declare which features; say whether one's differ."""
        before = () if old is None else old.declared_features
        after = () if new is None else new.declared_features
        if before == after:
            return False
        _move(self._declaring, slot, before, after)
        return True

    def _update_offers(self, slot: int, old: Node | None, new: Node | None) -> None:
        """Update which slots offer which resources; track what pods have missed until now."""
        before = {} if old is None else old.allocatable
        after = {} if new is None else new.allocatable
        if before.keys() != after.keys():
            _move(self._offering, slot, before, after)
            for resource in self._missing & after.keys():
                self._missing.discard(resource)
                self.free.track(resource, [0] * len(self._nodes))

    def _remember_missing(self, resource: str) -> None:
        if len(self._missing) >= MAX_MISSING:
            self._missing.clear()
        self._missing.add(resource)

    def _update_taints(self, slot: int, old: Node | None, new: Node | None) -> None:
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
        self._untolerated.clear()

    def _container_requests(self, entry: NodeInfo) -> list[ResourceList]:
        taken: list[ResourceList] = [entry.held]
        if vacated := self.vacated.on_node(entry.name):
            taken += ({name: -size for name, size in _held(pod).items()} for pod in vacated)
        if (reserved := self.reservations.reserved_on(entry.name)) is not None:
            taken.append(reserved)
        if (
            kept := self._view.index(KoordinatorReservations).on_node_named(entry.name)
        ) is not None:
            taken.append(kept)
        return taken

    def _update_ports(self, slot: int, entry: NodeInfo) -> bool:
        reserved = [b.pod for b in self.reservations.on_node(entry.name) if b.pod.spec.host_ports]
        vacated = self.vacated.on_node(entry.name)
        if entry.host_port_pods is self._host_port_pods[slot] and not reserved and not vacated:
            return False
        # Reservations end: compare with the pods alone the next time.
        if vacated:
            there = tuple(pod for pod in entry.host_port_pods if pod.uid not in self.vacated)
        else:
            there = entry.host_port_pods
        self._host_port_pods[slot] = (*there, *reserved) if reserved else there
        return self.ports.update(slot, _ports_of(self._host_port_pods[slot]))

    def _free_amount(self, resource: str, slot: int) -> int:
        entry = self._node_infos[slot]
        if entry is None or entry.node is None:
            return 0
        return remaining(resource, entry.node.allocatable, self._container_requests(entry))

    def slots(self) -> Iterator[int]:
        """Return the slots that have a node."""
        return bits.slots_in(self.existing)


def _move(sets: dict[str, int], slot: int, before: Collection[str], after: Collection[str]) -> None:
    """Take a slot out of the sets of some names, and put it into those of others."""
    for name in {*before, *after}:
        if slots := bits.with_bit(sets.get(name, 0), slot, present=name in after):
            sets[name] = slots
        else:
            sets.pop(name, None)


def _held(pod: Pod) -> ResourceList:
    """Return what a pod holds of its node, its place among the pods included."""
    return {**pod.held, PODS: 1}


def _hard_taints(node: Node | None) -> tuple[Taint, ...]:
    if node is None or not node.taints:
        return ()
    return tuple(taint for taint in node.taints if taint.effect in HARD_EFFECTS)


def _ports_of(pods: tuple[Pod, ...]) -> Ports:
    return frozenset(port for pod in pods for port in pod.spec.host_ports)
