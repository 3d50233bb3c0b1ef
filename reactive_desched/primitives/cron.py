"""Cron schedules in a time zone: when one last began, and when it begins next.

The rules are Debian cron's. Where clocks go forward, a start in the hour that is left out comes
when that hour would have been over. Where they go back, a start in the hour that comes twice comes
once, unless its minute or hour begins with `*`.
"""

from datetime import datetime
from math import inf
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from reactive_desched.primitives.hints import quote, same_ignoring_case, sole_near_name
from reactive_desched.primitives.shortage import lacking

_FIELDS: Final = 5
_FORM: Final = "write minute, hour, day of month, month and day of week: 0 9 * * mon-fri"
_SOME_DAY: Final = datetime(2026, 1, 1)  # noqa: DTZ001 -- whether there is ever a start, in any zone


class CronError(ValueError):
    """A text is no schedule, or no time zone; `hint` says what to write."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint
        super().__init__(message)


class CronSchedule:
    """A schedule of five fields in a time zone; times are seconds since the epoch."""

    def __init__(self, text: str, zone: str) -> None:
        check_cron(text)
        self._text = text
        self._zone = parse_time_zone(zone)

    def last_start(self, at_s: float) -> float:
        """Return the last start at or before a time, -inf for none in fifty years."""
        after = datetime.fromtimestamp(int(at_s) + 1, self._zone)
        last = next(CronSim(self._text, after, reverse=True), None)
        return -inf if last is None else last.timestamp()

    def next_start(self, at_s: float) -> float:
        """Return the first start after a time, inf for none in fifty years."""
        after = next(CronSim(self._text, datetime.fromtimestamp(at_s, self._zone)), None)
        return inf if after is None else after.timestamp()


def format_in_zone(at_s: float, zone: str) -> str:
    """Write a time as a clock in a zone of the IANA database shows it, to the minute."""
    shown = datetime.fromtimestamp(at_s, parse_time_zone(zone))
    return shown.strftime("%a %Y-%m-%d %H:%M %Z")


def check_cron(text: str) -> None:
    """Raise CronError for a text that is not a schedule of five fields, or never begins."""
    if len(text.split()) != _FIELDS:
        raise CronError(f"{quote(text)} is not a schedule of five fields", _FORM)
    try:
        next(CronSim(text, _SOME_DAY))
    except CronSimError as error:
        problem = str(error).replace("Bad ", "wrong ")
        raise CronError(f"{quote(text)} is not a schedule: {problem}", _FORM) from error
    except StopIteration:
        raise CronError(f"{quote(text)} never comes", "name a day that the month has") from None


def parse_time_zone(name: str) -> ZoneInfo:
    """Return a time zone of the IANA database; raises CronError.

    Raises OSError where this process lacks what it takes to read it.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        if lacking(error):
            raise
        raise CronError(f"there is no time zone {quote(name)}", _zone_hint(name)) from error


def _zone_hint(name: str) -> str:
    """Suggest the zone that a name is a slip for: another city that looks like it is none."""
    zones = [zone for zone in available_timezones() if "/" in zone]
    city = name.rpartition("/")[2]
    if (zone := same_ignoring_case(name, zones)) is not None:
        return f"did you mean {zone}?"
    cities = {zone.rpartition("/")[2]: zone for zone in zones}
    if (near := sole_near_name(city, cities)) is not None:
        return f"did you mean {cities[near]}?"
    return "write the zone's name in the IANA database, such as Europe/Berlin, or UTC"
