"""Capacity that the replacements of evicted pods will need.

Without reservations a thousand pods could be evicted for the sake of one free slot.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, TypeVar

from msgspec import Struct

from reactive_desched.fit.device_shares import TakenDevice
from reactive_desched.model.affinity_terms import scheduler_selector
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Pod, PodAffinityTerm, PodKey
from reactive_desched.model.resources import PODS, ResourceList, add_resources

RESERVATION_TTL_S: Final = 120.0
"""How long capacity is reserved for a replacement that does not come."""

MAX_RESERVATIONS: Final = 5_000
"""At the bound the oldest reservation is dropped: its capacity may be reserved twice, and the
kube-scheduler has the last word."""


KeyT = TypeVar("KeyT")
EntryT = TypeVar("EntryT")

LabelPair = tuple[str, str]
"""A label and its value."""


class CapacityReservation(Struct, frozen=True):
    """Capacity on a node for a pod's replacement, and when it expires (monotonic seconds)."""

    pod: Pod
    node: str
    expires_at: float
    devices: tuple[TakenDevice, ...] = ()

    @property
    def requests(self) -> ResourceList:
        """The reserved resources: the pod's requests, and one pod slot."""
        return {**self.pod.spec.requests, PODS: 1}


ReservedTerm = tuple[CapacityReservation, PodAffinityTerm]
"""A reservation, and an anti-affinity term of its pod."""


class Reservations:
    """Reservations by pod, node, owner, namespace and label, and anti-affinity terms of their pods.

    A reservation ends when the replacement of its own pod is bound, or is given up, when the
    eviction did not happen, or after two minutes. A pod without a controller needs none.
    `mark_dirty` is called with every node where one begins or ends.
    """

    def __init__(self, mark_dirty: Callable[[str], None]) -> None:
        self._mark_dirty = mark_dirty
        self._by_pod: OrderedDict[PodKey, CapacityReservation] = (
            OrderedDict()
        )  # next to expire first
        self.pods: Final[Collection[PodKey]] = self._by_pod
        self._by_label: dict[LabelPair, dict[PodKey, CapacityReservation]] = {}
        self._terms: dict[LabelPair | None, dict[PodKey, list[ReservedTerm]]] = {}
        self._with_devices: dict[PodKey, CapacityReservation] = {}
        self._by_node: dict[str, dict[PodKey, CapacityReservation]] = {}
        self._by_owner: dict[str, dict[PodKey, CapacityReservation]] = {}
        self._by_namespace: dict[str, dict[PodKey, CapacityReservation]] = {}

    def __iter__(self) -> Iterator[CapacityReservation]:
        return iter(self._by_pod.values())

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._by_pod

    def of_pod(self, pod: PodKey) -> CapacityReservation | None:
        """Return the reservation for a pod's replacement; None where there is none."""
        return self._by_pod.get(pod)

    def on_node(self, node: str) -> Iterable[CapacityReservation]:
        """Return the reservations on a node."""
        return self._by_node.get(node, {}).values()

    def by_node(self) -> dict[str, ResourceList]:
        """Sum what is reserved on each node with a reservation."""
        sums = ((node, self.reserved_on(node)) for node in self._by_node)
        return {node: amounts for node, amounts in sums if amounts is not None}

    def of_owner(self, owner_uid: str) -> Iterable[CapacityReservation]:
        """Return the reservations for a controller's pods."""
        return self._by_owner.get(owner_uid, {}).values()

    def in_namespace(self, namespace: str) -> Collection[CapacityReservation]:
        """Return the reservations for the pods of a namespace, next to expire first."""
        return self._by_namespace.get(namespace, {}).values()

    def labelled(self, selector: LabelSelector) -> Collection[CapacityReservation]:
        """Return the reservations for pods with a label that a selector requires, or all.

        Others it does not match.
        """
        if (pair := _required_pair(selector)) is None:
            return self._by_pod.values()
        return self._by_label.get(pair, {}).values()

    def terms_about(self, pod: Pod) -> Iterator[ReservedTerm]:
        """Yield the anti-affinity terms of pods with a reservation; others do not match the pod."""
        for pair in (None, *pod.labels.items()):
            for terms in self._terms.get(pair, {}).values():
                yield from terms

    def reserved_on(self, node: str) -> ResourceList | None:
        """Sum what is reserved on a node; None is nothing."""
        if (reservations := self._by_node.get(node)) is None:
            return None
        total: dict[str, int] = {}
        for reservation in reservations.values():
            add_resources(total, reservation.requests)
        return total

    def next_expiry(self) -> float | None:
        """Return when the first reservation expires."""
        first = next(iter(self._by_pod.values()), None)
        return None if first is None else first.expires_at

    def devices_but_of(self, pod: PodKey) -> list[TakenDevice]:
        """Return the devices that are reserved for the replacements of other pods."""
        return [
            device
            for uid, reservation in self._with_devices.items()
            if uid != pod
            for device in reservation.devices
        ]

    def reserve(
        self, pod: Pod, node: str, now: float, devices: tuple[TakenDevice, ...] = ()
    ) -> None:
        """Reserve capacity for the replacement of an evicted pod."""
        owner = controller_uid(pod)
        if owner is None:
            return
        self.release(pod.uid)
        if len(self._by_pod) >= MAX_RESERVATIONS:
            self.release(next(iter(self._by_pod)))
        reservation = CapacityReservation(pod, node, now + RESERVATION_TTL_S, devices)
        self._by_pod[pod.uid] = reservation
        if devices:
            self._with_devices[pod.uid] = reservation
        for pair in pod.labels.items():
            self._by_label.setdefault(pair, {})[pod.uid] = reservation
        for required, term in _terms_of(pod):
            of_pod = self._terms.setdefault(required, {}).setdefault(pod.uid, [])
            of_pod.append((reservation, term))
        self._by_node.setdefault(node, {})[pod.uid] = reservation
        self._by_owner.setdefault(owner, {})[pod.uid] = reservation
        self._by_namespace.setdefault(pod.namespace, {})[pod.uid] = reservation
        self._mark_dirty(node)

    def release(self, pod: PodKey) -> None:
        """Release the reservation for a pod's replacement, if there is one."""
        reservation = self._by_pod.pop(pod, None)
        if reservation is None:
            return
        self._with_devices.pop(pod, None)
        for pair in reservation.pod.labels.items():
            _remove_from_index(self._by_label, pair, pod)
        for required in {required for required, _ in _terms_of(reservation.pod)}:
            _remove_from_index(self._terms, required, pod)
        _remove_from_index(self._by_node, reservation.node, pod)
        _remove_from_index(self._by_owner, controller_uid(reservation.pod) or "", pod)
        _remove_from_index(self._by_namespace, reservation.pod.namespace, pod)
        self._mark_dirty(reservation.node)

    def expire(self, now: float) -> None:
        """Release the reservations that have expired."""
        while (ends := self.next_expiry()) is not None and ends <= now:
            self.release(next(iter(self._by_pod)))


