"""The asynchronous half of the journal: many append, one writer puts it on disk together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from reactive_desched.api.event import JOURNAL_RESUMED, JournalResumed
from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.disk_thread import DiskThread
from reactive_desched.journal.envelope import about_journal
from reactive_desched.journal.log import Written
from reactive_desched.journal.open_intents import OpenIntents
from reactive_desched.journal.opened import Making, Opened, said, take
from reactive_desched.journal.records import AnyEvent, encode
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.journal.tail import Tail
from reactive_desched.journal.write_health import Fitness

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
    """A record on its way to disk, and the one who waits for it, if anyone does."""

    __slots__ = ("body", "done", "event", "failure", "seq")

    def __init__(self, event: AnyEvent, done: anyio.Event | None) -> None:
        self.event = event
        self.body = encode(event)
        self.done = done
        self.seq = 0
        self.failure = ""


def _measure_nothing(records: int, seconds: float) -> None:
    """Take no notice of a commit."""


class Journal:
    """Append-only events in a directory that only this process may write to.

    Whatever `append` has returned for survives a crash. While the disk fails or is stuck, appends
    are refused at once, so that nothing is evicted unrecorded; the journal recovers by itself, and
    `when_better` is called. `recovery` tells what opening found, `tail` is how others follow.
    """

    def __init__(
        self,
        opened: Opened,
        clock: Callable[[], datetime],
        committed: Callable[[int, float], None],
    ) -> None:
        recovery = opened.recovery
        self.recovery = recovery
        self.source = opened.log.source
        self.seals = opened.seals
        self.tail = Tail(
            opened.directory,
            self.source,
            recovery.oldest_seq,
            opened.log.last,
        )
        self.records_written = 0
        self.records_refused = 0
        self.records_unrecorded = 0
        self.when_better: Callable[[], None] = _do_nothing
        self._log = opened.log
        self._lock = opened.lock
        self._clock = clock
        self._committed = committed
        self._intents = OpenIntents(recovery.open.values())
        self._fitness = Fitness()
        self._buffer: list[_Pending] = []
        self._unrecorded = 0
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
        making: Making,
        *,
        clock: Callable[[], datetime],
        committed: Callable[[int, float], None] = _measure_nothing,
        disk: Disk = _REAL_DISK,
    ) -> "Journal":
        """Take the directory, repair a torn end, and go on behind the last record.

        `clock` tells the time of day. `committed` hears of every write: how many records, how
        many seconds. Raises JournalError when the directory is in use or cannot be written to,
        and ConfigError for a key that cannot sign. When cancelled, nobody waits for a stuck disk;
        a directory that is taken after all stays so until the process ends.
        """
        thread = DiskThread("journal opening")
        try:
            opened = await thread.do(partial(take, directory, disk, making, clock))
        finally:
            thread.close()
        return cls(opened, clock, committed)

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
    def open_intents(self) -> tuple[OpenIntent, ...]:
        """The intents on disk that have no outcome yet, oldest first, whoever wrote them."""
        return self._intents.all()

    @property
    def segment_began(self) -> int:
        """The first record of the file that is being written."""
        return self._log.first_seq

    def open_intent(self, key: str) -> OpenIntent | None:
        """Return an intent on disk that has no outcome yet, by its id."""
        return self._intents.get(key)

    @property
    def oldest_open(self) -> int | None:
        """Where the oldest intent without outcome stands."""
        return self._intents.oldest_seq

    async def append(self, event: AnyEvent) -> int:
        """Return the record's seq as soon as it is on disk.

        Waits for a place while MAX_BUFFERED records are on their way. Raises JournalUnavailable
        when the disk does not take it; whoever waits here may be cancelled, but the record may
        reach the disk all the same.
        """
        self._refuse_if_unfit()
        done = anyio.Event()
        pending = _Pending(event, done)
        await self._slots.acquire()
        try:
            self._refuse_if_unfit()
            self._intents.admit(event)
        except JournalError:
            self._slots.release()
            raise
        self._buffer.append(pending)
        self._work.set()
        await done.wait()
        if pending.failure:
            raise JournalUnavailable(pending.failure)
        return pending.seq

    async def append_lasting(self, event: AnyEvent) -> int:
        """Append, waiting out every fault of the disk: what it tells is a fact already.

        Raises JournalError only when its intent is not open, or the journal is closed.
        """
        while True:
            try:
                return await self.append(event)
            except JournalUnavailable as error:
                if self._stop.is_set():
                    raise JournalUnavailable(_CLOSED) from error
                await self._fitness.until_better(anyio.current_time)

    def note(self, event: AnyEvent) -> None:
        """Have it written soon, before whatever is appended later; nobody waits for it.

        It outlasts faults of the disk. While MAX_BUFFERED records are on their way it is left out
        and counted.
        """
        if len(self._buffer) >= MAX_BUFFERED or self._stop.is_set():
            self.leave_out()
            return
        self._buffer.append(_Pending(event, None))
        self._work.set()

    def leave_out(self) -> None:
        """Count a record that is not written; the next checkpoint tells how many there were."""
        self._unrecorded += 1
        self.records_unrecorded += 1

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Write what is appended until closed or cancelled; either way, flush first."""
        self._stopped = anyio.Event()
        flushing = anyio.CancelScope(shield=True)
        async with anyio.create_task_group() as group:
            group.start_soon(self._write, flushing)
            task_status.started()
            try:
                await self._stop.wait()
            finally:
                self._request_stop()
                flushing.deadline = anyio.current_time() + FLUSH_WITHIN_S

    async def finish(self) -> None:
        """Flush and write the last checkpoint; later appends are refused, readers read on."""
        with anyio.CancelScope(shield=True):
            self._request_stop()
            await self._stopped.wait()

    async def close(self) -> None:
        """Finish, and let the directory go."""
        with anyio.CancelScope(shield=True):
            await self.finish()
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

    def _taken(self, limit: int = 2 * MAX_BUFFERED) -> list[_Pending]:
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
                        await self._idle()
                    if self._stop.is_set() and self._fitness.unfit(anyio.current_time):
                        break
                if self._fitness.unfit(anyio.current_time) == "":
                    await self._commit([], seal=True)
        finally:
            self._settle_failed(self._taken(), _CLOSED)
            self._fitness.announce()
            self._stopped.set()

    async def _idle(self) -> None:
        """Wait for work; a checkpoint may come due meanwhile."""
        self._work = anyio.Event()
        with anyio.move_on_after(self.seals.every_s):
            await self._work.wait()
        if not self._buffer and self._log.seal_is_due():
            await self._commit([])

    async def _commit(self, batch: list[_Pending], *, seal: bool = False) -> None:
        try:
            written = await self._timed_write(batch, seal=seal)
        except OSError as error:
            refused_before = self.records_refused
            self._settle_failed([*batch, *self._taken()], said(error))
            await self._mend(error, refused_before)
        except BaseException:
            self._settle_failed(batch, _CLOSED)
            raise
        else:
            self._settle_written(batch, written)

    async def _timed_write(self, batch: list[_Pending], *, seal: bool = False) -> Written:
        began = anyio.current_time()
        self._fitness.writing(began)
        bodies, events = [one.body for one in batch], [one.event for one in batch]
        told = partial(self._intents.context, events, self._unrecorded)
        try:
            written = await self._in_thread(lambda: self._log.commit(bodies, told, seal=seal))
        finally:
            self._fitness.returned(anyio.current_time())
        self._unrecorded -= written.unrecorded
        self.records_written += len(written.entries)
        self._committed(len(bodies), anyio.current_time() - began)
        return written

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
                written = await self._timed_write(
                    [_Pending(self._resumption(refused_before), None)]
                )
            except OSError as again:
                self._fitness.failed(said(again), anyio.current_time())
            else:
                self._fitness.recovered()
                self.tail.published(written.entries)
                self.when_better()
                return

    def _resumption(self, refused_before: int) -> AnyEvent:
        now = anyio.current_time()
        data = JournalResumed(
            down_ms=round(self._fitness.down_s(now) * 1000),
            reason=self._fitness.unfit(anyio.current_time),
            refused=self.records_refused - refused_before,
        )
        last = self._log.last
        return about_journal(self.source, JOURNAL_RESUMED, last, self._clock(), data)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        try:
            return await self._thread.do(work)
        except anyio.get_cancelled_exc_class():
            self._stuck = True
            raise

    def _settle_written(self, batch: list[_Pending], written: Written) -> None:
        if written.entries:
            self.tail.published(written.entries)
        for seq, pending in enumerate(batch, written.first):
            pending.seq = seq
            self._intents.landed(pending.event, seq)
            self._let_go(pending)

    def _settle_failed(self, batch: list[_Pending], reason: str) -> None:
        """Tell those who wait; what nobody waits for is kept for when the disk is better."""
        notes = [pending for pending in batch if pending.done is None]
        for pending in batch:
            if pending.done is not None:
                self.records_refused += 1
                pending.failure = reason
                self._intents.withdrawn(pending.event)
                self._let_go(pending)
        if reason != _CLOSED:
            self._buffer[:0] = notes
            return
        for _ in notes:
            self.leave_out()

    def _let_go(self, pending: _Pending) -> None:
        if pending.done is not None:
            pending.done.set()
            self._slots.release()


@asynccontextmanager
async def open_journal(
    directory: Path,
    making: Making,
    *,
    clock: Callable[[], datetime],
    committed: Callable[[int, float], None] = _measure_nothing,
) -> AsyncIterator[Journal]:
    """Open a journal, write what the block appends, and flush and close it at the end."""
    journal = await Journal.open(directory, making, clock=clock, committed=committed)
    async with anyio.create_task_group() as group:
        await group.start(journal.run)
        try:
            yield journal
        finally:
            await journal.close()


def _do_nothing() -> None:
    """Hear of it and do nothing."""
