"""Times of schedules: when windows are open, and when several together allow evictions."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from math import inf
from typing import Final, Protocol

from reactive_desched.policy.settings.limits import EvictionSchedule, WhileUnread

MAX_STEPS: Final = 64
"""So many windows that follow each other without a gap are looked through for the next moment at
which evictions are allowed; where there is none, that counts as never."""


class Times(Protocol):
    """The openings of a schedule; all times are seconds since the epoch."""

    def opening(self, at_s: float) -> tuple[float, float] | None:
        """Return the beginning and the end of what is open at a time, its end not included."""
        ...

    def next_start(self, at_s: float) -> float:
        """Return when a window opens after a time; inf for never."""
        ...


class _CronTimes:
    """The windows of a cron schedule; where two overlap, the later one counts."""

    def __init__(self, schedule: EvictionSchedule) -> None:
        from reactive_desched.primitives.cron import CronSchedule  # most settings have no schedule

        self._cron = CronSchedule(schedule.schedule, schedule.time_zone)
        self._duration_s = schedule.duration_s

    def opening(self, at_s: float) -> tuple[float, float] | None:
        start_s = self._cron.last_start(at_s)
        end_s = start_s + self._duration_s
        return (start_s, end_s) if at_s < end_s else None

    def next_start(self, at_s: float) -> float:
        return self._cron.next_start(at_s)


class _EventTimes:
    """The events of a calendar; all the time, or never, while it was not read."""

    def __init__(self, spans: tuple[tuple[float, float], ...]) -> None:
        self._spans = spans

    def opening(self, at_s: float) -> tuple[float, float] | None:
        number = bisect_right(self._spans, (at_s, inf)) - 1
        return self._spans[number] if number >= 0 and at_s < self._spans[number][1] else None

    def next_start(self, at_s: float) -> float:
        number = bisect_right(self._spans, (at_s, inf))
        return self._spans[number][0] if number < len(self._spans) else inf


_ALWAYS: Final = ((-inf, inf),)


def times_of(
    schedule: EvictionSchedule, events: tuple[tuple[float, float], ...] | None = None
) -> Times:
    """Return when the windows of a schedule are open; `events` are those of its calendar."""
    if schedule.calendar is not None:
        if events is None:
            events = _ALWAYS if schedule.calendar.while_unread is WhileUnread.HOLD else ()
        return _EventTimes(events)
    if schedule.schedule:
        return _CronTimes(schedule)
    from reactive_desched.policy.wall_windows import WallSchedule, parse_window
    from reactive_desched.primitives.cron import parse_time_zone

    return WallSchedule([*map(parse_window, schedule.windows)], parse_time_zone(schedule.time_zone))


Timed = tuple[EvictionSchedule, Times]
"""A schedule, and when its windows are open."""


def next_allowed(schedules: Sequence[Timed], at_s: float) -> float:
    """Return the first moment, from a time on, at which none of these forbids all evictions.

    inf stands for never: the windows that forbid them follow each other without a gap.
    """
    closing = [times for schedule, times in schedules if not schedule.allow and schedule.is_none]
    allowing = [times for schedule, times in schedules if schedule.allow]
    for _ in range(MAX_STEPS):
        later_s = max(_ends(closing, at_s), _opens(allowing, at_s))
        if later_s in (at_s, inf):
            return later_s
        at_s = later_s
    return inf


def _ends(closing: Collection[Times], at_s: float) -> float:
    """Return when the last of the windows ends that are open at a time."""
    openings = (each.opening(at_s) for each in closing)
    return max((opening[1] for opening in openings if opening is not None), default=at_s)


def _opens(allowing: Collection[Times], at_s: float) -> float:
    """Return when one of the windows is open first, from a time on."""
    if not allowing or any(each.opening(at_s) is not None for each in allowing):
        return at_s
    return min(each.next_start(at_s) for each in allowing)
