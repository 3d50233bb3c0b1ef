import pytest

from reactive_desched.controller import work_queue as work_queue_module
from reactive_desched.controller.work_queue import BACKOFF_PODS, PodBackoff
from reactive_desched.model.outcomes import (
    CANCELLED,
    DENIED,
    PDB_REFUSED,
    TOO_MANY_REQUESTS,
    Outcome,
)
from reactive_desched.policy.settings.controller_settings import RetrySettings

NO = Outcome(DENIED, "403: no")


def waits(backoff: PodBackoff, pod: str, tries: int, outcome: Outcome = NO) -> list[float]:
    """Fail again and again, each time the moment the rest is over; returns how long each was."""
    now, rests = 0.0, []
    for _ in range(tries):
        until = backoff.record_failure(pod, outcome, now)
        rests.append(until - now)
        now = until
    return rests


def test_waits_double_up_to_the_longest() -> None:
    assert waits(PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0)), "a", 8) == [
        5,
        10,
        20,
        40,
        80,
        160,
        300,
        300,
    ]


def test_each_pod_has_waits_of_its_own() -> None:
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    waits(backoff, "a", 3)

    assert waits(backoff, "b", 1) == [5]


def test_a_pod_rests_until_its_wait_is_over() -> None:
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    backoff.record_failure("a", NO, 100)
    rest = backoff.backing_off("a", 104.9)

    assert rest is not None
    assert (rest.until, rest.outcome) == (105, NO)
    assert backoff.backing_off("a", 105) is None
    assert backoff.backing_off("b", 100) is None


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        pytest.param(7.0, 7.0, id="longer than ours"),
        pytest.param(2.0, 5.0, id="shorter than ours"),
        pytest.param(900.0, 900.0, id="longer than our longest"),
    ],
)
def test_the_server_can_only_make_the_wait_longer(asked: float, waited: float) -> None:
    assert waits(
        PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0)),
        "a",
        1,
        Outcome(TOO_MANY_REQUESTS, "", asked),
    ) == [waited]


def test_being_withheld_is_no_refusal_and_does_not_make_the_next_wait_longer() -> None:
    assert waits(
        PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0)),
        "a",
        3,
        Outcome(CANCELLED, "disk full"),
    ) == [5, 5, 5]


def test_a_success_starts_over() -> None:
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    waits(backoff, "a", 2)
    backoff.reset("a")

    assert backoff.backing_off("a", 0) is None
    assert waits(backoff, "a", 1) == [5]


def test_after_the_longest_wait_without_a_failure_the_back_off_starts_over() -> None:
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    backoff.record_failure("a", NO, 0)
    assert backoff.record_failure("a", NO, 304.9) == 314.9
    assert backoff.record_failure("a", NO, 614.9) == 619.9


def test_a_changed_budget_ends_the_wait_of_those_a_budget_stopped_and_of_no_others() -> None:
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    backoff.record_failure("budgeted", Outcome(PDB_REFUSED, "needs 2"), 0)
    backoff.record_failure("denied", NO, 0)
    for pod in ("budgeted", "denied", "unheard of"):
        backoff.pdb_changed(pod, 1)

    assert backoff.backing_off("budgeted", 1) is None
    assert backoff.backing_off("denied", 1) is not None


def test_a_budget_that_refuses_again_makes_the_wait_longer() -> None:
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    refused = Outcome(PDB_REFUSED, "needs 2")
    backoff.record_failure("a", refused, 0)
    backoff.pdb_changed("a", 1)

    assert backoff.record_failure("a", refused, 1) == 11


def test_the_oldest_failure_is_forgotten_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue_module, "MAX_BACKOFF_ENTRIES", 3)
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    for pod in ("old", "a", "b", "c"):
        backoff.record_failure(pod, NO, 0)

    assert backoff.backing_off("old", 0) is None
    assert [pod for pod in "abc" if backoff.backing_off(pod, 0)] == ["a", "b", "c"]


def test_failing_again_makes_a_pod_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue_module, "MAX_BACKOFF_ENTRIES", 2)
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    for pod in ("a", "b", "a", "c"):
        backoff.record_failure(pod, NO, 0)

    assert backoff.backing_off("a", 0) is not None
    assert backoff.backing_off("b", 0) is None


def test_other_lengths_hold_for_coming_waits_and_rests_continue() -> None:
    backoff = PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0))
    backoff.record_failure("a", NO, 0)
    backoff.reconfigure(RetrySettings(initial_s=1, max_s=2, jitter=0))

    rest = backoff.backing_off("a", 4.9)
    assert rest is not None
    assert rest.until == 5
    assert backoff.record_failure("a", NO, 5) == 7
    assert backoff.record_failure("b", NO, 5) == 6


def test_pods_that_were_refused_together_do_not_try_again_together() -> None:
    backoff = PodBackoff(RetrySettings(initial_s=100, max_s=300, jitter=0.2))
    until = [backoff.record_failure(f"p{number}", NO, 0) for number in range(200)]

    assert min(until) >= 80
    assert max(until) <= 100
    assert len(set(until)) == 200
    assert max(until) - min(until) > 15
    assert all(rest <= 300 for rest in waits(backoff, "x", 10))


def test_the_metric_counts_the_pods_whose_failures_are_remembered() -> None:
    backoff = PodBackoff(RetrySettings())
    for name in ("a", "b", "b"):
        backoff.record_failure(name, NO, 0)
    backoff.reset("a")

    assert list(backoff.collect()) == [BACKOFF_PODS.value(1)]
