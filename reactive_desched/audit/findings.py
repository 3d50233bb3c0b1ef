"""The findings of `audit verify`: the sentences of its report, as plain data."""

import re
from typing import Final

from msgspec import Struct

from reactive_desched.journal.segments import Segment

_RECORDED_TIME: Final = re.compile(rb'"recordedtime":"([0-9T:.+Z-]{20,32})"')


class FileLine(Struct, frozen=True, gc=False):
    """A line as it is in a file, with its end if it has one."""

    raw: bytes
    segment: Segment
    offset: int

    @property
    def time(self) -> str:
        """Return when it says that it was written; empty when that cannot be read."""
        found = _RECORDED_TIME.search(self.raw)
        return found[1].decode() if found else ""


class RecordPoint(Struct, frozen=True, gc=False):
    """A record's place in the journal, and when it was written."""

    sequence: int
    time: str


class SequenceRange(Struct, frozen=True, gc=False):
    """Records from one sequence to another, both included."""

    first: int
    last: int


class BadRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """The first record that is not as it was written, or is not there.

    `offset` counts bytes of the uncompressed file. `suspects` are the records one of which was
    rewritten, where it is unknown which.
    """

    sequence: int
    file: str
    offset: int
    time: str
    reason: str
    suspects: SequenceRange | None = None


class TornLine(Struct, frozen=True, gc=False):
    """A last line without its end: the writer was stopped there, or is writing it."""

    file: str
    offset: int
    bytes: int


class EpochChange(Struct, frozen=True, gc=False):
    """A change of epoch: where it is recorded, and the missing records, where any are known.

    `is_recorded` is False where only the name in the checkpoints changed: then anything may miss.
    """

    sequence: int
    time: str
    source: str
    previous: str
    first_missing: int | None
    last_missing: int | None
    reason: str
    is_recorded: bool = True

    @property
    def is_loss(self) -> bool:
        """Say whether records are missing, or may be."""
        return self.first_missing is not None or not self.is_recorded


class KeyUse(Struct, frozen=True, gc=False):
    """A key that signed checkpoints, by its name and hash; the first and last such record."""

    key: str
    checkpoints: int
    first: int
    last: int


class PinnedCheckpointResult(Struct, frozen=True, gc=False):
    """The kept checkpoint, and the key that signed it, if that is known."""

    size: int
    root: str
    key: str
    agrees: bool | None


class VerifyReport(Struct, frozen=True, gc=False, kw_only=True):
    """The report of `audit verify`. Records after `signed_to` are covered by no signature yet.

    `ok` means that nothing is bad and that no change of epoch lost records.
    """

    ok: bool
    journal: str
    records: int
    first: RecordPoint | None
    last: RecordPoint | None
    segments: int
    compressed: int
    keys_from: str
    verified: tuple[KeyUse, ...]
    unknown: tuple[KeyUse, ...]
    signed_to: int
    unsigned: int
    torn: TornLine | None
    removed: int
    kept: PinnedCheckpointResult | None
    bad: BadRecord | None
    epochs: tuple[EpochChange, ...] = ()


def bad_record(
    line: FileLine, sequence: int, reason: str, suspects: SequenceRange | None = None
) -> BadRecord:
    """Return the finding that this line is bad."""
    return BadRecord(sequence, line.segment.path.name, line.offset, line.time, reason, suspects)
