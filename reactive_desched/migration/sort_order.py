"""The order in which waiting jobs are looked at: koordinator's sort functions, one after the other.

Each sort is stable, so the last is the most significant: the pods of batch Jobs that have most
moves in progress come first, then the pods that are cheapest to move.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

from msgspec import Struct

from reactive_desched.model.koordinator import eviction_order
from reactive_desched.model.migration_jobs import JobOfPod
from reactive_desched.model.objects import Pod, controller_of

_BATCH_JOB: Final = "Job"


class RankedJob(Struct, frozen=True, gc=False):
    """A waiting job, and its place in the order as far as the job and its pod alone say it.

    Jobs that are equal otherwise come by the name of their pod.
    """

    each: JobOfPod
    rank: tuple[int, ...]
    name: tuple[str, str, str]

    @classmethod
    def of(cls, each: JobOfPod) -> Self:
        """Rank a job."""
        named = each.job.pod
        return cls(each, _rank(each), (named.namespace, named.name, each.job.uid))


class MovesByBatchJob:
    """Counts, by uid of the batch Job, the jobs that run or were let through, also ended ones."""

    def __init__(self) -> None:
        self._counts: Final[Counter[str]] = Counter()

    def add(self, each: JobOfPod) -> None:
        """Count a job that runs or was let through."""
        for batch_job in _batch_jobs(each):
            self._counts[batch_job] += 1

    def remove(self, each: JobOfPod) -> None:
        """Stop counting a job that was added."""
        for batch_job in _batch_jobs(each):
            self._counts[batch_job] -= 1
            if not self._counts[batch_job]:
                del self._counts[batch_job]

    def of(self, batch_job: str | None) -> int:
        """Return the jobs of a batch Job's pods."""
        return 0 if batch_job is None else self._counts[batch_job]


def _batch_jobs(each: JobOfPod) -> Iterator[str]:
    owners = () if each.pod is None else each.pod.owners
    return (owner.uid for owner in owners if owner.kind == _BATCH_JOB)


def in_order(waiting: Iterable[RankedJob], moves: MovesByBatchJob) -> Sequence[JobOfPod]:
    """Return the waiting jobs in the order of arbitration.

    Jobs without a pod come first, the newest of them at the front.
    """
    cheapest_first = sorted(waiting, key=lambda ranked: (ranked.rank, ranked.name))
    return _busiest_first(_grouped(ranked.each for ranked in cheapest_first), moves)


def _rank(each: JobOfPod) -> tuple[int, ...]:
    """Return what sorts the cheapest pods to move first, and of equal ones the newest jobs."""
    newest_first = -each.job.created_s
    if each.pod is None:
        return (0, newest_first)
    return (1, *eviction_order(each.pod), -each.pod.created_s, newest_first)


def batch_job_of(pod: Pod | None) -> str | None:
    """Return the uid of the batch Job that controls a pod, if one does."""
    controller = None if pod is None else controller_of(pod.owners)
    return controller.uid if controller is not None and controller.kind == _BATCH_JOB else None


def _grouped(jobs: Iterable[JobOfPod]) -> Sequence[JobOfPod]:
    """Move the pods of a batch Job up to the first of them; the others keep their order."""
    groups: dict[str, list[JobOfPod]] = defaultdict(list)
    for each in jobs:
        groups[batch_job_of(each.pod) or each.job.uid].append(each)
    return [each for group in groups.values() for each in group]


def _busiest_first(jobs: Sequence[JobOfPod], moves: MovesByBatchJob) -> Sequence[JobOfPod]:
    return sorted(jobs, key=lambda each: -moves.of(batch_job_of(each.pod)))
