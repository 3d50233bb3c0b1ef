"""The pods that wait for a token of a rate limit, in the order in which they came."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.objects import PodKey

_GIVES_UP_AFTER_S: Final = 10.0
"""A pod that was to be evaluated so long ago, and was not refused again, does not wait any more."""
_LOOKED_THROUGH: Final = 4
"""So many pods that gave up are forgotten whenever one is refused."""

_MAX_CAME: Final = 10_000
"""The places of so many pods are kept that do not wait for a token yet; the oldest is lost."""

Bucket = tuple[str, str]
"""A bucket, by its scope and its name."""


class _Entry(Struct, frozen=True, gc=False):
    """A pod that waits: its buckets, the ticket that it drew, its turn, and when it gives up."""

    buckets: Sequence[Bucket]
    ticket: int
    turn: float
    until: float


class WaitingPods:
    """Each pod's turn, and how many wait in each bucket; bounded by the findings that wait.

    A pod that was not evaluated again for some time gave up. `out_of_order` counts those, and the
    pods that took a place before others, as they had come before.
    """

    def __init__(self) -> None:
        self._pods: dict[PodKey, _Entry] = {}
        self._counts: dict[Bucket, int] = {}
        self._tickets = 0
        self._came: dict[PodKey, int] = {}
        self.out_of_order = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._pods

    def count(self, bucket: Bucket) -> int:
        """Return how many pods wait for a token of a bucket."""
        return self._counts.get(bucket, 0)

    def turn(self, pod: PodKey, buckets: Sequence[Bucket]) -> float | None:
        """Return a pod's turn; None where it does not wait, or waits in other buckets."""
        known = self._pods.get(pod)
        return known.turn if known is not None and known.buckets == buckets else None

    def come(self, pod: PodKey) -> None:
        """Give a pod that another rule lets wait first its place among those that come now."""
        if pod not in self._pods and pod not in self._came:
            self._tickets += 1
            self._came[pod] = self._tickets
            if len(self._came) > _MAX_CAME:
                del self._came[next(iter(self._came))]

    def enter(self, pod: PodKey, buckets: Sequence[Bucket], turn: float, until: float) -> None:
        """Let a pod wait, at the end unless it waits already; `until` is its next evaluation."""
        known = self._pods.get(pod)
        if known is not None and known.buckets == buckets:
            ticket = known.ticket
            del self._pods[pod]
        else:
            came = self._came.get(pod)
            self.leave(pod)
            if came is None:
                self._tickets += 1
            else:
                self.out_of_order += 1
            ticket = came or self._tickets
            for bucket in buckets:
                self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._pods[pod] = _Entry(buckets, ticket, turn, until + _GIVES_UP_AFTER_S)

    def set_turn(self, pod: PodKey, turn: float, until: float) -> None:
        """Let a pod come at another time; `until` is its next evaluation."""
        if (known := self._pods.pop(pod, None)) is not None:
            self._pods[pod] = replace(known, turn=turn, until=until + _GIVES_UP_AFTER_S)

    def leave(self, pod: PodKey) -> None:
        """Take a pod out: it has its tokens, or does not want them any more."""
        self._came.pop(pod, None)
        if (known := self._pods.pop(pod, None)) is None:
            return
        for bucket in known.buckets:
            if (count := self._counts[bucket]) > 1:
                self._counts[bucket] = count - 1
            else:
                del self._counts[bucket]

    def forget_gone(self, now: float) -> None:
        """Forget a few of the pods that gave up, those of which nothing came for longest."""
        for _ in range(_LOOKED_THROUGH):
            first = next(iter(self._pods), None)
            if first is None or self._pods[first].until > now:
                return
            self.leave(first)
            self.out_of_order += 1

    def ticket(self, pod: PodKey) -> int:
        """Return which pod came earlier: the one with the lower number; the last for a new one."""
        known = self._pods.get(pod)
        return self._tickets + 1 if known is None else known.ticket
