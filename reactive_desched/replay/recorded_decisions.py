"""The decisions and evictions that a journal has of one process, as a replay needs them."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import inf, isinf
from pathlib import Path
from typing import Final

from msgspec import Struct

from reactive_desched.api.event import (
    DECISION_DEFER,
    DECISION_EVICT,
    DECISION_REFUSE,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    MIGRATION_CARRIED_OUT,
)
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent, happened_at
from reactive_desched.journal.segments import READ_ERRORS, JournalLine, read_lines, segments_of_time
from reactive_desched.model.migration_jobs import KIND as JOB_KIND
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import Outcome, recorded_outcome
from reactive_desched.recording.items import Damage, Instant
from reactive_desched.recording.segments import OnDamage, ignore_damage

EVICT, DEFER, REFUSE, CANCEL, SEND = "evict", "defer", "refuse", "cancel", "send"
WRITE: Final = "write"
"""What a replay does with a job, in place of a verdict."""

_VERDICTS: Final = {DECISION_EVICT: EVICT, DECISION_DEFER: DEFER, DECISION_REFUSE: REFUSE}
_READ: Final = frozenset(
    {*_VERDICTS, EVICTION_REQUESTED, *EVICTION_OUTCOME_TYPES, MIGRATION_CARRIED_OUT}
)


class DecisionKey(Struct, frozen=True, gc=False):
    """The finding that a decision is on: of a pod, by a plugin of a profile."""

    pod: PodKey
    profile: str
    plugin: str


class MadeDecision(Struct, frozen=True, gc=False):
    """A decision that a controller made, and when; `pod` is NAMESPACE/NAME.

    Of a migration job it is what was made or deleted, or its end: `verdict` names it, and `gate`
    has the result.
    """

    at: Instant
    key: DecisionKey
    pod: str
    verdict: str
    gate: str = ""
    reason: str = ""
    message: str = ""

    @property
    def monotonic_s(self) -> float:
        """Return when it was made, by the clock that cannot be set."""
        return self.at.monotonic_s

    def is_same(self, other: "MadeDecision") -> bool:
        """Say whether both are the same but for their time and words."""
        mine = self.verdict, self.gate, self.reason
        return mine == (other.verdict, other.gate, other.reason)

    def __str__(self) -> str:
        code = "/".join(filter(None, (self.gate, self.reason)))
        return f"{self.verdict} {code}: {self.message}" if code else self.verdict


class _Requested(Struct, frozen=True, gc=False):
    """A request for an eviction was written."""

    at: Instant
    id: str
    key: DecisionKey


class _Ended(Struct, frozen=True, gc=False):
    """A request ended."""

    at: Instant
    request_id: str
    outcome: Outcome


JournalEntry = MadeDecision | _Requested | _Ended
"""What a replay takes of a record. Its time has no monotonic seconds: it is placed by others."""


def is_verdict(entry: JournalEntry) -> bool:
    """Say whether a record is of a decision on a pod: it is written in the turn that decided."""
    return isinstance(entry, MadeDecision) and entry.verdict in (EVICT, DEFER, REFUSE)


class RecordedEviction(Struct):
    """An eviction request of a journal, when it was written, and its outcome, if there is one.

    Times are monotonic seconds of the process.
    """

    id: str
    time_s: float
    key: DecisionKey
    ended_s: float | None = None
    outcome: Outcome | None = None


class RecordedDecisions:
    """The decisions and evictions of a process, in the order of the journal.

    Where there is no journal it is not whole: any eviction may have been decided. Times are
    monotonic seconds of the process.
    """

    def __init__(self, entries: Iterable[JournalEntry], *, is_whole: bool = True) -> None:
        self._is_whole = is_whole
        self.decisions: list[MadeDecision] = []
        evictions: dict[str, RecordedEviction] = {}
        self._requests: defaultdict[DecisionKey, deque[RecordedEviction]] = defaultdict(deque)
        self._decided: defaultdict[DecisionKey, list[float]] = defaultdict(list)
        for each in entries:
            match each:
                case MadeDecision():
                    self.decisions.append(each)
                    if each.verdict == EVICT:
                        self._decided[each.key].append(each.monotonic_s)
                case _Requested(at=at, id=id_, key=key):
                    evictions[id_] = eviction = RecordedEviction(id_, at.monotonic_s, key)
                    self._requests[key].append(eviction)
                case _Ended(at=at, request_id=id_, outcome=outcome):
                    if (begun := evictions.get(id_)) is not None:
                        begun.ended_s, begun.outcome = at.monotonic_s, outcome
        self.evictions = list(evictions.values())

    def has_eviction_decided(self, key: DecisionKey, from_s: float, to_s: float) -> bool:
        """Say whether the eviction was decided in this time."""
        return not self._is_whole or any(
            from_s <= each <= to_s for each in self._decided.get(key, ())
        )

    def take_request(self, key: DecisionKey, from_s: float, to_s: float) -> RecordedEviction | None:
        """Return, once, the next request for a finding, if it was written in this time."""
        waiting = self._requests.get(key)
        while waiting and waiting[0].time_s < from_s:
            waiting.popleft()
        return waiting.popleft() if waiting and waiting[0].time_s <= to_s else None

    def last_of(self, from_s: float, to_s: float) -> float:
        """Return when the last record of a time was written; before it where there is none."""
        of_decisions = (each.monotonic_s for each in self.decisions)
        of_evictions = (at for each in self.evictions for at in (each.time_s, each.ended_s))
        times = (at for at in chain(of_decisions, of_evictions) if at is not None)
        return max((at for at in times if from_s <= at <= to_s), default=from_s - 1.0)

    def open_at(self, time_s: float) -> Iterator[RecordedEviction]:
        """Yield the evictions that were requested before this time and had no outcome then."""
        for each in self.evictions:
            if each.time_s < time_s and (each.ended_s is None or each.ended_s >= time_s):
                yield each


AROUND_S: Final = 3600.0
"""Decisions of so long before and after a time count for it: a replay makes them a little apart."""

OPEN_S: Final = 24 * 3600.0
"""A request of so long before a time may have been under way when it began."""


class JournalPart(Struct, frozen=True):
    """The records of a journal that a controller needs which is run over a time.

    They are those behind a sequence, of decisions from shortly before the time to shortly after it,
    and of evictions from a day before it on. Times are seconds since the epoch.
    """

    after_sequence: int = 0
    began_s: float = -inf
    ended_s: float = inf

    @property
    def since_s(self) -> float:
        """Return the time of the earliest record."""
        return self.began_s - OPEN_S

    @property
    def until_s(self) -> float:
        """Return the time of the latest record."""
        return self.ended_s + AROUND_S

    def has(self, line: JournalLine) -> bool:
        """Say whether a line belongs to it that is a record."""
        assert line.header is not None, "a whole line has a header"
        if line.header.seq <= self.after_sequence:
            return False
        if isinf(self.began_s) and isinf(self.ended_s):
            return True
        since_s = self.began_s - AROUND_S if line.header.type in _VERDICTS else self.since_s
        happened = happened_at(line.raw)
        return happened is not None and since_s <= happened.timestamp() <= self.until_s


WHOLE: Final = JournalPart()
"""The whole journal."""


class LostRecords(Struct):
    """Records that a journal lacks: how many, and the times of day of those beside them.

    Where everything behind a sequence is missing, that is `after`.
    """

    count: float
    since_s: float = -inf
    until_s: float = inf
    after: int | None = None

    def is_behind(self, found: int) -> bool:
        """Say whether what a process wrote is missing that found records up to a sequence."""
        return self.after is not None and found >= self.after

    def take(self, wall_s: float, tolerance_s: float) -> bool:
        """Say whether one of them may be of this moment, and count it as found."""
        first_s, last_s = sorted((self.since_s, self.until_s))
        if self.count <= 0 or not first_s - tolerance_s <= wall_s <= last_s + tolerance_s:
            return False
        self.count -= 1
        return True


OnLoss = Callable[[LostRecords], None]


def _ignore_loss(_: LostRecords) -> None:
    """Let records be lost."""


def read_entries(
    directory: Path,
    part: JournalPart = WHOLE,
    on_damage: OnDamage = ignore_damage,
    on_loss: OnLoss = _ignore_loss,
) -> list[tuple[int, JournalEntry]]:
    """Return what a journal has, with the sequence of each record.

    Raises OSError where the folder cannot be read; damaged lines are left out.
    """
    events = _events(directory, part, on_damage, on_loss)
    return [(int(event.sequence), _entry(event)) for event in events]


def _entry(event: AnyEvent) -> JournalEntry:
    at = Instant(event.time.timestamp(), 0.0)
    if event.type in _VERDICTS:
        return _decision(event, at)
    if event.type == EVICTION_REQUESTED:
        return _Requested(at, event.id, _key(event))
    if event.type == MIGRATION_CARRIED_OUT:
        return _job_step(event, at)
    ending = event.data.outcome
    outcome = recorded_outcome(ending.result, ending.reason, ending.message)
    return _Ended(at, event.causationid, outcome)


def _events(
    directory: Path, part: JournalPart, on_damage: OnDamage, on_loss: OnLoss
) -> Iterator[AnyEvent]:
    last: int | None = None
    before, damaged_last = b"", 0.0
    for segment in segments_of_time(directory, part.since_s, part.until_s):
        name, place = segment.path.name, 0
        last = segment.first_seq - 1 if last is None else last
        try:
            for line in read_lines(segment):
                if (seq := line.seq) is None:
                    is_torn = not line.raw.endswith(b"\n")
                    on_damage(Damage(name, line.offset, _LINE_DAMAGED, is_torn))
                    damaged_last += 1
                    continue
                if seq > last + 1:
                    lost = missing_records(last + 1, seq - 1)
                    text = f"{lost} before it: {LOOK_AT_JOURNAL}"
                    on_damage(Damage(name, line.offset, text))
                    on_loss(
                        LostRecords(
                            seq - 1 - last, time_of_line(before, -inf), time_of_line(line.raw)
                        )
                    )
                last, place, before, damaged_last = seq, line.end, line.raw, 0.0
                if _is_read(line) and part.has(line) and (event := _read_event(line)) is not None:
                    yield event
        except READ_ERRORS as error:  # what is before the damage counts
            on_damage(Damage(name, place, f"cannot be read on: {error}; {LOOK_AT_JOURNAL}"))
            damaged_last = inf
    if damaged_last:
        on_loss(LostRecords(damaged_last, time_of_line(before, -inf)))


def time_of_line(raw: bytes, otherwise: float = inf) -> float:
    """Return the time of day of a line, in seconds since the epoch."""
    happened = happened_at(raw) if raw else None
    return otherwise if happened is None else happened.timestamp()


def missing_records(first: int, last: int) -> str:
    """Say which records are missing."""
    if first == last:
        return f"record {first} is missing"
    return f"records {first} to {last} are missing"


LOOK_AT_JOURNAL: Final = "`audit verify` says what else of the journal is damaged"
_LINE_DAMAGED: Final = f"the line is damaged; {LOOK_AT_JOURNAL}"


def _is_read(line: JournalLine) -> bool:
    """Say whether a line is a decision, or of an eviction or a job."""
    return line.header is not None and line.header.type in _READ


def _read_event(line: JournalLine) -> AnyEvent | None:
    assert line.header is not None, "it has a type that is read"
    return decode_event(line.header.type, line.raw[:-1])


def _key(event: AnyEvent) -> DecisionKey:
    data = event.data
    return DecisionKey(data.who.uid, data.why.profile, data.why.plugin)


def job_key(pod: PodKey) -> DecisionKey:
    """Return the key of what is made, deleted and ended for the migration jobs of a pod."""
    return DecisionKey(pod, MIGRATION_PROFILE, JOB_KIND)


def _job_step(event: AnyEvent, at: Instant) -> MadeDecision:
    data = event.data
    who = data.who
    return MadeDecision(
        at,
        job_key(who.uid),
        f"{who.namespace}/{who.name}",
        f"{data.action} {data.object.kind}",
        data.result,
        data.job_reason,
        f"for {data.job}",
    )


def _decision(event: AnyEvent, at: Instant) -> MadeDecision:
    data = event.data
    verdict = data.decision
    return MadeDecision(
        at,
        _key(event),
        f"{data.who.namespace}/{data.who.name}",
        _VERDICTS[event.type],
        verdict.gate or "",
        verdict.reason or "",
        verdict.message or "",
    )
