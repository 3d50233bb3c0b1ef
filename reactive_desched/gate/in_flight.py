"""Refuses what is being evicted, and what may stay as its partners are being evicted.

No pod gets a second eviction request; and of pods that exclude each other, one stays: the pod that
is judged last waits for the others.
"""

from collections.abc import Callable
from typing import Final

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.decisions import GateReason, Refuse, WaitEnd
from reactive_desched.model.evictor_table import evictor_named
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Annotations, PodKey
from reactive_desched.model.opt_outs import EVICTION_IN_PROGRESS as IN_PROGRESS
from reactive_desched.model.opt_outs import is_set
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod
from reactive_desched.state.cluster import ClusterView

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
        wakes, retry_at_s, end = (WakeOnPod(pod.uid),), None, None
        if is_set(pod.annotations.eviction_in_progress):
            if eviction is not None:
                eviction.take_over()  # from now on the annotation says it
            message = f"another program moves the pod: it has the annotation {IN_PROGRESS}"
        elif eviction is not None and (until := self._asked_until(eviction)) is not None:
            message = "another program was asked to move the pod"
            end = WaitEnd("; its time to begin ends", until)
            retry_at_s = until
        else:
            return None
        refusal = EVICTED_IN_BACKGROUND.refuse(finding, message, wakes, retry_at_s, pod_leaves=True)
        return refusal.ending(end)

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


PARTNERS_LEAVING: Final = GateReason(
    "ConflictPartners",
    "ConflictPartnersLeaving",
    "Every pod that the pod must not be together with is terminating, evicted or gone.",
)


class ConflictPartnersLeaving:
    """Refuses a finding while every pod of `conflicts_with` is gone or leaving.

    Once they are gone the pod may be right where it is. When one of them stays after all, the
    finding is evaluated again. A finding without conflicts passes.
    """

    name = PARTNERS_LEAVING.gate

    def __init__(self, view: ClusterView, in_flight: InFlightEvictions) -> None:
        self._view = view
        self._in_flight = in_flight

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse unless at least one pod of `conflicts_with` stays, as far as the state shows."""
        partners = finding.conflicts_with
        if not partners or not all(map(self._is_leaving, partners)):
            return None
        wakes = [wake(uid) for uid in partners for wake in (WakeOnPod, WakeOnEviction)]
        pods = "the pod" if len(partners) == 1 else f"all {len(partners)} pods"
        message = f"{pods} that it must not be together with left or leaves already"
        if (there := next(filter(None, map(self._view.pod, partners)), None)) is not None:
            message += f"; {there} is still there"
        return PARTNERS_LEAVING.refuse(finding, message, (WakeOnPod(finding.pod.uid), *wakes))

    def held_since(self, finding: Finding, now: float) -> str:
        """Say which partners left since the pod's eviction was decided; empty where one stays."""
        refusal = self.check(finding, now)
        return "" if refusal is None else refusal.message

    def _is_leaving(self, uid: PodKey) -> bool:
        pod = self._view.pod(uid)
        return (
            pod is None
            or pod.is_terminating
            or not pod.is_active
            or self._in_flight.is_evicting(uid)
        )
