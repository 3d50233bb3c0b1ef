"""Who is tried next, and when a pod that failed is tried again."""

import pytest

from reactive_desched.sim.scheduling.backlog import Backlog

A, B, C = ("default", "a"), ("default", "b"), ("default", "c")


def drained(backlog: Backlog, now: float = 0.0) -> list[tuple[str, str]]:
    """Take every pod that may be tried now."""
    taken = []
    while (key := backlog.take(now)) is not None:
        taken.append(key)
    return taken


def test_priority_comes_first_then_arrival() -> None:
    backlog = Backlog()
    backlog.offer(A, "1", 0)
    backlog.offer(B, "2", 5)
    backlog.offer(C, "3", 0)

    assert drained(backlog) == [B, A, C]


def test_a_pod_that_is_known_keeps_its_place_and_another_of_its_name_does_not() -> None:
    backlog = Backlog()
    backlog.offer(A, "1", 0)
    backlog.offer(B, "2", 0)
    backlog.offer(A, "1", 0)
    backlog.offer(A, "4", 0)

    assert drained(backlog) == [B, A]


def test_a_dropped_pod_is_not_tried() -> None:
    backlog = Backlog()
    backlog.offer(A, "1", 0)

    backlog.drop(A)

    assert drained(backlog) == []
    assert backlog.due() is None


def test_without_a_change_a_pod_is_tried_again_after_five_minutes() -> None:
    backlog = Backlog()
    backlog.offer(A, "1", 0)
    drained(backlog)

    backlog.put_off(A, 100.0, heeds_neighbours=False)

    assert backlog.due() == 400.0
    assert drained(backlog, 399.0) == []
    assert drained(backlog, 400.0) == [A]


@pytest.mark.parametrize(
    ("failures", "wait"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (9, 10.0)]
)
def test_a_change_shortens_the_wait_to_a_growing_pause(failures: int, wait: float) -> None:
    backlog = Backlog()
    backlog.offer(A, "1", 0)
    drained(backlog)
    for _ in range(failures):
        backlog.put_off(A, 100.0, heeds_neighbours=False)

    backlog.stir(neighbours_only=False)

    assert backlog.due() == 100.0 + wait


def test_a_change_of_other_pods_wakes_only_pods_with_rules_about_them() -> None:
    backlog = Backlog()
    for key, heeds in ((A, True), (B, False)):
        backlog.offer(key, "1", 0)
        drained(backlog)
        backlog.put_off(key, 0.0, heeds_neighbours=heeds)

    backlog.stir(neighbours_only=True)

    assert drained(backlog, 1.0) == [A]
