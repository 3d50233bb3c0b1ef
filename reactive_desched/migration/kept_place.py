"""The last look before an eviction: the place kept for the pod's replacement is there, and fits.

A job's status says that a place was kept once. By now the placeholder may be deleted or preempted,
and its node cordoned, tainted or relabelled, while the pod waited for its turn.
"""

from typing import Final

from reactive_desched.api.index import Index
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.rules import NO_PLACE, PLACE_DOES_NOT_FIT, PLACE_PENDING
from reactive_desched.model.decisions import Defer, GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.wakes import WakeOnNode, WakeOnPod

PLACE_LOST: Final = GateReason(
    NO_PLACE.gate,
    "PlaceLost",
    "The placeholder or Reservation that kept the place for the pod's replacement is gone.",
)

LOOK_AGAIN_S: Final = 5.0
"""So long after a refusal the place is looked at again, whatever changed."""


class KeptPlaceFilter:
    """Lets a pod of a job that keeps a place go only while its replacement can take that place."""

    name = NO_PLACE.gate

    def __init__(self, migrations: Migrations, node_fit: SchedulerNodeFit) -> None:
        self._migrations = migrations
        self._node_fit = node_fit

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that node fit reads, where there are placeholders."""
        return self._node_fit.indexes if self._migrations.modes.has_placeholders else ()

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse the pod while its place is gone, or does not fit its replacement."""
        pod, migrations = finding.pod, self._migrations
        if (job := migrations.job_of(finding)) is None or not migrations.modes.keeps_place(job):
            return None
        if migrations.modes.reserves(job, pod):
            if migrations.places.has_reservation(job):
                return None
            return _lost(finding, f"Reservation {job.reservation} does not keep the place", now)
        if migrations.places.is_given_up(job.name):
            return _lost(finding, "another place is looked for", now)
        placeholder = migrations.places.placeholder_of(job)
        if placeholder is None or not placeholder.is_active or not placeholder.node:
            return _lost(finding, "the placeholder that kept the place is gone", now)
        return self._check_fit(finding, placeholder, now)

    def _check_fit(self, finding: Finding, placeholder: Pod, now: float) -> Defer | Refuse | None:
        if not self._node_fit.sync():
            return PLACE_PENDING.defer(finding, "changed nodes are still being evaluated", now)
        if not (why := self._node_fit.diagnose_kept_place(finding.pod, placeholder)):
            return None
        wakes = (
            WakeOnNode(placeholder.node),
            WakeOnPod(placeholder.uid),
            WakeOnPod(finding.pod.uid),
        )
        return PLACE_DOES_NOT_FIT.refuse(finding, why, wakes, now + LOOK_AGAIN_S)


def _lost(finding: Finding, message: str, now: float) -> Refuse:
    wakes = (WakeOnPod(finding.pod.uid),)
    return PLACE_LOST.refuse(finding, message, wakes, now + LOOK_AGAIN_S)
