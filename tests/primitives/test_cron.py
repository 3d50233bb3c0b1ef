"""When schedules begin, also where the clocks of a zone are changed."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.cron import (
    CronError,
    CronSchedule,
    check_cron,
    format_in_zone,
    parse_time_zone,
)
from tests.support.golden import Golden


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def starts(schedule: CronSchedule, since: str, until: str) -> list[str]:
    """Return the starts within a time, in UTC."""
    found, at_s = [], utc(since)
    while (at_s := schedule.next_start(at_s)) <= utc(until):
        found.append(datetime.fromtimestamp(at_s, UTC).strftime("%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("text", "since", "until", "expected"),
    [
        pytest.param(
            "0 9 * * mon-fri",
            *("2026-03-26", "2026-04-01"),
            ["03-26 08:00", "03-27 08:00", "03-30 07:00", "03-31 07:00"],
            id="business hours move with the clocks",
        ),
        pytest.param(
            "30 2 * * *",
            *("2026-03-28T12:00", "2026-03-30"),
            ["03-29 01:00"],
            id="half past two is left out in spring: it comes at three",
        ),
        pytest.param(
            "30 2 * * *",
            *("2026-10-24T12:00", "2026-10-26"),
            ["10-25 00:30"],
            id="half past two comes twice in autumn: the first counts",
        ),
        pytest.param(
            "*/30 2 * * *",
            *("2026-10-24T12:00", "2026-10-25T12:00"),
            ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30"],
            id="each half hour of both",
        ),
        pytest.param(
            "0 0 13 * fri",
            *("2026-03-01", "2026-03-15"),
            ["03-05 23:00", "03-12 23:00"],
            id="a day of the month or one of the week, as cron has it",
        ),
    ],
)
def test_starts_in_berlin(text: str, since: str, until: str, expected: list[str]) -> None:
    assert starts(CronSchedule(text, "Europe/Berlin"), since, until) == expected


@given(
    st.sampled_from(["0 9 * * mon-fri", "30 2 * * *", "15,45 1-3 * * *", "0 0 * * fri"]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "UTC", "America/Sao_Paulo"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001 -- given a zone below
)
def test_the_last_and_the_next_start_enclose_any_time(text: str, zone: str, at: datetime) -> None:
    schedule, at_s = CronSchedule(text, zone), at.replace(tzinfo=ZoneInfo(zone)).timestamp()
    last_s, next_s = schedule.last_start(at_s), schedule.next_start(at_s)

    assert last_s <= at_s < next_s
    assert schedule.next_start(last_s) == next_s
    assert schedule.last_start(next_s) == next_s
    assert schedule.last_start(next_s - 1) == last_s


def test_starts_come_in_order_through_a_whole_year() -> None:
    schedule, at_s = CronSchedule("0 9 * * mon-fri", "Europe/Berlin"), utc("2026-01-01")
    found = [at_s := schedule.next_start(at_s) for _ in range(261)]

    assert {(later - earlier) / 3600 for earlier, later in pairwise(found)} == {24, 72, 71, 73}
    local = [datetime.fromtimestamp(each, ZoneInfo("Europe/Berlin")) for each in found]
    assert {(each.hour, each.weekday() < 5) for each in local} == {(9, True)}


@pytest.mark.parametrize(
    "text",
    [
        "0 9 * *",
        "0 0 9 * * mon-fri",
        "@daily",
        "61 9 * * *",
        "0 9 * * mo-fr",
        "0 0 30 feb *",
        "0 0 */20 * 1L",
    ],
)
def test_a_text_that_is_no_schedule_is_refused(text: str, golden: Golden) -> None:
    with pytest.raises(CronError) as refused:
        check_cron(text)
    assert str(refused.value) == golden()
    assert refused.value.hint


IANA = "write the zone's name in the IANA database, such as Europe/Berlin, or UTC"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("america/new_york", "did you mean America/New_York?"),
        ("Europe/Munich", IANA),  # which looks like Zurich, and is another city
        ("CEST", IANA),
        ("../../etc/passwd", IANA),
        ("", IANA),
    ],
)
def test_a_name_that_is_no_time_zone_is_refused(name: str, hint: str) -> None:
    with pytest.raises(CronError, match="there is no time zone") as refused:
        parse_time_zone(name)
    assert refused.value.hint == hint


def test_a_time_is_written_as_clocks_in_the_zone_show_it() -> None:
    assert format_in_zone(utc("2026-11-23T16:00"), "Europe/Berlin") == "Mon 2026-11-23 17:00 CET"
