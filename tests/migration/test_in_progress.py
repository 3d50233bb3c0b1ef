"""What the limits on jobs go by: counts that follow each job, equal to counts made anew."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.migration.in_progress import JobCounts, JobsInProgress
from reactive_desched.model.migration_jobs import (
    JobOfPod,
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
)
from reactive_desched.model.objects import Pod
from reactive_desched.testing.builders import pod

PODS = [
    pod(f"p{number}", on=f"n{number % 2}", owner=f"{kind}/r{number % 3}")
    for number, kind in enumerate(("ReplicaSet", "Job", "ReplicaSet") * 2)
]
UIDS = st.sampled_from(["", "other", "own"])
changes = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d", "e"]),
        st.none()
        | st.tuples(
            st.sampled_from(PODS),
            UIDS,
            st.booleans(),
            st.sampled_from(Phase),
            st.booleans(),
            st.booleans(),
        ),
    ),
    max_size=20,
)


def job_of(name: str, of: Pod, uid: str, *, is_there: bool, phase: Phase) -> JobOfPod:
    """Return a job that names a pod by its own uid, by another, or by none."""
    reference = PodReference(of.namespace, of.name, of.uid if uid == "own" else uid)
    job = MigrationJob(name=name, uid=name, pod=reference, status=JobStatus(phase))
    return JobOfPod(job, of if is_there else None)


def answers(jobs: JobsInProgress) -> list[object]:
    """Return what the counts say about each pod."""
    return [
        (jobs.in_cluster(of), jobs.in_namespace(of), jobs.on_node(of), jobs.of_workload(of))
        for of in PODS
    ]


@given(changes)
def test_counts_that_follow_each_job_equal_counts_made_anew(
    changes: list[tuple[str, tuple[Pod, str, bool, Phase, bool, bool] | None]],
) -> None:
    followed, there = JobCounts(), dict[str, tuple[JobOfPod, bool, bool]]()
    for name, change in changes:
        if change is None:
            followed.remove(name)
            there.pop(name, None)
            continue
        of, uid, is_there, phase, is_evicted, was_let_through = change
        each = job_of(name, of, uid, is_there=is_there, phase=phase)
        followed.put(each, is_evicted=is_evicted)
        if was_let_through:
            followed.let_through(each)
        there[name] = each, is_evicted, was_let_through
    every, in_progress, to_evict = JobsInProgress(), JobsInProgress(), JobsInProgress()
    moves: Counter[str] = Counter()
    for each, is_evicted, was_let_through in there.values():
        runs = each.job.phase is Phase.RUNNING
        if not each.job.has_ended:
            every.add(each)
            if not is_evicted:
                to_evict.add(each)
            if runs or was_let_through:
                in_progress.add(each)
        if each.pod is not None and (runs or was_let_through):
            moves.update(owner.uid for owner in each.pod.owners if owner.kind == "Job")

    assert answers(followed.every) == answers(every)
    assert answers(followed.in_progress) == answers(in_progress)
    for of in PODS:
        assert followed.evictions_to_come(of, "cluster") == to_evict.in_cluster(of)
        assert followed.evictions_to_come(of, "node") == to_evict.on_node(of)
        assert followed.moves.of(of.owners[0].uid) == moves[of.owners[0].uid]
