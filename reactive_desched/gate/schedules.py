"""Schedules: at some times fewer evictions, or none, as Karpenter's disruption budgets.

While the window of a schedule is open, the plugins that it names, or all, may evict so many pods;
of several open windows the strictest counts. When a window is open is a matter of the time of day:
it follows the wall clock wherever that is set. A count belongs to one opening of the window, by the
time at which it began, so that a clock that is set to and fro begins no count anew.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import Defer, GateReason, silent_end
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.settings.limits import EvictionSchedule
from reactive_desched.state.view import ClusterView
from reactive_desched.telemetry.metrics import Metric, gauge
from reactive_desched.text.counts import agree, format_count

ALLOWED = gauge(
    "schedule_evictions_left",
    "Evictions that a schedule still allows, while its window is open.",
    "schedule",
)

SCHEDULE_GATE: Final = "Schedule"
SCHEDULE_CLOSED: Final = GateReason(
    SCHEDULE_GATE,
    "ScheduleAllowsNone",
    "A schedule of the settings allows no evictions at this time; the message names it.",
    "budgets.schedules",
)
SCHEDULE_SPENT: Final = GateReason(
    SCHEDULE_GATE,
    "ScheduleLimitReached",
    "There were as many evictions as a schedule of the settings allows while its window is open.",
    "budgets.schedules",
)

CLOCK_CHECK_S: Final = 3600.0
"""A finding that waits for the end of a window is evaluated again so often: the wall clock may
have been set, and the wait is measured by the monotonic clock."""

_OPENINGS_KEPT: Final = 4
"""So many openings of a window have a count; with a fifth the oldest is dropped."""


class Opening(Struct, frozen=True):
    """One time for which a window is open, in seconds since the epoch."""

    start_s: float
    end_s: float


class _Window:
    """One entry of the settings, and its evictions by the opening in which they were decided."""

    def __init__(self, schedule: EvictionSchedule) -> None:
        from reactive_desched.primitives.cron import CronSchedule  # most settings have no schedule

        self.schedule = schedule
        self._cron = CronSchedule(schedule.schedule, schedule.time_zone)
        self._counts: dict[float, int] = {}
        self._opening: Opening | None = None
        self._known_from, self._known_until = inf, -inf

    def concerns(self, plugin: str) -> bool:
        """Say whether the evictions of a plugin are limited."""
        return not self.schedule.plugins or plugin in self.schedule.plugins

    def opening(self, wall_s: float) -> Opening | None:
        """Return the opening of this time; where two overlap, the later one."""
        if not self._known_from <= wall_s < self._known_until:
            start_s, next_s = self._cron.last_start(wall_s), self._cron.next_start(wall_s)
            end_s = start_s + self.schedule.duration_s
            is_open = wall_s < end_s
            self._opening = Opening(start_s, end_s) if is_open else None
            self._known_from = wall_s if not is_open else start_s
            self._known_until = min(end_s, next_s) if is_open else next_s
        return self._opening

    def count(self, opening: Opening) -> int:
        """Return how many evictions were decided in an opening and not given up."""
        return self._counts.get(opening.start_s, 0)

    def add(self, start_s: float, step: int) -> None:
        """Count one eviction more, or one less, in the opening that began then."""
        self._counts[start_s] = self._counts.get(start_s, 0) + step
        if len(self._counts) > _OPENINGS_KEPT:
            del self._counts[min(self._counts)]

    def describe(self, opening: Opening) -> str:
        """Name the schedule and the end of an opening."""
        return f"the schedule {self.schedule} until {self._cron.format_time(opening.end_s)}"


class EvictionSchedules(EvictionParticipant):
    """All schedules of the settings; an eviction counts from its decision on.

    `view` has the time of day, and how many pods there are, for limits in per cent.
    """

    name = SCHEDULE_GATE

    def __init__(self, schedules: Sequence[EvictionSchedule], view: ClusterView) -> None:
        self._view = view
        self._windows = [_Window(schedule) for schedule in schedules]

    @property
    def are_set(self) -> bool:
        """Say whether there is any schedule."""
        return bool(self._windows)

    def reconfigure(
        self, schedules: Sequence[EvictionSchedule], under_way: Iterable[Eviction]
    ) -> None:
        """Apply other schedules; one that was there before keeps its counts.

        A new one counts the evictions that are `under_way`.
        """
        before = {window.schedule: window for window in self._windows}
        self._windows = [before.get(each) or _Window(each) for each in schedules]
        added = [window for window in self._windows if window.schedule not in before]
        for eviction in under_way:
            _count(added, eviction, 1)

    def check(self, finding: Finding, now: float) -> Defer | None:
        """Defer a finding until the window that forbids its eviction ends; the last of several."""
        if not self._windows:
            return None
        wall_s = self._view.now_s
        blocking = [
            (opening.end_s, window, opening, limit)
            for window, opening in _open_windows(self._windows, finding.plugin, wall_s)
            if window.count(opening) >= (limit := self._limit(window))
        ]
        if not blocking:
            return None
        end_s, window, opening, limit = max(blocking, key=lambda each: each[0])
        retry_at_s = now + min(end_s - wall_s, CLOCK_CHECK_S)
        where, end = window.describe(opening), silent_end(now + end_s - wall_s)
        if limit == 0:
            message = f"{where} allows no evictions"
            return SCHEDULE_CLOSED.defer(
                finding, message, retry_at_s, scope_exhausted="cluster", end=end
            )
        count = window.count(opening)
        were = agree(count, "was", "were")
        message = f"{where} allows {format_count(limit, 'eviction')}, and there {were} {count}"
        return SCHEDULE_SPENT.defer(
            finding, message, retry_at_s, scope_exhausted="cluster", end=end
        )

    def decided(self, eviction: Eviction) -> None:
        """Count an eviction."""
        _count(self._windows, eviction, 1)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Uncount an eviction that did not happen, in the opening in which it was decided."""
        del outcome
        if not eviction.counts:
            _count(self._windows, eviction, -1)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Count an eviction of an earlier process by the time of day at which it was decided."""
        del now
        if eviction.counts:
            _count(self._windows, eviction, 1)

    def collect(self) -> Iterator[Metric]:
        """Yield how many evictions each schedule still allows whose window is open."""
        states = [(schedule, opened) for schedule, opened in self.states() if opened is not None]
        left = {str(schedule): float(limit - count) for schedule, (_, limit, count) in states}
        yield ALLOWED.by_label(left)

    def states(self) -> Iterator[tuple[EvictionSchedule, tuple[float, int, int] | None]]:
        """Yield each schedule with the end, limit and count of its open window, if it is open.

        The end is in seconds since the epoch.
        """
        wall_s = self._view.now_s
        for window in self._windows:
            if (opening := window.opening(wall_s)) is None:
                yield window.schedule, None
            else:
                counted = window.count(opening)
                yield window.schedule, (opening.end_s, self._limit(window), counted)

    def _limit(self, window: _Window) -> int:
        return window.schedule.limit(self._view.pod_count)


def _open_windows(
    windows: Iterable[_Window], plugin: str, wall_s: float
) -> Iterator[tuple[_Window, Opening]]:
    """Yield the windows that limit a plugin and are open at a time of day."""
    for window in windows:
        if window.concerns(plugin) and (opening := window.opening(wall_s)) is not None:
            yield window, opening


def _count(windows: Iterable[_Window], eviction: Eviction, step: int) -> None:
    """Count an eviction in each opening in which it was decided, or uncount it there."""
    for window, opening in _open_windows(windows, eviction.scopes.plugin, eviction.decided_s):
        window.add(opening.start_s, step)
