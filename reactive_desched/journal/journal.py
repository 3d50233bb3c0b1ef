"""The asynchronous half of the journal: many append, one writer puts it on disk together."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from anyio.lowlevel import checkpoint

from reactive_desched.api.event import (
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    JOURNAL_RESUMED,
    JournalResumed,
)
from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal.disk import Disk, DiskThread, WriteHealth
from reactive_desched.journal.event_builder import journal_event
from reactive_desched.journal.log import CommitResult
from reactive_desched.journal.opened import (
    JournalConfig,
    OpenedJournal,
    open_directory,
    os_error_text,
)
from reactive_desched.journal.records import AnyEvent, EncodedEvent, encode, encode_cut
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.journal.signing.checkpointer import CheckpointContext, Unrecorded
from reactive_desched.journal.tail import LiveTail
from reactive_desched.primitives.loop_clock import loop_clock
from reactive_desched.primitives.wakeup import Epoch, Wakeup
from reactive_desched.telemetry.metrics import Histogram, Metric, counter, gauge, histogram

MAX_BUFFERED = 10_000
"""So many records may be on their way to disk; further appends wait for a place."""

MAX_BATCH = 256
"""One write takes so many records at most: more would hold the event loop when they land."""

FIRST_RETRY_S, MAX_RETRY_S = 0.1, 5.0
"""After a disk error the disk is tried again this soon, then ever less often."""

FLUSH_TIMEOUT_S = 5.0
"""When stopping, buffered records have this long to reach the disk."""

WRITTEN_WAIT_S = 5.0
"""The answer to a person waits so long for the record of it."""

MAX_OPEN_INTENTS = 10_000
"""With this many intents open, further ones are refused: nothing ends them, so begin no more."""

RECORDS = counter("journal_records", "Records made durable.")
REFUSED = counter(
    "journal_records_refused", "Records refused because the disk failed or was stuck."
)
UNRECORDED = counter(
    "journal_records_unrecorded", "Decisions not recorded because of their rate limit."
)
UNRECORDED_DISRUPTIONS = counter(
    "journal_disruptions_unrecorded",
    "Ends of pods by others that were not recorded because of their rate limit.",
)
HEALTHY = gauge("journal_healthy", "1 while the journal can write; else nothing is evicted.")
SEQUENCE = gauge("journal_sequence", "Sequence of the newest durable record.")
TORN_BYTES = gauge(
    "journal_torn_bytes", "Bytes of a torn last line, repaired when the journal was opened."
)
DAMAGED_LINES = gauge("journal_damaged_lines", "Damaged lines found when the journal was opened.")
FSYNC_SECONDS = histogram("journal_fsync_seconds", "Duration of one journal write and its fsync.")

_T = TypeVar("_T")
_CLOSED = "the journal is closed"
_REAL_DISK = Disk()


class PendingRecord:
    """A record on its way to disk; `is_awaited` when a caller wants to know that it is there."""

    __slots__ = ("_done", "encoded", "event", "failure", "is_awaited", "is_done", "seq")

    def __init__(self, event: AnyEvent, encoded: EncodedEvent, *, is_awaited: bool) -> None:
        self.event = event
        self.encoded = encoded
        self.is_awaited = is_awaited
        self.is_done = False
        self.seq = 0
        self.failure = ""
        self._done: Wakeup | None = None

    async def durable(self) -> int:
        """Return the seq once the record is on disk; raises JournalUnavailable if it is not.

        The waiting caller may be cancelled; the record may reach the disk all the same.
        """
        self._done = self._done or Wakeup()
        while not self.is_done:
            await self._done.wait()
        if self.failure:
            raise JournalUnavailable(self.failure)
        return self.seq

    def end(self, failure: str = "") -> None:
        """Let the caller go on: the record is on disk, or it is not, for this reason."""
        self.failure = failure
        self.is_done = True
        if self._done is not None:
            self._done.notify()


def _unawaited(event: AnyEvent) -> PendingRecord:
    """Return the record of what happened, cut where it must be; no caller waits for it."""
    return PendingRecord(event, encode_cut(event), is_awaited=False)


class OpenIntents:
    """The intents on disk without outcome, oldest first, and the ids of records on their way.

    By them each intent gets exactly one outcome.
    """

    def __init__(self, recovered: Iterable[OpenIntent] = ()) -> None:
        self._open = {intent.event.id: intent for intent in recovered}
        self._starting: set[str] = set()
        self._finishing: set[str] = set()

    def all(self) -> tuple[OpenIntent, ...]:
        """Return the intents on disk without outcome, oldest first."""
        return tuple(self._open.values())

    def get(self, key: str) -> OpenIntent | None:
        """Return an open intent by its id."""
        return self._open.get(key)

    @property
    def oldest_seq(self) -> int | None:
        """Return the sequence of the oldest open intent."""
        return next((intent.seq for intent in self._open.values()), None)

    def checkpoint_context(
        self, batch: Iterable[AnyEvent], unrecorded: Unrecorded, first_seq: int | None
    ) -> CheckpointContext:
        """Return a checkpoint's context: behind this batch, or before it if `first_seq` is None."""
        if first_seq is None:
            return CheckpointContext(self.oldest_seq, unrecorded)
        events = tuple(enumerate(batch, first_seq))
        ended = {event.causationid for _, event in events if event.type in EVICTION_OUTCOME_TYPES}
        still_open = (intent.seq for key, intent in self._open.items() if key not in ended)
        started = (seq for seq, event in events if event.type == EVICTION_REQUESTED)
        return CheckpointContext(next(chain(still_open, started), None), unrecorded)

    def admit(self, event: AnyEvent) -> None:
        """Note that a record is on its way to disk; raise JournalError when it must not be."""
        if event.type == EVICTION_REQUESTED:
            self._admit_intent(event.id)
            self._starting.add(event.id)
        elif event.type in EVICTION_OUTCOME_TYPES:
            key = event.causationid
            if key not in self._open or key in self._finishing:
                raise JournalError(f"intent {key} is not open: it has its outcome, or never was")
            self._finishing.add(key)

    def _admit_intent(self, key: str) -> None:
        if key in self._open or key in self._starting:
            raise JournalError(f"intent {key} was begun already")
        if len(self._open) + len(self._starting) >= MAX_OPEN_INTENTS:
            raise JournalUnavailable(
                f"{MAX_OPEN_INTENTS} intents wait for their outcome; no more is begun"
            )

    def committed(self, event: AnyEvent, seq: int) -> None:
        """Note that an admitted record is on disk."""
        self.discarded(event)
        if event.type == EVICTION_REQUESTED:
            self._open[event.id] = OpenIntent(seq, event)
        elif event.type in EVICTION_OUTCOME_TYPES:
            del self._open[event.causationid]

    def discarded(self, event: AnyEvent) -> None:
        """Note that an admitted record is on its way no longer."""
        if event.type == EVICTION_REQUESTED:
            self._starting.discard(event.id)
        elif event.type in EVICTION_OUTCOME_TYPES:
            self._finishing.discard(event.causationid)


