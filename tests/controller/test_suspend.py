"""The time between two checks tells a suspended process from one that runs."""

import pytest

from reactive_desched.controller.pauses import SUSPEND_THRESHOLD_S, SuspendDetector


@pytest.fixture
def now() -> list[float]:
    return [1000.0]


@pytest.fixture
def detector(now: list[float]) -> SuspendDetector:
    return SuspendDetector(lambda: now[0])


def test_the_first_check_finds_nothing(detector: SuspendDetector) -> None:
    assert detector.check() == 0


def test_a_suspend_is_found_once_with_its_length(
    detector: SuspendDetector, now: list[float]
) -> None:
    detector.check()
    now[0] += 40

    assert (detector.check(), detector.check()) == (40, 0)


def test_short_pauses_are_none_however_many(detector: SuspendDetector, now: list[float]) -> None:
    for _ in range(100):
        assert detector.check() == 0
        now[0] += SUSPEND_THRESHOLD_S
