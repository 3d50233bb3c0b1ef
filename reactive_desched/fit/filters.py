"""One pod against all nodes: which fit, which is best, and why the others do not.

The filters come in the kube-scheduler's order and use its words. What the pod to be moved itself
takes up on its own node is left out, since it will be gone: requests, place, host ports, volumes.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.fit.bits import slots_in, with_bit
from reactive_desched.fit.free_amounts import demands
from reactive_desched.fit.host_ports import any_clash
from reactive_desched.fit.node_sets import Nodes
from reactive_desched.fit.pod_affinity import Neighbours
from reactive_desched.fit.spread import Spread
from reactive_desched.fit.volumes import Storage
from reactive_desched.model.objects import Pod, PodSpec
from reactive_desched.model.resources import PODS
from reactive_desched.model.scheduling import (
    NOT_SELECTED,
    PORTS_TAKEN,
    TAINTED,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
    insufficient,
    stands_cordons,
)
from reactive_desched.model.volumes import TOO_MANY_VOLUMES
from reactive_desched.state.view import ClusterView

COMPARED: Final = 16
"""Of so many nodes that fit, the one with most room is taken."""

Objections = list[tuple[str, int]]
"""One filter's reasons, each with the slots that refuse for it."""


class WhyNot(Struct, frozen=True):
    """How many nodes were looked at, and how many refused for which reason."""

    nodes: int
    reasons: Counter[str]

    def __str__(self) -> str:
        counted = sorted(f"{number} {reason}" for reason, number in self.reasons.items())
        return f"0/{self.nodes} nodes are available: {', '.join(counted)}"


