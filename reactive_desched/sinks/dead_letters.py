"""Events that a sink will never take are kept here, for a person to look at and send again."""

import os
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec import Struct

from reactive_desched.journal import atomic_files
from reactive_desched.journal.records import JournalRecord

MAX_BYTES: Final = 16 * 1024 * 1024
ROTATED_SUFFIX: Final = ".1"


class DeadLetter(Struct, frozen=True, gc=False, kw_only=True):
    """One line of the file: `event` is the journal's line as it was, to be sent again."""

    sink: str
    sequence: int
    time: str
    reason: str
    event: str


class DeadLetterFiles:
    """One append-only file for each sink: DIRECTORY/SINK.jsonl, one letter on each line.

    At its bound the older half of the file goes to SINK.jsonl.1, in place of what was there: the
    oldest letters are dropped, and their number is returned. The folder lies in one that is there.
    """

    def __init__(self, directory: Path, max_bytes: int = MAX_BYTES) -> None:
        self._directory = directory
        self._max_bytes = max_bytes

    def path(self, sink: str) -> Path:
        """Return where a sink's letters are."""
        return self._directory / f"{sink}.jsonl"

    def append(self, sink: str, entry: JournalRecord, reason: str, time: str) -> int:
        """Return once a letter is durable; the number of the oldest that were dropped for it.

        Blocks; raises OSError, and then nothing was kept.
        """
        letter = DeadLetter(
            sink=sink,
            sequence=entry.seq,
            time=time,
            reason=reason,
            event=entry.raw.decode(errors="replace"),
        )
        line = msgspec.json.encode(letter) + b"\n"
        atomic_files.make_directory(self._directory)
        dropped = self._rotate_if_full(self.path(sink), len(line))
        self._append_line(self.path(sink), line)
        return dropped

    def _rotate_if_full(self, path: Path, more: int) -> int:
        if not path.exists() or path.stat().st_size + more <= self._max_bytes:
            return 0
        lines = path.read_bytes().splitlines(keepends=True)
        older = path.with_name(path.name + ROTATED_SUFFIX)
        dropped = older.read_bytes().count(b"\n") if older.exists() else 0
        middle = (len(lines) + 1) // 2
        atomic_files.replace(older, b"".join(lines[:middle]))
        atomic_files.replace(path, b"".join(lines[middle:]))
        return dropped

    def _append_line(self, path: Path, line: bytes) -> None:
        is_new = not path.exists()
        with path.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            try:
                _write(file, _repair_prefix(file, end) + line)
            except OSError:
                file.truncate(end)
                raise
        if is_new:
            atomic_files.sync_directory(path.parent)


def _repair_prefix(file: IO[bytes], end: int) -> bytes:
    """Return what must be written first, lest a torn last line take the new one with it."""
    if not end:
        return b""
    file.seek(end - 1)
    return b"" if file.read(1) == b"\n" else b"\n"


def _write(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
