"""Admits migration jobs: says whether one may be made for a pod now, and orders it until it is."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from reactive_desched.gate.filters import Rejection
from reactive_desched.migration.arbitration import Arbitrator
from reactive_desched.migration.job_state import Modes
from reactive_desched.migration.rules import NO_PLACE, no_place_for
from reactive_desched.migration.volumes import reach_of
from reactive_desched.model.migration_jobs import JobOfPod, MigrationJob, PodReference
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.job_pods import JobPods

NEXT_JOB_S: Final = 60.0
"""So long after a job failed no other is made for its pod."""

MAX_REMEMBERED: Final = 10_000
"""So many pods whose job failed are remembered; then the oldest is forgotten."""


class NewJob(Struct, frozen=True, gc=False):
    """A job that is to be made: the pod, which plugin found it, and why."""

    name: str
    pod: Pod
    trigger: str
    cause: str


class PendingJobs:
    """Holds at most one order for each pod, from its finding until the job is made or is not."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock: Final = wall_clock
        self._by_pod: Final[dict[PodKey, NewJob]] = {}
        self._unmade: Final[deque[NewJob]] = deque()
        self._not_before: Final[OrderedDict[PodKey, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._unmade)

    def of(self, pod: Pod) -> NewJob | None:
        """Return the order for a pod."""
        return self._by_pod.get(pod.uid)

    def add(self, pod: Pod, trigger: str, cause: str) -> NewJob:
        """Order a job for a pod."""
        order = NewJob(f"{pod.uid}-{int(self._wall_clock())}", pod, trigger, cause)
        self._by_pod[pod.uid] = order
        self._unmade.append(order)
        return order

    def take(self) -> NewJob | None:
        """Take out a job that is to be made; it is ordered until `end`."""
        return self._unmade.popleft() if self._unmade else None

    def end(self, order: NewJob, *, made: bool) -> None:
        """Record that a job was made, or could not be."""
        self._by_pod.pop(order.pod.uid, None)
        if not made:
            self.postpone(order.pod.uid)

    def postpone(self, pod: PodKey) -> None:
        """Delay the next job of a pod: one failed, or could not be made."""
        self._not_before.pop(pod, None)
        if len(self._not_before) >= MAX_REMEMBERED:
            self._not_before.popitem(last=False)
        self._not_before[pod] = self._wall_clock() + NEXT_JOB_S

    def seconds_to_next(self, pod: Pod) -> float:
        """Return for how long no job of the pod is made."""
        return max(0.0, self._not_before.get(pod.uid, 0.0) - self._wall_clock())


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
