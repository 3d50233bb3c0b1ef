"""The asynchronous half of the journal: many append, one writer puts it on disk together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.disk_thread import DiskThread
from reactive_desched.journal.fitness import Fitness
from reactive_desched.journal.lock import DirectoryLock
from reactive_desched.journal.log import Log
from reactive_desched.journal.open_intents import OpenIntents
from reactive_desched.journal.opening import said, take
from reactive_desched.journal.records import (
    IntentRecord,
    OutcomeRecord,
    ResumedRecord,
    Stamped,
    encode,
)
from reactive_desched.journal.recovery import Recovery

MAX_BUFFERED = 10_000
"""So many records may be on their way to disk; further appends wait for a place."""

MAX_BATCH = 256
"""One write takes so many records at most: more would hold the event loop when they land."""

FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
"""After a disk error the disk is tried again this soon, then ever less often."""

FLUSH_WITHIN_S = 5.0
"""When stopping, buffered records have this long to reach the disk."""

_T = TypeVar("_T")
_CLOSED = "the journal is closed"
_REAL_DISK = Disk()


class _Pending:
    """A record on its way to disk, and the one who waits for it."""

    __slots__ = ("body", "done", "failure", "record", "seq")

    def __init__(self, record: Stamped) -> None:
        self.record = record
        self.body = encode(record)
        self.done = anyio.Event()
        self.seq = 0
        self.failure = ""


def _measure_nothing(records: int, seconds: float) -> None:
    """Take no notice of a commit."""


class Journal:
    """Append-only records in a directory that only this process may write to.

    Whatever `append` has returned for survives a crash. While the disk fails or is stuck, appends
    are refused at once, so that nothing is evicted unrecorded; the journal recovers by itself.
    `recovery` tells what opening found.
    """

    def __init__(
        self,
        log: Log,
        lock: DirectoryLock,
        recovery: Recovery,
        clock: Callable[[], datetime],
        committed: Callable[[int, float], None],
    ) -> None:
        self.recovery = recovery
        self.records_written = 0
        self.records_refused = 0
        self._log = log
        self._lock = lock
        self._clock = clock
        self._committed = committed
        self._intents = OpenIntents(recovery.open.values())
        self._fitness = Fitness()
        self._buffer: list[_Pending] = []
        self._slots = anyio.Semaphore(MAX_BUFFERED, fast_acquire=True)
        self._thread = DiskThread()
        self._work = anyio.Event()
        self._stop = anyio.Event()
        self._stopped = anyio.Event()
        self._stopped.set()
        self._stuck = False

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        max_segment_bytes: int,
        clock: Callable[[], datetime],
        committed: Callable[[int, float], None] = _measure_nothing,
        disk: Disk = _REAL_DISK,
    ) -> "Journal":
        """Take the directory, repair a torn end, and go on behind the last record.

        `clock` tells the time of day. `committed` hears of every write: how many records, how
        many seconds. Raises JournalError when the directory is in use or cannot be written to.
        """
        log = Log(directory, disk=disk, max_segment_bytes=max_segment_bytes, clock=clock)
        lock, recovery = await to_thread.run_sync(take, directory, log)
        return cls(log, lock, recovery, clock, committed)

    @property
    def healthy(self) -> bool:
        """Say whether records can be written now."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why records cannot be written now; empty when they can."""
        if self._stop.is_set():
            return _CLOSED
        return self._fitness.unfit(anyio.current_time)

    @property
    def open_intents(self) -> tuple[IntentRecord, ...]:
        """The intents on disk that have no outcome yet, oldest first, whoever wrote them."""
        return self._intents.all()

    async def append(self, record: Stamped) -> int:
        """Return the record's seq as soon as it is on disk.

        Waits for a place while MAX_BUFFERED records are on their way. Raises JournalUnavailable
        when the disk does not take it; whoever waits here may be cancelled, but the record may
        reach the disk all the same.
        """
        self._refuse_if_unfit()
        pending = _Pending(record)
        await self._slots.acquire()
        try:
            self._refuse_if_unfit()
            self._intents.admit(record)
        except JournalError:
            self._slots.release()
            raise
        self._buffer.append(pending)
        self._work.set()
        await pending.done.wait()
        if pending.failure:
            raise JournalUnavailable(pending.failure)
        return pending.seq

    async def append_outcome(self, record: OutcomeRecord) -> int:
        """Append, waiting out every fault of the disk: an outcome is a fact already.

        Raises JournalError only when the intent is not open, or the journal is closed.
        """
        while True:
            try:
                return await self.append(record)
            except JournalUnavailable as error:
                if self._stop.is_set():
                    raise JournalUnavailable(_CLOSED) from error
                await self._fitness.until_better(anyio.current_time)

    async def run(self) -> None:
        """Write what is appended until closed or cancelled; either way, flush first."""
        self._stopped = anyio.Event()
        flushing = anyio.CancelScope(shield=True)
        async with anyio.create_task_group() as group:
            group.start_soon(self._write, flushing)
            try:
                await self._stop.wait()
            finally:
                self._request_stop()
                flushing.deadline = anyio.current_time() + FLUSH_WITHIN_S

    async def close(self) -> None:
        """Flush, and let the directory go; later appends are refused."""
        with anyio.CancelScope(shield=True):
            self._request_stop()
            await self._stopped.wait()
            self._settle_failed(self._taken(), _CLOSED)
            self._thread.close()
            if not self._stuck:  # else a thread still uses the file: the process's end frees it
                self._log.close()
                self._lock.close()

    def _request_stop(self) -> None:
        self._stop.set()
        self._work.set()

    def _refuse_if_unfit(self) -> None:
        if reason := self.reason:
            self.records_refused += 1
            raise JournalUnavailable(reason)

    def _taken(self, limit: int = MAX_BUFFERED) -> list[_Pending]:
        taken = self._buffer[:limit]
        del self._buffer[:limit]
        return taken

    async def _write(self, flushing: anyio.CancelScope) -> None:
        try:
            with flushing:
                while not (self._stop.is_set() and not self._buffer):
                    if self._buffer:
                        await self._commit(self._taken(MAX_BATCH))
                    else:
                        self._work = anyio.Event()
                        await self._work.wait()
        finally:
            self._settle_failed(self._taken(), _CLOSED)
            self._fitness.announce()
            self._stopped.set()

    async def _commit(self, batch: list[_Pending]) -> None:
        try:
            first = await self._timed_write([pending.body for pending in batch])
        except OSError as error:
            refused_before = self.records_refused
            self._settle_failed([*batch, *self._taken()], said(error))
            await self._mend(error, refused_before)
        except BaseException:
            self._settle_failed(batch, _CLOSED)
            raise
        else:
            self._settle_written(batch, first)

    async def _timed_write(self, bodies: list[bytes]) -> int:
        began = anyio.current_time()
        self._fitness.writing(began)
        try:
            oldest_open = self._intents.oldest_seq
            first = await self._in_thread(lambda: self._log.commit(bodies, oldest_open))
        finally:
            self._fitness.returned(anyio.current_time())
        self.records_written += len(bodies)
        self._committed(len(bodies), anyio.current_time() - began)
        return first

    async def _mend(self, error: OSError, refused_before: int) -> None:
        """Try the disk again until it takes a record that tells of the fault, or until stopped."""
        delay_s = FIRST_RETRY_S
        self._fitness.failed(said(error), anyio.current_time())
        while not self._stop.is_set():
            with anyio.move_on_after(delay_s):
                await self._stop.wait()
            delay_s = min(2 * delay_s, LAST_RETRY_S)
            try:
                await self._in_thread(self._log.heal)
                await self._timed_write([self._resumption(refused_before)])
            except OSError as again:
                self._fitness.failed(said(again), anyio.current_time())
            else:
                self._fitness.recovered()
                return

    def _resumption(self, refused_before: int) -> bytes:
        down_s = self._fitness.down_s(anyio.current_time())
        return encode(
            ResumedRecord(
                time=self._clock(),
                reason=self._fitness.unfit(anyio.current_time),
                refused=self.records_refused - refused_before,
                down_s=round(down_s, 3),
            )
        )

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        try:
            return await self._thread.do(work)
        except anyio.get_cancelled_exc_class():
            self._stuck = True
            raise

    def _settle_written(self, batch: list[_Pending], first: int) -> None:
        for seq, pending in enumerate(batch, first):
            pending.seq = seq
            self._intents.landed(pending.record, seq)
            self._let_go(pending)

    def _settle_failed(self, batch: list[_Pending], reason: str) -> None:
        self.records_refused += len(batch)
        for pending in batch:
            pending.failure = reason
            self._intents.withdrawn(pending.record)
            self._let_go(pending)

    def _let_go(self, pending: _Pending) -> None:
        pending.done.set()
        self._slots.release()


@asynccontextmanager
async def open_journal(
    directory: Path,
    *,
    max_segment_bytes: int,
    clock: Callable[[], datetime],
    committed: Callable[[int, float], None] = _measure_nothing,
) -> AsyncIterator[Journal]:
    """Open a journal, write what the block appends, and flush and close it at the end."""
    journal = await Journal.open(
        directory, max_segment_bytes=max_segment_bytes, clock=clock, committed=committed
    )
    async with anyio.create_task_group() as group:
        group.start_soon(journal.run)
        try:
            yield journal
        finally:
            await journal.close()
