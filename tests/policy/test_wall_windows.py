"""Windows of time: what people write, and when a clock on the wall shows it."""

from datetime import UTC, datetime, timedelta
from math import inf
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.policy.wall_windows import (
    DateWindow,
    WallSchedule,
    WeeklyWindow,
    WindowError,
    parse_window,
)
from tests.support.golden import Golden


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def shown_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def schedule(*texts: str, zone: str = "Europe/Berlin") -> WallSchedule:
    return WallSchedule([parse_window(text) for text in texts], ZoneInfo(zone))


def shown(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%m-%d %H:%M")


def openings(of: WallSchedule, since: str, until: str) -> list[str]:
    """Return what is open within a time, in UTC."""
    found, at_s = [], utc(since)
    while at_s < utc(until):
        opening = of.opening(at_s)
        if opening is None:
            at_s = of.next_start(at_s)
        else:
            found.append(f"{shown(opening[0])} - {shown(opening[1])}")
            at_s = opening[1]
    return found


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("tue-thu 10:00-16:00", WeeklyWindow((1, 2, 3), 600, 960)),
        ("Tue\N{EN DASH}Thu 10\N{EN DASH}16", WeeklyWindow((1, 2, 3), 600, 960)),
        ("mon, wed, friday 2:00 - 04:30", WeeklyWindow((0, 2, 4), 120, 270)),
        ("22:00-06:00", WeeklyWindow((0, 1, 2, 3, 4, 5, 6), 1320, 1800)),
        ("fri-mon", WeeklyWindow((0, 4, 5, 6), 0, 1440)),
        ("sun 00:00-24:00", WeeklyWindow((6,), 0, 1440)),
        ("2026-12-24", DateWindow(shown_time("2026-12-24"), shown_time("2026-12-25"))),
        (
            "2026-12-20 to 2027-01-06",
            DateWindow(shown_time("2026-12-20"), shown_time("2027-01-07")),
        ),
        (
            "2026-12-23 18:00 to 2026-12-27 08:00",
            DateWindow(shown_time("2026-12-23T18:00"), shown_time("2026-12-27T08:00")),
        ),
    ],
)
def test_people_write_days_with_times_and_dates(
    text: str, window: WeeklyWindow | DateWindow
) -> None:
    assert parse_window(text) == window


@pytest.mark.parametrize(
    "text",
    [
        "",
        "always",
        "tue-thx 10:00-16:00",
        "tue 25:00-26:00",
        "tue 10:00-10:00",
        "tue 24:00-01:00",
        "tue 10:00",
        "tue 10:61-12:00",
        "2026-02-30",
        "2026-12-20 to 2026-12-19",
        "2026-12-20 18:00",
        "2026-12-20 to soon",
        "20.12.2026",
    ],
)
def test_what_is_no_window_is_said_with_what_to_write(text: str, golden: Golden) -> None:
    with pytest.raises(WindowError) as caught:
        parse_window(text)

    assert f"{caught.value}: {caught.value.hint}" == golden()


