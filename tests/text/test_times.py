from datetime import UTC, datetime, timedelta, timezone

import pytest

from reactive_desched.text.times import (
    format_second,
    format_time,
    format_time_of_day,
    format_timestamp,
    minute,
    utc_time,
)

AT = datetime(2026, 5, 1, 14, 3, 7, 250_000, tzinfo=timezone(timedelta(hours=2)))


def test_a_time_is_written_in_utc_with_the_fraction_that_its_reader_needs() -> None:
    assert format_timestamp(AT) == "2026-05-01T12:03:07.250000Z"
    assert format_time(AT) == "2026-05-01 12:03:07.250"
    assert format_second(AT.timestamp()) == "2026-05-01T12:03:07Z"


def test_a_time_of_day_is_that_of_the_nearest_second() -> None:
    assert format_time_of_day(AT.timestamp()) == "12:03:07"
    assert format_time_of_day(AT.timestamp() + 0.5) == "12:03:08"


def test_seconds_since_1970_are_a_time_to_the_millisecond() -> None:
    assert utc_time(1777636987.25049) == datetime(2026, 5, 1, 12, 3, 7, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("2026-05-01T12:03:07Z", "2026-05-01 12:03"), ("not known", "not known"), ("", "")],
)
def test_a_time_is_cut_to_the_minute_and_what_is_none_stays(text: str, shown: str) -> None:
    assert minute(text) == shown
