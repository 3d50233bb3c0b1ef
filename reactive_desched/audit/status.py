"""How a journal stands: what it holds, who has read how far, and what waits for an end."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.api.event import (
    CHECKPOINT,
    EVICTION_REQUESTED,
    OUTCOMES,
    Checkpoint,
    Event,
    EvictionEnded,
    EvictionRequested,
)
from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import Catalogue, Place
from reactive_desched.audit.reader import torn_bytes
from reactive_desched.journal.cursors import Position, Positions
from reactive_desched.journal.events import event
from reactive_desched.journal.paths import DEAD_LETTERS, POSITIONS
from reactive_desched.journal.records import AnyEvent, mark
from reactive_desched.journal.segments import segments
from reactive_desched.journal.upkeep import limits
from reactive_desched.journal.upkeep.limits import Limits

MOST_OPEN: Final = 100
"""So many open intents are named; further ones are only counted."""

_CHUNK_BYTES: Final = 1 << 20


class Files(Struct, frozen=True, rename="camel"):
    """The segments as they lie on the disk; `torn` counts bytes without a line's end."""

    segments: int
    bytes: int
    compressed: int
    compressed_bytes: int
    torn_bytes: int
    set_aside: tuple[str, ...]


class Point(Struct, frozen=True, rename="camel"):
    """A record: its sequence, when it happened, and when it was written."""

    sequence: int
    time: str
    recorded_time: str


class Sealed(Struct, frozen=True, rename="camel"):
    """The last checkpoint, and how many records came after it."""

    sequence: int
    time: str
    size: int
    records_after: int
    verdicts_unrecorded: int


class Open(Struct, frozen=True, rename="camel"):
    """An eviction that was requested and has no outcome yet."""

    sequence: int
    id: str
    pod: str
    node: str
    time: str
    age_s: float


class Follower(Struct, frozen=True, rename="camel"):
    """A sink: the last record it has safely, how many it lacks, and how old its position is."""

    name: str
    sequence: int
    kept: str
    age_s: float | None
    lag: int
    dead_letters: int


class Standing(Struct, frozen=True, rename="camel"):
    """The index that answered; `own` says that it lies beside the journal."""

    own: bool
    sequence: int
    bytes: int


