"""Turns lines of the journal into rows of the index; texts that recur are stored once."""

import sqlite3
import zlib
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from reactive_desched.journal.summary import EventSummary, OwnerSummary
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

MAX_TEXTS: Final = 20_000
"""So many texts are known by heart, in 3 MB: names of nodes, namespaces, plugins and the like."""

MAX_SUBJECTS: Final = 4_000
MAX_CHAINS: Final = 4_000
"""So many subjects are known by heart, in 3 MB, and so many chains of owners, in 4 MB; of more, the
oldest are forgotten.

The records of a case follow upon one another within seconds, and what came of its eviction within
minutes. What was forgotten is stored once more: a hundred bytes on disk, and no other answer.
"""

MAX_SQLITE_INT: Final = 2**63 - 1
_ID_BYTES: Final = 5
_CHECK_BITS: Final = 24
_SPARED_BITS: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SEQUENCE_DIGITS: Final = 20


class IndexedEvent(EventSummary, frozen=True, gc=False, kw_only=True):
    """The fields of a line that the index keeps."""

    prev: str


_decoder: Final = msgspec.json.Decoder(IndexedEvent)
_Subject = tuple[str, str, int, int, int, int]
_Row = tuple[int, int, int, int, int, int, int, int, int, int]


_NO_SUBJECT: Final[_Subject] = ("", "", 0, 0, 0, 0)
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
        self._text_ids: OrderedDict[str, int] = OrderedDict()
        self._subject_ids: OrderedDict[str, tuple[_Subject, int]] = OrderedDict()
        self._chain_ids: OrderedDict[tuple[OwnerSummary, ...], int] = OrderedDict()
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
        self._text_ids.clear()
        self._subject_ids.clear()
        self._chain_ids.clear()

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
        _forget_oldest(self._text_ids, MAX_TEXTS)
        _forget_oldest(self._subject_ids, MAX_SUBJECTS)
        _forget_oldest(self._chain_ids, MAX_CHAINS)

    def _text_id(self, text: str) -> int:
        if not text:
            return 0
        text_id = self._text_ids.get(text)
        if text_id is None:
            self._last_text += 1
            text_id = self._text_ids[text] = self._last_text
            self._new_texts.append((text_id, text))
        return text_id

    def _subject_id(self, event: IndexedEvent) -> int:
        who = event.data.who
        correlation, plugin = event.correlationid, event.data.why.plugin
        text_ids = self._text_id(who.namespace), self._text_id(who.node), self._text_id(plugin)
        subject = (who.uid, who.name, *text_ids, self._chain_id(who.owners))
        if subject == _NO_SUBJECT:
            return 0
        known = self._subject_ids.get(correlation)
        if known is not None and known[0] == subject:
            return known[1]
        self._last_subject += 1
        self._subject_ids[correlation] = subject, self._last_subject
        self._new_subjects.append((self._last_subject, correlation, *subject))
        return self._last_subject

    def _chain_id(self, owners: tuple[OwnerSummary, ...]) -> int:
        if not owners:
            return 0
        chain_id = self._chain_ids.get(owners)
        if chain_id is None:
            self._last_chain += 1
            chain_id = self._chain_ids[owners] = self._last_chain
            for one in owners:
                names = one.name, f"{one.kind}/{one.name}", one.uid
                self._new_owners += [(name, chain_id) for name in names]
        return chain_id


def _forget_oldest(known: OrderedDict[Any, Any], limit: int) -> None:  # Any: of any keys and values
    while len(known) > limit:
        known.popitem(last=False)
