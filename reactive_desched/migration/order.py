"""The order in which waiting jobs are looked at: koordinator's sort functions, one after the other.

Each sort is stable, so the last is the most significant: the pods of batch Jobs that have most
moves in progress come first, then the pods that are cheapest to move.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from reactive_desched.model.koordinator import eviction_order
from reactive_desched.model.migration_jobs import JobOfPod, Phase
from reactive_desched.model.objects import Pod, controller_of

_BATCH_JOB: Final = "Job"


def in_order(waiting: Iterable[JobOfPod], every: Iterable[JobOfPod]) -> Sequence[JobOfPod]:
    """Return the waiting jobs in the order of arbitration, given every job that there is.

    Jobs without a pod come first, the newest of them at the front.
    """
    newest_first = sorted(waiting, key=lambda each: -each.job.created_s)
    cheapest_first = sorted(newest_first, key=_pod_rank)
    return _busiest_first(_grouped(cheapest_first), moves_by_batch_job(every))


def _pod_rank(each: JobOfPod) -> tuple[int, ...]:
    if each.pod is None:
        return ()
    return (1, *eviction_order(each.pod), -each.pod.created_s)


def batch_job_of(pod: Pod | None) -> str | None:
    """Return the uid of the batch Job that controls a pod, if one does."""
    controller = None if pod is None else controller_of(pod.owners)
    return controller.uid if controller is not None and controller.kind == _BATCH_JOB else None


def _grouped(jobs: Sequence[JobOfPod]) -> Sequence[JobOfPod]:
    """Move the pods of a batch Job up to the first of them; the others keep their order."""
    groups: dict[str, list[JobOfPod]] = defaultdict(list)
    for each in jobs:
        groups[batch_job_of(each.pod) or each.job.uid].append(each)
    return [each for group in groups.values() for each in group]


def moves_by_batch_job(every: Iterable[JobOfPod]) -> Mapping[str, int]:
    """Count, by uid of any owner, the jobs that run or were let through, ended ones included."""
    return Counter(
        owner.uid
        for each in every
        if each.pod is not None and (each.job.has_passed or each.job.phase is Phase.RUNNING)
        for owner in each.pod.owners
    )


def _busiest_first(jobs: Sequence[JobOfPod], moves: Mapping[str, int]) -> Sequence[JobOfPod]:
    return sorted(jobs, key=lambda each: -moves.get(batch_job_of(each.pod) or "", 0))
