"""Arbitration: which of the jobs that wait may begin, in which order, and what holds the others.

It follows every job, so that a round looks at the jobs that wait alone. A job that passes is in
progress at once, so it counts against those after it. What comes of a result, such as an
annotation or a condition, is for the caller. A round is interrupted often: a job that differs by
the time of its result is for the next round.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.gate.filters import Rejection
from reactive_desched.migration.actions import awaits_arbitration
from reactive_desched.migration.in_progress import JobCounts
from reactive_desched.migration.limits import MigrationLimits, SizeOf
from reactive_desched.migration.protections import passes_by_annotation, protections
from reactive_desched.migration.settings import ArbitrationSettings
from reactive_desched.migration.sort_order import RankedJob, in_order
from reactive_desched.model.findings import YieldPoint
from reactive_desched.model.migration_jobs import JobOfPod, MigrationJob, SkipGate
from reactive_desched.model.objects import Pod
from reactive_desched.state.cluster import ClusterView

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


ArbitrationResult = Passed | Held | Forbidden


class Arbitrator:
    """Decides which jobs may begin, by koordinator's rules; equal input has equal results.

    `follow` is called for each job that appears or differs, and for those whose pod does. A round
    has admitted a job that it lets through (`has_admitted`) until that is written on the job.
    """

    def __init__(
        self, settings: ArbitrationSettings, view: ClusterView, find_pod: FindPod, size_of: SizeOf
    ) -> None:
        self._settings: Final = settings
        self._view: Final = view
        self._find_pod: Final = find_pod
        self._size_of: Final = size_of
        self._protections: Final = protections(settings)
        self._counts: Final = JobCounts()
        self._waiting: Final[dict[str, MigrationJob]] = {}
        self._admitted: Final[set[str]] = set()

    # --- the jobs that there are ---

    def follow(self, job: MigrationJob, *, is_evicted: bool = False) -> None:
        """Record a job as it is now; `is_evicted` says that its eviction counts as one already."""
        name = job.name
        if not awaits_arbitration(job):
            self._admitted.discard(name)
            self._waiting.pop(name, None)
        elif name not in self._admitted:
            self._waiting[name] = job
        each = JobOfPod(job, self._find_pod(job))
        was_let_through = name in self._admitted
        self._counts.put(each, is_evicted=is_evicted, was_let_through=was_let_through)

    def expect(self, each: JobOfPod) -> None:
        """Count a job that is being made."""
        self._counts.put(each)

    def forget(self, name: str) -> None:
        """Record that a job is gone."""
        self._admitted.discard(name)
        self._waiting.pop(name, None)
        self._counts.remove(name)

    def waits(self, name: str) -> bool:
        """Say whether a job waits for a round."""
        return name in self._waiting

    def has_admitted(self, name: str) -> bool:
        """Say whether a round let a job through, which is not written on it yet."""
        return name in self._admitted

    def evictions_to_come(self, pod: Pod, scope: str) -> int:
        """Count the other pods to be evicted in the pod's "cluster", "namespace" or "node"."""
        return self._counts.evictions_to_come(pod, scope)

    # --- results ---

    def run_round(self) -> Iterator[ArbitrationResult | YieldPoint]:
        """Yield the result for each job that waits, in order."""
        ranked = []
        for number, job in enumerate(tuple(self._waiting.values()), 1):
            ranked.append(RankedJob.of(JobOfPod(job, self._find_pod(job))))
            if number % JOBS_PER_SLICE == 0:
                yield YieldPoint()
        limits = MigrationLimits(self._settings, self._counts.in_progress, self._size_of)
        for each in in_order(ranked, self._counts.moves):
            if self._waiting.get(each.job.name) is not each.job:
                continue  # it is gone, or differs, since the round began
            result = self._judge(each, limits)
            if isinstance(result, Passed):
                self._let_through(each)
            yield result

    def _let_through(self, each: JobOfPod) -> None:
        """Count a job as in progress; one whose pod appears after all waits for a round again."""
        self._counts.let_through(each)
        if each.pod is not None:
            del self._waiting[each.job.name]
            self._admitted.add(each.job.name)

    def rejects(self, pod: Pod) -> Rejection | None:
        """Return why no job of a pod may be made; every job that has not ended counts."""
        if passes_by_annotation(pod):
            return None
        limits = MigrationLimits(self._settings, self._counts.every, self._size_of)
        return self._forbidden(pod, limits) or limits.reached(pod)

    def _judge(self, each: JobOfPod, limits: MigrationLimits) -> ArbitrationResult:
        """Decide on one job; a pod that its evict annotation lets go passes every check."""
        pod = each.pod
        if pod is None or passes_by_annotation(pod):
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
