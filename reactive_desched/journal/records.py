"""The kinds of line a journal holds, so that writer, reader and tools agree on every field.

A line is one JSON object: `{"seq": 7, "kind": "intent", ...}`. Readers ignore fields they do not
know, so later versions may add some.
"""

from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct

from reactive_desched.errors import JournalError

FORMAT = 1
"""Raised when an older reader could misunderstand a newer journal."""

MAX_RECORD_BYTES = 1 << 18
"""No line is longer: a longer record is refused, a longer line counts as damaged."""


class Stamped(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="kind", kw_only=True):
    """Base of all records; `seq` counts lines from 1 without gaps and is set when written."""

    seq: int = 0
    time: datetime


class SegmentRecord(Stamped, frozen=True, gc=False, tag="segment", kw_only=True):
    """The first line of every file.

    `oldest_open` is the seq of the oldest intent that had no outcome when the file began, so a
    restart knows how far back to look.
    """

    format: int
    oldest_open: int | None = None


class IntentRecord(Stamped, frozen=True, gc=False, tag="intent", kw_only=True):
    """Written before the eviction call: who is to be evicted, and why."""

    id: str
    namespace: str
    pod: str
    uid: str
    node: str
    plugin: str
    reason: str
    owner: str = ""
    profile: str = ""
    trigger: str = ""
    dry_run: bool


class OutcomeRecord(Stamped, frozen=True, gc=False, tag="outcome", kw_only=True):
    """How the intent of that id ended; exactly one for each."""

    intent: str
    result: str
    detail: str = ""
    status: int | None = None


class ResumedRecord(Stamped, frozen=True, gc=False, tag="resumed", kw_only=True):
    """The disk failed for a while: this many records were refused, and this is the first after."""

    reason: str
    refused: int
    down_s: float


Record = SegmentRecord | IntentRecord | OutcomeRecord | ResumedRecord
_StampedT = TypeVar("_StampedT", bound=Stamped)


class Mark(Struct):
    """What every whole line has, whatever its kind."""

    seq: int
    kind: str


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
_mark_decoder = msgspec.json.Decoder(Mark)


def encode(record: Stamped) -> bytes:
    """Return the record as JSON without its seq, which `line` adds; refuse what no reader takes."""
    try:
        body = _encoder.encode(record)
    except UnicodeEncodeError as error:
        raise JournalError(f"a {type(record).__name__} holds text that is not Unicode") from error
    if len(body) > MAX_RECORD_BYTES - 64:
        raise JournalError(
            f"a {type(record).__name__} of {len(body)} bytes is too long for the journal"
            f" (at most {MAX_RECORD_BYTES}): shorten its reason or detail"
        )
    return body


def line(seq: int, body: bytes) -> bytes:
    """Return the whole line of an encoded record."""
    return b'{"seq":%d,%b\n' % (seq, body[1:])


def mark(raw: bytes) -> Mark | None:
    """Return the seq and kind of a whole line; None when it is torn or damaged."""
    if not raw.endswith(b"\n"):
        return None
    try:
        return _mark_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode(raw: bytes) -> Record | None:
    """Return the record of a line; None when it is damaged or of a kind unknown here."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def stamped(record: _StampedT, seq: int) -> _StampedT:
    """Return the record with its seq."""
    return msgspec.structs.replace(record, seq=seq)
