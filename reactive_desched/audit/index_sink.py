"""Keeps the index up to date while the controller runs: to the journal it is one more cursor."""

import sqlite3
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from reactive_desched.audit.index import AuditIndex, is_corruption, remove_index
from reactive_desched.audit.schema import INDEX_FILE
from reactive_desched.errors import JournalError, SinkUnavailable
from reactive_desched.journal.disk import DiskThread
from reactive_desched.journal.records import JournalRecord

BATCH_LINES: Final = 500
"""So many lines at once: the event loop must not wait longer for the interpreter's lock."""

CACHE_KIB: Final = 8192
"""So much of the index SQLite keeps in memory in the controller."""

SMALL_BATCH_DELAY_S: Final = 0.2
"""Few records cost as much as many: after FEW or less, further ones are let gather so long."""

SMALL_BATCH_RECORDS: Final = 100
_BATCH_DELAY_S: Final = 0.02
_PAUSE_S: Final = 0.0005


class IndexSink:
    """Indexes records from the journal's files, up to the last record it was handed.

    Handed-over records only say how far to read: a rebuild of the index meanwhile reads from the
    files as well, and all is indexed again. It yields after each batch. A task that is cancelled
    does not wait for a disk that hangs; what is begun goes on in a thread of its own.
    """

    name: Final = "index"
    from_start: Final = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / INDEX_FILE
        self._index: AuditIndex | None = None
        self._inode = 0
        self._thread: DiskThread | None = None
        self._next_batch_at = 0.0

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Return once the index holds all of these; raises SinkUnavailable."""
        last = entries[-1].seq
        await anyio.sleep_until(self._next_batch_at)
        while True:
            if await self._index_batch(last):
                delay_s = (
                    SMALL_BATCH_DELAY_S if len(entries) <= SMALL_BATCH_RECORDS else _BATCH_DELAY_S
                )
                self._next_batch_at = anyio.current_time() + delay_s
                return len(entries)
            await anyio.sleep(_BATCH_DELAY_S)

    async def close(self) -> None:
        """Close the index, behind what is being written to it."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                await thread.run(self._close)
            finally:
                thread.close()

    async def _index_batch(self, last_seq: int) -> bool:
        """Index a batch; say whether the index now reaches to this record."""
        thread = self._thread = self._thread or DiskThread("index")
        try:
            return await thread.run(lambda: self._catch_up(last_seq))
        except (sqlite3.Error, OSError, JournalError) as error:
            await thread.run(partial(self._discard_index, error))
            raise SinkUnavailable(f"the index {self._path} cannot be written: {error}") from error

    def _catch_up(self, last_seq: int) -> bool:
        index = self._current_index()
        taken = index.catch_up(BATCH_LINES, last_seq=last_seq, pause=_let_event_loop_run)
        if index.cursor.seq >= last_seq or (index.skipped_newer and not taken):
            return True  # else it was removed, and there are later ones
        if not taken:
            raise JournalError(f"record {last_seq} is not in the files")
        return False

    def _current_index(self) -> AuditIndex:
        """Return the index, opened again if the file was removed."""
        if self._index is not None and self._inode != _inode(self._path):
            self._close()
        if self._index is None:
            self._index = AuditIndex.open(self._directory, self._path, cache_kib=CACHE_KIB)
            self._inode = _inode(self._path)
        return self._index

    def _discard_index(self, error: Exception) -> None:
        """Close the index; what is damaged is removed, so that it is made again."""
        self._close()
        if is_corruption(error):
            remove_index(self._path)

    def _close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None


def _let_event_loop_run() -> None:
    """Release the interpreter's lock for long enough that the event loop can take it.

    A thread that computes keeps the lock for five milliseconds.
    """
    time.sleep(_PAUSE_S)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
