"""Turns lines of the journal into rows of the index; texts that recur are stored once."""

import sqlite3
import zlib
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from reactive_desched.journal.summary import EventSummary, OwnerSummary
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

MAX_CACHED: Final = 50_000
"""So many texts, and so many subjects, are known by heart; then all of them are forgotten.

What is forgotten is stored once more: that costs a little room, and changes no answer.
"""

MAX_SQLITE_INT: Final = 2**63 - 1
_ID_BYTES: Final = 5
_CHECK_BITS: Final = 24
_SPARED_BITS: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SEQUENCE_DIGITS: Final = 20


class IndexedEvent(EventSummary, frozen=True, gc=False, kw_only=True):
    """What the index reads of a line."""

    prev: str


_decoder: Final = msgspec.json.Decoder(IndexedEvent)
_Subject = tuple[str, str, str, str, str, str, tuple[OwnerSummary, ...]]
_Row = tuple[int, int, int, int, int, int, int, int, int, int]


_NO_SUBJECT: Final = ("", "", "", "", "", ())
"""What records of the controller's own are about: their subject has the number 0."""


class LastIds(NamedTuple):
    """The last numbers given away."""

    record: int
    subject: int
    chain: int
    text: int


def parse_line(raw: bytes) -> IndexedEvent | None:
    """Return what a line with its end says; None when it is torn or damaged."""
    if not raw.endswith(b"\n"):
        return None
    try:
        found = _decoder.decode(raw)
    except DECODE_ERRORS:
        return None
    sequence = found.sequence
    whole = (
        len(sequence) == _SEQUENCE_DIGITS and sequence.isdecimal() and found.seq <= MAX_SQLITE_INT
    )
    return found if whole else None


def micros(time: str) -> int:
    """Return a time in RFC 3339 as microseconds since 1970; 0 for anything else."""
    try:
        since = datetime.fromisoformat(time) - _EPOCH
    except (ValueError, TypeError):
        return 0
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def id_number(id_: str) -> int:
    """Return what `records.id` holds for an id: its first bytes, and some of a checksum."""
    raw = id_.encode()
    check = zlib.crc32(raw) >> _SPARED_BITS
    return _pack_id(raw[:_ID_BYTES].ljust(_ID_BYTES, b"\0"), check)


def id_range(prefix: str) -> tuple[int, int]:
    """Return the first and last number that ids with this beginning may have."""
    raw = prefix.encode()[:_ID_BYTES]
    low = _pack_id(raw.ljust(_ID_BYTES, b"\0"), 0)
    return low, _pack_id(raw.ljust(_ID_BYTES, b"\xff"), (1 << _CHECK_BITS) - 1)


def _pack_id(raw: bytes, check: int) -> int:
    return (int.from_bytes(raw, "big") << _CHECK_BITS | check) - 2**63


class RowBatch:
    """Collects the rows of a batch, to be stored at once."""

    def __init__(self, last: LastIds) -> None:
        self._last_record, self._last_subject, self._last_chain, self._last_text = last
        self._text_ids: dict[str, int] = {"": 0}
        self._subject_ids: dict[str, tuple[_Subject, int]] = {}
        self._chain_ids: dict[tuple[OwnerSummary, ...], int] = {(): 0}
        self._new_texts: list[tuple[int, str]] = []
        self._new_subjects: list[tuple[int, str, str, str, int, int, int, int]] = []
        self._new_owners: list[tuple[str, int]] = []
        self._records: list[_Row] = []

    @property
    def last_record_number(self) -> int:
        """The number of the last record."""
        return self._last_record

    def clear_cache(self) -> None:
        """Trust nothing that was stored before: it may have been removed."""
        self._text_ids = {"": 0}
        self._subject_ids.clear()
        self._chain_ids = {(): 0}

    def add(self, event: IndexedEvent, start: int, length: int) -> int:
        """Add the row of a record that begins at this byte; return its time."""
        time = micros(event.time)
        self._last_record += 1
        self._records.append(
            (
                self._last_record,
                event.seq,
                start,
                length,
                time,
                self._text_id(event.type),
                self._subject_id(event),
                self._text_id(event.data.outcome.result),
                self._text_id(event.data.reason),
                id_number(event.id),
            )
        )
        return time

    def write_batch(self, connection: sqlite3.Connection) -> None:
        """Write what was added, and begin the next batch."""
        connection.executemany("INSERT INTO words VALUES (?, ?)", self._new_texts)
        connection.executemany("INSERT OR IGNORE INTO owners VALUES (?, ?)", self._new_owners)
        connection.executemany(
            "INSERT INTO subjects VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._new_subjects
        )
        connection.executemany(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._records
        )
        for stored in (self._new_texts, self._new_owners, self._new_subjects, self._records):
            stored.clear()
        if max(len(self._text_ids), len(self._subject_ids), len(self._chain_ids)) > MAX_CACHED:
            self.clear_cache()

    def _text_id(self, text: str) -> int:
        text_id = self._text_ids.get(text)
        if text_id is None:
            self._last_text += 1
            text_id = self._text_ids[text] = self._last_text
            self._new_texts.append((text_id, text))
        return text_id

    def _subject_id(self, event: IndexedEvent) -> int:
        who = event.data.who
        correlation, plugin = event.correlationid, event.data.why.plugin
        subject = (correlation, who.uid, who.name, who.namespace, who.node, plugin, who.owners)
        if subject[1:] == _NO_SUBJECT:
            return 0
        known = self._subject_ids.get(correlation)
        if known is not None and known[0] == subject:
            return known[1]
        self._last_subject += 1
        self._subject_ids[correlation] = subject, self._last_subject
        text_ids = self._text_id(who.namespace), self._text_id(who.node), self._text_id(plugin)
        self._new_subjects.append(
            (self._last_subject, *subject[:3], *text_ids, self._chain_id(who.owners))
        )
        return self._last_subject

    def _chain_id(self, owners: tuple[OwnerSummary, ...]) -> int:
        chain_id = self._chain_ids.get(owners)
        if chain_id is None:
            self._last_chain += 1
            chain_id = self._chain_ids[owners] = self._last_chain
            for one in owners:
                names = one.name, f"{one.kind}/{one.name}", one.uid
                self._new_owners += [(name, chain_id) for name in names]
        return chain_id
