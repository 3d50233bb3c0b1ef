"""Which files make up a journal, and what lines they hold."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reactive_desched.journal.records import MAX_RECORD_BYTES, mark

_NAME = re.compile(r"journal-(\d{20})\.jsonl")


class Segment(NamedTuple):
    """One file of a journal, named for the seq of its first line; names sort as they were made."""

    first_seq: int
    path: Path


class Line(NamedTuple):
    """One line; `seq` is None when it is torn or damaged."""

    raw: bytes
    offset: int
    seq: int | None

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.offset + len(self.raw)


def segment(directory: Path, first_seq: int) -> Segment:
    """Return the segment that begins with this seq."""
    return Segment(first_seq, directory / f"journal-{first_seq:020}.jsonl")


def segments(directory: Path) -> list[Segment]:
    """Return the directory's segments, oldest first."""
    named = ((_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    return sorted(Segment(int(match[1]), path) for match, path in named if match)


def lines(path: Path) -> Iterator[Line]:
    """Yield the file's lines; what is too long for a line comes in damaged pieces."""
    offset = 0
    with path.open("rb") as file:
        while raw := file.readline(MAX_RECORD_BYTES):
            found = mark(raw)
            yield Line(raw, offset, found.seq if found else None)
            offset += len(raw)
