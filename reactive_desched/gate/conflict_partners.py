"""Of pods that exclude each other one may stay, so whoever is judged last waits for the others."""

from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import PodKey
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod
from reactive_desched.state.view import ClusterView


class ConflictPartnersLeaving:
    """Refuses a finding while every pod that it is against is gone or on its way out.

    When they are gone nothing may be wrong any more; if one of them stays after all, the finding
    is looked at again. A finding against nobody passes.
    """

    name = "Leaving"

    def __init__(self, view: ClusterView, in_flight: InFlightEvictions) -> None:
        self._view = view
        self._in_flight = in_flight

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse unless one of those the finding is against stays, as far as we know."""
        partners = finding.conflicts_with
        if not partners or not all(map(self._is_leaving, partners)):
            return None
        wakes = [wake(uid) for uid in partners for wake in (WakeOnPod, WakeOnEviction)]
        reason = "all that it must not be together with are leaving already"
        return Refuse(finding, self.name, reason, (WakeOnPod(finding.pod.uid), *wakes))

    def _is_leaving(self, uid: PodKey) -> bool:
        pod = self._view.pod(uid)
        return (
            pod is None
            or pod.is_terminating
            or not pod.is_active
            or self._in_flight.is_evicting(uid)
        )
