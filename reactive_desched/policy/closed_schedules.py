"""Warns of schedules that never let anything go, and of windows that are over."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from reactive_desched.api.rules import Rule
from reactive_desched.policy.schedule_times import Timed, next_allowed, times_of
from reactive_desched.policy.settings.limits import EvictionSchedule
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.source_location import SourceLocation

_ALONE: Final = "its windows leave no time for evictions"
_HINT: Final = "let a window end before the next one begins, or leave one out"


def closed_schedules(
    schedules: Sequence[EvictionSchedule], location: SourceLocation, now_s: float
) -> Iterator[Diagnostic]:
    """Name the schedules whose evictions are never allowed from now on, and those that are over.

    Schedules together close what each of them concerns; calendars are not read. `now_s` is seconds
    since the epoch.
    """
    timed: list[Timed] = [(each, times_of(each, ())) for each in schedules]
    together = {
        number: [at for at, each in enumerate(schedules) if each.includes_all_of(schedule)]
        for number, schedule in enumerate(schedules)
    }
    said: list[set[int]] = []
    for number, those in sorted(together.items(), key=lambda each: len(each[1])):
        at = location.below("budgets", "schedules", number)
        if next_allowed([timed[each] for each in those], now_s) == inf:
            if not any(each <= {*those} for each in said):
                said.append({*those})
                message, hint = _words(schedules, number, those)
                yield at.diagnostic(message, hint, rule=Rule.SCHEDULES_NEVER_OPEN)
        elif _is_over(timed[number], now_s):
            message = "its windows are over: it changes nothing"
            yield at.diagnostic(message, "leave it out", rule=Rule.SCHEDULES_NEVER_OPEN)


def _is_over(timed: Timed, now_s: float) -> bool:
    schedule, times = timed
    if schedule.calendar is not None:
        return False
    return times.opening(now_s) is None and times.next_start(now_s) == inf


def _words(
    schedules: Sequence[EvictionSchedule], number: int, those: Sequence[int]
) -> tuple[str, str]:
    others = [f'"{schedules[each]}"' for each in those if each != number]
    if others:
        message = f"with {', '.join(others)} it leaves no time for evictions"
    elif schedules[number].allow:
        return "its windows are over: no evictions are allowed", "write windows that are to come"
    else:
        message = _ALONE
    return message, _HINT