class Status(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything `audit status` tells."""

    journal: str
    source: str
    files: Files
    first: Point | None
    last: Point | None
    checkpoint: Sealed | None
    open: tuple[Open, ...]
    open_count: int
    damaged_lines: int
    sinks: tuple[Follower, ...]
    index: Standing
    retention: Limits | None = None


def status(catalogue: Catalogue, now: datetime) -> Status:
    """Return how the journal stands."""
    directory = catalogue.directory
    last = _event(catalogue, _at(catalogue, catalogue.last))
    checkpoint = _last_checkpoint(catalogue)
    unended = _unended(catalogue, checkpoint)
    return Status(
        journal=str(directory),
        source=last.source if last else "",
        files=_files(directory),
        first=_point(_event(catalogue, _first(catalogue))),
        last=_point(last),
        checkpoint=_sealed(checkpoint, catalogue.last),
        open=tuple(_open(each, now) for each in unended[:MOST_OPEN]),
        open_count=len(unended),
        damaged_lines=catalogue.damaged,
        sinks=_followers(directory, catalogue.last, now),
        index=_standing(catalogue),
        retention=limits.read(directory),
    )


def _files(directory: Path) -> Files:
    found = segments(directory)
    sizes = {one: one.path.stat().st_size for one in found if one.path.exists()}
    packed = [size for one, size in sizes.items() if one.is_compressed]
    aside = sorted(path.name for path in directory.glob("*.torn"))
    torn = torn_bytes(found[-1]) if found else 0
    return Files(len(sizes), sum(sizes.values()), len(packed), sum(packed), torn, tuple(aside))


def _at(catalogue: Catalogue, seq: int) -> list[Place]:
    return catalogue.gather(lambda index: lookup.with_sequence(index, seq))


def _first(catalogue: Catalogue) -> list[Place]:
    return catalogue.gather(lambda index: lookup.from_number(index, 0, most=1))[:1]


def _event(catalogue: Catalogue, places: list[Place]) -> AnyEvent | None:
    return next(iter(_events(catalogue, places)), None)


def _events(catalogue: Catalogue, places: list[Place]) -> list[AnyEvent]:
    found = []
    for entry in catalogue.fetch(places):
        seen = mark(entry.raw)
        if seen is not None and (read := event(seen.type, entry.raw)) is not None:
            found.append(read)
    return found


def _point(found: AnyEvent | None) -> Point | None:
    if found is None:
        return None
    return Point(int(found.sequence), _written(found.time), found.recordedtime)


def _written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _last_checkpoint(catalogue: Catalogue) -> Event[Checkpoint] | None:
    places = catalogue.gather(lambda index: lookup.of_type(index, (CHECKPOINT,), newest=True))
    found = _event(catalogue, places[-1:])
    return found if found is not None and isinstance(found.data, Checkpoint) else None


def _sealed(found: Event[Checkpoint] | None, last: int) -> Sealed | None:
    if found is None:
        return None
    seq, data = int(found.sequence), found.data
    return Sealed(seq, _written(found.time), data.size, last - seq, data.unrecorded)


def _unended(
    catalogue: Catalogue, checkpoint: Event[Checkpoint] | None
) -> list[Event[EvictionRequested]]:
    """Return the requests without an ending: the last checkpoint tells how far back to look."""
    since = 0
    if checkpoint is not None:
        since = checkpoint.data.oldest_open or int(checkpoint.sequence)
    places = catalogue.gather(
        lambda index: lookup.of_type(
            index,
            (EVICTION_REQUESTED, *OUTCOMES),
            after=lookup.number_before(index, since),
            most=None,
        )
    )
    unended: dict[str, Event[EvictionRequested]] = {}
    for found in _events(catalogue, places):
        if isinstance(found.data, EvictionRequested):
            unended[found.id] = found
        elif isinstance(found.data, EvictionEnded):
            unended.pop(found.causationid, None)
    return list(unended.values())


def _open(found: Event[EvictionRequested], now: datetime) -> Open:
    who, age_s = found.data.who, (now - found.time).total_seconds()
    pod = f"{who.namespace}/{who.name}"
    return Open(int(found.sequence), found.id, pod, who.node, _written(found.time), round(age_s, 3))


def _followers(directory: Path, last: int, now: datetime) -> tuple[Follower, ...]:
    letters = _dead_letters(directory / DEAD_LETTERS)
    positions: Mapping[str, Position] = Positions(directory / POSITIONS).all()
    nothing = Position(0, "")
    return tuple(
        _follower(name, positions.get(name, nothing), letters.get(name, 0), last, now)
        for name in sorted({*positions, *letters})
    )


def _follower(name: str, position: Position, letters: int, last: int, now: datetime) -> Follower:
    lag = max(0, last - position.seq)
    return Follower(name, position.seq, position.time, _age_s(position.time, now), lag, letters)


def _age_s(time: str, now: datetime) -> float | None:
    try:
        return round((now - datetime.fromisoformat(time)).total_seconds(), 3)
    except (ValueError, TypeError):
        return None


def _dead_letters(directory: Path) -> dict[str, int]:
    """Count the letters of each sink, those of its older file with them."""
    counts: dict[str, int] = {}
    for path in directory.glob("*.jsonl*"):
        name = path.name.partition(".jsonl")[0]
        counts[name] = counts.get(name, 0) + _lines(path)
    return counts


def _lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))
    except OSError:
        return 0


def _standing(catalogue: Catalogue) -> Standing:
    path = catalogue.path
    size = path.stat().st_size if path is not None and path.exists() else 0
    own = path is not None and path.parent == catalogue.directory
    return Standing(own, catalogue.indexes[0].place.seq, size)


def as_json(found: Status) -> bytes:
    """Return it as one object."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