class Search:
    """Asks every filter which of the nodes refuse a pod; the nodes must be caught up."""

    def __init__(self, nodes: Nodes, view: ClusterView) -> None:
        self._nodes = nodes
        self.storage = Storage(nodes, view)
        self.neighbours = Neighbours(nodes, view)
        self.spread = Spread(nodes, view)

    def find(self, pod: Pod, among: int) -> int | None:
        """Return a slot that fits a pod: of the first sixteen that do the one with most room."""
        for objections in self._objections(pod):
            for _, refusing in objections:
                among &= ~refusing
            if not among:
                return None
        return self._roomiest(pod, among)

    def fitting(self, pod: Pod, among: int) -> int:
        """Return all the slots that fit a pod."""
        for objections in self._objections(pod):
            for _, refusing in objections:
                among &= ~refusing
        return among & ~self._overloaded(pod, among)

    def why_not(self, pod: Pod, among: int) -> WhyNot:
        """Count why nodes do not fit: each by the first filter that it fails."""
        reasons: Counter[str] = Counter()
        nodes = among.bit_count()
        for objections in self._objections(pod):
            refused = 0
            for reason, refusing in objections:
                if number := (among & refusing).bit_count():
                    reasons[reason] += number
                    refused |= refusing
            among &= ~refused
        if number := self._overloaded(pod, among).bit_count():
            reasons[TOO_MANY_VOLUMES] += number
        return WhyNot(nodes, reasons)

    def standing(self, pod: Pod, among: int) -> int:
        """Return the slots that are open to a pod whatever sits there."""
        for _, refusing in self._closed(pod):
            among &= ~refusing
        return among

    def roomy(self, pod: Pod, among: int) -> int:
        """Return the slots with enough room for one more such pod, whoever is near."""
        for resource, wanted in demands(pod.spec.requests):
            among &= self._nodes.with_at_least(resource, wanted)
        return among & ~self._nodes.ports.clashing(pod.spec.host_ports)

    def has_room(self, spec: PodSpec, wanted: list[tuple[str, int]], slot: int) -> bool:
        """Say whether one slot has enough room for such a pod, which demands these amounts."""
        if not self._nodes.amounts.has(slot, wanted):
            return False
        ports = spec.host_ports
        return not ports or not any_clash(ports, self._nodes.ports.of(slot))

    # --- the filters ---

    def _objections(self, pod: Pod) -> Iterator[Objections]:
        if (hopeless := self.storage.hopeless(pod)) is not None:
            yield [(hopeless, self._nodes.existing)]
        for objection in self._closed(pod):
            yield [objection]
        yield self._ports(pod)
        yield self._shortages(pod)
        for objection in self.storage.refusals(pod):
            yield [objection]
        for objection in self.spread.refusals(pod):
            yield [objection]
        for objection in self.neighbours.refusals(pod):
            yield [objection]

    def _closed(self, pod: Pod) -> Iterator[tuple[str, int]]:
        nodes, spec = self._nodes, pod.spec
        if nodes.cordoned and not stands_cordons(spec.tolerations):
            yield UNSCHEDULABLE, nodes.cordoned
        yield TAINTED, nodes.unsuited(spec.tolerations)
        if spec.node_selector or spec.node_affinity is not None:
            yield NOT_SELECTED, nodes.existing & ~nodes.labels.open_to(spec, nodes.existing)

    def _ports(self, pod: Pod) -> Objections:
        wanted = pod.spec.host_ports
        if not wanted:
            return []
        clashing, own = self._nodes.ports.clashing(wanted), self._own_slot(pod)
        if own is not None:
            clashing = with_bit(clashing, own, present=self._clashes_at_home(pod, own))
        return [(PORTS_TAKEN, clashing)]

    def _clashes_at_home(self, pod: Pod, slot: int) -> bool:
        entry = self._nodes.entry(slot)
        if entry is None:
            return False
        promised = (b.pod for b in self._nodes.bookings.on(entry.name))
        others = (p for p in (*entry.listening, *promised) if p.uid != pod.uid)
        held = (port for other in others for port in other.spec.host_ports)
        return any_clash(pod.spec.host_ports, held)

    def _shortages(self, pod: Pod) -> Objections:
        own, found = self._own_slot(pod), []
        for resource, wanted in demands(pod.spec.requests):
            short = self._nodes.existing & ~self._nodes.with_at_least(resource, wanted)
            if own is not None:
                free = self._nodes.amounts.of(resource, own) + self._held(pod, own, resource)
                short = with_bit(short, own, present=free < wanted)
            found.append((_words(resource), short))
        return found

    def _own_slot(self, pod: Pod) -> int | None:
        return self._nodes.number(pod.node) if pod.node else None

    def _held(self, pod: Pod, slot: int, resource: str) -> int:
        """Return what a pod itself takes of a resource on its node."""
        entry = self._nodes.entry(slot)
        here = None if entry is None else entry.active.get(pod.uid)
        if here is None:
            return 0
        if resource == PODS:
            return 1
        return here.spec.requests.get(resource, 0) + here.resized.get(resource, 0)

    def _overloaded(self, pod: Pod, among: int) -> int:
        """Return which of the slots cannot attach the pod's volumes."""
        found = 0
        if pod.claims:
            for slot in slots_in(among):
                if self.storage.cannot_attach(pod, slot):
                    found |= 1 << slot
        return found

    # --- the choice ---

    def _roomiest(self, pod: Pod, among: int) -> int | None:
        best, most, compared = None, -1.0, 0
        for slot in slots_in(among):
            if pod.claims and self.storage.cannot_attach(pod, slot):
                continue
            if (room := self._room_left(pod, slot)) > most or best is None:
                best, most = slot, room
            compared += 1
            if compared == COMPARED:
                break
        return best

    def _room_left(self, pod: Pod, slot: int) -> float:
        """Return the scarcest resource's free share of a node, once the pod is there."""
        node = self._nodes.node(slot)
        allocatable = {} if node is None else node.allocatable
        return min(
            (self._nodes.amounts.of(resource, slot) - wanted) / (allocatable.get(resource) or 1)
            for resource, wanted in demands(pod.spec.requests)
        )


def _words(resource: str) -> str:
    return TOO_MANY_PODS if resource == PODS else insufficient(resource)
