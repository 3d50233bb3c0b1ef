"""Keeps the pods that are being evicted, so that no pod gets a second eviction request."""

from collections.abc import Callable
from typing import Final

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.evictor_table import evictor_named
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Annotations, PodKey
from reactive_desched.model.opt_outs import EVICTION_IN_PROGRESS as IN_PROGRESS
from reactive_desched.model.opt_outs import is_set
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod

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


class InFlightEvictions:
    """Refuses pods with an open eviction, and pods just evicted whose deletion no watch has shown.

    Pods that were just evicted are refused for a minute. One that another program lets leave, as
    the evictor or the pod's annotation request-evict-only says, is refused for as long as the
    evictor gives that program to begin. `clock` is monotonic, in seconds.
    """

    name = IN_FLIGHT_GATE

    def __init__(self, ledger: EvictionLedger, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock

    def is_evicting(self, pod: PodKey) -> bool:
        """Say whether the pod is being evicted, or was just evicted and may leave still."""
        eviction = self._ledger.latest(pod)
        return eviction is not None and self._is_evicting(eviction)

    def _is_evicting(self, eviction: Eviction) -> bool:
        if eviction.is_under_way:
            return True
        if (ended_at := eviction.ended_at) is None or not eviction.leaves:
            return False
        asked_until = self._asked_until(eviction) if _leaves_later(eviction) else None
        return asked_until is not None or self._clock() < ended_at + CACHE_LAG_S

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse a pod that leaves already, also one with the evict annotation."""
        pod = finding.pod
        if pod.is_terminating:
            message = "the pod is terminating"
            wake = WakeOnPod(pod.uid)
            return POD_ALREADY_TERMINATING.refuse(finding, message, (wake,), pod_leaves=True)
        eviction = self._ledger.latest(pod.uid)
        if (background := self._in_background_of(finding, eviction)) is not None:
            return background
        if eviction is None or not self._is_evicting(eviction):
            return None
        wakes = (WakeOnPod(pod.uid), WakeOnEviction(pod.uid))
        message = "an eviction of the pod is under way"
        return EVICTION_IN_PROGRESS.refuse(finding, message, wakes, pod_leaves=True)

    def _in_background_of(self, finding: Finding, eviction: Eviction | None) -> Refuse | None:
        """Refuse a pod that another program moves, or was asked to move."""
        pod = finding.pod
        is_asked = eviction is not None and _leaves_later(eviction)
        if not (is_asked or _asks_in_background(pod.annotations)):
            return None
        wakes, retry_at_s = (WakeOnPod(pod.uid),), None
        if is_set(pod.annotations.eviction_in_progress):
            if eviction is not None:
                eviction.take_over()  # from now on the annotation says it
            message = f"another program moves the pod: it has the annotation {IN_PROGRESS}"
        elif eviction is not None and (until := self._asked_until(eviction)) is not None:
            left_s = max(0.0, until - self._clock())
            message = f"another program was asked to move the pod, and has {left_s:.0f} s to begin"
            retry_at_s = until
        else:
            return None
        return EVICTED_IN_BACKGROUND.refuse(finding, message, wakes, retry_at_s, pod_leaves=True)

    def _asked_until(self, eviction: Eviction) -> float | None:
        """Return until when another program that was asked to move the pod has to begin."""
        if eviction.ended_at is None or not eviction.leaves or eviction.is_taken_over:
            return None
        until = eviction.ended_at + evictor_named(eviction.evictor).begins_within_s
        return until if self._clock() < until else None


def _leaves_later(eviction: Eviction) -> bool:
    """Say whether its evictor asks another program to let the pod leave."""
    return evictor_named(eviction.evictor).accepted is not None


def _asks_in_background(annotations: Annotations) -> bool:
    """Say whether another program moves the pod once it is asked to."""
    return is_set(annotations.request_evict_only)
