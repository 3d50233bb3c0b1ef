"""Evicts nothing while the cluster cannot place the pods that it has.

A pod counts once the scheduler has found no node for it for some time. The pods of DaemonSets,
those with scheduling gates and those that are deleted do not count. Of one namespace some count
for the cluster, and too many of it stop evictions there (`shares.py`).
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Final

from reactive_desched.api.index import Index
from reactive_desched.brakes.shares import (
    describe_messages,
    describe_scopes,
    held_scope,
    namespace_of,
    pods_of,
    pods_on_nodes,
    refusal,
    stopped_scopes,
)
from reactive_desched.model.brakes import CLUSTER, PENDING, BrakeNotice
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import PodKey
from reactive_desched.policy.settings.brakes import PendingBrakeSettings
from reactive_desched.primitives.timers import Timers, earliest
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.namespace_sizes import NamespaceSizes
from reactive_desched.state.indexes.unschedulable_pods import (
    PodUnschedulableChanged,
    UnschedulablePods,
)
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import agree, format_count

TOO_MANY_PENDING: Final = GateReason(
    "PendingBrake",
    "TooManyPodsPending",
    "The scheduler finds no node for many pods already, of the cluster or of the pod's namespace: "
    "an evicted pod would wait with them.",
    "brakes.pending",
)


class PendingBrake:
    """A gate filter; times are monotonic seconds.

    Holds one entry for each unschedulable pod. Once it holds the cluster or a namespace, that is
    released when there have been fewer such pods for as long as each of them has to wait before it
    counts.
    """

    name = TOO_MANY_PENDING.gate

    def __init__(self, view: ClusterView, settings: PendingBrakeSettings | None) -> None:
        self._view = view
        self._settings = settings
        self._waiting: Timers[PodKey] = Timers()
        self._counted: dict[PodKey, str] = {}  # namespaces, in the order in which they came
        self._of: dict[str, dict[PodKey, None]] = {}  # the same by namespace
        self._fewer_since: dict[str, float | None] = {}  # of each scope that it holds

    @property
    def keys(self) -> tuple[tuple[type[Index], Hashable], ...]:
        """The indexes that the brake reads."""
        if self._settings is None:
            return ()
        return (UnschedulablePods, None), (NamespaceSizes, None)

    def reconfigure(self, settings: PendingBrakeSettings | None, now: float) -> None:
        """Apply other thresholds, and look at every unschedulable pod again."""
        self._settings = settings
        self.start(now)

    def start(self, now: float) -> None:
        """Count the pods that are unschedulable already, since when they are."""
        self._waiting, self._counted, self._of = Timers(), {}, {}
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
        """Refuse what is held: everything, or the pods of namespaces of which too many wait."""
        if (scope := held_scope(self._fewer_since, finding.pod.namespace)) is None:
            return None
        return refusal(TOO_MANY_PENDING, PENDING, scope, finding, self._describe(scope))

    def reason_to_keep(self, namespace: str) -> str:
        """Return why nothing of a namespace may be evicted; empty where it may be."""
        scope = held_scope(self._fewer_since, namespace)
        return "" if scope is None else self._describe(scope)

    def next_due(self) -> float | None:
        """Return when time alone may engage or release the brake."""
        return earliest(self._waiting.next_due(), *map(self._release_of, self._fewer_since))

    def update(self, now: float) -> Iterator[BrakeNotice]:
        """Count the pods whose time has come; yield what that changes."""
        while (uid := self._waiting.pop_due(now)) is not None:
            if (pod := self._view.pod(uid)) is not None:
                self._counted[uid] = pod.namespace
                self._of.setdefault(pod.namespace, {})[uid] = None
        stopped = self._stopped()
        for scope in stopped:
            if scope not in self._fewer_since:
                yield BrakeNotice(PENDING, scope, engaged=True, message=self._describe(scope))
            self._fewer_since[scope] = None
        for scope in [each for each in self._fewer_since if each not in stopped]:
            if self._fewer_since[scope] is None:
                self._fewer_since[scope] = now
            if (release_at := self._release_of(scope)) is None or now >= release_at:
                del self._fewer_since[scope]
                yield BrakeNotice(PENDING, scope, engaged=False, message=self._describe(scope))

    @property
    def message(self) -> str:
        """Return why the brake holds something; empty when it is released."""
        return describe_messages({each: self._describe(each) for each in self._fewer_since})

    @property
    def scope(self) -> str:
        """Return which pods are held: those of the cluster, or of the named namespaces."""
        return describe_scopes(self._fewer_since)

    @property
    def release_text(self) -> str:
        """Return what releases the brake, for a person."""
        if self._settings is None:
            return "it is switched off"
        few, after = self._threshold(self._settings), format_age(self._settings.after_s)
        there = "" if CLUSTER in self._fewer_since else " of the namespace"
        return f"by itself, {after} after there are fewer than {few:,} such pods{there}"

    @property
    def release_at(self) -> float | None:
        """Return when the brake is released if no more pods wait; None if nothing is foreseen."""
        scopes = (CLUSTER,) if CLUSTER in self._fewer_since else tuple(self._fewer_since)
        ends = list(map(self._release_of, scopes))
        known = [each for each in ends if each is not None]
        return max(known) if known and len(known) == len(ends) else None

    def _release_of(self, scope: str) -> float | None:
        """Return when a scope is released if no more pods wait; None if nothing is foreseen."""
        since = self._fewer_since[scope]
        return None if since is None or self._settings is None else since + self._settings.after_s

    def _stopped(self) -> tuple[str, ...]:
        settings = self._settings
        if settings is None or len(self._counted) < (most := self._threshold(settings)):
            return ()
        counts = {namespace: len(uids) for namespace, uids in self._of.items()}
        return stopped_scopes(counts, most, self._view)

    def _describe(self, scope: str) -> str:
        """Say how many pods of a scope are unschedulable, and how many are tolerated."""
        if self._settings is None:
            return "the brake is switched off"
        tolerated = self._threshold(self._settings) - 1
        uids: Collection[PodKey] = self._counted
        if scope != CLUSTER:
            uids = self._of.get(namespace_of(scope), ())
        count = len(uids)
        text = (
            f"{format_count(count, 'pod')}{pods_of(scope)} {agree(count, 'has', 'have')} been "
            f"unschedulable for {self._settings.after_s:g} s or longer, and {tolerated} are "
            "tolerated"
        )
        longest = next((uid for uid in uids if self._view.pod(uid) is not None), None)
        return text if longest is None else f"{text}; {self._view.pod(longest)} has waited longest"

    def _follow(self, uid: PodKey, now: float, settings: PendingBrakeSettings) -> None:
        since_s = self._view.index(UnschedulablePods).since_s.get(uid)
        if (namespace := self._counted.pop(uid, None)) is not None:
            del self._of[namespace][uid]
            if not self._of[namespace]:
                del self._of[namespace]
        if since_s is None:
            self._waiting.cancel(uid)
            return
        waited_s = min(max(0.0, self._view.now_s - since_s), settings.after_s)
        self._waiting.set(uid, now + settings.after_s - waited_s)

    def _threshold(self, settings: PendingBrakeSettings) -> int:
        return settings.threshold(pods_on_nodes(self._view))
