from datetime import UTC, datetime, timedelta

import pytest

from reactive_desched.text.ages import (
    age_of,
    format_age,
    format_duration,
    format_left,
    format_ms,
    format_span,
    left_until,
    time_until,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        pytest.param(0, "0s", id="nothing"),
        pytest.param(0.9, "0s", id="less than a second"),
        pytest.param(-5, "0s", id="less than nothing"),
        pytest.param(59.9, "59s", id="only whole seconds count"),
        pytest.param(60, "1m", id="a whole minute"),
        pytest.param(601, "10m 1s", id="minutes and seconds"),
        pytest.param(7200, "2h", id="whole hours"),
        pytest.param(276_125, "3d 4h", id="what is smaller than two units is left out"),
        pytest.param(172_801, "2d 1s", id="units that are zero are left out"),
        pytest.param(400 * 86_400, "400d", id="days are the largest unit"),
    ],
)
def test_a_time_is_written_with_its_two_largest_units(seconds: float, words: str) -> None:
    assert format_age(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        pytest.param(-1, "0s", id="less than nothing"),
        pytest.param(119, "119s", id="seconds below two minutes"),
        pytest.param(120, "2m", id="minutes from two on"),
        pytest.param(7199, "119m", id="minutes below two hours"),
        pytest.param(7200, "2h", id="hours from two on"),
        pytest.param(172_799, "47h", id="hours below two days"),
        pytest.param(172_800, "2d", id="days from two on"),
    ],
)
def test_a_span_has_one_unit_of_which_there_are_two_at_least(seconds: float, words: str) -> None:
    assert format_span(timedelta(seconds=seconds)) == words


def test_a_time_of_an_answer_is_so_long_ago_or_so_long_from_now() -> None:
    now = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)

    assert age_of("2026-05-01T11:50:00Z", now) == "10m"
    assert time_until("2026-05-01T12:00:30Z", now) == "30s"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        pytest.param(0.0121, "12 ms", id="milliseconds"),
        pytest.param(4.21, "4.2 s", id="tenths of a second"),
        pytest.param(200, "3 min 20 s", id="two units"),
        pytest.param(3600, "1 h", id="a unit of which nothing is left"),
        pytest.param(183_600, "2 d 3 h", id="days"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        pytest.param(None, "\N{EN DASH}", id="none"),
        pytest.param(4200, "4.2 s", id="tenths"),
        pytest.param(4000, "4 s", id="whole seconds"),
        pytest.param(12, "12 ms", id="milliseconds"),
    ],
)
def test_milliseconds_are_a_duration_and_none_is_a_dash(ms: int | None, words: str) -> None:
    assert format_ms(ms) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        pytest.param(290.6, "in 4m 51s", id="to the nearest second"),
        pytest.param(0.4, "now", id="in less than half a second"),
        pytest.param(-3, "now", id="a moment ago"),
    ],
)
def test_what_is_left_counts_down_to_now(seconds: float, words: str) -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)

    assert format_left(seconds) == words
    assert left_until((now + timedelta(seconds=seconds)).isoformat(), now) == words
