"""Which ended jobs and which placeholders are deleted because nothing needs them any more."""

from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.migration import cleanup
from reactive_desched.migration.actions import DeletePlaceholder
from reactive_desched.migration.cleanup import MAX_ENDED, NO_JOB, ORPHAN_GRACE_S, JobCleanup
from reactive_desched.migration.job_queue import JobQueue
from reactive_desched.migration.placeholders import JobPlaces
from reactive_desched.model.migration_jobs import PLACEHOLDER_OF
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.job_pods import JobPods
from reactive_desched.testing.builders import pod


class Clock:
    """The time, in seconds since the epoch."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def build(state: ClusterState, clock: Clock) -> tuple[JobCleanup, JobQueue]:
    """Return the cleanup over a cluster, and its queue."""
    state.keep_indexes([(JobPods, None)])
    view = ClusterView(state, clock)
    queue = JobQueue(clock, Wakeup())
    return JobCleanup(JobPlaces(view, SchedulerNodeFit(view, clock), clock), queue), queue


def test_of_more_ended_jobs_than_are_kept_the_one_that_ended_first_is_to_be_deleted() -> None:
    jobs, queue = build(ClusterState(), Clock())
    for number in range(MAX_ENDED):
        jobs.note_ended(f"j{number}")
    jobs.note_ended("j0")
    assert queue.take() is None

    jobs.note_ended("last")

    assert queue.take() == "j0"
    assert [name for name in ("j0", "j1", "last") if jobs.is_surplus(name)] == ["j0"]


def test_an_ended_job_that_is_gone_leaves_room_for_another() -> None:
    jobs, queue = build(ClusterState(), Clock())
    for number in range(MAX_ENDED):
        jobs.note_ended(f"j{number}")
    jobs.forget("j0")

    jobs.note_ended("last")

    assert queue.take() is None


def test_a_placeholder_without_a_job_is_deleted_after_the_grace_of_the_garbage_collector() -> None:
    state, clock = ClusterState(), Clock()
    jobs, queue = build(state, clock)
    jobs.look_for_orphans()
    assert queue.next_due_s() is None
    orphan = replace(pod("place"), labels={PLACEHOLDER_OF: "gone"})
    state.upsert(orphan)

    jobs.look_for_orphans()

    assert queue.next_due_s() == ORPHAN_GRACE_S
    clock.now_s += ORPHAN_GRACE_S
    assert queue.take() == NO_JOB
    action = jobs.orphan_action()
    assert isinstance(action, DeletePlaceholder)
    assert action.placeholder == orphan
    assert queue.next_due_s() == cleanup.ORPHAN_AGAIN_S
