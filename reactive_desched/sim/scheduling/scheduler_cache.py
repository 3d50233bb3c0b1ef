"""The pods on each node: sums per node and per template, updated with every store event."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import ZONE_LABEL
from reactive_desched.model.resources import (
    CPU,
    MEMORY,
    add_resources,
    parse_resource_list,
    subtract_resources,
)
from reactive_desched.model.taints import Taint
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import controller_uid, is_terminal, is_terminating, node_of
from reactive_desched.sim.scheduling.needs import HostPort, NeedsReader, PodNeeds

__all__ = ["NodeRoom", "PodGroup", "SchedulerCache"]

_GroupKey: TypeAlias = tuple[str, str, int]


class PodGroup:
    """Pods that are alike: one namespace, one owner, one template."""

    def __init__(self, namespace: str, owner: str, needs: PodNeeds) -> None:
        self.namespace = namespace
        self.owner = owner
        self.needs = needs
        self.on: dict[str, int] = {}
        """Pods per node, those being deleted included."""
        self.ending: dict[str, int] = {}
        """Pods per node that are being deleted."""

    def staying(self, node: str) -> int:
        """Return how many of the pods on a node are not being deleted."""
        return self.on.get(node, 0) - self.ending.get(node, 0)


class NodeRoom:
    """One node with the sums of what its pods hold; `exists` is false until its object comes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exists = False
        self.labels: Labels = {}
        self.taints: tuple[Taint, ...] = ()
        self.is_unschedulable = False
        self.allocatable: Mapping[str, int] = {}
        self.requested: dict[str, int] = {}
        self.scored: dict[str, int] = {CPU: 0, MEMORY: 0}
        self.pods = 0
        self.host_ports: list[HostPort] = []
        self.images: Mapping[str, int] = {}
        """The bytes of each image that the node has, by every name of it."""

    @property
    def zone(self) -> str:
        """The zone label, or the empty text."""
        return self.labels.get(ZONE_LABEL, "")

    def describe(self, node: Obj | None) -> None:
        """Take over what the node's object says; None when it is gone."""
        self.exists = node is not None
        spec = (node or {}).get("spec") or {}
        self.labels = labels_of(node or {})
        self.taints = tuple(msgspec.convert(spec.get("taints") or (), tuple[Taint, ...]))
        self.is_unschedulable = bool(spec.get("unschedulable"))
        listed = (node or {}).get("status", {}).get("allocatable") or {}
        self.allocatable = parse_resource_list(
            {resource: str(value) for resource, value in listed.items()}
        )
        self.images = {
            str(name): int(image.get("sizeBytes") or 0)
            for image in (node or {}).get("status", {}).get("images") or ()
            for name in image.get("names") or ()
        }

    def seat(self, needs: PodNeeds) -> None:
        """Count a pod in."""
        self.pods += 1
        add_resources(self.requested, needs.requests)
        self.scored[CPU] += needs.scored_cpu_m
        self.scored[MEMORY] += needs.scored_memory
        self.host_ports.extend(needs.host_ports)

    def unseat(self, needs: PodNeeds) -> None:
        """Count a pod out."""
        self.pods -= 1
        subtract_resources(self.requested, needs.requests)
        self.scored[CPU] -= needs.scored_cpu_m
        self.scored[MEMORY] -= needs.scored_memory
        for port in needs.host_ports:
            self.host_ports.remove(port)

    def free(self, resource: str) -> int:
        """Return what is left of a resource; negative when over-committed."""
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)


class _Seat(Struct, frozen=True):
    node: str
    group: PodGroup
    is_ending: bool


