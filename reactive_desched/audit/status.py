"""The status of a journal: its segments, the cursors of its sinks, and open evictions."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.api.event import (
    CHECKPOINT,
    EPOCH_BEGAN,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    POLICY_LOADED,
    Checkpoint,
    EpochBegan,
    Event,
    EvictionEnded,
    EvictionRequested,
    PolicyLoaded,
)
from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import IndexCatalogue, RecordLocation
from reactive_desched.audit.event_lines import cluster_of
from reactive_desched.audit.reader import torn_bytes
from reactive_desched.journal.cluster import recorded_title
from reactive_desched.journal.cursors import Cursor, Cursors
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.paths import CURSORS_DIR, DEAD_LETTERS_DIR
from reactive_desched.journal.records import AnyEvent, parse_header
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.upkeep import limits
from reactive_desched.journal.upkeep.limits import RetentionLimits
from reactive_desched.text.times import format_timestamp

MAX_OPEN_NAMED: Final = 100
"""So many open intents are named; further ones are only counted."""

MAX_EPOCHS: Final = 100
"""So many changes of epoch are named, the newest."""

_CHUNK_BYTES: Final = 1 << 20


class SegmentFiles(Struct, frozen=True, rename="camel"):
    """The segments as they lie on the disk; `torn` counts bytes without a line's end."""

    segments: int
    bytes: int
    compressed: int
    compressed_bytes: int
    torn_bytes: int
    set_aside: tuple[str, ...]


class RecordTimes(Struct, frozen=True, rename="camel"):
    """A record: its sequence, when it happened, and when it was written."""

    sequence: int
    time: str
    recorded_time: str


class CheckpointStatus(Struct, frozen=True, rename="camel"):
    """The last checkpoint, and how many records came after it."""

    sequence: int
    time: str
    size: int
    records_after: int
    verdicts_unrecorded: int
    disruptions_unrecorded: int = 0


class EpochStart(Struct, frozen=True, rename="camel"):
    """The start of another epoch of the journal: which records are missing before it, and why."""

    sequence: int
    time: str
    previous: str
    first_missing: int | None
    last_missing: int | None
    reason: str


class PolicyStatus(Struct, frozen=True, rename="camel"):
    """The policy that came into force last, and on which cluster; `clusterUid` may be empty."""

    sequence: int
    time: str
    revision: str
    source: str
    mode: str
    version: str
    cluster: str
    cluster_uid: str
    has_text: bool
    id: str = ""


class OpenEviction(Struct, frozen=True, rename="camel"):
    """An eviction that was requested and has no outcome yet."""

    sequence: int
    id: str
    pod: str
    node: str
    time: str
    age_s: float


class SinkStatus(Struct, frozen=True, rename="camel"):
    """A sink: the last record it has safely, how many it lacks, and how old its position is."""

    name: str
    sequence: int
    kept: str
    age_s: float | None
    lag: int
    dead_letters: int


class IndexStatus(Struct, frozen=True, rename="camel"):
    """The index that answered; `own` says that it lies beside the journal."""

    own: bool
    sequence: int
    bytes: int


class JournalStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything `audit status` shows."""

    journal: str
    source: str
    files: SegmentFiles
    first: RecordTimes | None
    last: RecordTimes | None
    checkpoint: CheckpointStatus | None
    open: tuple[OpenEviction, ...]
    open_count: int
    damaged_lines: int
    sinks: tuple[SinkStatus, ...]
    index: IndexStatus
    retention: RetentionLimits | None = None
    epochs: tuple[EpochStart, ...] = ()
    policy: PolicyStatus | None = None


def journal_status(catalogue: IndexCatalogue, now: datetime) -> JournalStatus:
    """Return the state of the journal."""
    directory = catalogue.directory
    last = _first_event(catalogue, _locations_of(catalogue, catalogue.last_seq))
    checkpoint = _last_checkpoint(catalogue)
    open_intents = _open_intents(catalogue, checkpoint)
    return JournalStatus(
        journal=str(directory),
        source=last.source if last else "",
        files=_segment_files(directory),
        first=_record_times(_first_event(catalogue, _first_location(catalogue))),
        last=_record_times(last),
        checkpoint=_checkpoint_status(checkpoint, catalogue.last_seq),
        open=tuple(_open_eviction(each, now) for each in open_intents[:MAX_OPEN_NAMED]),
        open_count=len(open_intents),
        damaged_lines=catalogue.damaged,
        sinks=_sink_statuses(directory, catalogue.last_seq, now),
        index=_index_status(catalogue),
        retention=limits.read(directory),
        epochs=_epochs(catalogue),
        policy=_policy_status(catalogue),
    )


def _segment_files(directory: Path) -> SegmentFiles:
    found = list_segments(directory)
    sizes = {one: one.path.stat().st_size for one in found if one.path.exists()}
    packed = [size for one, size in sizes.items() if one.is_compressed]
    aside = sorted(path.name for path in directory.glob("*.torn"))
    torn = torn_bytes(found[-1]) if found else 0
    return SegmentFiles(
        len(sizes), sum(sizes.values()), len(packed), sum(packed), torn, tuple(aside)
    )


def _locations_of(catalogue: IndexCatalogue, seq: int) -> list[RecordLocation]:
    return catalogue.find_all(lambda index: lookup.find_sequence(index, seq))


def _first_location(catalogue: IndexCatalogue) -> list[RecordLocation]:
    return catalogue.find_all(lookup.find_first)[:1]


def _first_event(catalogue: IndexCatalogue, locations: list[RecordLocation]) -> AnyEvent | None:
    return next(iter(_read_events(catalogue, locations)), None)


def _read_events(catalogue: IndexCatalogue, locations: list[RecordLocation]) -> list[AnyEvent]:
    found = []
    for entry in catalogue.fetch(locations):
        seen = parse_header(entry.raw)
        if seen is not None and (read := decode_event(seen.type, entry.raw)) is not None:
            found.append(read)
    return found


def _record_times(found: AnyEvent | None) -> RecordTimes | None:
    if found is None:
        return None
    return RecordTimes(int(found.sequence), format_timestamp(found.time), found.recordedtime)


def _last_checkpoint(catalogue: IndexCatalogue) -> Event[Checkpoint] | None:
    locations = catalogue.find_all(
        lambda index: lookup.find_types(index, (CHECKPOINT,), newest=True)
    )
    found = _first_event(catalogue, locations[-1:])
    return found if found is not None and isinstance(found.data, Checkpoint) else None


def _checkpoint_status(found: Event[Checkpoint] | None, last: int) -> CheckpointStatus | None:
    if found is None:
        return None
    seq, data = int(found.sequence), found.data
    return CheckpointStatus(
        seq,
        format_timestamp(found.time),
        data.size,
        last - seq,
        data.unrecorded,
        data.unrecorded_disruptions,
    )


def _policy_status(catalogue: IndexCatalogue) -> PolicyStatus | None:
    locations = catalogue.find_all(
        lambda index: lookup.find_types(index, (POLICY_LOADED,), newest=True)
    )
    found = _first_event(catalogue, locations[-1:])
    if found is None or not isinstance(data := found.data, PolicyLoaded):
        return None
    return PolicyStatus(
        int(found.sequence),
        format_timestamp(found.time),
        data.revision,
        data.source,
        data.mode,
        data.version,
        recorded_title(
            catalogue.directory,
            data.cluster or cluster_of(found.source),
            data.cluster_uid,
            data.context,
        ),
        data.cluster_uid,
        bool(data.files),
        found.id,
    )


def _epochs(catalogue: IndexCatalogue) -> tuple[EpochStart, ...]:
    """Return the changes of epoch that the journal still holds, oldest first."""
    locations = catalogue.find_all(
        lambda index: lookup.find_types(index, (EPOCH_BEGAN,), newest=True, limit=MAX_EPOCHS)
    )
    found = [one for one in _read_events(catalogue, locations) if isinstance(one.data, EpochBegan)]
    return tuple(
        EpochStart(
            int(one.sequence),
            format_timestamp(one.time),
            one.data.previous,
            one.data.first_missing,
            one.data.last_missing,
            one.data.message,
        )
        for one in sorted(found, key=lambda one: one.sequence)
    )


def _open_intents(
    catalogue: IndexCatalogue, checkpoint: Event[Checkpoint] | None
) -> list[Event[EvictionRequested]]:
    """Return the requests without an outcome; the last checkpoint names the oldest."""
    since = 0
    if checkpoint is not None:
        since = checkpoint.data.oldest_open or int(checkpoint.sequence)
    locations = catalogue.find_all(
        lambda index: lookup.find_types(
            index,
            (EVICTION_REQUESTED, *EVICTION_OUTCOME_TYPES),
            after=lookup.number_before(index, since),
            limit=None,
        )
    )
    open_requests: dict[str, Event[EvictionRequested]] = {}
    for found in _read_events(catalogue, locations):
        if isinstance(found.data, EvictionRequested):
            open_requests[found.id] = found
        elif isinstance(found.data, EvictionEnded):
            open_requests.pop(found.causationid, None)
    return list(open_requests.values())


def _open_eviction(found: Event[EvictionRequested], now: datetime) -> OpenEviction:
    who, age_s = found.data.who, (now - found.time).total_seconds()
    pod = f"{who.namespace}/{who.name}"
    return OpenEviction(
        int(found.sequence), found.id, pod, who.node, format_timestamp(found.time), round(age_s, 3)
    )


def _sink_statuses(directory: Path, last: int, now: datetime) -> tuple[SinkStatus, ...]:
    letters = _count_dead_letters(directory / DEAD_LETTERS_DIR)
    cursors: Mapping[str, Cursor] = Cursors(directory / CURSORS_DIR).all()
    nothing = Cursor(0, "")
    return tuple(
        _sink_status(name, cursors.get(name, nothing), letters.get(name, 0), last, now)
        for name in sorted({*cursors, *letters})
    )


def _sink_status(name: str, cursor: Cursor, letters: int, last: int, now: datetime) -> SinkStatus:
    lag = max(0, last - cursor.seq)
    return SinkStatus(name, cursor.seq, cursor.time, _age_s(cursor.time, now), lag, letters)


def _age_s(time: str, now: datetime) -> float | None:
    try:
        return round((now - datetime.fromisoformat(time)).total_seconds(), 3)
    except (ValueError, TypeError):
        return None


def _count_dead_letters(directory: Path) -> dict[str, int]:
    """Count the letters of each sink, those of its older file with them."""
    counts: dict[str, int] = {}
    for path in directory.glob("*.jsonl*"):
        name = path.name.partition(".jsonl")[0]
        counts[name] = counts.get(name, 0) + _count_lines(path)
    return counts


def _count_lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))
    except OSError:
        return 0


def _index_status(catalogue: IndexCatalogue) -> IndexStatus:
    path = catalogue.path
    size = path.stat().st_size if path is not None and path.exists() else 0
    own = path is not None and path.parent == catalogue.directory
    return IndexStatus(own, catalogue.indexes[0].cursor.seq, size)


def as_json(found: JournalStatus) -> bytes:
    """Return it as one object."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
