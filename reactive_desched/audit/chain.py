"""Follows the hash chain line by line, and stops at the first record that does not fit."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.api.event import CHECKPOINT, EPOCH_BEGAN
from reactive_desched.audit.findings import BadRecord, FileLine, bad_record
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import GENESIS, MAX_RECORD_BYTES, LineHeader, parse_header
from reactive_desched.journal.segments import Segment
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

MAX_LINE_BYTES: Final = MAX_RECORD_BYTES + 1
"""A line is read no further: what is longer is not a record."""

CHECKED_TYPES: Final = frozenset((CHECKPOINT, EPOCH_BEGAN))
"""The types whose records `check_checkpoint` examines."""

_decode: Final = msgspec.json.Decoder(LineHeader).decode
_NEWLINE: Final = 10  # what b"\n"[0] is
CheckpointCheck = Callable[[FileLine, LineHeader], BadRecord | None]


class ChainLink(Struct, frozen=True, gc=False):
    """A record that fits what stands before it, and the hash that the next one must hold."""

    line: FileLine
    seq: int
    digest: str


class ChainBreak(Struct, frozen=True, gc=False):
    """The line that does not fit, and why, where that is plain already."""

    line: FileLine
    diagnosis: BadRecord | None = None


class ChainVerifier:
    """Follows the records of one file after the other.

    `check_checkpoint` examines every record of a type in CHECKED_TYPES. `watched_seq` is a sequence
    whose hash is kept.
    """

    def __init__(self, check_checkpoint: CheckpointCheck, watched_seq: int = 0) -> None:
        self._check_checkpoint = check_checkpoint
        self._watched_seq = watched_seq
        self.records = 0
        self.first_line: FileLine | None = None
        self.last_link: ChainLink | None = None
        self.watched_link: ChainLink | None = None
        self.first_seq = 0

    @property
    def next_seq(self) -> int:
        """The sequence of the record that must follow; 0 when any may."""
        return self.last_link.seq + 1 if self.last_link else 0

    def follow(self, lines: Iterator[bytes], segment: Segment) -> ChainBreak | None:
        """Follow a file's lines; return the first that does not fit, None at the end."""
        head = next(lines, None)
        if head is None:
            return None
        return self._follow_first(FileLine(head, segment, 0)) or self._follow_rest(lines, segment)

    def restart(self) -> None:
        """Begin again with the next file: what stood between was removed meanwhile."""
        self.last_link = None

    def _follow_first(self, line: FileLine) -> ChainBreak | None:
        """Take the first line of a file, which must be a checkpoint and fit the file's name."""
        found = parse_header(line.raw) if line.raw.endswith(b"\n") else None
        if found is None or (self.last_link and not _follows_link(found, self.last_link)):
            return ChainBreak(line)
        if diagnosis := _check_first_record(line, found) or self._check_checkpoint(line, found):
            return ChainBreak(line, diagnosis)
        if self.first_line is None:
            self.first_line, self.first_seq = line, found.seq
        self._advance(ChainLink(line, found.seq, hashlib.sha256(line.raw[:-1]).hexdigest()))
        self.records += 1
        return None

    def _follow_rest(self, lines: Iterator[bytes], segment: Segment) -> ChainBreak | None:
        """Follow the lines after the first; the loop that decides how fast all this is."""
        assert self.last_link is not None, "the file has begun"
        link, watch, sha256 = self.last_link, self._watched_seq, hashlib.sha256
        seq, prev, raw, start, end = link.seq, link.digest, link.line.raw, 0, len(link.line.raw)
        line = raw
        try:
            for line in lines:
                found = _decode(line)
                if found.prev != prev or found.sequence != f"{seq + 1:020}" or line[-1] != _NEWLINE:
                    return ChainBreak(FileLine(line, segment, end))
                if found.type in CHECKED_TYPES and (
                    diagnosis := self._check_checkpoint(FileLine(line, segment, end), found)
                ):
                    return ChainBreak(FileLine(line, segment, end), diagnosis)
                seq, prev, raw = seq + 1, sha256(line[:-1]).hexdigest(), line
                start, end = end, end + len(line)
                if seq == watch:
                    self.watched_link = ChainLink(FileLine(raw, segment, start), seq, prev)
        except DECODE_ERRORS:
            return ChainBreak(FileLine(line, segment, end))
        finally:
            self.records += seq - link.seq
            self.last_link = ChainLink(FileLine(raw, segment, start), seq, prev)
        return None

    def _advance(self, link: ChainLink) -> None:
        self.last_link = link
        if link.seq == self._watched_seq:
            self.watched_link = link


def _follows_link(header: LineHeader, last: ChainLink) -> bool:
    return header.prev == last.digest and header.sequence == f"{last.seq + 1:020}"


def _check_first_record(line: FileLine, header: LineHeader) -> BadRecord | None:
    """Say what is wrong with a file's first record as such."""
    if header.seq != line.segment.first_seq:
        return _diagnose_file_name(line, header)
    if header.type != CHECKPOINT:
        return bad_record(
            line, header.seq, "a file begins with a checkpoint, and this record is none"
        )
    if header.seq == 1 and header.prev != GENESIS:
        return bad_record(line, 1, "the first record of all follows another")
    return None


def _diagnose_file_name(line: FileLine, header: LineHeader) -> BadRecord:
    """Say whether the file was renamed, or the sequence altered: the checkpoint holds both."""
    named = line.segment.first_seq
    checkpoint = decode_event(CHECKPOINT, line.raw) if header.type == CHECKPOINT else None
    if checkpoint is not None and checkpoint.data.size + 1 == named:
        return bad_record(line, named, f"its sequence was altered: it says {header.seq}")
    return bad_record(
        line, header.seq, f"the file is named for record {named}, and begins with this one"
    )