class VacatedPlaces:
    """Pods that are taken to have left their nodes, by node: only where moves are tried.

    `mark_dirty` is called with the node where a place is vacated or is taken again.
    """

    def __init__(self, mark_dirty: Callable[[str], None]) -> None:
        self._mark_dirty = mark_dirty
        self._pods: dict[PodKey, Pod] = {}
        self._by_node: dict[str, dict[PodKey, Pod]] = {}
        self.pods: Final[Collection[Pod]] = self._pods.values()

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._pods

    def on_node(self, node: str) -> Collection[Pod]:
        """Return the pods that are taken to have left a node."""
        return self._by_node.get(node, {}).values()

    def add(self, pod: Pod) -> None:
        """Take a pod to have left its node."""
        self._pods[pod.uid] = pod
        self._by_node.setdefault(pod.node, {})[pod.uid] = pod
        self._mark_dirty(pod.node)

    def discard(self, uid: PodKey) -> None:
        """Take it to be there again."""
        if (pod := self._pods.pop(uid, None)) is not None:
            _remove_from_index(self._by_node, pod.node, uid)
            self._mark_dirty(pod.node)


def controller_uid(pod: Pod) -> str | None:
    """Return the uid of the pod's controller; None for a bare pod."""
    return next((owner.uid for owner in pod.owners if owner.controller), None)


def _required_pair(selector: LabelSelector) -> LabelPair | None:
    """Return a label that each pod has which the selector matches; None where it requires none."""
    for pair in selector.match_labels.items():
        return pair
    for each in selector.match_expressions:
        if each.operator == "In" and len(each.values) == 1:
            return each.key, each.values[0]
    return None


def _terms_of(pod: Pod) -> Iterator[tuple[LabelPair | None, PodAffinityTerm]]:
    """Yield the anti-affinity terms of a pod, each with a label that it requires."""
    for term in pod.spec.anti_affinity:
        selector = scheduler_selector(term, pod.labels)
        if selector is not None:
            yield _required_pair(selector), term


def _remove_from_index(index: dict[KeyT, dict[PodKey, EntryT]], key: KeyT, pod: PodKey) -> None:
    of_key = index[key]
    del of_key[pod]
    if not of_key:
        del index[key]
