"""Room that is promised: who was let go will need it when the replacement comes.

Without it a thousand pods could be let go for the sake of one free place.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.resources import PODS, Amounts, add

BOOKING_S: Final = 120.0
"""How long room is kept for a replacement that does not come."""

MOST_BOOKINGS: Final = 5_000
"""At the bound the oldest booking is dropped: its room may be promised twice, and the scheduler
has the last word."""


class Booking(Struct, frozen=True):
    """Room on a node for what replaces a pod, and when it is given up (monotonic seconds)."""

    pod: Pod
    node: str
    until: float

    @property
    def amounts(self) -> Amounts:
        """What is booked: the requests, and one place among the node's pods."""
        return {**self.pod.spec.requests, PODS: 1}


class Bookings:
    """What is booked, on which node, and for which owner's replacement.

    A booking ends when a pod of the same owner is bound anywhere (if a new replica was pending
    besides, that may be too early), when the eviction did not happen, or after two minutes. Pods
    that nobody makes again need no booking. `touch` is told of every node where one begins or ends.
    """

    def __init__(self, touch: Callable[[str], None]) -> None:
        self._touch = touch
        self._bookings: dict[PodKey, Booking] = {}  # in the order in which they end
        self._on: dict[str, dict[PodKey, Booking]] = {}
        self._for: dict[str, dict[PodKey, Booking]] = {}

    def __len__(self) -> int:
        return len(self._bookings)

    def __iter__(self) -> Iterator[Booking]:
        return iter(self._bookings.values())

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._bookings

    def on(self, node: str) -> Iterable[Booking]:
        """Return the bookings on a node."""
        return self._on.get(node, {}).values()

    def held(self, node: str) -> Amounts | None:
        """Sum what is booked on a node; None is nothing."""
        if (bookings := self._on.get(node)) is None:
            return None
        total: dict[str, int] = {}
        for booking in bookings.values():
            add(total, booking.amounts)
        return total

    def next_end(self) -> float | None:
        """Return when the first booking ends by itself."""
        first = next(iter(self._bookings.values()), None)
        return None if first is None else first.until

    def book(self, pod: Pod, node: str, now: float) -> None:
        """Book room for the replacement of a pod that is let go."""
        owner = maker(pod)
        if owner is None:
            return
        self.drop(pod.uid)
        if len(self._bookings) >= MOST_BOOKINGS:
            self.drop(next(iter(self._bookings)))
        booking = Booking(pod, node, now + BOOKING_S)
        self._bookings[pod.uid] = booking
        self._on.setdefault(node, {})[pod.uid] = booking
        self._for.setdefault(owner, {})[pod.uid] = booking
        self._touch(node)

    def drop(self, pod: PodKey) -> None:
        """Give up what is booked for the replacement of a pod, if anything is."""
        booking = self._bookings.pop(pod, None)
        if booking is None:
            return
        _take_out(self._on, booking.node, pod)
        _take_out(self._for, maker(booking.pod) or "", pod)
        self._touch(booking.node)

    def landed(self, pod: Pod) -> None:
        """A pod was bound: it takes up one booking for its owner, that on its own node first."""
        waiting = self._for.get(maker(pod) or "", {})
        taken = min(
            (booking for booking in waiting.values() if booking.pod.uid != pod.uid),
            key=lambda booking: booking.node != pod.node,
            default=None,
        )
        if taken is not None:
            self.drop(taken.pod.uid)

    def expire(self, now: float) -> None:
        """Give up what has waited long enough."""
        while (ends := self.next_end()) is not None and ends <= now:
            self.drop(next(iter(self._bookings)))


def maker(pod: Pod) -> str | None:
    """Return the uid of the owner that makes the pod again, None when nobody does."""
    return next((owner.uid for owner in pod.owners if owner.controller), None)


def _take_out(index: dict[str, dict[PodKey, Booking]], key: str, pod: PodKey) -> None:
    of_key = index[key]
    del of_key[pod]
    if not of_key:
        del index[key]
