"""Evicts nothing while the cluster cannot place the pods that it has.

A pod counts once the scheduler has found no node for it for some time. The pods of DaemonSets,
those with scheduling gates and those that are deleted do not count.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from reactive_desched.model.brakes import CLUSTER, PENDING, BrakeNotice, WakeOnBrake
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.policy.settings.brakes import PendingBrakeSettings
from reactive_desched.primitives.timers import Timers, earliest
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.unschedulable_pods import (
    PodUnschedulableChanged,
    UnschedulablePods,
)
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count

TOO_MANY_PENDING: Final = GateReason(
    "PendingBrake",
    "TooManyPodsPending",
    "The scheduler finds no node for many pods already: an evicted pod would wait with them.",
    "brakes.pending",
)


class PendingBrake:
    """A gate filter; times are monotonic seconds.

    Holds one entry for each unschedulable pod. Once engaged, the brake is released when there have
    been fewer such pods for as long as each of them has to wait before it counts.
    """

    name = TOO_MANY_PENDING.gate

    def __init__(self, view: ClusterView, settings: PendingBrakeSettings | None) -> None:
        self._view = view
        self._settings = settings
        self._waiting: Timers[PodKey] = Timers()
        self._counted: dict[PodKey, None] = {}  # in the order in which they came to count
        self._is_engaged = False
        self._fewer_since: float | None = None

    @property
    def keys(self) -> tuple[tuple[type[UnschedulablePods], None], ...]:
        """The index that the brake reads."""
        return () if self._settings is None else ((UnschedulablePods, None),)

    def reconfigure(self, settings: PendingBrakeSettings | None, now: float) -> None:
        """Apply other thresholds, and look at every unschedulable pod again."""
        self._settings = settings
        self.start(now)

    def start(self, now: float) -> None:
        """Count the pods that are unschedulable already, since when they are."""
        self._waiting, self._counted = Timers(), {}
        if self._settings is not None:
            for uid in self._view.index(UnschedulablePods).since_s:
                self._follow(uid, now, self._settings)

    def apply_changes(self, changes: Iterable[Change], now: float) -> None:
        """Follow the pods that became unschedulable, or are not so any more."""
        if self._settings is not None:
            for change in changes:
                if type(change) is PodUnschedulableChanged:
                    self._follow(change.pod.uid, now, self._settings)

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse everything while too many pods are unschedulable."""
        if not self._is_engaged:
            return None
        wakes = (WakeOnBrake(PENDING), WakeOnPod(finding.pod.uid))
        return TOO_MANY_PENDING.refuse(finding, self._describe(), wakes, scope_exhausted=CLUSTER)

    def next_due(self) -> float | None:
        """Return when time alone may engage or release the brake."""
        return earliest(self._waiting.next_due(), self._release_at)

    def update(self, now: float) -> Iterator[BrakeNotice]:
        """Count the pods whose time has come; yield what that changes."""
        while (uid := self._waiting.pop_due(now)) is not None:
            self._counted[uid] = None
        settings = self._settings
        if settings is not None and len(self._counted) >= self._threshold(settings):
            self._fewer_since = None
            if not self._is_engaged:
                self._is_engaged = True
                yield BrakeNotice(PENDING, CLUSTER, engaged=True, message=self._describe())
        elif self._is_engaged:
            self._fewer_since = now if self._fewer_since is None else self._fewer_since
            if (release_at := self._release_at) is None or now >= release_at:
                self._is_engaged, self._fewer_since = False, None
                yield BrakeNotice(PENDING, CLUSTER, engaged=False, message=self._describe())

    @property
    def message(self) -> str:
        """Return why the brake holds everything; empty when it is released."""
        return self._describe() if self._is_engaged else ""

    @property
    def release_text(self) -> str:
        """Return what releases the brake, for a person."""
        if self._settings is None:
            return "it is switched off"
        few, after = self._threshold(self._settings), format_age(self._settings.after_s)
        return f"by itself, {after} after there are fewer than {few:,} such pods"

    @property
    def release_at(self) -> float | None:
        """Return when the brake is released if no more pods wait; None if nothing is foreseen."""
        return self._release_at if self._is_engaged else None

    @property
    def _release_at(self) -> float | None:
        """Return when the brake is released if no more pods wait; None if nothing is foreseen."""
        if self._fewer_since is None or self._settings is None:
            return None
        return self._fewer_since + self._settings.after_s

    def _describe(self) -> str:
        """Say how many pods are unschedulable, and how many are tolerated."""
        if self._settings is None:
            return "the brake is switched off"
        tolerated = self._threshold(self._settings) - 1
        text = (
            f"{format_count(len(self._counted), 'pod', 'has', 'have')} been unschedulable for "
            f"{self._settings.after_s:g} s or longer, and {tolerated} are tolerated"
        )
        longest = next((uid for uid in self._counted if self._view.pod(uid) is not None), None)
        return text if longest is None else f"{text}; {self._view.pod(longest)} has waited longest"

    def _follow(self, uid: PodKey, now: float, settings: PendingBrakeSettings) -> None:
        since_s = self._view.index(UnschedulablePods).since_s.get(uid)
        self._counted.pop(uid, None)
        if since_s is None:
            self._waiting.cancel(uid)
            return
        waited_s = min(max(0.0, self._view.now_s - since_s), settings.after_s)
        self._waiting.set(uid, now + settings.after_s - waited_s)

    def _threshold(self, settings: PendingBrakeSettings) -> int:
        return settings.threshold(len(self._view.store(Pod)))
