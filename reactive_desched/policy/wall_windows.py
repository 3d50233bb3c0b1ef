"""Windows of time as people write them: `tue-thu 10:00-16:00`, `2026-12-20 to 2027-01-06`.

A window is open exactly while a clock in its time zone shows a time in it. Where clocks go forward,
what begins in the hour that is left out begins when that hour would; where they go back, a window
in the hour that comes twice is open twice.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from reactive_desched.primitives.hints import quote

Span = tuple[float, float]
"""A time from its first moment until just before its last, in seconds since the epoch."""

MAX_YEARS_AHEAD: Final = 2
"""A window that does not close within so many years counts as one that never does."""

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FULL_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_S: Final = 86_400.0
_WEEK_S: Final = 8 * _DAY_S
"""A week, one of its windows that ends on the day after, and the hour by which a clock is set."""
_AROUND_DAYS: Final = 16
"""A weekly window opens within so many days, also where one falls into an hour left out."""
_FORM: Final = "write for example tue-thu 10:00-16:00, 2026-12-24, or 2026-12-20 to 2027-01-06"
_WEEKLY: Final = re.compile(r"(?P<days>[a-z][a-z,\- ]*?)?\s*(?P<times>\d[\d:]*\s*-\s*\d[\d:]*)?")
_TIME: Final = re.compile(r"(\d{1,2})(?::(\d{2}))?")
_DATE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ t](\d{1,2}:\d{2}))?")
_MINUTES: Final = 1440


class WindowError(ValueError):
    """A text is no window of time; `hint` says what to write."""

    def __init__(self, message: str, hint: str = _FORM) -> None:
        self.hint = hint
        super().__init__(message)


class WeeklyWindow(Struct, frozen=True):
    """A time of some days of the week, 0 for Monday; it may end on the day after.

    Times are minutes since midnight, as the clock shows them.
    """

    days: tuple[int, ...]
    start: int
    end: int


class DateWindow(Struct, frozen=True):
    """A time between two dates, as the clock shows them, without a zone; the end is not in it."""

    start: datetime
    end: datetime


WallWindow = WeeklyWindow | DateWindow


def parse_window(text: str) -> WallWindow:
    """Read days of the week with times, or dates; raises WindowError."""
    plain = " ".join(text.lower().replace("\N{EN DASH}", "-").split())
    if plain[:4].isdigit() and "-" in plain[4:5]:
        return _parse_dates(plain, text)
    found = _WEEKLY.fullmatch(plain)
    if found is None or not plain:
        raise WindowError(f"{quote(text)} is no window of time")
    days, times = found["days"], found["times"]
    start, end = (0, _MINUTES) if times is None else _parse_times(times, text)
    if days is None:
        return WeeklyWindow(tuple(range(7)), start, end)
    return WeeklyWindow(tuple(sorted(set(_parse_days(days, text)))), start, end)


def _parse_days(days: str, text: str) -> Iterator[int]:
    for part in days.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        begin = _day(first, text)
        end = _day(last, text) if dash else begin
        yield from ((begin + step) % 7 for step in range((end - begin) % 7 + 1))


def _day(name: str, text: str) -> int:
    for number, (short, full) in enumerate(zip(_DAYS, _FULL_DAYS, strict=True)):
        if name in (short, full):
            return number
    raise WindowError(
        f"{quote(name)} in {quote(text)} is no day of the week",
        f"write {', '.join(_DAYS)}, or a date such as 2026-12-24",
    )


def _parse_times(times: str, text: str) -> tuple[int, int]:
    start, end = (_minutes(each.strip(), text) for each in times.split("-"))
    if start == end:
        message = f"{quote(text)} begins and ends at the same time"
        raise WindowError(message, "leave the times out for a whole day, or write 00:00-24:00")
    if start == _MINUTES:
        raise WindowError(f"{quote(text)} begins at 24:00", "write 00:00, and the day after")
    return start, end if end > start else end + _MINUTES


def _minutes(written: str, text: str) -> int:
    found = _TIME.fullmatch(written)
    minutes = -1 if found is None else int(found[1]) * 60 + int(found[2] or 0)
    if found is None or int(found[2] or 0) > 59 or minutes > _MINUTES:  # noqa: PLR2004 -- minutes
        hint = "write hours and minutes, such as 9:00 or 17:30"
        raise WindowError(f"{quote(written)} in {quote(text)} is no time of day", hint)
    return minutes


def _parse_dates(plain: str, text: str) -> DateWindow:
    first, to, last = plain.partition(" to ")
    begin, begin_has_time = _date(first, text)
    if not to:
        if begin_has_time:
            raise WindowError(f"{quote(text)} has no end", "write from to until, with ` to `")
        return DateWindow(begin, begin + timedelta(days=1))
    end, end_has_time = _date(last, text)
    end = end if end_has_time else end + timedelta(days=1)
    if end <= begin:
        raise WindowError(f"{quote(text)} ends before it begins", "write the earlier one first")
    return DateWindow(begin, end)


def _date(written: str, text: str) -> tuple[datetime, bool]:
    """Return a date without a zone, and whether a time of day was written with it."""
    found = _DATE.fullmatch(written.strip())
    if found is not None:
        try:
            day = datetime.fromisoformat(found[1])
        except ValueError:
            found = None
    if found is None:
        hint = "write a date as 2026-12-24 or 2026-12-24 18:00"
        raise WindowError(f"{quote(written)} in {quote(text)} is no date", hint)
    minutes = 0 if found[2] is None else _minutes(found[2], text)
    return day + timedelta(minutes=minutes), found[2] is not None


def longest_opening_s(windows: Iterable[WallWindow]) -> float:
    """Return how long such windows are open without a gap at most, in seconds.

    Days of the week that leave no gap count as a week.
    """
    dates = [each for each in windows if isinstance(each, DateWindow)]
    return _WEEK_S + sum((each.end - each.start).total_seconds() for each in dates)


class WallSchedule:
    """Windows in one time zone, of which any may be open."""

    def __init__(self, windows: Sequence[WallWindow], zone: ZoneInfo) -> None:
        self._zone = zone
        self._weekly = [each for each in windows if isinstance(each, WeeklyWindow)]
        dates = [each for each in windows if isinstance(each, DateWindow)]
        self._dates = [
            span for each in dates for span in wall_spans(each.start, each.end, self._zone)
        ]

    def opening(self, at_s: float) -> Span | None:
        """Return the time around a moment in which windows are open without a gap.

        It begins at -inf where there is no beginning within two years, and ends at inf likewise.
        """
        if (found := self._span_at(at_s)) is None:
            return None
        (start, end), far_s = found, MAX_YEARS_AHEAD * 366 * _DAY_S
        while (more := self._span_at(end)) is not None:
            end = more[1] if more[1] - at_s < far_s else inf
            if end == inf:
                break
        while (more := self._span_at(start - 1)) is not None and more[0] < start:
            start = more[0] if at_s - more[0] < far_s else -inf
            if start == -inf:
                break
        return start, end

    def next_start(self, at_s: float) -> float:
        """Return when a window opens after a moment at which none is open; inf for never."""
        return min((start for start, _ in self._spans_around(at_s) if start > at_s), default=inf)

    def _span_at(self, at_s: float) -> Span | None:
        spans = self._spans_around(at_s)
        return next((span for span in spans if span[0] <= at_s < span[1]), None)

    def _spans_around(self, at_s: float) -> list[Span]:
        return merged((*self._dates, *self._weekly_spans(at_s)))

    def _weekly_spans(self, at_s: float) -> Iterator[Span]:
        if not self._weekly:
            return
        today = datetime.fromtimestamp(at_s, self._zone).replace(
            hour=0, minute=0, second=0, microsecond=0, tzinfo=None, fold=0
        )
        for number in range(-_AROUND_DAYS, _AROUND_DAYS + 1):
            day = today + timedelta(days=number)
            for each in self._weekly:
                if day.weekday() in each.days:
                    begin, end = (day + timedelta(minutes=m) for m in (each.start, each.end))
                    yield from wall_spans(begin, end, self._zone)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in their order, those that touch as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def wall_spans(start: datetime, end: datetime, zone: ZoneInfo) -> list[Span]:
    """Return when a clock shows a time from `start` until before `end`, both without a zone."""
    starts, ends = _moments(start, zone), _moments(end, zone)
    spans = [(starts[0], ends[0])]
    if len(ends) > 1:  # the hour of the end comes again: the part of it before the end, too
        spans.append((_change(ends[0], ends[1], zone), ends[1]))
    if len(starts) > 1:  # the hour of the start comes again: not the part of it before the start
        hole = _change(starts[0], starts[1], zone), starts[1]
        spans = [part for span in spans for part in _without(span, hole)]
    return [span for span in spans if span[0] < span[1]]


def _without(span: Span, hole: Span) -> Iterator[Span]:
    yield span[0], min(span[1], max(span[0], hole[0]))
    yield max(span[0], min(span[1], hole[1])), span[1]


def _moments(shown: datetime, zone: ZoneInfo) -> list[float]:
    """Return when a clock shows a time: once, or twice; where it is left out, when it is passed."""
    early, late = (shown.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    if early == late:
        return [early]
    if early < late:
        return [early, late]
    return [_change(late, early, zone)]


def _change(before_s: float, after_s: float, zone: ZoneInfo) -> float:
    """Return the second at which the clocks of a zone change between two moments."""
    low, high = int(before_s), int(after_s)
    offset = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return float(high)
