"""Which nodes a pod's volumes close: where they cannot be reached, or not be attached.

What the pod to move has attached to its own node is attached there already, so it is no obstacle.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from reactive_desched.fit.node_sets import Nodes
from reactive_desched.model.objects import PersistentVolume, Pod
from reactive_desched.model.volumes import (
    IN_USE,
    NO_VOLUME,
    NO_ZONE,
    NOT_REACHABLE,
    PLACE_LABELS,
    placed_in,
    unusable,
)
from reactive_desched.state.view import ClusterView

Attached = dict[str, set[str]]
"""Volumes by driver, as the drivers call them."""

_NONE: Final[Attached] = {}


class Storage:
    """Judges volumes; what is attached to a node is remembered until the node is touched."""

    def __init__(self, nodes: Nodes, view: ClusterView) -> None:
        self._nodes = nodes
        self._view = view
        self._attached: dict[int, Attached] = {}

    def forget(self, slot: int) -> None:
        """What sits in a slot may differ."""
        self._attached.pop(slot, None)

    def hopeless(self, pod: Pod) -> str | None:
        """Say why no node at all will do, whatever else is so, or None."""
        for name in pod.claims:
            claim = self._view.claim(pod.namespace, name)
            if (why := unusable(claim, name)) is not None:
                return why
            if claim is not None and claim.exclusive and any(self.other_users(pod, name)):
                return IN_USE
        return None

    def other_users(self, pod: Pod, claim: str) -> Iterator[Pod]:
        """Return the pods beside this one that use a claim."""
        users = self._view.claim_users(pod.namespace, claim)
        return (user for user in users if user.uid != pod.uid)

    def refusals(self, pod: Pod) -> Iterator[tuple[str, int]]:
        """Return the slots from which a volume of the pod cannot be reached."""
        for volume in self.volumes_of(pod):
            if volume is None:
                if self._view.volumes_are_told:
                    yield NO_VOLUME, self._nodes.existing
                continue
            existing = self._nodes.existing
            if volume.reachable_from is not None:
                near = self._nodes.labels.chosen(volume.reachable_from, existing)
                yield NOT_REACHABLE, existing & ~near
            yield NO_ZONE, self._elsewhere(volume)

    def volumes_of(self, pod: Pod) -> Iterator[PersistentVolume | None]:
        """Return the volumes that a pod's claims are bound to; None for one we do not know."""
        for name in pod.claims:
            claim = self._view.claim(pod.namespace, name)
            if claim is not None and claim.volume:
                yield self._view.volume(claim.volume)

    def cannot_attach(self, pod: Pod, slot: int) -> bool:
        """Say whether a pod's volumes are too many for the drivers in a slot."""
        limits = self._view.attachable(self._nodes.name(slot))
        wanted = self._by_driver([pod]) if limits and pod.claims else _NONE
        if not any(driver in limits for driver in wanted):
            return False
        attached = self._attached_in(slot)
        for driver, handles in wanted.items():
            there = attached.get(driver, set())
            if handles - there and len(handles | there) > limits.get(driver, len(handles | there)):
                return True
        return False

    def _attached_in(self, slot: int) -> Attached:
        if slot not in self._attached:
            self._attached[slot] = self._by_driver(self._mounting(slot))
        return self._attached[slot]

    def _mounting(self, slot: int) -> Iterator[Pod]:
        """Return the pods with claims in a slot, and those that are promised a place there."""
        entry = self._nodes.entry(slot)
        if entry is not None:
            yield from (pod for pod in entry.active.values() if pod.claims)
            yield from (booking.pod for booking in self._nodes.bookings.on(entry.name))

    def _by_driver(self, pods: Iterable[Pod]) -> Attached:
        found: Attached = {}
        for pod in pods:
            for volume in self.volumes_of(pod):
                if volume is not None and volume.driver:
                    found.setdefault(volume.driver, set()).add(volume.handle)
        return found

    def _elsewhere(self, volume: PersistentVolume) -> int:
        """Return the slots that say where they are, and not where the volume is."""
        labels, near, somewhere = self._nodes.labels, self._nodes.existing, 0
        for key, todays, values in placed_in(volume):
            here = labels.in_any(key, values)
            if todays != key:
                here |= labels.in_any(todays, values) & ~labels.bearing(key)
            near &= here
        if near == self._nodes.existing:
            return 0
        for key in PLACE_LABELS:
            somewhere |= labels.bearing(key)
        return somewhere & ~near
