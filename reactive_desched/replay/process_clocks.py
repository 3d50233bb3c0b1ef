"""Places the records of a journal on the clocks of the processes that wrote them.

A record has the time of day alone. Where that was set, the same time came twice or was left out; a
recording has both clocks, and the order of the records says on which side of a step each stands.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, groupby, pairwise, takewhile
from math import inf, isinf
from operator import itemgetter
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.recording.items import (
    STEP_S,
    EvictionSettled,
    InheritedEvictionEnded,
    Instant,
    Item,
    JobOrderEnded,
    JobStepEnded,
    ProcessBegan,
    RequestWritten,
    Worked,
)
from reactive_desched.recording.reader import times_of_frames
from reactive_desched.recording.segments import OnDamage, ignore_damage
from reactive_desched.replay.lives import Life, lives
from reactive_desched.replay.recorded_decisions import (
    JournalEntry,
    JournalPart,
    LostRecords,
    MadeDecision,
    RecordedDecisions,
    is_verdict,
    read_entries,
)

OUT_OF_ORDER_S: Final = 1.0
"""So much earlier than the record before it may one be: it waited to be written."""

_WRITING = (
    Worked
    | RequestWritten
    | EvictionSettled
    | InheritedEvictionEnded
    | JobOrderEnded
    | JobStepEnded
)
"""The items at whose times records are written."""


class ClockPiece(Struct):
    """A time in which the time of day was not set, in monotonic seconds of the process.

    `ahead_s` is what the time of day was more, `moments` are when records may have been written.
    """

    ahead_s: float
    first_s: float
    last_s: float
    moments: list[float]

    def distance_s(self, wall_s: float) -> float:
        """Return how far a record with this time is from what the process did in this time."""
        at_s = wall_s - self.ahead_s
        after = bisect_left(self.moments, at_s)
        near = self.moments[max(after - 1, 0) : after + 1]
        return min(abs(at_s - each) for each in near)


class LifeClock(Struct, frozen=True):
    """The time of day of one life: its pieces in their order.

    Each moment is in monotonic seconds. Of a time of day that came twice, a period has all.
    """

    pieces: tuple[ClockPiece, ...]
    reads_up_to: int | None = None
    """The sequence of the last record that the process found when it started; None: unknown."""

    def first_at(self, wall_s: float) -> float:
        """Return the first moment at which the clock showed this time or a later one."""
        for each in self.pieces:
            if each.last_s + each.ahead_s >= wall_s:
                return max(wall_s - each.ahead_s, each.first_s)
        return inf

    def last_at(self, wall_s: float) -> float:
        """Return the last moment at which the clock showed this time or an earlier one."""
        for each in reversed(self.pieces):
            if each.first_s + each.ahead_s <= wall_s:
                is_last = each is self.pieces[-1]
                return min(wall_s - each.ahead_s, inf if is_last else each.last_s)
        return -inf

    def wall_of(self, monotonic_s: float) -> float:
        """Return the time of day at a moment."""
        before = [each for each in self.pieces if each.first_s <= monotonic_s] or self.pieces[:1]
        return round(before[-1].ahead_s + monotonic_s, 6)


class ProcessClocks:
    """The clocks of the lives of a recording, and what the journal has of each of them.

    `read` reads the recording, which lies in `paths`; it is read once more where the time of day
    differs within it. The lives are run up to `until_s`, in seconds since the epoch: without an end
    all are, and the journal is read once for them, else of each life its own part. `on_damage`
    takes what of the whole journal cannot be read, and `lost` has the records that it lacks.
    Raises OSError where the journal cannot be read; None is none.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        read: Callable[[], Iterable[Item]],
        journal: Path | None,
        until_s: float = inf,
        on_damage: OnDamage = ignore_damage,
    ) -> None:
        self.journal: Final = journal
        self._on_damage = on_damage
        self._until_s = until_s
        self.lost: Final[list[LostRecords]] = []
        self._clocks: list[LifeClock] = []
        self._placed: list[list[JournalEntry]] = []
        if _was_set(times_of_frames(paths)):
            self._clocks = [_clock_of(life) for life in lives(read())]
            self._placed = place(self._whole_journal, self._clocks)

    @property
    def are_one(self) -> bool:
        """Say whether all lives have one time of day that was never set."""
        return not self._clocks

    def of(self, number: int, life: Life) -> tuple[LifeClock, RecordedDecisions]:
        """Return the clock of a life, counted from 0, and what the journal has of it.

        Where the time of day was not set that is the whole journal, or the part of it that the life
        needs.
        """
        is_whole = self.journal is not None
        if self._clocks:
            recorded = RecordedDecisions(self._placed[number], is_whole=is_whole)
            return self._clocks[number], recorded
        began = life.began
        piece = ClockPiece(_ahead_s(began), began.monotonic_s, inf, [began.monotonic_s])
        found = (_at(each, piece) for _, each in self._entries_of(life))
        return LifeClock((piece,)), RecordedDecisions(found, is_whole=is_whole)

    def count_last(self, after_s: float, until_s: float) -> int:
        """Count the journal's last decisions, those of after a time of day and up to another."""
        entries = (each for _, each in reversed(self._whole_journal))
        decisions = (each for each in entries if isinstance(each, MadeDecision))
        times = (each.at.wall_s for each in decisions)
        return sum(at_s <= until_s for at_s in takewhile(lambda at_s: at_s > after_s, times))

    def count_between(self, since_s: float, until_s: float) -> int:
        """Count the journal's decisions from a time of day up to another."""
        return sum(
            since_s <= each.at.wall_s < until_s
            for _, each in self._whole_journal
            if isinstance(each, MadeDecision)
        )

    @cached_property
    def _whole_journal(self) -> list[tuple[int, JournalEntry]]:
        if self.journal is None:
            return []
        return read_entries(self.journal, on_damage=self._on_damage, on_loss=self.lost.append)

    def _entries_of(self, life: Life) -> list[tuple[int, JournalEntry]]:
        """Return the records that a life needs which is run up to the end."""
        if self.journal is None or isinf(self._until_s):
            return self._whole_journal
        process = life.process
        read = None if process is None else process.history
        behind = 0 if read is None else read.sequence
        part = JournalPart(behind, life.began.wall_s, self._until_s)
        return read_entries(self.journal, part)


