"""Follows evictions that another program carries out, to count them as the SIG descheduler does.

It counts `background` when the request is taken on, and `success` or `error` when that has ended.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    PendingPodDeleted,
    PodGone,
    PodMetadataChanged,
)
from reactive_desched.model.objects import FAILED, Pod, PodKey
from reactive_desched.telemetry.sig_compat import ERROR, SUCCESS

EXPIRES_S: Final = 600.0
"""An eviction that has not ended after so long counts as an error."""

MAX_FOLLOWED: Final = 10_000
"""So many are followed; then the oldest is forgotten."""


class CountedEnd(NamedTuple):
    """The end of an eviction in the background, and the labels that it is counted by."""

    profile: str
    strategy: str
    pod: Pod
    result: str


class _Followed(NamedTuple):
    profile: str
    strategy: str
    pod: Pod
    began_at: float


class BackgroundEvictions:
    """The evictions that another program carries out; times are seconds of one clock."""

    def __init__(self) -> None:
        self._followed: OrderedDict[PodKey, _Followed] = OrderedDict()

    def __len__(self) -> int:
        return len(self._followed)

    def begin(self, profile: str, strategy: str, pod: Pod, now: float) -> bool:
        """Follow an eviction that was taken on; say whether it counts.

        A pod that is asked for again while it is followed, or that has ended, does not.
        """
        if pod.has_ended or pod.uid in self._followed:
            return False
        self._followed[pod.uid] = _Followed(profile, strategy, pod, now)
        if len(self._followed) > MAX_FOLLOWED:
            self._followed.popitem(last=False)
        return True

    def apply_changes(self, changes: Iterable[Change], now: float) -> Iterator[CountedEnd]:
        """Yield the evictions that end by these changes, or have lasted too long."""
        for change in changes:
            match change:
                case PodMetadataChanged(pod=pod):
                    self._look_at(pod)
                case PodGone(pod=pod) | CompletedPodDeleted(pod=pod) | PendingPodDeleted(pod=pod):
                    if (ended := self._followed.pop(pod.uid, None)) is not None:
                        result = ERROR if pod.status.phase == FAILED else SUCCESS
                        yield CountedEnd(*ended[:3], result)
        yield from self.expire(now)

    def expire(self, now: float) -> Iterator[CountedEnd]:
        """Yield the evictions that have lasted too long."""
        while self._followed:
            uid, oldest = next(iter(self._followed.items()))
            if now - oldest.began_at <= EXPIRES_S:
                return
            del self._followed[uid]
            yield CountedEnd(*oldest[:3], ERROR)

    def _look_at(self, pod: Pod) -> None:
        """Forget a pod that asks for no such eviction any more, or whose program has given up."""
        if (followed := self._followed.get(pod.uid)) is None:
            return
        before, after = followed.pod.annotations, pod.annotations
        was_in_progress = before.eviction_in_progress is not None
        is_in_progress = after.eviction_in_progress is not None
        if after.request_evict_only is None or (was_in_progress and not is_in_progress):
            del self._followed[pod.uid]
        else:
            self._followed[pod.uid] = followed._replace(pod=pod)
