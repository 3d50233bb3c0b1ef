"""Judges the moves of a scope: do replacements get Ready, and how soon beside those before.

A few moves prove nothing: only so many together are judged. Those that were judged to be wrong are
not judged again, so that what a check holds for them ends; how long they took becomes part of what
is usual, so that a workload that is slower for good is held a few times, and not for ever.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from statistics import median
from typing import Final, NamedTuple

from reactive_desched.model.health import HELD_KEYS
from reactive_desched.policy.settings.health import MovesCheckSettings
from reactive_desched.text.ages import format_age

DAY_S: Final = 24 * 3600.0
"""A move that ended so long ago is not judged any more."""

HISTORY: Final = 5
"""The last moves are compared with so many times as many before them."""

SLOWER_BY_S: Final = 10.0
"""A median that is longer by less than this is not slower, whatever the factor."""


class CountedMove(NamedTuple):
    """A move that ended: `ready_s` is how long its replacement took; None if it was not Ready.

    `at` is when it ended, in monotonic seconds.
    """

    at: float
    ready_s: float | None


class _Scope:
    """The last moves of a scope, and those before them whose replacement was Ready."""

    __slots__ = ("before", "last")

    def __init__(self, last: int) -> None:
        self.last: deque[CountedMove] = deque()
        self.before: deque[CountedMove] = deque(maxlen=HISTORY * last)


class JudgedMoves:
    """The moves of one check by what it holds: by namespace, profile or plugin, or all together.

    Of more than HELD_KEYS the one of which none moved for longest is forgotten.
    """

    def __init__(self, settings: MovesCheckSettings) -> None:
        self._settings = settings
        self._scopes: OrderedDict[str, _Scope] = OrderedDict()

    def count(self, key: str, move: CountedMove) -> str:
        """Count a move; return what is wrong with the last ones, empty where nothing is."""
        scope = self._scopes.setdefault(key, _Scope(self._settings.last))
        self._scopes.move_to_end(key)
        if len(self._scopes) > HELD_KEYS:
            self._scopes.popitem(last=False)
        scope.last.append(move)
        for moves in (scope.last, scope.before):
            while moves and moves[0].at <= move.at - DAY_S:
                moves.popleft()
        if len(scope.last) > self._settings.last:
            scope.before.extend(_ready([scope.last.popleft()]))
        found = self._judge(scope) if len(scope.last) == self._settings.last else ""
        if found:
            scope.before.extend(_ready(scope.last))
            scope.last.clear()
        return found

    def _judge(self, scope: _Scope) -> str:
        settings, count = self._settings, len(scope.last)
        times = [move.ready_s for move in scope.last if move.ready_s is not None]
        late = count - sum(ready_s <= settings.ready_within_s for ready_s in times)
        percent = settings.not_ready_percent
        if percent is not None and late * 100 >= percent * count:
            within = format_age(settings.ready_within_s)
            return f"{late} of the last {count} replacements were not Ready within {within}"
        if settings.slowdown is None or len(scope.before) < count or 2 * len(times) < count:
            return ""
        now_s, usual_s = median(times), median(move.ready_s or 0.0 for move in scope.before)
        if now_s < settings.slowdown * usual_s or now_s < usual_s + SLOWER_BY_S:
            return ""
        return (
            f"replacements take {format_age(now_s)} to be Ready, {format_age(usual_s)} before: "
            f"medians of the last {len(times)} and of {len(scope.before)}"
        )


def _ready(moves: Iterable[CountedMove]) -> list[CountedMove]:
    return [move for move in moves if move.ready_s is not None]
