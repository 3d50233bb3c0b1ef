"""Which pods are being evicted, so that no pod gets a second eviction request."""

from collections.abc import Callable, Iterable
from typing import Final

from cachetools import TTLCache

from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import Annotations, Pod, PodKey
from reactive_desched.model.opt_outs import EVICTION_IN_PROGRESS as IN_PROGRESS
from reactive_desched.model.opt_outs import is_set
from reactive_desched.model.outcomes import POD_LEAVES
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod

MAX_RECENT_EVICTIONS = 50_000
CACHE_LAG_S = 60.0
"""For how long after an accepted eviction the watch may still show the pod unchanged."""

IN_FLIGHT_GATE: Final = "InFlight"
POD_ALREADY_TERMINATING: Final = GateReason(
    IN_FLIGHT_GATE, "PodTerminating", "The pod is terminating already."
)
EVICTION_IN_PROGRESS: Final = GateReason(
    IN_FLIGHT_GATE,
    "EvictionInProgress",
    "An eviction of the pod is under way, or was accepted less than a minute ago.",
)


EVICTED_IN_BACKGROUND: Final = GateReason(
    IN_FLIGHT_GATE,
    "EvictionInBackground",
    "Another program was asked to move the pod, as KubeVirt's live migration, and does so.",
)
BACKGROUND_S: Final = 600.0
"""So long a pod with the annotation request-evict-only has from an accepted eviction until another
program says that it moves the pod, by the annotation eviction-in-progress."""


class InFlightEvictions:
    """Pods with an open intent, and pods just evicted whose deletion no watch event has shown.

    Just-evicted pods are kept for a minute, 50,000 at most; at the bound the oldest entry is
    dropped, which at worst costs one harmless second request (it carries the pod's uid).
    """

    name = IN_FLIGHT_GATE

    def __init__(self, clock: Callable[[], float]) -> None:
        self._open: dict[PodKey, Pod] = {}
        self._inherited: set[PodKey] = set()
        self._clock = clock
        self._in_background: TTLCache[PodKey, float] = TTLCache(
            MAX_RECENT_EVICTIONS, BACKGROUND_S, timer=clock
        )
        self._asks_in_background = False  # whether any pod was ever asked for
        self._recently_evicted: TTLCache[PodKey, None] = TTLCache(
            MAX_RECENT_EVICTIONS, CACHE_LAG_S, timer=clock
        )

    def __len__(self) -> int:
        return len(self._open)

    def is_evicting(self, pod: PodKey) -> bool:
        """Say whether the pod is being evicted, or was evicted within the last minute."""
        return pod in self._open or pod in self._recently_evicted or pod in self._inherited

    def has_no_outcome(self, pod: PodKey) -> bool:
        """Say whether an eviction of the pod, or one of an earlier process, is under way."""
        return pod in self._open or pod in self._inherited

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse a pod that leaves already, also one with the evict annotation."""
        pod = finding.pod
        if pod.is_terminating:
            message = "the pod is terminating"
            wake = WakeOnPod(pod.uid)
            return POD_ALREADY_TERMINATING.refuse(finding, message, (wake,), pod_leaves=True)
        if (background := self._in_background_of(finding)) is not None:
            return background
        if not self.is_evicting(pod.uid):
            return None
        wakes = (WakeOnPod(pod.uid), WakeOnEviction(pod.uid))
        message = "an eviction of the pod is under way"
        return EVICTION_IN_PROGRESS.refuse(finding, message, wakes, pod_leaves=True)

    def _in_background_of(self, finding: Finding) -> Refuse | None:
        """Refuse a pod that another program moves, or was asked to move."""
        pod = finding.pod
        wakes, retry_at_s = (WakeOnPod(pod.uid),), None
        if _is_evicted_in_background(pod.annotations):
            self._in_background.pop(pod.uid, None)  # from now on the annotation says it
            message = f"another program moves the pod: it has the annotation {IN_PROGRESS}"
        elif (until := self._asked_until(pod)) is not None:
            left_s = max(0.0, until - self._clock())
            message = f"another program was asked to move the pod, and has {left_s:.0f} s to begin"
            retry_at_s = until
        else:
            return None
        return EVICTED_IN_BACKGROUND.refuse(finding, message, wakes, retry_at_s, pod_leaves=True)

    def _asked_until(self, pod: Pod) -> float | None:
        """Return until when another program that was asked to move the pod has to begin."""
        if not self._asks_in_background or not _asks_in_background(pod.annotations):
            return None
        until = self._in_background.get(pod.uid)
        return None if until is None or until <= self._clock() else until

    def reserve(self, pod: Pod) -> None:
        """Remember that an intent for this pod is being written."""
        self._open[pod.uid] = pod

    def restore(self, past: Iterable[PastEviction], wall_now: float) -> None:
        """Remember the pods that an earlier process evicted within the last minute.

        A list may show them unchanged, too. Those of ten minutes are remembered for the case that
        another program was asked to move the pod, which the pod's annotation says. After a step of
        the clock into the past, an eviction of the future counts as one of now.
        """
        for eviction in past:
            evicted_s = eviction.ended_s if eviction.result in POD_LEAVES else None
            if evicted_s is None:
                continue
            age_s = max(0.0, wall_now - evicted_s)
            if age_s < CACHE_LAG_S:
                self._recently_evicted[eviction.pod_uid] = None
            if age_s < BACKGROUND_S:
                self._note_asked(eviction.pod_uid, BACKGROUND_S - age_s)

    def inherit(self, pod: PodKey) -> None:
        """An earlier process requested this pod's eviction, and the request may still arrive."""
        self._inherited.add(pod)

    def end_inherited(self, pod: PodKey, *, evicted: bool) -> None:
        """The eviction that an earlier process requested has its outcome."""
        self._inherited.discard(pod)
        if evicted:
            self._recently_evicted[pod] = None
            self._note_asked(pod, BACKGROUND_S)

    def release(self, pod: Pod, *, evicted: bool) -> None:
        """Take the pod out: its intent has an outcome."""
        self._open.pop(pod.uid, None)
        if evicted:
            if _asks_in_background(pod.annotations):
                self._note_asked(pod.uid, BACKGROUND_S)
            self._recently_evicted[pod.uid] = None

    def _note_asked(self, pod: PodKey, left_s: float) -> None:
        """Remember an accepted eviction for the case that another program moves the pod."""
        self._asks_in_background = True
        self._in_background[pod] = self._clock() + left_s


def _asks_in_background(annotations: Annotations) -> bool:
    """Say whether another program moves the pod once it is asked to."""
    return is_set(annotations.request_evict_only)


def _is_evicted_in_background(annotations: Annotations) -> bool:
    """Say whether another program carries out an eviction of the pod."""
    return is_set(annotations.eviction_in_progress) and _asks_in_background(annotations)
