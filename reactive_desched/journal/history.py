"""Reads the latest evictions back from a journal: what limits and memory are restored from.

Files are read from the newest back to the one that begins before the window, and of each only the
records of evictions are decoded, and of those only the fields that are needed: 20,000 evictions
take about half a second.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.api.event import (
    DISRUPTION_OBSERVED,
    EVICTION_CORRECTED,
    EVICTION_FOLLOWED_UP,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    FUTILE_CLEARED,
    MODE_DRY_RUN,
    MODE_LIVE,
    Ending,
    FollowUp,
    FutileCleared,
    Owner,
    Uptime,
    What,
)
from reactive_desched.journal.clocks import SERVER_TIME_ERROR_S, Moment
from reactive_desched.journal.event_builder import evictor_of
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import (
    READ_ERRORS,
    Segment,
    list_segments,
    segments_of_time,
)
from reactive_desched.model.disruptions import RememberedEnd
from reactive_desched.model.eviction_options import EVICTION
from reactive_desched.model.findings import GANG
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.moves import replacing_owner, was_clean_up
from reactive_desched.model.outcomes import (
    EVICTED,
    EVICTION_ACCEPTED,
    POD_STILL_RUNNING,
    UNKNOWN,
)
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

HISTORY_S: Final = 24 * 3600.0
"""How far back evictions are read at least: the memory of moves goes back so far."""

MAX_PAST_EVICTIONS: Final = 20_000
"""So many evictions are read at most, the newest ones."""

MAX_PAST_ENDS: Final = 10_000
"""So many ends of pods by something else are read at most."""

MAX_HISTORY_BYTES: Final = 1 << 28
"""No further file is begun once so many bytes were read, in which other records count too."""

_MARKS: Final = (
    b'"type":"io.reactive-desched.descheduler.eviction.',
    *(FUTILE_CLEARED.encode(), DISRUPTION_OBSERVED.encode()),
)


class History(Struct, frozen=True):
    """The evictions that were read back, oldest first.

    `unfollowed` are the outcomes of those that evicted a pod, by the id of the request, whose
    follow-up is not recorded yet; `uncertain` those that a later end of the pod may correct.
    `ends` are the recorded ends of pods by something else, oldest first.
    `is_whole` is false where a bound left out earlier ones; `begins_s` is then since when there
    are all of them, in seconds since the epoch.
    """

    evictions: tuple[PastEviction, ...] = ()
    unfollowed: Mapping[str, AnyEvent] = {}
    uncertain: Mapping[str, AnyEvent] = {}
    ends: tuple[RememberedEnd, ...] = ()
    begins_s: float = 0.0
    is_whole: bool = True


class _Who(Struct, frozen=True, gc=False, rename="camel"):
    name: str
    namespace: str
    node: str
    owners: tuple[Owner, ...]
    uid: str
    zone: str
    template_hash: str = ""


class _Why(Struct, frozen=True, gc=False):
    plugin: str
    profile: str
    numbers: Mapping[str, int | str] = {}


class _Data(Struct, frozen=True, gc=False, rename="camel"):
    """The data of any record of an eviction, as far as it is read."""

    mode: str = MODE_LIVE
    who: _Who | None = None
    why: _Why | None = None
    what: What | None = None
    phase: str = ""
    outcome: Ending | None = None
    corrects: str = ""
    follow_up: FollowUp | None = None
    uptime: Uptime | None = None
    server_time: datetime | None = None


class _End(Struct, frozen=True, gc=False):
    """The data of the end of a pod, as far as it is read."""

    who: _Who
    cause: str
    message: str = ""


class _Line(Struct, frozen=True, gc=False):
    id: str
    causationid: str
    sequence: str
    type: str
    time: datetime
    data: msgspec.Raw


class _Request(Struct, frozen=True, gc=False):
    requested_s: float
    began_s: float
    sequence: str
    who: _Who
    why: _Why
    evictor: str
    is_clean_up: bool


class _Outcome(Struct, frozen=True, gc=False):
    id: str = ""
    ended_s: float | None = None
    result: str = ""
    reason: str = ""
    accepted_s: float = 0.0


_line_decoder: Final = msgspec.json.Decoder(_Line)
_data_decoder: Final = msgspec.json.Decoder(_Data)
_end_decoder: Final = msgspec.json.Decoder(_End)
_cleared_decoder: Final = msgspec.json.Decoder(FutileCleared)


class _Found:
    """The records read so far: requests by their id, later records by the id of their cause.

    Times are by the time of day as it is now: a record is as old as `Moment.age_s` says, whether
    or not the clock was set since.
    """

    def __init__(
        self, now: Moment, until_s: float | None = None, until_sequence: int | None = None
    ) -> None:
        self._now = now
        self._until_s = until_s
        self._until_sequence = until_sequence
        self.requests: dict[str, _Request] = {}
        self.outcomes: dict[str, _Outcome] = {}
        self.follow_ups: dict[str, PastFollowUp] = {}
        self.unfollowed: dict[str, bytes] = {}
        self.uncertain: dict[str, bytes] = {}
        self.corrections: dict[str, _Outcome] = {}  # by the id of the outcome
        self.ends: dict[str, RememberedEnd] = {}  # by the uid of the pod
        self.cleared: dict[str, str] = {}  # the sequence of the last record, by the owner's uid

    def add(self, raw: bytes) -> float | None:
        """Add a line, and return its time; None where it is of no eviction, or damaged."""
        if not any(mark in raw for mark in _MARKS):
            return None
        try:
            line = _line_decoder.decode(raw)
            if self._until_s is not None and line.time.timestamp() > self._until_s:
                return None
            if self._until_sequence is not None and int(line.sequence) > self._until_sequence:
                return None
            if line.type == FUTILE_CLEARED:
                owner_uid = _cleared_decoder.decode(line.data).owner_uid
                self.cleared[owner_uid] = max(line.sequence, self.cleared.get(owner_uid, ""))
                return None
            if line.type == DISRUPTION_OBSERVED:
                self._add_end(line)
                return None
            data = _data_decoder.decode(line.data)
            moment = Moment(line.time.timestamp(), data.uptime, data.server_time)
            time_s = self._now.time_s - moment.age_s(self._now)
            self._add_eviction(line, raw, time_s, data)
        except DECODE_ERRORS:
            return None
        return time_s

    def _add_end(self, line: _Line) -> None:
        data = _end_decoder.decode(line.data)
        who, top = data.who, data.who.owners[-1] if data.who.owners else None
        owner, ended_s = "" if top is None else f"{top.kind}/{top.name}", line.time.timestamp()
        end = RememberedEnd(
            *(who.uid, who.namespace, who.name, who.node, owner, data.cause, data.message), ended_s
        )
        if len(self.ends) < MAX_PAST_ENDS:
            self.ends[who.uid] = end

    def _add_eviction(self, line: _Line, raw: bytes, time_s: float, data: _Data) -> None:
        if data.mode == MODE_DRY_RUN or data.who is None or data.why is None:
            return
        if line.type == EVICTION_REQUESTED:
            began_s = max(time_s, line.time.timestamp())
            if data.server_time is not None:
                began_s = data.server_time.timestamp() + SERVER_TIME_ERROR_S
            evictor = EVICTION if data.what is None else evictor_of(data.what)
            self.requests[line.id] = _Request(
                *(time_s, began_s, line.sequence, data.who, data.why, evictor),
                was_clean_up(data.phase, data.who.owners),
            )
        elif line.type in EVICTION_OUTCOME_TYPES and data.outcome is not None:
            accepted_s = 0.0
            if data.outcome.reason == EVICTION_ACCEPTED.code and data.server_time is not None:
                accepted_s = data.server_time.timestamp()
            result, reason = data.outcome.result, data.outcome.reason
            self.outcomes[line.causationid] = _Outcome(line.id, time_s, result, reason, accepted_s)
            if result in (EVICTED, UNKNOWN) and line.id not in self.follow_ups:
                self.unfollowed[line.id] = raw
            elif reason == POD_STILL_RUNNING.code:
                self.uncertain[line.id] = raw
        elif line.type == EVICTION_CORRECTED and data.outcome is not None:
            corrected = _Outcome(data.corrects, time_s, data.outcome.result, data.outcome.reason)
            self.corrections[data.corrects] = corrected
        elif line.type == EVICTION_FOLLOWED_UP and (followed := data.follow_up) is not None:
            node, uid = ("", "") if (pod := followed.replacement) is None else (pod.node, pod.uid)
            self.unfollowed.pop(line.causationid, None)
            ready_s = None if followed.ready_ms is None else followed.ready_ms / 1000
            self.follow_ups[line.causationid] = PastFollowUp(
                time_s, followed.result, node, followed.finding_holds, uid, ready_s
            )

    def evictions(self, since_s: float, limit: int) -> list[PastEviction]:
        """Return the newest of the evictions that were requested since then, oldest first.

        Of one time they are in the order of their records: ids are drawn by chance.
        """
        wanted = sorted(
            (request.requested_s, request.sequence, id_)
            for id_, request in self.requests.items()
            if request.requested_s >= since_s
        )
        return [self._eviction(id_) for _, _, id_ in wanted[-limit:]]

    def unfollowed_of(self, evictions: Iterable[PastEviction]) -> dict[str, AnyEvent]:
        """Return the outcome of each of these evictions that evicted a pod and was not followed.

        One that was corrected to that is among them.
        """
        for outcome_id, corrected in self.corrections.items():
            raw = self.uncertain.pop(outcome_id, None)
            counts = corrected.result in (EVICTED, UNKNOWN) and outcome_id not in self.follow_ups
            if raw is not None and counts:
                self.unfollowed[outcome_id] = raw
        return self._events_of(evictions, self.unfollowed)

    def uncertain_of(self, evictions: Iterable[PastEviction]) -> dict[str, AnyEvent]:
        """Return the outcome of each of these evictions that may be corrected; ask this last."""
        return self._events_of(evictions, self.uncertain)

    def _events_of(
        self, evictions: Iterable[PastEviction], lines: Mapping[str, bytes]
    ) -> dict[str, AnyEvent]:
        found = {}
        for eviction in evictions:
            outcome_id = self.outcomes.get(eviction.request_id, _Outcome()).id
            if (raw := lines.get(outcome_id)) is not None:
                type_ = _line_decoder.decode(raw).type
                if (event := decode_event(type_, raw)) is not None:
                    found[eviction.request_id] = event
        return found

    def _eviction(self, request_id: str) -> PastEviction:
        request = self.requests[request_id]
        who, why = request.who, request.why
        top = who.owners[-1] if who.owners else None
        owner_uid = "" if top is None else top.uid
        replacing = replacing_owner(who.owners)
        outcome = self.outcomes.get(request_id, _Outcome())
        outcome = self.corrections.get(outcome.id, outcome)
        return PastEviction(
            request_id,
            request.requested_s,
            who.uid,
            who.namespace,
            who.name,
            who.node,
            who.zone,
            owner_uid,
            "" if top is None else top.kind,
            "" if top is None else top.name,
            "" if replacing is None else replacing.uid,
            "" if replacing is None else replacing.kind,
            who.template_hash,
            why.plugin,
            why.profile,
            outcome.ended_s,
            outcome.result,
            self.follow_ups.get(outcome.id),
            max(self.cleared.get("", ""), self.cleared.get(owner_uid, "")) > request.sequence,
            request.began_s,
            outcome.accepted_s,
            outcome.reason,
            request.evictor,
            request.is_clean_up,
            str(why.numbers.get(GANG, "")),
        )


def read_history(
    directory: Path,
    now: Moment,
    *,
    counts_for_s: float = 0.0,
    max_evictions: int = MAX_PAST_EVICTIONS,
    max_bytes: int = MAX_HISTORY_BYTES,
    until_s: float | None = None,
    until_sequence: int | None = None,
) -> History:
    """Return the evictions that were requested in the day before `now`, dry runs left out.

    Where limits count an eviction for longer than a day, `counts_for_s` seconds, it is that time.
    At most `max_evictions`, the newest ones. What was recorded after `until_s`, in seconds since
    the epoch, or behind the record with `until_sequence`, is left out, as if it had not happened.
    A file that cannot be read ends where no more of it can be had; damaged lines are left out.
    Blocks; raises OSError where the folder cannot be read.
    """
    since_s, found = now.time_s - max(HISTORY_S, counts_for_s), _Found(now, until_s, until_sequence)
    bytes_read, begins_s, is_whole = 0, now.time_s, True
    segments = _segments_up_to(directory, until_s)
    if until_sequence is not None:
        segments = [each for each in segments if each.first_seq <= until_sequence]
    for segment in reversed(segments):
        earliest_s = None
        with suppress(*READ_ERRORS):
            for raw in _lines(segment):
                bytes_read += len(raw)
                if (time_s := found.add(raw)) is not None and earliest_s is None:
                    earliest_s = time_s
        begins_s = begins_s if earliest_s is None else min(begins_s, earliest_s)
        if begins_s < since_s or segment is segments[0]:
            begins_s = since_s
            break
        if bytes_read >= max_bytes or len(found.requests) >= max_evictions:
            is_whole = False
            break
    evictions = found.evictions(since_s, max_evictions)
    if len(evictions) == max_evictions:
        is_whole, begins_s = False, evictions[0].requested_s
    unfollowed = found.unfollowed_of(evictions)
    ends = sorted(found.ends.values(), key=lambda end: end.ended_s)
    return History(
        tuple(evictions),
        unfollowed,
        found.uncertain_of(evictions),
        tuple(ends),
        begins_s,
        is_whole,
    )


def _segments_up_to(directory: Path, until_s: float | None) -> list[Segment]:
    """Return the segments that may have records of up to a time, which bounds are not spent on."""
    if until_s is None:
        return list_segments(directory)
    return segments_of_time(directory, -inf, until_s)


def _lines(segment: Segment) -> Iterator[bytes]:
    with segment.open() as file:
        yield from file
