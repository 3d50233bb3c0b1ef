"""Lists the files that make up a journal, and the lines that they hold."""

import gzip
import re
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile
from itertools import pairwise
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

from reactive_desched.journal.records import (
    MAX_RECORD_BYTES,
    JournalRecord,
    LineHeader,
    parse_header,
    recorded_at,
)

_FILE_NAME: Final = re.compile(r"journal-(\d{20})\.jsonl(\.gz)?")
DAMAGE_ERRORS: Final = (EOFError, BadGzipFile, zlib.error)
"""What reading a compressed segment raises where it is damaged."""
READ_ERRORS: Final = (OSError, *DAMAGE_ERRORS)
"""The same, and what a disk raises that fails, or a file that was removed since it was listed."""
GZIP_SUFFIX: Final = ".gz"
"""What the name of a compressed segment ends in."""


class Segment(NamedTuple):
    """One file of a journal, named for the seq of its first line; names sort as they were made."""

    first_seq: int
    path: Path

    @property
    def is_compressed(self) -> bool:
        """Say whether the file is compressed."""
        return self.path.name.endswith(GZIP_SUFFIX)

    @property
    def compressed_path(self) -> Path:
        """Return where a plain segment is once it is compressed."""
        return self.path.with_name(self.path.name + GZIP_SUFFIX)

    def open(self) -> IO[bytes]:
        """Open it to read its lines, also where it was compressed since it was listed.

        Raises OSError; it is a FileNotFoundError where the segment was removed.
        """
        if self.is_compressed:
            return _open_compressed(self.path)
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            return _open_compressed(self.compressed_path)


def _open_compressed(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb"))


class JournalLine(NamedTuple):
    """One line with its end, if it has one; `header` is None when it is torn or damaged."""

    raw: bytes
    offset: int
    header: LineHeader | None

    @property
    def end(self) -> int:
        """Return where the next line begins."""
        return self.offset + len(self.raw)

    @property
    def seq(self) -> int | None:
        """Its place in the journal; None when it is torn or damaged."""
        return None if self.header is None else self.header.seq


def segment_at(directory: Path, first_seq: int) -> Segment:
    """Return the segment that begins with this seq."""
    return Segment(first_seq, directory / f"journal-{first_seq:020}.jsonl")


def list_segments(directory: Path) -> list[Segment]:
    """Return the directory's segments, oldest first.

    Of a segment that is there twice, because its compression was cut short, the plain one counts.
    """
    named = ((_FILE_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    found = sorted(Segment(int(match[1]), path) for match, path in named if match)
    plain = {one.first_seq for one in found if not one.is_compressed}
    return [one for one in found if not (one.is_compressed and one.first_seq in plain)]


def segments_of_time(directory: Path, since_s: float, until_s: float) -> list[Segment]:
    """Return the segments that may have records of a time, oldest first; raises OSError.

    Times are seconds since the epoch. Of each segment the first record is read alone, and says with
    that of the next one from when to when it was written. Where the clock was set back in between
    it may have records of any time.
    """
    found = list_segments(directory)
    written_s = [*map(_first_written_s, found), None]
    ends = zip(found, pairwise(written_s), strict=True)
    return [
        each for each, (first_s, next_s) in ends if _may_reach(first_s, next_s, since_s, until_s)
    ]


def _may_reach(first_s: float | None, next_s: float | None, since_s: float, until_s: float) -> bool:
    """Say whether a segment between two records may have one of a time; None is not known."""
    if first_s is None or next_s is None or next_s < first_s:
        return True
    return next_s >= since_s and first_s <= until_s + WAITS_S


WAITS_S: Final = 60.0
"""So long a record may wait to be written: it has its time from before that."""


def _first_written_s(segment: Segment) -> float | None:
    """Return when the first record was written; None where it cannot be read."""
    try:
        with segment.open() as file:
            written = recorded_at(file.readline(MAX_RECORD_BYTES))
    except READ_ERRORS:
        return None
    return None if written is None else written.timestamp()


def read_lines(segment: Segment) -> Iterator[JournalLine]:
    """Yield the file's lines; what is too long for a line comes in damaged pieces.

    Raises one of UNREADABLE where a file cannot be read, or a compressed one is damaged.
    """
    offset = 0
    with segment.open() as file:
        while raw := file.readline(MAX_RECORD_BYTES):
            yield JournalLine(raw, offset, parse_header(raw) if raw.endswith(b"\n") else None)
            offset += len(raw)


def read_records(segment: Segment) -> Iterator[JournalRecord]:
    """Yield the whole records of a file; damaged lines are left out."""
    for line in read_lines(segment):
        if line.seq is not None:
            yield JournalRecord(line.seq, line.raw[:-1])
