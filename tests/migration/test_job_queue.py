"""When a job is due, and when the next job of a pod may be made."""

from reactive_desched.migration import admission
from reactive_desched.migration.admission import NEXT_JOB_S, PendingJobs
from reactive_desched.migration.job_queue import JobQueue
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.testing.builders import pod
from tests.support.manual_clock import ManualClock


def taken(queue: JobQueue) -> list[str]:
    found = []
    while (name := queue.take()) is not None:
        found.append(name)
    return found


def test_a_job_that_is_added_twice_is_taken_once() -> None:
    queue = JobQueue(lambda: 0.0, Wakeup())
    queue.add("a")
    queue.add("b")
    queue.add("a")

    assert queue.is_due
    assert taken(queue) == ["a", "b"]
    assert not queue.is_due


def test_a_job_is_due_at_the_sooner_of_two_waits_and_at_the_later_of_two_times() -> None:
    clock = ManualClock()
    start = clock.now()
    queue = JobQueue(clock.now, Wakeup())
    queue.add_after("waits", 9.0)
    queue.add_after("waits", 2.0)
    queue.add_after("waits", 5.0)
    queue.add_at("at", start + 3.0)
    queue.add_at("at", start + 4.0)

    assert queue.next_due_s() == 2
    clock.advance(2)
    assert taken(queue) == ["waits"]
    clock.advance(1)
    assert taken(queue) == []
    clock.advance(1)
    assert taken(queue) == ["at"]
    assert queue.next_due_s() is None


def test_a_job_that_is_gone_is_due_no_more() -> None:
    queue = JobQueue(lambda: 0.0, Wakeup())
    queue.add("a")
    queue.add_at("a", 0.0)

    queue.remove("a")

    assert taken(queue) == []


def test_the_next_job_of_a_pod_waits_after_one_that_could_not_be_made() -> None:
    clock = ManualClock()
    ordered, web = PendingJobs(clock.now), pod("web", on="n1")
    order = ordered.add(web, "LowNodeLoad", "hot")

    assert ordered.of(web) is order
    assert ordered.take() is order
    assert ordered.of(web) is order, "it is being made"
    ordered.end(order, made=False)
    assert ordered.of(web) is None
    assert ordered.seconds_to_next(web) == NEXT_JOB_S
    clock.advance(NEXT_JOB_S)
    assert ordered.seconds_to_next(web) == 0


def test_so_many_pods_are_remembered_and_no_more() -> None:
    ordered = PendingJobs(lambda: 0.0)
    for number in range(admission.MAX_REMEMBERED + 1):
        ordered.postpone(f"uid-{number}")

    assert len(ordered._not_before) == admission.MAX_REMEMBERED
    assert "uid-0" not in ordered._not_before
