"""How long a job waits after an attempt to keep its place failed."""

from itertools import pairwise

from reactive_desched.migration.job_state import FailedAttempt
from reactive_desched.migration.placeholders import LONGEST_WAIT_S, MAX_MESSAGE, PlaceAttempts


def test_each_wait_is_twice_the_last_one_up_to_a_minute() -> None:
    attempts, waits = PlaceAttempts(), []
    for _ in range(9):
        attempts.note_failure("job", "403", 100.0)
        failed = attempts.get("job")
        assert failed is not None
        waits.append(failed.next_at_s - 100.0)

    assert waits[0] == 1.0
    assert all(after == min(2 * before, LONGEST_WAIT_S) for before, after in pairwise(waits))
    assert waits[-1] == LONGEST_WAIT_S == 60.0


def test_a_place_that_is_made_begins_anew_and_other_jobs_do_not_count() -> None:
    attempts = PlaceAttempts()
    attempts.note_failure("job", "403", 0.0)
    attempts.note_failure("other", "500", 0.0)
    attempts.forget("job")
    attempts.forget("job")
    assert attempts.get("job") is None
    assert attempts.get("other") == FailedAttempt("500", 1.0, 1.0)


def test_a_long_error_is_cut() -> None:
    attempts = PlaceAttempts()
    attempts.note_failure("job", "x" * 5000, 0.0)
    failed = attempts.get("job")
    assert failed is not None
    assert len(failed.message) == MAX_MESSAGE


def test_thousands_of_failures_do_not_overflow_the_wait() -> None:
    attempts = PlaceAttempts()
    for _ in range(5000):
        attempts.note_failure("job", "403", 0.0)
    failed = attempts.get("job")
    assert failed is not None
    assert failed.next_at_s == LONGEST_WAIT_S
