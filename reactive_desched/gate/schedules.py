"""Schedules: at some times fewer evictions, or none, for all or for those that an entry names.

While a window of a schedule is open, the evictions that it concerns may be so many; of several open
windows the strictest counts. Where a schedule says `allow`, none happen but while one of the
windows of such schedules is open. When a window is open is a matter of the time of day:
it follows the wall clock wherever that is set. A count belongs to one opening of the window, by the
time at which it began, so that a clock that is set to and fro begins no count anew.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from reactive_desched.gate.concerned import Concerned
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import Defer, GateReason, Refuse, silent_end
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.configuration import Calendars
from reactive_desched.policy.schedule_times import next_allowed, times_of
from reactive_desched.policy.settings.limits import EvictionSchedule
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.namespace_sizes import NamespaceSizes
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
_ANSWERS_KEPT: Final = 256


Events = tuple[tuple[float, float], ...]
"""The times of a calendar's events."""

NO_CALENDARS: Final[Calendars] = {}


class Opening(Struct, frozen=True):
    """One time for which a window is open, in seconds since the epoch."""

    start_s: float
    end_s: float


class _Window:
    """One entry of the settings, and its evictions by the opening in which they were decided."""

    def __init__(
        self, schedule: EvictionSchedule, view: ClusterView, events: Events | None
    ) -> None:
        self.schedule = schedule
        self.concerned = Concerned(schedule, view)
        self.is_allowing = bool(schedule.allow)
        self.set_events(events)
        self._counts: dict[float, int] = {}
        self._counted: dict[PodKey, float] = {}

    def set_events(self, events: Events | None) -> None:
        """Go by these events of the calendar, None where it was not read yet."""
        self.times = times_of(self.schedule, events)
        self.is_unread = self.schedule.calendar is not None and events is None
        self._opening: Opening | None = None
        self._known_from, self._known_until = inf, -inf

    def opening(self, wall_s: float) -> Opening | None:
        """Return the opening of this time; where two overlap, the later one."""
        if not self._known_from <= wall_s < self._known_until:
            found = self.times.opening(wall_s)
            self._opening = None if found is None else Opening(*found)
            next_s = self.times.next_start(wall_s)
            if self._opening is None:
                self._known_from, self._known_until = wall_s, next_s
            else:
                self._known_from = self._opening.start_s
                self._known_until = min(self._opening.end_s, next_s)
        return self._opening

    def next_start(self, wall_s: float) -> float:
        """Return when it opens after a time, inf for never."""
        return self.times.next_start(wall_s)

    def start_after(self, opening: Opening) -> float:
        """Return when it opens after an opening, inf for never."""
        return inf if opening.end_s == inf else self.times.next_start(opening.end_s - 1)

    def count(self, opening: Opening) -> int:
        """Return how many evictions were decided in an opening and not given up."""
        return self._counts.get(opening.start_s, 0)

    def add(self, eviction: Eviction) -> None:
        """Count an eviction in the opening in which it was decided, if it concerns it."""
        if not self.concerned.eviction(eviction):
            return
        if (opening := self.opening(eviction.decided_s)) is not None:
            self._step(opening.start_s, 1)
            if eviction.is_open:
                self._counted[eviction.pod_uid] = opening.start_s

    def end(self, eviction: Eviction) -> None:
        """Uncount an eviction that did not happen, in the opening in which it was counted."""
        start_s = self._counted.pop(eviction.pod_uid, None)
        if start_s is not None and not eviction.counts:
            self._step(start_s, -1)

    def _step(self, start_s: float, step: int) -> None:
        self._counts[start_s] = self._counts.get(start_s, 0) + step
        if len(self._counts) > _OPENINGS_KEPT:
            del self._counts[min(self._counts)]


class _Block(Struct, frozen=True):
    """An answer "no" at a time: the schedule, until when, and what of it is used up.

    Of an `allow` that is not open `until_s` is when it opens; `limit` is 0 there.
    """

    window: _Window
    until_s: float
    limit: float = 0
    count: int = 0


class ScheduleState(Struct, frozen=True):
    """A schedule as it is now: its opening, None while no window is open, and what counts there.

    `next_s` is when a window opens next, in seconds since the epoch, inf for never. `limit` is inf
    where any number is allowed. `is_unread` says that its calendar was not read yet.
    """

    schedule: EvictionSchedule
    opening: Opening | None
    next_s: float
    limit: float = 0
    count: int = 0
    is_unread: bool = False


