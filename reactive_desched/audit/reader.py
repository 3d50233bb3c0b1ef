"""Reads a journal on from a place, portion by portion, while it is being written or long after."""

from os import SEEK_END
from pathlib import Path
from typing import IO, Final, NamedTuple

from reactive_desched.errors import JournalError
from reactive_desched.journal.records import MAX_RECORD_BYTES
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


class Reader:
    """Hands out the lines of a journal in order; keeps its file open from portion to portion."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._segment = 0
        self._offset = 0

    def close(self) -> None:
        """Close the file; reading goes on all the same."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def files(self) -> list[Segment]:
        """Return the segments there are now, oldest first; raises JournalError."""
        try:
            return segments(self._directory)
        except OSError as error:
            raise _unreadable(self._directory, error) from error

    def read(self, segment: int, offset: int, most: int) -> Portion | None:
        """Return at most so many lines from there on; None when there is nothing more yet.

        A line without its end is left alone while it may still be being written. Raises
        JournalError.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._read(segment, offset, most)
            except FileNotFoundError:  # compressed, or removed, since the folder was listed
                self.close()
        try:
            return self._read(segment, offset, most)
        except FileNotFoundError as error:
            raise _unreadable(self._directory, error) from error

    def _read(self, segment: int, offset: int, most: int) -> Portion | None:
        files = [each for each in self.files() if each.first_seq >= segment]
        for each in files:
            start = offset if each.first_seq == segment else 0
            portion = self._portion(each, start, most, is_last=each is files[-1])
            if portion.lines or portion.broken:
                return portion
        return None

    def _portion(self, one: Segment, offset: int, most: int, *, is_last: bool) -> Portion:
        """Return lines; none at the end of the file."""
        found: list[bytes] = []
        try:
            whole = self._lines(self._at(one, offset), found, most)
        except BROKEN:
            self.close()
            return Portion(one.first_seq, offset, found, broken=True)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unreadable(one.path, error) from error
        if not whole:  # at the end: what was read ahead must not be taken for what comes
            self.close()
            if is_last and found and _is_unfinished(found[-1]):
                found.pop()
        self._offset = offset + sum(map(len, found))
        return Portion(one.first_seq, offset, found)

    def _at(self, one: Segment, offset: int) -> IO[bytes]:
        """Return the file, about to read from there."""
        if self._file is None or (self._segment, self._offset) != (one.first_seq, offset):
            self.close()
            self._file = one.open()
            self._file.seek(offset)
            self._segment = one.first_seq
        return self._file

    def _lines(self, file: IO[bytes], into: list[bytes], most: int) -> bool:
        """Append lines; False at the end of the file."""
        room = MAX_BYTES
        while len(into) < most and room > 0:
            raw = file.readline(MAX_RECORD_BYTES)
            if raw:
                into.append(raw)
                room -= len(raw)
            if not raw or _is_unfinished(raw):
                return False
        return True


def torn_bytes(last: Segment) -> int:
    """Return how much of the last segment is a line without its end: torn, or being written."""
    if last.is_compressed:
        return 0
    with last.open() as file:
        size = file.seek(0, SEEK_END)
        file.seek(max(0, size - MAX_RECORD_BYTES))
        return len(file.read().rpartition(b"\n")[2])


def _is_unfinished(raw: bytes) -> bool:
    return not raw.endswith(b"\n") and len(raw) < MAX_RECORD_BYTES


def _unreadable(path: Path, error: OSError) -> JournalError:
    return JournalError(f"{path}: cannot read the journal here: {error.strerror or error}")
