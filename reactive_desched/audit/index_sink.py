"""Keeps the index up to date while the controller runs: to the journal it is one more cursor."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from reactive_desched.audit.index import Index, is_damage, remove
from reactive_desched.audit.schema import NAME
from reactive_desched.errors import JournalError, SinkUnavailable
from reactive_desched.journal.disk_thread import DiskThread
from reactive_desched.journal.records import Entry

MOST: Final = 500
"""So many lines at once: the event loop must not wait longer for the interpreter's lock."""

CACHE_KIB: Final = 8192
"""So much of the index SQLite keeps in memory in the controller."""

GATHER_S: Final = 0.2
"""Few records cost as much as many: after FEW or less, further ones are let gather so long."""

FEW: Final = 100
_REST_S: Final = 0.02


class IndexSink:
    """Takes records in from the journal's files, as far as it is told that they are there.

    What is handed over only says how far: whoever made the index anew meanwhile did it from the
    files as well, and all of it is taken in again. It rests after each batch. Whoever is cancelled
    does not wait for a disk that hangs; what is begun goes on in a thread of its own.
    """

    name: Final = "index"
    from_start: Final = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / NAME
        self._index: Index | None = None
        self._inode = 0
        self._thread: DiskThread | None = None
        self._rests_until = 0.0

    async def deliver(self, entries: Sequence[Entry]) -> int:
        """Return once the index holds all of these; raises SinkUnavailable."""
        last = entries[-1].seq
        await anyio.sleep_until(self._rests_until)
        while True:
            if await self._step(last):
                rest_s = GATHER_S if len(entries) <= FEW else _REST_S
                self._rests_until = anyio.current_time() + rest_s
                return len(entries)
            await anyio.sleep(_REST_S)

    async def close(self) -> None:
        """Close the index, behind what is being written to it."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                await thread.do(self._close)
            finally:
                thread.close()

    async def _step(self, last: int) -> bool:
        """Take in a batch; say whether the index now reaches to this record."""
        thread = self._thread = self._thread or DiskThread("index")
        try:
            return await thread.do(lambda: self._take(last))
        except (sqlite3.Error, OSError, JournalError) as error:
            await thread.do(partial(self._give_up, error))
            raise SinkUnavailable(f"the index {self._path} cannot be written: {error}") from error

    def _take(self, last: int) -> bool:
        index = self._opened()
        taken = index.catch_up(MOST, last=last)
        if index.place.seq >= last or (index.left_alone and not taken):
            return True  # else it was removed, and there are later ones
        if not taken:
            raise JournalError(f"record {last} is not in the files")
        return False

    def _opened(self) -> Index:
        """Return the index, opened again if somebody removed the file."""
        if self._index is not None and self._inode != _inode(self._path):
            self._close()
        if self._index is None:
            self._index = Index.open(self._directory, self._path, cache_kib=CACHE_KIB)
            self._inode = _inode(self._path)
        return self._index

    def _give_up(self, error: Exception) -> None:
        """Close the index; what is damaged is removed, so that it is made anew."""
        self._close()
        if is_damage(error):
            remove(self._path)

    def _close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