class EvictionSchedules(EvictionParticipant):
    """All schedules of the settings; an eviction counts from its decision on.

    `view` has the time of day, the labels of namespaces and nodes, and how many pods are on nodes,
    for limits in per cent: who may create pods raises none by pods that find no node, or name one
    that there is not.
    """

    name = SCHEDULE_GATE

    def __init__(
        self,
        schedules: Sequence[EvictionSchedule],
        view: ClusterView,
        calendars: Calendars = NO_CALENDARS,
    ) -> None:
        self._view = view
        self._windows = [
            _Window(schedule, view, calendars.get(number))
            for number, schedule in enumerate(schedules)
        ]
        self._restored: list[Eviction] = []
        self._opens: dict[tuple[float, ...], float] = {}

    @property
    def are_set(self) -> bool:
        """Say whether there is any schedule."""
        return bool(self._windows)

    def of_profile(self, profile: str) -> "ProfileSchedules":
        """Return the gate of a profile: the schedules that concern its findings."""
        return ProfileSchedules(self, profile)

    def reconfigure(
        self,
        schedules: Sequence[EvictionSchedule],
        under_way: Iterable[Eviction],
        calendars: Calendars = NO_CALENDARS,
    ) -> None:
        """Apply other schedules, or other events of calendars; what was there keeps its counts.

        A new one counts the evictions that are `under_way`.
        """
        before = {window.schedule: window for window in self._windows}
        self._windows = []
        for number, each in enumerate(schedules):
            window = before.get(each)
            if window is None:
                window = _Window(each, self._view, calendars.get(number))
            else:
                window.set_events(calendars.get(number))
            self._windows.append(window)
        added = [window for window in self._windows if window.schedule not in before]
        self._opens.clear()
        for eviction in under_way:
            for window in added if eviction not in self._restored else ():
                window.add(eviction)

    def check(self, finding: Finding, profile: str, now: float) -> Defer | Refuse | None:
        """Defer a finding until the schedules that concern it allow its eviction."""
        if not self._windows:
            return None
        self._count_restored()
        concerned = [each for each in self._windows if each.concerned.finding(finding, profile)]
        wall_s = self._view.now_s
        if not concerned or (block := self._block(concerned, wall_s)) is None:
            return None
        opens_s = self._opens_after(concerned, block)
        retry_at_s = now + min(max(0.0, opens_s - wall_s), CLOCK_CHECK_S)
        end = silent_end(now + opens_s - wall_s) if opens_s < inf else None
        reason = SCHEDULE_CLOSED if block.limit == 0 else SCHEDULE_SPENT
        message = _message(block, opens_s)
        scope = block.window.schedule.scope_exhausted
        wakes = block.window.concerned.wakes(finding)
        if wakes:
            return reason.refuse(finding, message, wakes, retry_at_s, scope_exhausted=scope).ending(
                end
            )
        return reason.defer(finding, message, retry_at_s, scope_exhausted=scope, end=end)

    def closed(self, finding: Finding, profile: str) -> str:
        """Say which schedule allows no eviction of a finding now, however many there were.

        Empty where none forbids it.
        """
        wall_s = self._view.now_s
        concerned = [each for each in self._windows if each.concerned.finding(finding, profile)]
        blocks = [each for each in self._closed(concerned, wall_s) if each.limit <= 0]
        allowing = [each for each in concerned if each.is_allowing]
        if all(each.opening(wall_s) is None for each in allowing):
            opens = (_Block(each, each.next_start(wall_s)) for each in allowing)
            blocks += sorted(opens, key=lambda each: each.until_s)[:1]
        if not blocks:
            return ""
        block = max(blocks, key=lambda each: each.until_s)
        return _message(block, self._opens_after(concerned, block))

    def _block(self, concerned: Sequence[_Window], wall_s: float) -> _Block | None:
        """Return what forbids an eviction for longest; None where none of the schedules does."""
        blocks = [*self._closed(concerned, wall_s)]
        allowing = [each for each in concerned if each.is_allowing]
        if allowing and (block := self._not_allowed(allowing, wall_s)) is not None:
            blocks.append(block)
        return max(blocks, key=lambda each: each.until_s, default=None)

    def _closed(self, concerned: Iterable[_Window], wall_s: float) -> Iterator[_Block]:
        """Yield the schedules that restrict, and whose windows allow no more."""
        for each in concerned:
            if not each.is_allowing and (opening := each.opening(wall_s)) is not None:
                count, limit = each.count(opening), self._limit(each)
                if count >= limit:
                    yield _Block(each, opening.end_s, limit, count)

    def _not_allowed(self, allowing: Iterable[_Window], wall_s: float) -> _Block | None:
        """Return the schedule that allows evictions next; None where one allows them now."""
        blocks = []
        for each in allowing:
            if (opening := each.opening(wall_s)) is None:
                blocks.append(_Block(each, each.next_start(wall_s)))
                continue
            count, limit = each.count(opening), self._limit(each)
            if count < limit:
                return None
            blocks.append(_Block(each, each.start_after(opening), limit, count))
        return min(blocks, key=lambda each: each.until_s)

    def _opens_after(self, concerned: Sequence[_Window], block: _Block) -> float:
        """Return when nothing blocks any more; inf where that is not within sight.

        What was evicted counts in no window that opens later, and of those that are open now none
        blocks for longer.
        """
        key = (block.until_s, *(float(self._windows.index(each)) for each in concerned))
        if (known := self._opens.get(key)) is not None:
            return known
        if len(self._opens) >= _ANSWERS_KEPT:
            self._opens.clear()
        timed = [(each.schedule, each.times) for each in concerned]
        found = self._opens[key] = (
            next_allowed(timed, block.until_s) if block.until_s < inf else inf
        )
        return found

    def decided(self, eviction: Eviction) -> None:
        """Count an eviction."""
        self._count_restored()
        for window in self._windows:
            window.add(eviction)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Uncount an eviction that did not happen, in the opening in which it was decided."""
        del outcome
        for window in self._windows:
            window.end(eviction)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Count an eviction of an earlier process by the time of day at which it was decided.

        Where labels say whom a schedule concerns, that is once the cluster is known: at the first
        look at a finding.
        """
        del now
        self._restored.append(eviction)
        if not any(window.schedule.has_selectors for window in self._windows):
            self._count_restored()

    def _count_restored(self) -> None:
        while self._restored:
            eviction = self._restored.pop()
            for window in self._windows if eviction.counts else ():
                window.add(eviction)

    def collect(self) -> Iterator[Metric]:
        """Yield how many evictions each schedule still allows whose window is open."""
        limited = (each for each in self.states() if each.opening is not None and each.limit < inf)
        yield ALLOWED.by_label({str(each.schedule): each.limit - each.count for each in limited})

    def states(self) -> Iterator[ScheduleState]:
        """Yield each schedule as it is now."""
        wall_s = self._view.now_s
        for window in self._windows:
            schedule, opening, unread = window.schedule, window.opening(wall_s), window.is_unread
            if opening is None:
                next_s = window.next_start(wall_s)
                yield ScheduleState(schedule, None, next_s, is_unread=unread)
            else:
                limit, count, next_s = (
                    self._limit(window),
                    window.count(opening),
                    window.start_after(opening),
                )
                yield ScheduleState(schedule, opening, next_s, limit, count, unread)

    def _limit(self, window: _Window) -> float:
        return window.schedule.limit(self._view.index(NamespaceSizes).total)


