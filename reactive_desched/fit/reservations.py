"""Room that is promised: who was let go will need it when the replacement comes.

Without it a thousand pods could be let go for the sake of one free place.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.resources import PODS, ResourceList, add_resources

RESERVATION_TTL_S: Final = 120.0
"""How long room is kept for a replacement that does not come."""

MAX_RESERVATIONS: Final = 5_000
"""At the bound the oldest booking is dropped: its room may be promised twice, and the scheduler
has the last word."""


class Reservation(Struct, frozen=True):
    """Room on a node for what replaces a pod, and when it is given up (monotonic seconds)."""

    pod: Pod
    node: str
    expires_at: float

    @property
    def requests(self) -> ResourceList:
        """What is booked: the requests, and one place among the node's pods."""
        return {**self.pod.spec.requests, PODS: 1}


class Reservations:
    """What is booked, on which node, and for which owner's replacement.

    A booking ends when a pod of the same owner is bound anywhere (if a new replica was pending
    besides, that may be too early), when the eviction did not happen, or after two minutes. Pods
    that nobody makes again need no booking. `touch` is told of every node where one begins or ends.
    """

    def __init__(self, mark_dirty: Callable[[str], None]) -> None:
        self._mark_dirty = mark_dirty
        self._by_pod: dict[PodKey, Reservation] = {}  # in the order in which they end
        self._by_node: dict[str, dict[PodKey, Reservation]] = {}
        self._by_owner: dict[str, dict[PodKey, Reservation]] = {}

    def __len__(self) -> int:
        return len(self._by_pod)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._by_pod.values())

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._by_pod

    def on_node(self, node: str) -> Iterable[Reservation]:
        """Return the bookings on a node."""
        return self._by_node.get(node, {}).values()

    def reserved_on(self, node: str) -> ResourceList | None:
        """Sum what is booked on a node; None is nothing."""
        if (bookings := self._by_node.get(node)) is None:
            return None
        total: dict[str, int] = {}
        for booking in bookings.values():
            add_resources(total, booking.requests)
        return total

    def next_expiry(self) -> float | None:
        """Return when the first booking ends by itself."""
        first = next(iter(self._by_pod.values()), None)
        return None if first is None else first.expires_at

    def reserve(self, pod: Pod, node: str, now: float) -> None:
        """Book room for the replacement of a pod that is let go."""
        owner = controller_uid(pod)
        if owner is None:
            return
        self.release(pod.uid)
        if len(self._by_pod) >= MAX_RESERVATIONS:
            self.release(next(iter(self._by_pod)))
        booking = Reservation(pod, node, now + RESERVATION_TTL_S)
        self._by_pod[pod.uid] = booking
        self._by_node.setdefault(node, {})[pod.uid] = booking
        self._by_owner.setdefault(owner, {})[pod.uid] = booking
        self._mark_dirty(node)

    def release(self, pod: PodKey) -> None:
        """Give up what is booked for the replacement of a pod, if anything is."""
        booking = self._by_pod.pop(pod, None)
        if booking is None:
            return
        _remove_from_index(self._by_node, booking.node, pod)
        _remove_from_index(self._by_owner, controller_uid(booking.pod) or "", pod)
        self._mark_dirty(booking.node)

    def fulfilled(self, pod: Pod) -> None:
        """A pod was bound: it takes up one booking for its owner, that on its own node first."""
        waiting = self._by_owner.get(controller_uid(pod) or "", {})
        reservation = min(
            (booking for booking in waiting.values() if booking.pod.uid != pod.uid),
            key=lambda booking: booking.node != pod.node,
            default=None,
        )
        if reservation is not None:
            self.release(reservation.pod.uid)

    def expire(self, now: float) -> None:
        """Give up what has waited long enough."""
        while (ends := self.next_expiry()) is not None and ends <= now:
            self.release(next(iter(self._by_pod)))


def controller_uid(pod: Pod) -> str | None:
    """Return the uid of the owner that makes the pod again, None when nobody does."""
    return next((owner.uid for owner in pod.owners if owner.controller), None)


def _remove_from_index(index: dict[str, dict[PodKey, Reservation]], key: str, pod: PodKey) -> None:
    of_key = index[key]
    del of_key[pod]
    if not of_key:
        del index[key]
