"""Keeps which pods pass a profile's evictor filters, so that balance plugins can count only those.

Upstream evaluates the filters for every pod in every cycle. Here a pod is evaluated when a plugin
first asks about it, and again when a change fulfils one of the wakes its filters declare, or when
the time has come that a filter named.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from reactive_desched.gate.evictor import EVICTABLE, PROTECTED, EvictorFilters
from reactive_desched.model.changes import Change, PodBound, PodChange, PodEvictabilityChanged
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.wakes import WakeOn
from reactive_desched.primitives.deadline_heap import Timers
from reactive_desched.state.view import ClusterView


class EvictableIndex:
    """The filters' answer for every pod that was asked about; times are seconds since the epoch.

    `remembered` are those pods. Holds one entry for each of them that exists, and one for each wake
    of its filters other than a change of the pod itself.
    """

    def __init__(self, filters: EvictorFilters, view: ClusterView) -> None:
        self._filters = filters
        self._view = view
        self._evictable_at: dict[PodKey, float] = {}
        self.remembered: Final[Collection[PodKey]] = self._evictable_at
        self._wakes: dict[PodKey, tuple[WakeOn, ...]] = {}
        self._by_wake: dict[WakeOn, dict[PodKey, None]] = {}
        self._wake_types: dict[type[Change], list[type[WakeOn]]] = {}
        self._timers: Timers[PodKey] = Timers()

    def allows(self, pod: Pod) -> bool:
        """Say whether the pod passes every filter now; a pod without a node is not remembered."""
        at_s = self._evictable_at.get(pod.uid)
        if at_s is None:
            at_s = self._remember(pod) if pod.node else self._filters.evictable_from_s(pod)
        if at_s == EVICTABLE or at_s == PROTECTED:  # noqa: PLR1714, SIM109 -- no tuple is built here
            return at_s == EVICTABLE
        return at_s <= self._view.now_s and self._filters.evictable_from_s(pod) == EVICTABLE

    def apply_changes(self, changes: Iterable[Change]) -> list[Change]:
        """Evaluate the pods that the changes or the time concern; return whose answer differs.

        A pod without a node is not remembered, so one that was bound has been evaluated since.
        """
        found: list[Change] = []
        for change in changes:
            if (
                isinstance(change, PodChange)
                and change.pod.uid in self._evictable_at
                and not isinstance(change, PodBound)
            ):
                found += self._refresh(change.pod.uid)
            for wake_type in self._wake_types.get(type(change), ()):
                for uid in list(self._by_wake.get(wake_type.fulfilled_by(change), ())):
                    found += self._refresh(uid)
        if len(self._timers):
            now_s = self._view.now_s
            while (due := self._timers.pop_due(now_s)) is not None:
                found += self._refresh(due)
        return found

    def next_due_s(self) -> float | None:
        """Return when time alone may change an answer, in seconds since the epoch."""
        return self._timers.next_due()

    def _remember(self, pod: Pod) -> float:
        at_s = self._evictable_at[pod.uid] = self._filters.evictable_from_s(pod)
        if at_s == EVICTABLE or at_s == PROTECTED:  # noqa: PLR1714, SIM109 -- no tuple is built here
            self._timers.cancel(pod.uid)
        else:
            self._timers.set(pod.uid, at_s)
        wakes = tuple(dict.fromkeys(self._filters.wakes(pod)))
        if wakes != self._wakes.get(pod.uid, ()):
            self._unregister(pod.uid)
            self._register(pod.uid, wakes)
        return at_s

    def _refresh(self, uid: PodKey) -> Iterator[Change]:
        was_at_s = self._evictable_at.get(uid)
        if was_at_s is None:
            return
        pod = self._view.pod(uid)
        if pod is None or not pod.node:
            del self._evictable_at[uid]
            self._timers.cancel(uid)
            self._unregister(uid)
        elif (self._remember(pod) == EVICTABLE) != (was_at_s == EVICTABLE):
            yield PodEvictabilityChanged(pod)

    def _register(self, uid: PodKey, wakes: tuple[WakeOn, ...]) -> None:
        self._wakes[uid] = wakes
        for wake in wakes:
            self._by_wake.setdefault(wake, {})[uid] = None
            for kind in wake.changes:
                wake_types = self._wake_types.setdefault(kind, [])
                if type(wake) not in wake_types:
                    wake_types.append(type(wake))

    def _unregister(self, uid: PodKey) -> None:
        for wake in self._wakes.pop(uid, ()):
            pods = self._by_wake[wake]
            pods.pop(uid, None)
            if not pods:
                del self._by_wake[wake]
