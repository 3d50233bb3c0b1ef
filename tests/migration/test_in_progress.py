"""What the limits on jobs go by: counts that follow each job, equal to counts made anew."""

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.migration.in_progress import JobsInProgress, OpenJobs
from reactive_desched.model.migration_jobs import JobOfPod, MigrationJob, PodReference
from reactive_desched.model.objects import Pod
from reactive_desched.testing.builders import pod

PODS = [
    pod(f"p{number}", on=f"n{number % 2}", owner=f"ReplicaSet/r{number % 3}") for number in range(6)
]
UIDS = st.sampled_from(["", "other", "own"])
changes = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d", "e"]),
        st.none() | st.tuples(st.sampled_from(PODS), UIDS, st.booleans(), st.booleans()),
    ),
    max_size=20,
)


def job_of(name: str, of: Pod, uid: str, *, is_there: bool) -> JobOfPod:
    """Return a job that names a pod by its own uid, by another, or by none."""
    reference = PodReference(of.namespace, of.name, of.uid if uid == "own" else uid)
    job = MigrationJob(name=name, uid=name, pod=reference)
    return JobOfPod(job, of if is_there else None)


def answers(jobs: JobsInProgress) -> list[object]:
    """Return what the counts say about each pod."""
    return [
        (jobs.in_cluster(of), jobs.in_namespace(of), jobs.on_node(of), jobs.of_workload(of))
        for of in PODS
    ]


@given(changes)
def test_counts_that_follow_each_job_equal_counts_made_anew(
    changes: list[tuple[str, tuple[Pod, str, bool, bool] | None]],
) -> None:
    followed, there = OpenJobs(), dict[str, tuple[JobOfPod, bool]]()
    for name, change in changes:
        if change is None:
            followed.remove(name)
            there.pop(name, None)
            continue
        of, uid, is_there, is_evicted = change
        each = job_of(name, of, uid, is_there=is_there)
        followed.put(name, each, is_evicted=is_evicted)
        there[name] = each, is_evicted
    every, to_evict = JobsInProgress(), JobsInProgress()
    for each, is_evicted in there.values():
        every.add(each)
        if not is_evicted:
            to_evict.add(each)

    assert answers(followed.every) == answers(every)
    for of in PODS:
        assert followed.evictions_to_come(of, "cluster") == to_evict.in_cluster(of)
        assert followed.evictions_to_come(of, "node") == to_evict.on_node(of)
