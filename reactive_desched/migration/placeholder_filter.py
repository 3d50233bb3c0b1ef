"""The last look before an eviction: the place kept for the pod's replacement is there, and fits.

A job's status says that a place was kept once. By now the placeholder or the Reservation may be
gone, and its node cordoned, tainted, relabelled or being deleted, while the pod waited for its
turn. koordinator's scheduler asks its filters of a reserved node, too, and would refuse it.
"""

from typing import Final

from reactive_desched.api.index import Index
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.migration.job_state import Modes
from reactive_desched.migration.placeholders import JobPlaces
from reactive_desched.migration.rounds import job_of
from reactive_desched.migration.rules import NO_PLACE, PLACE_DOES_NOT_FIT, PLACE_PENDING
from reactive_desched.model.decisions import Defer, GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.reservations import Reservation
from reactive_desched.model.wakes import WakeOnNode, WakeOnPod
from reactive_desched.state.cluster import ClusterView

PLACE_LOST: Final = GateReason(
    NO_PLACE.gate,
    "PlaceLost",
    "The placeholder or Reservation that kept the place for the pod's replacement is gone.",
)

LOOK_AGAIN_S: Final = 5.0
"""So long after a refusal the place is looked at again, whatever changed."""


class PlaceholderFilter:
    """Lets a pod of a job that keeps a place go only while its replacement can take that place."""

    name = NO_PLACE.gate

    def __init__(
        self, view: ClusterView, modes: Modes, places: JobPlaces, node_fit: SchedulerNodeFit
    ) -> None:
        self._view: Final = view
        self._modes: Final = modes
        self._places: Final = places
        self._node_fit: Final = node_fit

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that node fit reads, where jobs can keep places."""
        modes = self._modes
        return self._node_fit.indexes if modes.has_placeholders or modes.reserving else ()

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse the pod while its place is gone, or does not fit its replacement."""
        pod, modes, places = finding.pod, self._modes, self._places
        if (job := job_of(finding, self._view)) is None or not modes.keeps_place(job):
            return None
        if places.is_given_up(job.name):
            return _lost(finding, "another place is looked for", now)
        if modes.reserves(job, pod):
            if (kept := places.keeping_reservation(job)) is None:
                message = f"Reservation {job.reservation} does not keep the place"
                return _lost(finding, message, now)
            return self._check_fit(finding, kept, now)
        placeholder = places.placeholder_of(job)
        if placeholder is None or not placeholder.is_active or not placeholder.node:
            return _lost(finding, "the placeholder that kept the place is gone", now)
        return self._check_fit(finding, placeholder, now)

    def _check_fit(
        self, finding: Finding, kept_by: Pod | Reservation, now: float
    ) -> Defer | Refuse | None:
        pod, node_fit = finding.pod, self._node_fit
        if not node_fit.sync():
            return PLACE_PENDING.defer(finding, "changed nodes are still being evaluated", now)
        if isinstance(kept_by, Reservation):
            why = node_fit.diagnose_reserved_place(pod, kept_by)
        else:
            why = node_fit.diagnose_kept_place(pod, kept_by)
        if not why:
            return None
        wakes = (WakeOnNode(kept_by.node), WakeOnPod(kept_by.uid), WakeOnPod(pod.uid))
        return PLACE_DOES_NOT_FIT.refuse(finding, why, wakes, now + LOOK_AGAIN_S)


def _lost(finding: Finding, message: str, now: float) -> Refuse:
    wakes = (WakeOnPod(finding.pod.uid),)
    return PLACE_LOST.refuse(finding, message, wakes, now + LOOK_AGAIN_S)