@pytest.mark.parametrize(
    ("texts", "since", "until", "expected"),
    [
        pytest.param(
            ["sun 02:30-05:00"],
            *("2026-03-28", "2026-03-30"),
            ["03-29 01:00 - 03-29 03:00"],
            id="half past two is left out in spring: it opens at three",
        ),
        pytest.param(
            ["sun 01:00-02:30"],
            *("2026-03-28", "2026-03-30"),
            ["03-29 00:00 - 03-29 01:00"],
            id="half past two is left out in spring: it ends at three",
        ),
        pytest.param(
            ["sun 02:10-02:20"],
            *("2026-03-28", "2026-04-06"),
            ["04-05 00:10 - 04-05 00:20"],
            id="a window in the hour that is left out does not open that day",
        ),
        pytest.param(
            ["sun 02:10-02:20"],
            *("2026-10-24", "2026-10-26"),
            ["10-25 00:10 - 10-25 00:20", "10-25 01:10 - 10-25 01:20"],
            id="a window in the hour that comes twice is open twice",
        ),
        pytest.param(
            ["sun 01:00-02:30"],
            *("2026-10-24", "2026-10-26"),
            ["10-24 23:00 - 10-25 00:30", "10-25 01:00 - 10-25 01:30"],
            id="its end comes twice, and the clock shows two o'clock again",
        ),
        pytest.param(
            ["sun 02:30-05:00"],
            *("2026-10-24", "2026-10-26"),
            ["10-25 00:30 - 10-25 01:00", "10-25 01:30 - 10-25 04:00"],
            id="its start comes twice",
        ),
        pytest.param(
            ["sun 01:00-04:00"],
            *("2026-10-24", "2026-10-26"),
            ["10-24 23:00 - 10-25 03:00"],
            id="around the hour that comes twice it is open for an hour more",
        ),
        pytest.param(
            ["fri 18:00-24:00", "sat,sun", "mon 00:00-06:00"],
            *("2026-11-27", "2026-12-01"),
            ["11-27 17:00 - 11-30 05:00"],
            id="what touches is one opening",
        ),
        pytest.param(
            ["2026-12-20 to 2027-01-06", "fri 22:00-24:00"],
            *("2026-12-20", "2027-01-09"),
            ["12-19 23:00 - 01-06 23:00", "01-08 21:00 - 01-08 23:00"],
            id="dates and days of the week",
        ),
    ],
)
def test_a_window_is_open_while_the_clock_shows_it(
    texts: list[str], since: str, until: str, expected: list[str]
) -> None:
    assert openings(schedule(*texts), since, until) == expected


def test_a_date_in_the_zone_that_leaves_out_a_whole_day_does_not_open() -> None:
    apia = schedule("2011-12-30", zone="Pacific/Apia")

    assert apia.opening(utc("2011-12-30T12:00")) is None
    assert apia.next_start(utc("2011-12-01")) == inf


def test_what_is_always_open_never_closes_and_what_is_past_never_opens() -> None:
    always = schedule("mon-sun")
    assert always.opening(utc("2026-05-01")) == (-inf, inf)
    assert schedule("2025-12-24").next_start(utc("2026-05-01")) == inf


ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"]
DAYS = st.sets(st.integers(0, 6), min_size=1)
WEEKLY = st.builds(
    lambda days, start, length: WeeklyWindow(tuple(sorted(days)), start, start + length),
    DAYS,
    st.integers(0, 1439),
    st.integers(1, 1440),
)


def shows(windows: list[WeeklyWindow], at_s: float, zone: str) -> bool:
    """Say by the clock on the wall alone whether any window is open."""
    clock = datetime.fromtimestamp(at_s, ZoneInfo(zone)).replace(tzinfo=None)
    for days_ago in (0, 1):
        day = clock.replace(hour=0, minute=0, second=0) - timedelta(days=days_ago)
        minutes = (clock - day).total_seconds() / 60
        for each in windows:
            if day.weekday() in each.days and each.start <= minutes < each.end:
                return True
    return False


@given(
    st.lists(WEEKLY, min_size=1, max_size=3),
    st.sampled_from(ZONES),
    st.sampled_from(["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05"]),
    st.integers(-3 * 1440, 3 * 1440),
)
def test_it_is_open_exactly_while_the_clock_shows_it_in_any_zone(
    windows: list[WeeklyWindow], zone: str, near: str, minutes: int
) -> None:
    at_s = utc(near) + minutes * 60
    of = WallSchedule(windows, ZoneInfo(zone))

    opening = of.opening(at_s)

    assert (opening is not None) is shows(windows, at_s, zone)
    if opening is None:
        begins = of.next_start(at_s)
        assert shows(windows, begins, zone)
        assert not shows(windows, begins - 1, zone)
    elif opening != (-inf, inf):
        assert shows(windows, opening[0], zone)
        assert not shows(windows, opening[0] - 1, zone)
        assert shows(windows, opening[1] - 1, zone)
        assert not shows(windows, opening[1], zone)
