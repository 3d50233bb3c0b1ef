"""The order in which waiting jobs are looked at."""

from reactive_desched.migration.sort_order import MovesByBatchJob, RankedJob, in_order
from reactive_desched.model.migration_jobs import (
    JobOfPod,
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
)
from reactive_desched.model.objects import OwnerReference, Pod


def job(
    name: int | str,
    batch_job: str = "",
    *,
    created_s: int = 0,
    phase: Phase = Phase.NONE,
    has_passed: bool = False,
    has_pod: bool = True,
) -> JobOfPod:
    """Return a job on a pod of its own, of a batch Job if one is named."""
    owners = (OwnerReference("Job", batch_job, batch_job, controller=True),) if batch_job else ()
    pod = Pod("shop", str(name), f"uid-{name}", owners=owners) if has_pod else None
    reference = PodReference("shop", str(name), f"uid-{name}")
    return JobOfPod(
        MigrationJob(
            name=str(name),
            uid=f"j{name}",
            pod=reference,
            created_s=created_s,
            status=JobStatus(phase),
            has_passed=has_passed,
        ),
        pod,
    )


def order(waiting: list[JobOfPod], others: list[JobOfPod] | None = None) -> str:
    """Name the jobs in order."""
    moves = MovesByBatchJob()
    for each in others or []:
        moves.add(each)
    return "".join(each.job.name for each in in_order(map(RankedJob.of, waiting), moves))


def ten_jobs(batch_jobs: dict[int, str]) -> list[JobOfPod]:
    """Return ten jobs, those on pods of batch Jobs as named."""
    return [job(number, batch_jobs.get(number, "")) for number in range(10)]


def test_of_jobs_without_a_pod_the_newest_is_first() -> None:
    stamps = (222222, 222222222, 111111111, 11111, 11111)
    jobs = [job(at, created_s=stamp, has_pod=False) for at, stamp in enumerate(stamps, start=1)]

    assert order(jobs) == "23145"


def test_jobs_without_a_pod_come_before_all_others() -> None:
    assert order([job("a", created_s=9), job("b", has_pod=False)]) == "ba"


def test_pods_of_a_batch_job_move_up_to_the_first_of_them() -> None:
    assert order(ten_jobs({3: "A", 8: "A", 1: "B", 9: "B"})) == "0192384567"


def test_the_batch_job_with_most_moves_is_first() -> None:
    running = [job("x", "A", phase=Phase.RUNNING)]
    passed = [job("y", "B", has_passed=True), job("z", "B", phase=Phase.RUNNING)]

    assert order(ten_jobs({4: "A", 8: "A"}), running) == "4801235679"
    assert order(ten_jobs({4: "A", 8: "A", 7: "B"}), running + passed) == "7480123569"
