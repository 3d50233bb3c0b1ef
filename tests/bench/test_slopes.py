"""What a soak says of memory and tasks."""

import pytest

from bench.measure.slopes import slopes


def sample(minute: float, rss_mb: float, tasks: int = 100) -> dict[str, float]:
    return {"at_s": minute * 60, "rss_mb": rss_mb, "tasks": tasks}


def test_what_grows_in_the_first_ten_minutes_of_a_long_run_does_not_count() -> None:
    found = slopes([sample(minute, min(100 + 10 * minute, 200)) for minute in range(31)])

    assert found == {"from_s": 600.0, "rss_mb": 0.0, "tasks": 0.0}


def test_what_grows_on_is_said_for_an_hour() -> None:
    found = slopes([sample(minute, 100 + minute / 2, 100 + minute) for minute in range(31)])

    assert found["rss_mb"] == pytest.approx(30.0)
    assert found["tasks"] == pytest.approx(60.0)


def test_of_a_short_run_the_later_half_counts() -> None:
    assert slopes([sample(minute, 100) for minute in range(5)])["from_s"] == 120.0
