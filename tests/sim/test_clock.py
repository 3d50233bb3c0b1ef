import pytest

from reactive_desched.sim.clock import VirtualClock, parse_time, rfc3339, rfc3339_micro


def test_a_virtual_clock_moves_only_by_its_methods_and_only_forward() -> None:
    clock = VirtualClock(100.0)
    clock.advance(2.5)
    assert clock.now() == 102.5
    with pytest.raises(ValueError, match="time only moves forward"):
        clock.advance(-1)


def test_times_are_cut_to_whole_seconds() -> None:
    assert rfc3339(1_800_000_000.999) == "2027-01-15T08:00:00Z"


def test_micro_times_always_have_six_digits() -> None:
    assert rfc3339_micro(1_800_000_000.0) == "2027-01-15T08:00:00.000000Z"
    assert rfc3339_micro(1_800_000_000.25) == "2027-01-15T08:00:00.250000Z"


@pytest.mark.parametrize("moment", [1_800_000_000.0, 1_800_000_000.25])
def test_what_was_written_reads_back(moment: float) -> None:
    assert parse_time(rfc3339_micro(moment)) == moment
