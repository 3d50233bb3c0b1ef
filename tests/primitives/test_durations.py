import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.durations import DurationError, parse_duration, write_duration
from tests.support.golden import Golden

WAY = 'write numbers with units w, d, h, m, s or ms, for example "90s", "1h30m" or "7d"'


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        (".5m", 30.0),
        ("1.h", 3600.0),
        ("250ms", 0.25),
        ("3us", 0.000003),
        ("3µs", 0.000003),
        ("7ns", 0.000000007),
        ("1m1ms", 60.001),
        ("30m1h", 5400.0),
        ("0", 0.0),
        ("-0", 0.0),
        ("+2s", 2.0),
        ("-2s", -2.0),
        ("7d", 604_800.0),
        ("2w", 1_209_600.0),
        ("1w1d12h", 734_400.0),
        ("0.5d", 43_200.0),
    ],
)
def test_a_go_duration_is_read_as_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "60",
        "5y",
        "1 month",
        "",
        "soon",
        "1h 30m",
        "1H",
        "5M",
        "5 Minutes",
        "2 days and 1 hour",
        "5 minutes ago",
        "--1s",
        ".s",
    ],
)
def test_what_is_no_duration_is_refused_with_the_way_to_write_it(text: str, golden: Golden) -> None:
    with pytest.raises(DurationError, match="is not a duration") as caught:
        parse_duration(text)
    assert caught.value.hint == golden()


def test_the_longest_duration_is_that_of_64_bits() -> None:
    assert parse_duration("2562047h") == 2562047 * 3600
    with pytest.raises(DurationError, match="too long"):
        parse_duration("2562048h")


@given(st.integers(0, 2_000_000), st.integers(0, 59), st.integers(0, 59))
def test_hours_minutes_and_seconds_add_up(hours: int, minutes: int, seconds: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s"
    assert parse_duration(text) == hours * 3600 + minutes * 60 + seconds


@given(st.text(alphabet="0123456789.hmsdw+-nuµ ", max_size=70))
def test_any_text_is_a_duration_or_refused_as_one(text: str) -> None:
    with contextlib.suppress(DurationError):
        assert isinstance(parse_duration(text), float)


@given(milliseconds=st.integers(0, 10**12))
def test_a_written_duration_is_read_as_the_same(milliseconds: int) -> None:
    assert parse_duration(write_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)
