from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.kube.watch.resume import ExponentialBackoff


def waits(backoff: ExponentialBackoff, count: int, now: float = 0.0) -> list[float]:
    return [backoff.next_wait_s(now) for _ in range(count)]


@given(st.randoms(use_true_random=False))
def test_each_wait_is_about_twice_the_one_before_and_none_is_over_half_a_minute(
    rng: Random,
) -> None:
    lowest = [0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]
    for low, wait in zip(lowest, waits(ExponentialBackoff(rng), 7), strict=True):
        assert low <= wait <= 2 * low


def test_two_clients_that_fail_together_do_not_come_back_together() -> None:
    assert ExponentialBackoff(Random(1)).next_wait_s(0) != ExponentialBackoff(
        Random(2)
    ).next_wait_s(0)


def test_a_reset_starts_again_with_the_shortest_wait() -> None:
    backoff = ExponentialBackoff(Random(1))
    waits(backoff, 5)
    backoff.reset()
    assert backoff.next_wait_s(0) < 1.6


def test_two_minutes_without_a_failure_are_as_good_as_a_reset() -> None:
    backoff = ExponentialBackoff(Random(1))
    waits(backoff, 5)
    assert backoff.next_wait_s(120.0) >= 15.0
    assert backoff.next_wait_s(240.5) < 1.6
