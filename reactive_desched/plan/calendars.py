"""Reads the calendars of schedules for a preview, and says which cannot be read."""

from functools import partial

import anyio
from msgspec.structs import replace

from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.freeze_calendar import CalendarError
from reactive_desched.policy.settings.limits import WhileUnread
from reactive_desched.usage.calendars import read_calendar, read_times


def with_calendars(
    configuration: Configuration, now_s: float
) -> tuple[Configuration, tuple[str, ...]]:
    """Return a configuration with what its calendars say, and a warning for each that is not read.

    Each is read once; `now_s` is seconds since the epoch.
    """
    return anyio.run(partial(_with_calendars, configuration, now_s))


async def _with_calendars(
    configuration: Configuration, now_s: float
) -> tuple[Configuration, tuple[str, ...]]:
    calendars, warnings = dict(configuration.calendars), []
    for number, each in enumerate(configuration.controller.budgets.schedules):
        if (calendar := each.calendar) is None:
            continue
        try:
            calendars[number] = await read_times(calendar, each.time_zone, now_s, read_calendar)
        except CalendarError as error:
            holds = calendar.while_unread is WhileUnread.HOLD
            counts = "holds what it concerns" if holds else "closes nothing"
            of = f"the calendar of the schedule {each.name}"
            warnings.append(f"{of} cannot be read: {error}; here it {counts}")
    return replace(configuration, calendars=calendars), tuple(warnings)
