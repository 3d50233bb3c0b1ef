"""Lets one of the pods that exclude each other stay: the pod judged last waits for the others."""

from typing import Final

from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import PodKey
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod
from reactive_desched.state.view import ClusterView

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

    def _is_leaving(self, uid: PodKey) -> bool:
        pod = self._view.pod(uid)
        return (
            pod is None
            or pod.is_terminating
            or not pod.is_active
            or self._in_flight.is_evicting(uid)
        )
