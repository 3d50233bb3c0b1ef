"""The time of day is believed only while it keeps pace with a clock that nobody can set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.journal.upkeep.clock_drift import (
    MAX_DOWNTIME_S,
    MAX_DRIFT_S,
    TRUST_AFTER_S,
    ClockDriftMonitor,
    ClockReading,
    ClockState,
)

NOON = 1_790_000_000.0
MINUTE = 60.0
DAY = 86_400.0


class Clocks:
    """Two clocks that a test moves, together or apart."""

    def __init__(self) -> None:
        self.wall, self.monotonic = NOON, 1000.0
        self.steady = ClockDriftMonitor(lambda: self.wall, lambda: self.monotonic)

    def after(self, seconds: float, jump: float = 0.0) -> ClockReading:
        """Read it after some time in which the time of day was set on by so much besides."""
        self.monotonic += seconds
        self.wall += seconds + jump
        return self.steady.read()

    def believes(self) -> bool:
        return self.steady.read().is_trusted


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def believed(clocks: Clocks) -> Clocks:
    clocks.after(DAY)
    return clocks


def test_at_first_it_is_in_doubt_and_after_a_day_it_is_believed(clocks: Clocks) -> None:
    assert not clocks.believes()
    assert not clocks.after(DAY - 1).is_trusted
    assert clocks.after(1) == ClockReading(NOON + DAY, 0.0, is_trusted=True)


@pytest.mark.parametrize("jump", [30 * DAY, 2 * MAX_DRIFT_S, -2 * MAX_DRIFT_S, -30 * DAY])
def test_a_jump_is_told_once_and_costs_a_day_of_doubt(believed: Clocks, jump: float) -> None:
    seen = believed.after(MINUTE, jump)

    assert (seen.wall, seen.is_trusted) == (NOON + DAY + MINUTE + jump, False)
    assert seen.jump_s == pytest.approx(jump)
    assert believed.after(DAY - MINUTE) == ClockReading(believed.wall, 0.0, is_trusted=False)
    assert believed.after(MINUTE).is_trusted


def test_every_further_jump_begins_the_day_anew(believed: Clocks) -> None:
    believed.after(MINUTE, 30 * DAY)

    back = believed.after(DAY - MINUTE, -30 * DAY)

    assert back.jump_s == pytest.approx(-30 * DAY)
    assert not believed.after(DAY - MINUTE).is_trusted
    assert believed.after(MINUTE).is_trusted


def test_a_sleep_of_the_machine_only_costs_a_day(believed: Clocks) -> None:
    assert not believed.after(0.0, jump=8 * 3600).is_trusted
    assert believed.after(DAY).is_trusted


def test_small_corrections_are_no_jump_however_many_over_the_days(believed: Clocks) -> None:
    for _ in range(30):
        assert believed.after(DAY, jump=0.9 * MAX_DRIFT_S) == ClockReading(
            believed.wall, 0.0, is_trusted=True
        )


def test_a_jump_in_small_steps_within_a_day_is_a_jump(believed: Clocks) -> None:
    seen = [believed.after(MINUTE, jump=0.4 * MAX_DRIFT_S).is_trusted for _ in range(3)]

    assert seen == [True, True, False]


@pytest.mark.parametrize("away", [-MAX_DRIFT_S, 0.0, MAX_DOWNTIME_S])
def test_a_short_restart_goes_on_with_the_course_of_the_last_process(
    clocks: Clocks, away: float
) -> None:
    left = ClockState(NOON - away, DAY - MINUTE)

    assert clocks.steady.resume(left) == 0.0
    assert not clocks.believes()
    assert clocks.after(MINUTE).is_trusted


@pytest.mark.parametrize("away", [-30 * DAY, -MAX_DRIFT_S - 1, MAX_DOWNTIME_S + 1, 30 * DAY])
def test_after_a_pause_that_may_be_a_jump_it_is_in_doubt(clocks: Clocks, away: float) -> None:
    assert clocks.steady.resume(ClockState(NOON - away, DAY)) == pytest.approx(away)

    assert not clocks.after(DAY - 1).is_trusted
    assert clocks.after(1).is_trusted


@pytest.mark.parametrize("wall", [float("nan"), float("inf"), -float("inf")])
def test_a_course_that_is_nonsense_is_not_taken_up(clocks: Clocks, wall: float) -> None:
    clocks.steady.resume(ClockState(wall, DAY))

    assert not clocks.believes()


@pytest.mark.parametrize(("held", "credit"), [(-DAY, 0.0), (1e300, DAY)])
def test_nobody_has_held_for_less_than_no_time_or_needs_more_than_a_day(
    clocks: Clocks, held: float, credit: float
) -> None:
    clocks.steady.resume(ClockState(NOON, held))

    assert clocks.steady.state == ClockState(NOON, credit)


def test_a_jump_is_handed_on_as_a_course_that_was_not_held(believed: Clocks) -> None:
    believed.after(MINUTE, 30 * DAY)
    believed.after(MINUTE)

    assert believed.steady.state == ClockState(believed.wall, MINUTE)


STEPS = st.lists(
    st.tuples(st.floats(0, DAY), st.sampled_from([0.0, 0.0, 0.0, 100.0, -100.0, 40 * DAY, -DAY])),
    max_size=12,
)


@given(STEPS)
def test_it_is_never_believed_within_a_day_of_a_jump(steps: list[tuple[float, float]]) -> None:
    clocks = Clocks()
    jumped_at = clocks.monotonic
    for seconds, jump in steps:
        seen = clocks.after(seconds, jump)
        if abs(jump) > 2 * MAX_DRIFT_S:
            assert seen.jump_s
            jumped_at = clocks.monotonic
        assert not (seen.is_trusted and clocks.monotonic - jumped_at < TRUST_AFTER_S - 1e-3)
