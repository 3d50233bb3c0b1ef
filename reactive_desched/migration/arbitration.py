"""Arbitration: which of the jobs that wait may begin, in which order, and what holds the others.

One round looks at every waiting job once. A job that passes is in progress at once, so it counts
against those after it. The round reads and returns values only: what comes of a verdict, such as
an annotation or a condition, is for the caller. It is interrupted often: a job that differs by the
time of its verdict is for the next round.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.gate.filters import Rejection
from reactive_desched.migration.in_progress import JobsInProgress
from reactive_desched.migration.limits import MigrationLimits, SizeOf
from reactive_desched.migration.order import MovesByBatchJob, RankedJob, in_order
from reactive_desched.migration.protections import protections
from reactive_desched.migration.settings import ArbitrationSettings
from reactive_desched.migration.steps import awaits_arbitration
from reactive_desched.model.findings import YieldPoint
from reactive_desched.model.migration_jobs import JobOfPod, MigrationJob, SkipGate
from reactive_desched.model.objects import Pod
from reactive_desched.state.view import ClusterView

JOBS_PER_SLICE: Final = 50
"""So many jobs are read before the event loop may have its turn: some 0.3 ms."""

FindPod = Callable[[MigrationJob], Pod | None]
"""Returns the pod that a job names, where there is one."""


class Passed(Struct, frozen=True, gc=False):
    """The job may begin; of one without a pod it finds that the pod is missing."""

    job: MigrationJob
    pod: Pod | None


class Held(Struct, frozen=True, gc=False):
    """A limit is reached: the job waits until a job, the pod or its workload changes."""

    job: MigrationJob
    pod: Pod
    rejection: Rejection


class Forbidden(Struct, frozen=True, gc=False):
    """The pod must not be moved: the job has failed for good."""

    job: MigrationJob
    pod: Pod
    rejection: Rejection


Verdict = Passed | Held | Forbidden


class Arbitrator:
    """Decides which jobs may begin, by koordinator's rules; equal input has equal verdicts."""

    def __init__(
        self, settings: ArbitrationSettings, view: ClusterView, find_pod: FindPod, size_of: SizeOf
    ) -> None:
        self._settings: Final = settings
        self._view: Final = view
        self._find_pod: Final = find_pod
        self._size_of: Final = size_of
        self._protections: Final = protections(settings)

    def run_round(self, jobs: Iterable[MigrationJob]) -> Iterator[Verdict | YieldPoint]:
        """Yield a verdict on each job that waits, in order, given every job that there is."""
        in_progress, moves, waiting = JobsInProgress(), MovesByBatchJob(), []
        for number, job in enumerate(jobs, 1):
            each = JobOfPod(job, self._find_pod(job))
            moves.add(each)
            if job.is_in_progress:
                in_progress.add(each)
            if awaits_arbitration(job):
                waiting.append(RankedJob.of(each))
            if number % JOBS_PER_SLICE == 0:
                yield YieldPoint()
        limits = MigrationLimits(self._settings, in_progress, self._size_of)
        for each in in_order(waiting, moves):
            verdict = self._judge(each, limits)
            if isinstance(verdict, Passed):
                in_progress.add(each)
            yield verdict

    def rejects(self, pod: Pod, every: JobsInProgress) -> Rejection | None:
        """Return why no job of a pod may be made, where `every` job that there is counts."""
        if pod.annotations.evict is not None:
            return None
        limits = MigrationLimits(self._settings, every, self._size_of)
        return self._forbidden(pod, limits) or limits.reached(pod)

    def _judge(self, each: JobOfPod, limits: MigrationLimits) -> Verdict:
        """Decide on one job; the pod's evict annotation passes every check."""
        pod = each.pod
        if pod is None or pod.annotations.evict is not None:
            return Passed(each.job, pod)
        if (rejection := self._forbidden(pod, limits)) is not None:
            return Forbidden(each.job, pod, rejection)
        if (rejection := limits.reached(pod)) is not None:
            return Held(each.job, pod, rejection)
        return Passed(each.job, pod)

    def _forbidden(self, pod: Pod, limits: MigrationLimits) -> Rejection | None:
        for check in self._protections:
            if (rejection := check(pod, self._view)) is not None:
                return rejection
        if self._settings.skips(SkipGate.EXPECTED_REPLICAS):
            return None
        return limits.too_small(pod)
