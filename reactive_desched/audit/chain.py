"""The chain of records, followed line by line until one does not fit."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.api.event import CHECKPOINT
from reactive_desched.audit.findings import Bad, Seen, bad
from reactive_desched.journal.events import event
from reactive_desched.journal.records import GENESIS, MAX_RECORD_BYTES, Mark, mark
from reactive_desched.journal.segments import Segment
from reactive_desched.primitives.decode_errors import UNDECODABLE

LONGEST_LINE: Final = MAX_RECORD_BYTES + 1
"""A line is read no further: what is longer is no record."""

_decode: Final = msgspec.json.Decoder(Mark).decode
_END: Final = 10  # what b"\n"[0] is
Examine = Callable[[Seen, Mark], Bad | None]


class Link(Struct, frozen=True, gc=False):
    """A record that fits what stands before it, and the hash that the next one must hold."""

    seen: Seen
    seq: int
    digest: str


class Misfit(Struct, frozen=True, gc=False):
    """The line that does not fit, and why, where that is plain already."""

    seen: Seen
    known: Bad | None = None


class Chain:
    """Follows the records of one file after the other.

    `examine` is asked about every checkpoint. `watch` is a sequence whose hash is kept.
    """

    def __init__(self, examine: Examine, watch: int = 0) -> None:
        self._examine = examine
        self._watch = watch
        self.records = 0
        self.first: Seen | None = None
        self.last: Link | None = None
        self.watched: Link | None = None
        self.first_seq = 0

    @property
    def next_seq(self) -> int:
        """The sequence of the record that must follow; 0 when any may."""
        return self.last.seq + 1 if self.last else 0

    def follow(self, lines: Iterator[bytes], one: Segment) -> Misfit | None:
        """Follow a file's lines; return the first that does not fit, None at the end."""
        head = next(lines, None)
        if head is None:
            return None
        return self._begin(Seen(head, one, 0)) or self._go_on(lines, one)

    def resume(self) -> None:
        """Begin anew with the next file: what stood between was removed meanwhile."""
        self.last = None

    def _begin(self, seen: Seen) -> Misfit | None:
        """Take the first line of a file, which must be a checkpoint and fit the file's name."""
        found = mark(seen.raw) if seen.raw.endswith(b"\n") else None
        if found is None or (self.last and not _fits(found, self.last)):
            return Misfit(seen)
        if known := _heading(seen, found) or self._examine(seen, found):
            return Misfit(seen, known)
        if self.first is None:
            self.first, self.first_seq = seen, found.seq
        self._note(Link(seen, found.seq, hashlib.sha256(seen.raw[:-1]).hexdigest()))
        self.records += 1
        return None

    def _go_on(self, lines: Iterator[bytes], one: Segment) -> Misfit | None:
        """Follow the lines after the first; the loop that decides how fast all this is."""
        assert self.last is not None, "the file has begun"
        link, watch, sha256 = self.last, self._watch, hashlib.sha256
        seq, prev, raw, start, end = link.seq, link.digest, link.seen.raw, 0, len(link.seen.raw)
        line = raw
        try:
            for line in lines:
                found = _decode(line)
                if found.prev != prev or found.sequence != f"{seq + 1:020}" or line[-1] != _END:
                    return Misfit(Seen(line, one, end))
                if found.type == CHECKPOINT and (
                    known := self._examine(Seen(line, one, end), found)
                ):
                    return Misfit(Seen(line, one, end), known)
                seq, prev, raw = seq + 1, sha256(line[:-1]).hexdigest(), line
                start, end = end, end + len(line)
                if seq == watch:
                    self.watched = Link(Seen(raw, one, start), seq, prev)
        except UNDECODABLE:
            return Misfit(Seen(line, one, end))
        finally:
            self.records += seq - link.seq
            self.last = Link(Seen(raw, one, start), seq, prev)
        return None

    def _note(self, link: Link) -> None:
        self.last = link
        if link.seq == self._watch:
            self.watched = link


def _fits(found: Mark, last: Link) -> bool:
    return found.prev == last.digest and found.sequence == f"{last.seq + 1:020}"


def _heading(seen: Seen, found: Mark) -> Bad | None:
    """Say what is wrong with a file's first record as such."""
    if found.seq != seen.file.first_seq:
        return _misnamed(seen, found)
    if found.type != CHECKPOINT:
        return bad(seen, found.seq, "a file begins with a checkpoint, and this record is none")
    if found.seq == 1 and found.prev != GENESIS:
        return bad(seen, 1, "the first record of all follows another")
    return None


def _misnamed(seen: Seen, found: Mark) -> Bad:
    """Say whether the file was renamed, or the sequence altered: the checkpoint holds both."""
    named = seen.file.first_seq
    checkpoint = event(CHECKPOINT, seen.raw) if found.type == CHECKPOINT else None
    if checkpoint is not None and checkpoint.data.size + 1 == named:
        return bad(seen, named, f"its sequence was altered: it says {found.seq}")
    return bad(seen, found.seq, f"the file is named for record {named}, and begins with this one")