def _was_set(times: Iterable[Instant]) -> bool:
    """Say whether the time of day differs from the first: small corrections add up."""
    read = iter(times)
    first = next(read, None)
    return first is not None and any(map(first.is_step_to, read))


def _ahead_s(at: Instant) -> float:
    return round(at.wall_s - at.monotonic_s, 6)


def _clock_of(life: Life) -> LifeClock:
    """Return the time of day of a life: its items are read."""
    began = life.began.monotonic_s
    pieces = [ClockPiece(_ahead_s(life.began), began, began, [began])]
    process = life.process
    read = None if process is None else process.history
    for item in life.later:
        piece, at_s, ahead_s = pieces[-1], item.at.monotonic_s, _ahead_s(item.at)
        if abs(ahead_s - piece.ahead_s) > STEP_S:
            piece = ClockPiece(ahead_s, at_s, at_s, [at_s])
            pieces.append(piece)
        elif isinstance(item, _WRITING):
            piece.moments.append(at_s)
        piece.last_s = max(at_s, piece.last_s)
        if isinstance(item, ProcessBegan) and read is None:
            read = item.history
    for each in pieces:
        each.moments.sort()
    return LifeClock(tuple(pieces), None if read is None else read.sequence)


def place(
    entries: Sequence[tuple[int, JournalEntry]], clocks: Sequence[LifeClock]
) -> list[list[JournalEntry]]:
    """Return what each life wrote, at its moments.

    What a process found when it started was written before its lives, what came then by them.
    """
    placed: list[list[JournalEntry]] = [[] for _ in clocks]
    for of_process, found in _by_process(entries, clocks):
        pieces = [(number, piece) for number in of_process for piece in clocks[number].pieces]
        for each, at in zip(found, _sides(found, [piece for _, piece in pieces]), strict=True):
            number, piece = pieces[at]
            placed[number].append(_at(each, piece))
    return placed


def _by_process(
    entries: Sequence[tuple[int, JournalEntry]], clocks: Sequence[LifeClock]
) -> Iterator[tuple[list[int], list[JournalEntry]]]:
    """Yield the numbers of the lives of each process, and what was written from its start on."""
    read_up_to = accumulate((each.reads_up_to or 0 for each in clocks), max)
    processes = [
        (up_to, [number for number, _ in of_process])
        for up_to, of_process in groupby(enumerate(read_up_to), key=itemgetter(1))
    ]
    begins = [bisect_right(entries, up_to, key=itemgetter(0)) for up_to, _ in processes]
    for (_, numbers), (first, end) in zip(processes, pairwise([*begins, None]), strict=True):
        yield numbers, [each for _, each in entries[first:end]]


def _sides(entries: Sequence[JournalEntry], pieces: Sequence[ClockPiece]) -> list[int]:
    """Return for each record, by its time of day, the number of its piece; they never go back.

    Of all ways to divide them it is the one by which records are nearest to what was done.
    """
    costs, came_from, last_s = [0.0] * len(pieces), list[list[int]](), -inf
    for entry in entries:
        wall_s, back_cost_s = entry.at.wall_s, 0.0
        if is_verdict(entry):  # others may have waited for long where the process starved
            back_cost_s = _SET_BACK_COST_S if wall_s < last_s - OUT_OF_ORDER_S else 0.0
            last_s = wall_s
        before, before_cost_s = 0, inf
        found, origins = list[float](), list[int]()
        for number, piece in enumerate(pieces):
            stays_s = costs[number] + back_cost_s
            origins.append(before if before_cost_s < stays_s else number)
            found.append(min(before_cost_s, stays_s) + piece.distance_s(wall_s))
            if costs[number] < before_cost_s:
                before, before_cost_s = number, costs[number]
        costs = found
        came_from.append(origins)
    sides, side = list[int](), min(range(len(pieces)), key=costs.__getitem__)
    for origins in reversed(came_from):
        sides.append(side)
        side = origins[side]
    return sides[::-1]


_SET_BACK_COST_S: Final = 1e9
"""A time that is set back within a piece is the last that is assumed."""


def _at(entry: JournalEntry, piece: ClockPiece) -> JournalEntry:
    wall_s = entry.at.wall_s
    return replace(entry, at=Instant(wall_s, wall_s - piece.ahead_s))
