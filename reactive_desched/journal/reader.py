"""Reads a journal from file to file while it is written, compressed and removed.

It is one rule for all. A file that vanished was compressed, or removed: if it is open it is read
to its end, else the folder is looked at again, and what is gone is left out. A damaged file ends
where no more of it can be had, and the next one follows. The newest file's last line, while it has
no end, is still being written; in any other file it is torn, and given as it stands there.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from os import SEEK_END
from pathlib import Path
from typing import IO, Final, NamedTuple

from reactive_desched.journal.records import MAX_RECORD_BYTES, JournalRecord, parse_header
from reactive_desched.journal.segments import DAMAGE_ERRORS, Segment, list_segments

MAX_BATCH_BYTES: Final = 4 << 20
"""A portion ends at the line that brings it to this size."""

_ATTEMPTS: Final = 3


class LineBatch(NamedTuple):
    """Lines of one segment, one behind the other, each with its end; the last may lack it.

    `damaged` says that nothing can be read behind them although there should be more.
    """

    first_seq: int
    offset: int
    lines: list[bytes]
    damaged: bool = False

    @property
    def next_position(self) -> tuple[int, int]:
        """The segment and offset to continue from; after damage, the next line that can be read."""
        if self.damaged:
            return self.first_seq + 1, 0
        return self.first_seq, self.offset + sum(map(len, self.lines))

    def records(self) -> list[JournalRecord]:
        """Return the whole records among the lines."""
        marked = [(parse_header(raw), raw) for raw in self.lines if raw.endswith(b"\n")]
        return [JournalRecord(found.seq, raw[:-1]) for found, raw in marked if found is not None]


class SegmentReader:
    """Hands out the lines of a journal in order; keeps its file open from portion to portion.

    Each portion is what stands in the file when it is asked for: of what was read ahead before,
    nothing counts, for a write that fails is cut off. Every method may block, and raises OSError.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: tuple[Segment, IO[bytes]] | None = None

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def read(self, first_seq: int, offset: int, limit: int) -> LineBatch | None:
        """Return at most so many lines from there on; None when there is nothing more yet."""
        for _ in range(_ATTEMPTS - 1):
            with suppress(FileNotFoundError):
                return self._read(first_seq, offset, limit)
        return self._read(first_seq, offset, limit)

    def _read(self, first_seq: int, offset: int, limit: int) -> LineBatch | None:
        for one, is_last in self._files(first_seq):
            start = offset if one.first_seq == first_seq else 0
            batch = self._read_batch(one, start, limit, is_last=is_last)
            if batch.lines or batch.damaged:
                return batch
        return None

    def _files(self, first_seq: int) -> Iterator[tuple[Segment, bool]]:
        """Yield the files from there on, and whether more may be written to them."""
        if self._open is not None and self._open[0].first_seq == first_seq:
            yield self._open[0], True  # while there is more in it, no other is looked for
        files = [each for each in list_segments(self._directory) if each.first_seq >= first_seq]
        yield from ((each, each is files[-1]) for each in files)

    def _read_batch(self, segment: Segment, offset: int, limit: int, *, is_last: bool) -> LineBatch:
        """Return lines; none at the end of the file."""
        found: list[bytes] = []
        try:
            is_end = _read_lines(self._seek_file(segment, offset), found, limit)
        except DAMAGE_ERRORS:
            self.close()
            return LineBatch(segment.first_seq, offset, found, damaged=True)
        except OSError as error:
            error.filename = str(segment.path)  # a disk that fails does not name it
            raise
        if is_end and is_last and found and not found[-1].endswith(b"\n"):
            found.pop()
        if is_end and not segment.is_compressed:
            self.close()  # what more there is may come in another file of this name
        return LineBatch(segment.first_seq, offset, found)

    def _seek_file(self, segment: Segment, offset: int) -> IO[bytes]:
        """Return the file, about to read from there."""
        if self._open is None or self._open[0] != segment:
            self.close()
            self._open = segment, segment.open()
        file = self._open[1]
        if not segment.is_compressed:
            file.seek(0, SEEK_END)  # lets go of what was read ahead
        file.seek(offset)
        return file


def _read_lines(file: IO[bytes], batch: list[bytes], limit: int) -> bool:
    """Take lines from a file; say whether that was its end."""
    bytes_left = MAX_BATCH_BYTES
    for raw in iter(partial(file.readline, MAX_RECORD_BYTES), b""):
        batch.append(raw)
        if not raw.endswith(b"\n"):
            return len(raw) < MAX_RECORD_BYTES  # else it is a piece of what is no line
        bytes_left -= len(raw)
        if len(batch) >= limit or bytes_left <= 0:
            return False
    return True