class SchedulerCache:
    """The scheduler's cache: bounded by the pods, nodes and namespaces that exist."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Labels] = {}
        self._reader = NeedsReader()
        self._rooms: dict[str, NodeRoom] = {}
        self._seats: dict[str, _Seat] = {}
        self._groups: dict[_GroupKey, PodGroup] = {}
        self._repelling: dict[_GroupKey, PodGroup] = {}
        self._owned: dict[str, dict[str, int]] = {}
        self._order: list[NodeRoom] | None = None

    def needs_of(self, pod: Obj) -> PodNeeds:
        """Return what a pod asks for; raises msgspec.ValidationError for a malformed spec."""
        return self._reader.read(pod)

    def rooms(self) -> list[NodeRoom]:
        """Return the nodes that exist, zones taken in turn as the real scheduler does."""
        if self._order is None:
            self._order = list(_zones_in_turn(room for room in self._rooms.values() if room.exists))
        return self._order

    def room(self, node: str) -> NodeRoom | None:
        """Return a node, or None when it does not exist."""
        room = self._rooms.get(node)
        return room if room is not None and room.exists else None

    def groups(self) -> Iterator[PodGroup]:
        """Iterate over all groups that have a pod on some node."""
        return iter(self._groups.values())

    def repelling_groups(self) -> Iterator[PodGroup]:
        """Iterate over the groups whose pods refuse company by required anti-affinity."""
        return iter(self._repelling.values())

    def pods_of_owner(self, owner: str) -> Mapping[str, int]:
        """Count the pods of a controlling owner per node, without those being deleted."""
        return self._owned.get(owner, {})

    def see_pod(self, pod: Obj, *, gone: bool = False) -> None:
        """Take note of a pod as it is now, or that it no longer exists."""
        uid, node = pod["metadata"]["uid"], node_of(pod)
        before = self._seats.pop(uid, None)
        if before is not None:
            self._leave(before)
        if gone or not node or is_terminal(pod):
            return
        try:
            needs = self.needs_of(pod)
        except msgspec.ValidationError:
            return  # A pod that cannot be read holds a place by name only.
        seat = _Seat(node, self._group(pod, needs), is_terminating(pod))
        self._seats[uid] = seat
        self._enter(seat)

    def see_node(self, node: Obj, *, gone: bool = False) -> None:
        """Take note of a node as it is now, or that it no longer exists."""
        room = self._rooms.setdefault(name_of(node), NodeRoom(name_of(node)))
        room.describe(None if gone else node)
        self._order = None
        self._drop_if_empty(room)

    def see_namespace(self, namespace: Obj, *, gone: bool = False) -> None:
        """Take note of a namespace's labels."""
        if gone:
            self.namespaces.pop(name_of(namespace), None)
        else:
            self.namespaces[name_of(namespace)] = labels_of(namespace)

    def _group(self, pod: Obj, needs: PodNeeds) -> PodGroup:
        key = (namespace_of(pod), controller_uid(pod), id(needs))
        group = self._groups.get(key)
        if group is None:
            # The group keeps its needs alive, so their id stays theirs while the group exists.
            group = self._groups[key] = PodGroup(key[0], key[1], needs)
            if needs.anti_affinity:
                self._repelling[key] = group
        return group

    def _enter(self, seat: _Seat) -> None:
        group, node = seat.group, seat.node
        room = self._rooms.get(node)
        if room is None:
            room = self._rooms[node] = NodeRoom(node)
        room.seat(group.needs)
        add_resources(group.on, {node: 1})
        if group.owner and not seat.is_ending:
            add_resources(self._owned.setdefault(group.owner, {}), {node: 1})
        if seat.is_ending:
            add_resources(group.ending, {node: 1})

    def _leave(self, seat: _Seat) -> None:
        group, node = seat.group, seat.node
        room = self._rooms[node]
        room.unseat(group.needs)
        subtract_resources(group.on, {node: 1})
        if seat.is_ending:
            subtract_resources(group.ending, {node: 1})
        if group.owner and not seat.is_ending:
            self._disown(group.owner, node)
        if not group.on:
            key = (group.namespace, group.owner, id(group.needs))
            self._groups.pop(key, None)
            self._repelling.pop(key, None)
        self._drop_if_empty(room)

    def _disown(self, owner: str, node: str) -> None:
        owned = self._owned[owner]
        subtract_resources(owned, {node: 1})
        if not owned:
            del self._owned[owner]

    def _drop_if_empty(self, room: NodeRoom) -> None:
        if not room.exists and not room.pods:
            self._rooms.pop(room.name, None)


def _zones_in_turn(rooms: Iterator[NodeRoom]) -> Iterator[NodeRoom]:
    zones: dict[str, list[NodeRoom]] = {}
    for room in rooms:
        zones.setdefault(room.zone, []).append(room)
    columns = [sorted(zone, key=lambda room: room.name) for _, zone in sorted(zones.items())]
    for row in range(max(map(len, columns), default=0)):
        for column in columns:
            if row < len(column):
                yield column[row]
