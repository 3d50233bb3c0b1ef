"""How a journal is read from file to file while it is written, compressed and removed.

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

from reactive_desched.journal.records import MAX_RECORD_BYTES, Entry, mark
from reactive_desched.journal.segments import BROKEN, Segment, segments

MAX_BYTES: Final = 4 << 20
"""A portion ends at the line that brings it to this size."""

_ATTEMPTS: Final = 3


class Portion(NamedTuple):
    """Lines of one segment, one behind the other, each with its end; the last may lack it.

    `broken` says that nothing can be read behind them although there should be more.
    """

    segment: int
    offset: int
    lines: list[bytes]
    broken: bool = False

    @property
    def behind(self) -> tuple[int, int]:
        """The segment and offset to go on from; behind damage, with whatever comes next."""
        if self.broken:
            return self.segment + 1, 0
        return self.segment, self.offset + sum(map(len, self.lines))

    def entries(self) -> list[Entry]:
        """Return the whole records among the lines."""
        marked = [(mark(raw), raw) for raw in self.lines if raw.endswith(b"\n")]
        return [Entry(found.seq, raw[:-1]) for found, raw in marked if found is not None]


class Reader:
    """Hands out the lines of a journal in order; keeps its file open from portion to portion.

    Each portion is what stands in the file when it is asked for: of what was read ahead before,
    nothing counts, for a write that fails is cut off. Every method may block, and raises OSError.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: tuple[Segment, IO[bytes]] | None = None

    def close(self) -> None:
        """Close the file; reading goes on all the same."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def read(self, segment: int, offset: int, most: int) -> Portion | None:
        """Return at most so many lines from there on; None when there is nothing more yet."""
        for _ in range(_ATTEMPTS - 1):
            with suppress(FileNotFoundError):
                return self._read(segment, offset, most)
        return self._read(segment, offset, most)

    def _read(self, segment: int, offset: int, most: int) -> Portion | None:
        for one, is_last in self._files(segment):
            start = offset if one.first_seq == segment else 0
            portion = self._portion(one, start, most, is_last=is_last)
            if portion.lines or portion.broken:
                return portion
        return None

    def _files(self, segment: int) -> Iterator[tuple[Segment, bool]]:
        """Yield the files from there on, and whether more may be written to them."""
        if self._open is not None and self._open[0].first_seq == segment:
            yield self._open[0], True  # while there is more in it, no other is looked for
        files = [each for each in segments(self._directory) if each.first_seq >= segment]
        yield from ((each, each is files[-1]) for each in files)

    def _portion(self, one: Segment, offset: int, most: int, *, is_last: bool) -> Portion:
        """Return lines; none at the end of the file."""
        found: list[bytes] = []
        try:
            is_end = _take(self._file(one, offset), found, most)
        except BROKEN:
            self.close()
            return Portion(one.first_seq, offset, found, broken=True)
        except OSError as error:
            error.filename = str(one.path)  # a disk that fails does not name it
            raise
        if is_end and is_last and found and not found[-1].endswith(b"\n"):
            found.pop()
        if is_end and not one.is_compressed:
            self.close()  # what more there is may come in another file of this name
        return Portion(one.first_seq, offset, found)

    def _file(self, one: Segment, offset: int) -> IO[bytes]:
        """Return the file, about to read from there."""
        if self._open is None or self._open[0] != one:
            self.close()
            self._open = one, one.open()
        file = self._open[1]
        if not one.is_compressed:
            file.seek(0, SEEK_END)  # lets go of what was read ahead
        file.seek(offset)
        return file


def _take(file: IO[bytes], into: list[bytes], most: int) -> bool:
    """Take lines from a file; say whether that was its end."""
    room = MAX_BYTES
    for raw in iter(partial(file.readline, MAX_RECORD_BYTES), b""):
        into.append(raw)
        if not raw.endswith(b"\n"):
            return len(raw) < MAX_RECORD_BYTES  # else it is a piece of what is no line
        room -= len(raw)
        if len(into) >= most or room <= 0:
            return False
    return True
