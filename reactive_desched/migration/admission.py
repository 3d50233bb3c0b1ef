"""Admits migration jobs: says whether one may be made for a pod now, and orders it."""

from typing import Final

from reactive_desched.gate.filters import Rejection
from reactive_desched.migration.arbitration import Arbitrator
from reactive_desched.migration.job_state import Modes
from reactive_desched.migration.pending_jobs import PendingJobs
from reactive_desched.migration.rules import NO_PLACE, no_place_for
from reactive_desched.migration.volumes import reach_of
from reactive_desched.model.migration_jobs import JobOfPod, MigrationJob, PodReference
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.indexes.job_pods import JobPods
from reactive_desched.state.view import ClusterView


class JobAdmission:
    """Answers for a pod, by the jobs that there are and those in `pending_jobs`.

    An order counts against the limits of arbitration as its job will. `changed` is notified of it.
    """

    def __init__(
        self,
        view: ClusterView,
        modes: Modes,
        arbitrator: Arbitrator,
        pending_jobs: PendingJobs,
        changed: Wakeup,
    ) -> None:
        self._view: Final = view
        self._modes: Final = modes
        self._arbitrator: Final = arbitrator
        self._pending: Final = pending_jobs
        self._changed: Final = changed

    def open_job_of(self, pod: Pod) -> str | None:
        """Name a job of the pod, or of an earlier pod of its name, that has not ended."""
        if (order := self._pending.of(pod)) is not None:
            return order.name
        jobs = self._view.index(JobPods).jobs_of(pod)
        return next((job.name for job in jobs if not job.has_ended), None)

    def rejects(self, pod: Pod) -> Rejection | None:
        """Return why no job of a pod may be made: every job that has not ended counts."""
        if nowhere := no_place_for(_job_on(pod), self._modes, pod, reach_of(pod, self._view)):
            return NO_PLACE, nowhere
        return self._arbitrator.rejects(pod)

    def evictions_to_come(self, pod: Pod, scope: str) -> int:
        """Count the other pods of the pod's "cluster", "namespace" or "node" that jobs will evict.

        An eviction that was decided is not to come any more.
        """
        return self._arbitrator.evictions_to_come(pod, scope)

    def seconds_to_next(self, pod: Pod) -> float:
        """Return for how long no job of the pod is made, for the last one failed."""
        return self._pending.seconds_to_next(pod)

    def order(self, pod: Pod, trigger: str, cause: str) -> str:
        """Order a job, and return its name; it counts against the limits from now on."""
        order = self._pending.add(pod, trigger, cause)
        self._arbitrator.expect(JobOfPod(_job_on(pod, order.name), pod))
        self._changed.notify()
        return order.name


def _job_on(pod: Pod, name: str = "") -> MigrationJob:
    """Return a job as it would be made for a pod."""
    return MigrationJob(name=name, uid=name, pod=PodReference.to(pod))
