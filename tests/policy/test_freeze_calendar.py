"""Freezes of an iCalendar text: whole days, zones, recurrences, and what is not read."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from reactive_desched.policy.freeze_calendar import (
    MAX_BYTES,
    MAX_EVENTS,
    CalendarError,
    read_freezes,
)
from tests.support.golden import Golden

BERLIN = ZoneInfo("Europe/Berlin")
NOW_S = datetime(2026, 11, 28, tzinfo=UTC).timestamp()


def calendar(*events: str, more: str = "") -> bytes:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//t//t//EN", *more.split()]
    for number, event in enumerate(events):
        own = [] if "UID:" in event else [f"UID:{number}"]
        lines += ["BEGIN:VEVENT", "DTSTAMP:20260101T000000Z", *own, *event.split(), "END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""]).encode()


def freezes(*events: str) -> list[str]:
    """Return the freezes of late 2026 and 2027 in UTC."""
    return [
        f"{shown(start)} - {shown(end)}"
        for start, end in read_freezes(calendar(*events), BERLIN, NOW_S)
    ]


def shown(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            ["DTSTART;VALUE=DATE:20261220 DTEND;VALUE=DATE:20270107"],
            ["2026-12-19 23:00 - 2027-01-06 23:00"],
            id="whole days are those of the schedule's zone",
        ),
        pytest.param(
            ["DTSTART;VALUE=DATE:20261224"],
            ["2026-12-23 23:00 - 2026-12-24 23:00"],
            id="a day without an end",
        ),
        pytest.param(
            ["DTSTART:20261224T180000 DURATION:PT14H"],
            ["2026-12-24 17:00 - 2026-12-25 07:00"],
            id="a time without a zone is of the schedule's",
        ),
        pytest.param(
            ["DTSTART:20261224T180000Z DTEND:20261225T080000Z"],
            ["2026-12-24 18:00 - 2026-12-25 08:00"],
            id="in UTC",
        ),
        pytest.param(
            ["DTSTART;TZID=America/New_York:20261224T180000 DTEND:20261225T080000Z"],
            ["2026-12-24 23:00 - 2026-12-25 08:00"],
            id="in another zone, and an end in UTC",
        ),
        pytest.param(
            [
                (
                    "DTSTART;TZID=Europe/Berlin:20260318T090000"
                    " DTEND;TZID=Europe/Berlin:20260318T170000 RRULE:FREQ=WEEKLY;COUNT=3"
                )
            ],
            [
                "2026-03-18 08:00 - 2026-03-18 16:00",
                "2026-03-25 08:00 - 2026-03-25 16:00",
                "2026-04-01 07:00 - 2026-04-01 15:00",
            ],
            id="a recurrence keeps its time on the wall where the clocks change",
        ),
        pytest.param(
            [
                (
                    "DTSTART;TZID=Europe/Berlin:20260301T090000 DURATION:PT1H"
                    " RRULE:FREQ=MONTHLY;UNTIL=20260501T070000Z"
                    " EXDATE;TZID=Europe/Berlin:20260401T090000"
                    " RDATE;TZID=Europe/Berlin:20260615T090000"
                )
            ],
            [
                "2026-03-01 08:00 - 2026-03-01 09:00",
                "2026-05-01 07:00 - 2026-05-01 08:00",
                "2026-06-15 07:00 - 2026-06-15 08:00",
            ],
            id="with an end in UTC, but for one, and one more",
        ),
        pytest.param(
            [
                "UID:a DTSTART:20260301T090000Z DURATION:PT1H RRULE:FREQ=DAILY;COUNT=3",
                "UID:a RECURRENCE-ID:20260302T090000Z DTSTART:20260302T120000Z DURATION:PT2H",
                "UID:a RECURRENCE-ID:20260303T090000Z DTSTART:20260303T090000Z STATUS:CANCELLED",
            ],
            ["2026-03-01 09:00 - 2026-03-01 10:00", "2026-03-02 12:00 - 2026-03-02 14:00"],
            id="one is moved, and one cancelled",
        ),
        pytest.param(
            ["DTSTART;VALUE=DATE:20201224 RRULE:FREQ=YEARLY"],
            [f"{year}-12-23 23:00 - {year}-12-24 23:00" for year in (2025, 2026, 2027, 2028)],
            id="each year, around this one",
        ),
        pytest.param(
            [
                "DTSTART:20260301T090000Z DTEND:20260301T100000Z TRANSP:TRANSPARENT",
                "DTSTART:20260301T100000Z DTEND:20260301T110000Z",
                "DTSTART:20260401T100000Z DTEND:20260401T110000Z STATUS:CANCELLED",
                "DTSTART:20260501T100000Z",
            ],
            ["2026-03-01 09:00 - 2026-03-01 11:00"],
            id="free or busy, those that touch as one, but none cancelled or of no time",
        ),
    ],
)
def test_events_are_freezes(events: list[str], expected: list[str]) -> None:
    assert freezes(*events) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<html>log in</html>",
        b"BEGIN:VCALENDAR",
        calendar("SUMMARY:none"),
        calendar("DTSTART:soon SUMMARY:Freeze"),
        calendar("DTSTART:20260301T090000Z RRULE:FREQ=MINUTELY SUMMARY:Often"),
        calendar("DTSTART:00010301T090000Z RRULE:FREQ=DAILY SUMMARY:Old"),
        calendar("DTSTART:20260301T090000Z RRULE:FREQ=SOMETIMES SUMMARY:Odd"),
        calendar(
            "UID:a DTSTART:20260301T090000Z RRULE:FREQ=DAILY",
            "UID:a RECURRENCE-ID;RANGE=THISANDFUTURE:20260302T090000Z DTSTART:20260302T120000Z",
        ),
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_calendar_says_why(text: bytes, golden: Golden) -> None:
    with pytest.raises(CalendarError) as caught:
        read_freezes(text, BERLIN, NOW_S)

    assert str(caught.value) == golden()


def test_a_calendar_has_a_bound() -> None:
    event = "DTSTART:20260301T090000Z DURATION:PT1H"
    for text in (
        calendar(*[event] * (MAX_EVENTS + 1)),
        calendar(event) + b" " * MAX_BYTES,
        calendar(*[f"DTSTART:202603{day:02}T0{hour}0000Z DURATION:PT1M RRULE:FREQ=DAILY"
                   for day in (1, 2) for hour in range(9)]),
    ):  # fmt: skip
        with pytest.raises(CalendarError, match="more than"):
            read_freezes(text, BERLIN, NOW_S)


def test_a_calendar_without_events_has_no_freezes() -> None:
    assert freezes() == []
