"""What a Retry-After header asks for, whatever a server writes into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.retry_after import parse_retry_after_s

NOW = 1_790_000_000.0  # Mon, 21 Sep 2026 14:13:20 GMT


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("9" * 400, 999_999_999.0),
        ("Mon, 21 Sep 2026 14:14:20 GMT", 60.0),
        ("Mon, 21 Sep 2026 14:14:20", 60.0),
        ("Mon, 21 Sep 2026 16:14:20 +0200", 60.0),
        ("Mon, 21 Sep 2020 14:14:20 GMT", 0.0),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
    ],
)
def test_it_is_seconds_or_a_date_and_else_nothing(text: str, seconds: float | None) -> None:
    assert parse_retry_after_s(text, NOW) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 01 Jan 2024 00:00:00 +99999999999999",
        "Mon, 01 Jan 2024 00:00:00 -99999999999999",
        "Mon, 99999999999999999999 Jan 2024 00:00:00 GMT",
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    ],
)
def test_a_date_that_no_calendar_has_is_none(text: str) -> None:
    assert parse_retry_after_s(text, NOW) is None


numbers = st.integers(-(10**20), 10**20)
dates = st.builds(
    "Mon, {} Jan {} {}:{}:00 {:+}".format, numbers, numbers, numbers, numbers, numbers
)


@given(st.text(max_size=60) | dates)
def test_no_text_breaks_the_reading(text: str) -> None:
    wait = parse_retry_after_s(text, NOW)
    assert wait is None or wait >= 0
