"""A line of the journal: an event in canonical form, chained to the line before it.

The line *is* the published event (`api/event.py`): canonical JSON (RFC 8785), so that a person who
parses it and writes it canonically again has the same bytes, and the same hash.
"""

import hashlib
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.event import Event, Record
from reactive_desched.errors import RecordUnwritable
from reactive_desched.primitives.bounded_text import truncate
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

MAX_RECORD_BYTES: Final = 1 << 18
"""No line is longer: a longer record is refused, a longer line counts as damaged."""

GENESIS: Final = "0" * 64
"""What stands as `prev` in the first record there ever was."""

_MAX_NOTE_CHARS, _MAX_CUT_CHARS, _MAX_CUT_ENTRIES = 500, 200, 32
"""How long is what a cut record says of that, and each other text; how many entries a list has."""

_WRITER_FIELDS_BYTES: Final = 200
_EMPTY_WRITER_FIELDS: Final = b'"prev":"","recordedtime":"","sequence":"",'
_encoder = msgspec.json.Encoder(order="sorted")
AnyEvent = Event[Any]  # any kind of data


JournalRecord = Record
"""One record as every reader gets it: its sequence and its line, without the line's end."""


class EncodedEvent(Struct, frozen=True, gc=False):
    """An event in canonical form, in two pieces: the writer's stamps come between them."""

    head: bytes
    tail: bytes


class _RecordedTime(Struct, frozen=True, gc=False):
    recordedtime: datetime


class _Time(Struct, frozen=True, gc=False):
    time: datetime


class LineHeader(Struct, frozen=True, gc=False):
    """The members that every whole line has, whatever its type."""

    prev: str
    sequence: str
    type: str

    @property
    def seq(self) -> int:
        """The place in the journal, from 1 without gaps."""
        return int(self.sequence)


_header_decoder = msgspec.json.Decoder(LineHeader)
_recorded_time_decoder = msgspec.json.Decoder(_RecordedTime)
_time_decoder = msgspec.json.Decoder(_Time)


def encode(event: AnyEvent) -> EncodedEvent:
    """Return the event without its stamps, which `format_line` adds.

    Raises RecordUnwritable for one that no reader could read.
    """
    try:
        raw = _encoder.encode(event)
    except UnicodeEncodeError as error:
        raise RecordUnwritable(f"{event.type} {event.id} holds text that is not Unicode") from error
    if len(raw) > MAX_RECORD_BYTES - _WRITER_FIELDS_BYTES:
        raise RecordUnwritable(
            f"{event.type} {event.id} of {len(raw)} bytes is too long for the journal"
            f" (at most {MAX_RECORD_BYTES})"
        )
    head, _, tail = raw.rpartition(_EMPTY_WRITER_FIELDS)  # what follows it holds no object
    return EncodedEvent(head, tail)


def encode_cut(event: AnyEvent) -> EncodedEvent:
    """Return the event without its stamps; one that cannot be written is cut, and says so."""
    try:
        return encode(event)
    except RecordUnwritable as error:
        return encode(_cut(event, f"what this record held was cut: {error}"))


def _cut(event: AnyEvent, note: str) -> AnyEvent:
    """Return the event with short texts and few entries; its message is the note."""
    data: dict[str, Any] = _shortened(msgspec.to_builtins(event.data))
    about = data.get("why", data)
    if "message" in about:
        about["message"] = truncate(note, _MAX_NOTE_CHARS)
    return replace(
        event,
        subject=_shortened(event.subject),
        partitionkey=_shortened(event.partitionkey),
        causationid=_shortened(event.causationid),
        data=data,
    )


def _shortened(value: Any) -> Any:  # any JSON value
    match value:
        case str():
            return truncate(value.encode(errors="backslashreplace").decode(), _MAX_CUT_CHARS)
        case dict():
            few = islice(value.items(), _MAX_CUT_ENTRIES)
            return {_shortened(key): _shortened(entry) for key, entry in few}
        case list() | tuple():
            return [_shortened(entry) for entry in islice(value, _MAX_CUT_ENTRIES)]
        case _:
            return value


def format_line(encoded: EncodedEvent, prev: str, recorded_time: str, seq: int) -> bytes:
    """Return the whole line of an encoded event, without its end."""
    stamps = f'"prev":"{prev}","recordedtime":"{recorded_time}","sequence":"{seq:020}",'
    return b"".join((encoded.head, stamps.encode(), encoded.tail))


def digest(raw: bytes) -> str:
    """Return what the next record holds as `prev`: SHA-256 of a line without its end."""
    return hashlib.sha256(raw).hexdigest()


def parse_header(raw: bytes) -> LineHeader | None:
    """Return the place and type of a line, with or without its end; None when it is damaged."""
    try:
        found = _header_decoder.decode(raw)
    except DECODE_ERRORS:
        return None
    return found if len(found.sequence) == 20 and found.sequence.isdecimal() else None  # noqa: PLR2004 -- as `line` writes it


def recorded_at(raw: bytes) -> datetime | None:
    """Return when a line was written; None when it is damaged."""
    try:
        return _recorded_time_decoder.decode(raw).recordedtime
    except DECODE_ERRORS:
        return None


def happened_at(raw: bytes) -> datetime | None:
    """Return the time of the event of a line; None when it is damaged."""
    try:
        return _time_decoder.decode(raw).time
    except DECODE_ERRORS:
        return None
