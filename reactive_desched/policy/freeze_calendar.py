"""Reads the times of freezes from an iCalendar text (RFC 5545)."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import takewhile
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from reactive_desched.policy.wall_windows import Span, merged
from reactive_desched.primitives.hints import quote

if TYPE_CHECKING:
    from icalendar import Event

MAX_BYTES: Final = 2 * 2**20
MAX_EVENTS: Final = 2000
MAX_SPANS: Final = 5000
"""So many times of freezes, those that touch as one, are kept of one calendar."""

YEARS_AHEAD: Final = 2
"""Times are read from the year before this one to so many years after it."""

FIRST_YEAR: Final = 1970
"""An event that recurs must have begun in this year or later: each recurrence is counted."""

_RECURS: Final = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
_DAY: Final = timedelta(days=1)
_CANCELLED: Final = "CANCELLED"


class CalendarError(ValueError):
    """A text is no calendar, or one that is not read; it says why."""


class _Times(Struct, frozen=True):
    """An event on the wall: its start without a zone, how long it takes there, and the zone."""

    start: datetime
    length: timedelta
    zone: tzinfo

    def span(self, start: datetime) -> Span:
        """Return the time of the occurrence that starts then, in seconds since the epoch."""
        begin, end = (
            each.replace(tzinfo=self.zone).timestamp() for each in (start, start + self.length)
        )
        return begin, end


def read_freezes(text: bytes, zone: ZoneInfo, now_s: float) -> tuple[Span, ...]:
    """Return the times of the events around this year; raises CalendarError.

    Whole days, and times without a zone, are those of `zone`. Events are freezes whether or not
    they show as busy; those that are cancelled are none.
    """
    if len(text) > MAX_BYTES:
        raise CalendarError(f"it has more than {MAX_BYTES // 2**20} MiB")
    try:
        events = _parse(text)
        spans = merged(_spans(events, zone, datetime.fromtimestamp(now_s, zone).year))
    except CalendarError:
        raise
    except Exception as error:
        raise CalendarError(f"it cannot be read: {str(error)[:200]}") from error
    if len(spans) > MAX_SPANS:
        raise CalendarError(f"it has more than {MAX_SPANS:,} separate times")
    return tuple(spans)


def _parse(text: bytes) -> "list[Event]":
    from icalendar import Calendar  # a tenth of a second

    if not text.lstrip(b"\xef\xbb\xbf\r\n\t ").upper().startswith(b"BEGIN:VCALENDAR"):
        raise CalendarError("it is no iCalendar text: BEGIN:VCALENDAR is missing")
    events = Calendar.from_ical(text).events
    if len(events) > MAX_EVENTS:
        raise CalendarError(f"it has more than {MAX_EVENTS:,} events")
    return events


def _spans(events: "list[Event]", zone: ZoneInfo, year: int) -> Iterator[Span]:
    since = datetime(year - 1, 1, 1)  # noqa: DTZ001 -- on the wall of each event's zone
    until = datetime(year + YEARS_AHEAD + 1, 1, 1)  # noqa: DTZ001 -- as above
    moved: dict[str, set[float]] = {}
    for event in events:
        if (replaces := event.get("RECURRENCE-ID")) is not None:
            if replaces.params.get("RANGE"):
                message = f"event {_title(event)} changes all later ones (RANGE), which is not read"
                raise CalendarError(message)
            at = _instant(replaces.dt, zone)
            moved.setdefault(str(event.get("UID", "")), set()).add(at)
    for event in events:
        if str(event.get("STATUS", "")).upper() == _CANCELLED:
            continue
        if event.errors:
            raise CalendarError(f"event {_title(event)}: {event.errors[0][1]}")
        times = _times(event, zone)
        if event.get("RECURRENCE-ID") is not None:
            yield times.span(times.start)
            continue
        gone = moved.get(str(event.get("UID", "")), set())
        for start in _starts(event, times, zone, since, until):
            span = times.span(start)
            if span[0] not in gone and span[0] < span[1]:
                yield span


def _times(event: "Event", zone: ZoneInfo) -> _Times:
    start, end = event.get("DTSTART"), event.get("DTEND")
    if start is None:
        raise CalendarError(f"event {_title(event)} has no start")
    begin, own_zone = _on_wall(start.dt, zone)
    if end is not None:
        length = _on_wall(end.dt, zone, own_zone)[0] - begin
    elif (duration := event.get("DURATION")) is not None:
        length = duration.dt
    else:
        length = timedelta(0) if isinstance(start.dt, datetime) else _DAY
    return _Times(begin, length, own_zone)


def _on_wall(when: date, zone: ZoneInfo, shown_in: tzinfo | None = None) -> tuple[datetime, tzinfo]:
    """Return a time without its zone, and the zone; a day begins at midnight of `zone`."""
    if not isinstance(when, datetime):
        return datetime.combine(when, time()), zone
    own = when.tzinfo or zone
    if shown_in is not None and when.tzinfo is not None and own is not shown_in:
        return when.astimezone(shown_in).replace(tzinfo=None), shown_in
    return when.replace(tzinfo=None), own


def _instant(when: date, zone: ZoneInfo) -> float:
    shown, own = _on_wall(when, zone)
    return shown.replace(tzinfo=own).timestamp()


def _starts(
    event: "Event", times: _Times, zone: ZoneInfo, since: datetime, until: datetime
) -> Iterator[datetime]:
    """Yield the starts of an event, on its wall, that are not too far away."""
    from dateutil.rrule import rrulestr

    def shown(when: date) -> datetime:
        return _on_wall(when, zone, times.zone)[0]

    skipped = {shown(each) for each in event.exdates}
    starts = {times.start, *(shown(each[0]) for each in event.rdates)}
    for rule in event.rrules:
        if {*map(str, rule.get("FREQ", ()))} - _RECURS or times.start.year < FIRST_YEAR:
            message = f"event {_title(event)} recurs more than daily, or since before {FIRST_YEAR}"
            raise CalendarError(message)
        ends = [shown(each) for each in rule.get("UNTIL", ())]
        own = type(rule)({name: said for name, said in rule.items() if name != "UNTIL"})
        found: Iterable[datetime] = rrulestr(own.to_ical().decode(), dtstart=times.start)
        last = min([until, *(each + timedelta(microseconds=1) for each in ends)])
        starts |= {*takewhile(lambda each, last=last: each < last, found)}  # type: ignore[misc]
    for start in sorted(starts - skipped):
        if start + times.length >= since and start < until:
            yield start


def _title(event: "Event") -> str:
    return quote(str(event.get("SUMMARY", "") or event.get("UID", ""))[:80])