class ProfileSchedules:
    """The gate of one profile: the schedules that concern its findings."""

    name = SCHEDULE_GATE
    indexes = (NamespaceSizes,)

    def __init__(self, schedules: EvictionSchedules, profile: str) -> None:
        self._schedules = schedules
        self._profile = profile

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Defer a finding until the schedules that concern it allow its eviction."""
        return self._schedules.check(finding, self._profile, now)


def _message(block: _Block, opens_s: float) -> str:
    """Name the schedule that blocks, and when evictions are allowed again."""
    from reactive_desched.primitives.cron import format_in_zone

    schedule, until_s = block.window.schedule, block.until_s
    if block.window.is_unread:
        return f'the schedule "{schedule}" allows no evictions until its calendar is read'
    if until_s < inf:
        until = f"until {format_in_zone(until_s, schedule.time_zone)}"
    else:
        until = "any more: its windows are over" if schedule.allow else "at any time"
    if block.limit == 0:
        text = f'the schedule "{schedule}" allows no evictions {until}'
    else:
        limit, were = format_count(int(block.limit), "eviction"), agree(block.count, "was", "were")
        text = f'the schedule "{schedule}" allows {limit} {until}, and there {were} {block.count}'
    if opens_s == until_s:
        return text
    if opens_s == inf:
        return f"{text}; then others allow none"
    return f"{text}; then others allow none until {format_in_zone(opens_s, schedule.time_zone)}"