class Journal:
    """Append-only events in a directory that only this process may write to.

    Whatever `append` has returned for survives a crash. While the disk fails or is stuck, appends
    are refused at once, so that nothing is evicted unrecorded; the journal recovers by itself, and
    `recovered` is notified. `segments` advances with each file that is begun. `recovery` holds what
    opening found; readers follow `tail`.
    """

    def __init__(
        self,
        opened: OpenedJournal,
        clock: Callable[[], datetime],
        recovered: Wakeup | None = None,
    ) -> None:
        recovery = opened.recovery
        self.recovery = recovery
        self.source = opened.writer.source
        self.checkpointer = opened.checkpointer
        self.tail = LiveTail(
            opened.directory,
            self.source,
            recovery.oldest_seq,
            opened.writer.last_seq,
        )
        self.records_written = 0
        self.records_refused = 0
        self.records_unrecorded = 0
        self.disruptions_unrecorded = 0
        self.write_times = Histogram()
        self.segments = Epoch()
        self._segment_first_seq = opened.writer.first_seq
        self._writer = opened.writer
        self._lock = opened.lock
        self._clock = clock
        self._now = loop_clock()
        self._intents = OpenIntents(recovery.open_intents.values())
        self._health = WriteHealth(recovered)
        self._buffer: list[PendingRecord] = []
        self._last_queued: PendingRecord | None = None
        self._unrecorded = Unrecorded()
        self._slots = anyio.Semaphore(MAX_BUFFERED, fast_acquire=True)
        self._thread = DiskThread()
        self._work_available = Wakeup()
        self._stop = anyio.Event()
        self._is_stopping = False
        self._stopped = anyio.Event()
        self._stopped.set()
        self._disk_stuck = False

    @classmethod
    async def open(
        cls,
        directory: Path,
        config: JournalConfig,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        recovered: Wakeup | None = None,
        disk: Disk = _REAL_DISK,
    ) -> "Journal":
        """Take the directory, repair a torn end, and go on behind the last record.

        `clock` returns the time of day, and `monotonic` the seconds by which checkpoints become
        due; both are asked in the disk's thread, too. Raises JournalError when the directory is in
        use or cannot be written to, and ConfigError for a key that cannot sign. When cancelled, it
        does not wait for a stuck disk; a directory that is locked after all stays locked until the
        process ends.
        """
        thread = DiskThread("journal opening")
        try:
            opened = await thread.run(
                partial(open_directory, directory, disk, config, clock, monotonic)
            )
        finally:
            thread.close()
        return cls(opened, clock, recovered)

    def collect(self) -> Iterator[Metric]:
        """Yield the journal's metrics, and those of its checkpoints."""
        yield RECORDS.value(self.records_written)
        yield REFUSED.value(self.records_refused)
        yield UNRECORDED.value(self.records_unrecorded)
        yield UNRECORDED_DISRUPTIONS.value(self.disruptions_unrecorded)
        yield HEALTHY.value(self.healthy)
        yield SEQUENCE.value(self.tail.last_seq)
        yield TORN_BYTES.value(self.recovery.torn_bytes)
        yield DAMAGED_LINES.value(self.recovery.damaged_lines)
        yield FSYNC_SECONDS.value(self.write_times)
        yield from self.checkpointer.collect()

    @property
    def healthy(self) -> bool:
        """Say whether records can be written now."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Return why records cannot be written now; empty when they can."""
        return _CLOSED if self._is_stopping else self._health.reason(self._now)

    async def wait_recovered(self) -> None:
        """Return when the disk takes records again, at once when it does."""
        await self._health.wait_recovered(self._now)

    @property
    def fault(self) -> str:
        """Return why the disk does not take records; empty when it does, also after `finish`."""
        return self._health.reason(self._now)

    @property
    def open_intents(self) -> tuple[OpenIntent, ...]:
        """The intents on disk without an outcome, oldest first, also those of earlier processes."""
        return self._intents.all()

    @property
    def active_first_seq(self) -> int:
        """The first record of the file that is being written."""
        return self._writer.first_seq

    def open_intent(self, key: str) -> OpenIntent | None:
        """Return an intent on disk that has no outcome yet, by its id."""
        return self._intents.get(key)

    @property
    def oldest_open_seq(self) -> int | None:
        """Return where the oldest intent without outcome is."""
        return self._intents.oldest_seq

    async def append(self, event: AnyEvent) -> int:
        """Return the record's seq as soon as it is on disk.

        Waits for a place while MAX_BUFFERED records are on their way. Raises JournalUnavailable
        when the disk does not take it; a waiting caller may be cancelled, but the record may
        reach the disk all the same.
        """
        return await self._append(event, encode_cut)

    async def append_whole(self, event: AnyEvent) -> int:
        """Append a record of what is to be done, which is done only if its record is whole.

        Raises RecordUnwritable where `append` would cut it.
        """
        return await self._append(event, encode)

    async def append_until_durable(self, event: AnyEvent) -> int:
        """Append, and retry until the disk accepts it: the event states what already happened.

        Raises JournalError only when its intent is not open, or the journal is closed.
        """
        while True:
            try:
                return await self.append(event)
            except JournalUnavailable as error:
                if self._is_stopping:
                    raise JournalUnavailable(_CLOSED) from error
                await self.wait_recovered()

    def append_nowait(self, event: AnyEvent) -> None:
        """Queue a record to be written soon, before later appends; no caller waits for it.

        It outlasts faults of the disk. While MAX_BUFFERED records are on their way it is left out
        and counted.
        """
        if len(self._buffer) >= MAX_BUFFERED or self._is_stopping:
            self.drop()
            return
        self._queue(_unawaited(event))

    async def written(self) -> None:
        """Return once the records so far are on disk; after WRITTEN_WAIT_S or a fault all the same.

        Then they follow when the disk recovers.
        """
        if (last := self._last_queued) is not None:
            with anyio.move_on_after(WRITTEN_WAIT_S), suppress(JournalUnavailable):
                await last.durable()

    def drop(self) -> None:
        """Count a record that is not written; the next checkpoint states the count."""
        self._unrecorded = self._unrecorded._replace(decisions=self._unrecorded.decisions + 1)
        self.records_unrecorded += 1

    def drop_disruption(self) -> None:
        """Count the end of a pod that is not recorded, as `drop` does."""
        self._unrecorded = self._unrecorded._replace(disruptions=self._unrecorded.disruptions + 1)
        self.disruptions_unrecorded += 1

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Write what is appended until closed or cancelled; either way, flush first."""
        self._stopped = anyio.Event()
        flushing = anyio.CancelScope(shield=True)
        async with anyio.create_task_group() as group:
            group.start_soon(self._write_loop, flushing)
            group.start_soon(self._wake_for_checkpoints)
            task_status.started()
            try:
                await self._stop.wait()
            finally:
                self._request_stop()
                flushing.deadline = self._now() + FLUSH_TIMEOUT_S

    async def finish(self) -> None:
        """Flush and write the last checkpoint; later appends are refused, readers read on."""
        with anyio.CancelScope(shield=True):
            self._request_stop()
            await self._stopped.wait()

    async def close(self) -> None:
        """Finish, and let the directory go."""
        with anyio.CancelScope(shield=True):
            await self.finish()
            self._fail_batch(self._take_pending(), _CLOSED)
            if not self._disk_stuck:  # else the thread uses the file until the process ends
                with anyio.move_on_after(FLUSH_TIMEOUT_S), suppress(OSError):
                    await self._thread.run(self.close_files)
            self._thread.close()

    def close_files(self) -> None:
        """Let the directory go; it blocks, and nothing is written any more."""
        self._writer.close()
        self._lock.close()

    def _request_stop(self) -> None:
        self._is_stopping = True
        self._stop.set()
        self._work_available.notify()

    async def _append(self, event: AnyEvent, encoded: Callable[[AnyEvent], EncodedEvent]) -> int:
        self._raise_if_unhealthy()
        await self._slots.acquire()
        try:
            self._raise_if_unhealthy()
            pending = PendingRecord(event, encoded(event), is_awaited=True)
            self._intents.admit(event)
        except JournalError:
            self._slots.release()
            raise
        self._queue(pending)
        return await pending.durable()

    def _queue(self, pending: PendingRecord) -> None:
        self._last_queued = pending
        self._buffer.append(pending)
        self._work_available.notify()

    def _raise_if_unhealthy(self) -> None:
        if reason := self.reason:
            self.records_refused += 1
            raise JournalUnavailable(reason)

    def _take_pending(self, limit: int = 2 * MAX_BUFFERED) -> list[PendingRecord]:
        taken = self._buffer[:limit]
        del self._buffer[:limit]
        return taken

    async def _write_loop(self, flushing: anyio.CancelScope) -> None:
        try:
            with flushing:
                while not (self._is_stopping and not self._buffer):
                    if self._buffer or self._writer.checkpoint_due():
                        await self._commit(self._take_pending(MAX_BATCH))
                    else:
                        await self._work_available.wait()
                        await checkpoint()  # a decision and its intent share one write
                    if self._is_stopping and self._health.reason(self._now):
                        break
                if self._health.reason(self._now) == "":
                    await self._commit([], force_checkpoint=True)
        finally:
            self._fail_batch(self._take_pending(), _CLOSED)
            self._health.notify_waiters()
            self._stopped.set()

    async def _wake_for_checkpoints(self) -> None:
        """Wake the writer when time alone may make a checkpoint due, until stopped."""
        while not self._is_stopping:
            with anyio.move_on_after(self.checkpointer.due_in_s):
                await self._stop.wait()
            self._work_available.notify()

    async def _commit(self, batch: list[PendingRecord], *, force_checkpoint: bool = False) -> None:
        try:
            await self._write(batch, force_checkpoint=force_checkpoint)
        except OSError as error:
            refused_before = self.records_refused
            self._fail_batch([*batch, *self._take_pending()], os_error_text(error))
            await self._retry_until_recovered(error, refused_before)
        except BaseException:
            self._fail_batch(batch, _CLOSED)
            raise

    async def _write(self, batch: list[PendingRecord], *, force_checkpoint: bool = False) -> None:
        """Write a batch in the disk's thread and wake the tasks that wait for it.

        The event loop never waits for the disk, which may hang: probes and the Lease go on.
        """
        commit = self._commit_call(batch, force_checkpoint=force_checkpoint)
        self._health.write_started(self._now())
        try:
            await self._on_disk_thread(commit, partial(self._complete_batch, batch))
        finally:
            self._health.write_finished(self._now())

    def _commit_call(
        self, batch: Sequence[PendingRecord], *, force_checkpoint: bool = False
    ) -> Callable[[], CommitResult]:
        encoded, events = [one.encoded for one in batch], [one.event for one in batch]
        context_for = partial(self._intents.checkpoint_context, events, self._unrecorded)
        return partial(self._writer.commit, encoded, context_for, force_checkpoint=force_checkpoint)

    def _complete_batch(self, batch: list[PendingRecord], written: CommitResult) -> None:
        """Let the callers go on that wait for a batch, which is durable, and readers have it."""
        self._unrecorded = self._unrecorded.minus(written.unrecorded_reported)
        for seq, pending in enumerate(batch, written.first_seq):
            pending.seq = seq
            self._intents.committed(pending.event, seq)
            self._release(pending)
        if written.records:
            self.records_written += len(written.records)
            self.write_times.observe(written.synced_in_s)
            self.tail.publish(written.records)
        if self._segment_first_seq != self._writer.first_seq:
            self._segment_first_seq = self._writer.first_seq
            self.segments.advance("a segment was begun")

    async def _retry_until_recovered(self, error: OSError, refused_before: int) -> None:
        """Try the disk again until it accepts a record of the fault, or until stopped."""
        delay_s = FIRST_RETRY_S
        self._health.mark_failed(os_error_text(error), self._now())
        while not self._is_stopping:
            with anyio.move_on_after(delay_s):
                await self._stop.wait()
            delay_s = min(2 * delay_s, MAX_RETRY_S)
            try:
                await self._on_disk_thread(self._writer.check_space_and_repair)
                await self._write([_unawaited(self._resumed_event(refused_before))])
            except OSError as retry_error:
                self._health.mark_failed(os_error_text(retry_error), self._now())
            else:
                self._health.mark_recovered()
                return

    def _resumed_event(self, refused_before: int) -> AnyEvent:
        now = self._now()
        data = JournalResumed(
            down_ms=round(self._health.down_s(now) * 1000),
            message=self._health.reason(self._now),
            refused=self.records_refused - refused_before,
        )
        last = self._writer.last_seq
        return journal_event(self.source, JOURNAL_RESUMED, last, self._clock(), data)

    async def _on_disk_thread(
        self, work: Callable[[], _T], then: Callable[[_T], None] | None = None
    ) -> None:
        try:
            await self._thread.run(work, then)
        except anyio.get_cancelled_exc_class():
            self._disk_stuck = True
            raise

    def _fail_batch(self, batch: list[PendingRecord], message: str) -> None:
        """Fail the waiting callers; keep other records until the disk recovers."""
        unawaited = [pending for pending in batch if not pending.is_awaited]
        for pending in batch:
            if pending.is_awaited:
                self.records_refused += 1
                self._intents.discarded(pending.event)
                self._release(pending, message)
        if message != _CLOSED:
            self._buffer[:0] = unawaited
            return
        for pending in unawaited:
            self.drop()
            pending.end(message)

    def _release(self, pending: PendingRecord, failure: str = "") -> None:
        pending.end(failure)
        if pending.is_awaited:
            self._slots.release()


@asynccontextmanager
async def open_journal(
    directory: Path,
    config: JournalConfig,
    *,
    clock: Callable[[], datetime],
    monotonic: Callable[[], float] = time.monotonic,
    recovered: Wakeup | None = None,
) -> AsyncIterator[Journal]:
    """Open a journal, write what the block appends, and flush and close it at the end."""
    journal = await Journal.open(
        directory, config, clock=clock, monotonic=monotonic, recovered=recovered
    )
    async with anyio.create_task_group() as group:
        await group.start(journal.run)
        try:
            yield journal
        finally:
            await journal.close()
