"""Delivers the journal to one sink at its own pace, at least once, across failures."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, Final, Protocol, runtime_checkable

import anyio
from anyio.to_thread import run_sync

from reactive_desched.api.sink import Sink
from reactive_desched.errors import EventRejected, JournalError, RecordsExpired, SinkUnavailable
from reactive_desched.journal.cursors import Cursor, Cursors
from reactive_desched.journal.records import JournalRecord, recorded_at
from reactive_desched.journal.tail import LiveTail
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.sinks.dead_letters import DeadLetterFiles
from reactive_desched.telemetry.logs import DebugLogger, Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge
from reactive_desched.text.ages import describe_asked_wait
from reactive_desched.text.causes import NO_ANSWER_YET

INITIAL_WAIT_S: Final = 0.2
MAX_WAIT_S: Final = 30.0
MAX_RETRY_AFTER_S: Final = 3600.0
"""The longest Retry-After that is obeyed."""
LOG_EVERY_S: Final = 60.0
MAX_LETTER_LINES: Final = 10
"""So many dead letters have a line of the log in `LOG_EVERY_S`; all are in their file."""
_MIN_LOG_INTERVAL_S: Final = 0.5


class RetryBackoff:
    """Waits drawn from [d, 2d) while d doubles from 0.2 s; at most 30 s, or what was asked for.

    `current_error` is the last error, and empty when there is none. The log has it when the outage
    begins, when the error changes, each time the outage has lasted twice as long, once a minute,
    and when it is over.
    """

    def __init__(self, sink: str, rng: Random, clock: Callable[[], float], log: Logger) -> None:
        self.current_error = ""
        self._sink = sink
        self._rng = rng
        self._clock = clock
        self._log = log
        self._since = 0.0
        self._failures = 0
        self._logged_at = 0.0
        self._logged_error = ""

    async def wait(self, error: str, retry_after_s: float | None = None) -> None:
        """Count a failure, log it when that is due, and wait."""
        now = self._clock()
        if not self._failures:
            self._since = now
        self._failures += 1
        self.current_error = error + describe_asked_wait(retry_after_s, MAX_RETRY_AFTER_S)
        if self._log_is_due(now):
            self._log_failure(now)
        await anyio.sleep(self._wait_s(retry_after_s))

    def recovered(self) -> None:
        """Note that something worked."""
        if self._failures:
            lasted_s = round(self._clock() - self._since, 1)
            self._log.info(
                "the sink is available again",
                sink=self._sink,
                after_s=lasted_s,
                attempts=self._failures,
            )
        self._failures = 0
        self.current_error = ""

    def _log_is_due(self, now: float) -> bool:
        if self._failures == 1 or self.current_error != self._logged_error:
            return True
        logged_after_s = max(self._logged_at - self._since, _MIN_LOG_INTERVAL_S)
        return now - self._since >= 2 * logged_after_s or now - self._logged_at >= LOG_EVERY_S

    def _log_failure(self, now: float) -> None:
        self._logged_at, self._logged_error = now, self.current_error
        self._log.warning(
            "the sink is unavailable",
            sink=self._sink,
            message=self.current_error,
            for_s=round(now - self._since, 1),
            attempts=self._failures,
        )

    def _wait_s(self, retry_after_s: float | None) -> float:
        base_s = min(INITIAL_WAIT_S * 2.0 ** min(self._failures - 1, 16), MAX_WAIT_S / 2)
        own_s = base_s * (1.0 + self._rng.random())
        return own_s if retry_after_s is None else max(own_s, min(retry_after_s, MAX_RETRY_AFTER_S))


SAVE_EVERY_S: Final = 1.0
"""A position is written at most this often; what is lost of it comes again, under equal ids."""
_FINAL_SAVE_TIMEOUT_S: Final = 3.0
_CLOSE_TIMEOUT_S: Final = 3.0

DELIVERED: Final = counter(
    "sink_delivered",
    "Records that the sink has done with: acknowledged, or left out by its types; one that is sent"
    " again counts again.",
    "sink",
)
RETRIES: Final = counter("sink_retries", "Deliveries that failed and were tried again.", "sink")
DEAD_LETTERS: Final = counter(
    "sink_dead_letters",
    "Records that the sink rejected for good, kept in its dead-letter file.",
    "sink",
)
LOST: Final = counter(
    "sink_lost", "Records removed from the journal before the sink had them.", "sink"
)
LAG_RECORDS: Final = gauge(
    "sink_lag_records", "Durable records that the sink does not have yet.", "sink"
)
LAG_SECONDS: Final = gauge(
    "sink_lag_seconds",
    "Age of the oldest record that the sink does not have yet; 0 when it has all.",
    "sink",
)
UP: Final = gauge(
    "sink_up", "1 while the sink accepts records; 0 until it has taken or rejected one.", "sink"
)


DROPPED: Final = counter(
    "sink_dropped_spans", "Spans that a collector dropped of requests that it took.", "sink"
)


@runtime_checkable
class CountsDropped(Protocol):
    """A sink that learns what its collector dropped."""

    dropped: int


class SinkRunner:
    """Hands a sink every record once it is durable, in order, and remembers how far it came.

    Its attributes and properties are the sink's numbers for the metrics.
    """

    def __init__(
        self,
        sink: Sink,
        tail: LiveTail,
        cursors: Cursors,
        dead_letter_files: DeadLetterFiles,
        *,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        rng: Random,
        log: DebugLogger,
    ) -> None:
        self.delivered = 0
        self.retries = 0
        self.dead_letters = 0
        self.last_rejection = ""
        self.cursor = 0
        self._sink = sink
        self._tail = tail
        self._cursors = cursors
        self._dead_letter_files = dead_letter_files
        self._clock = clock
        self._wall = wall
        self._log = log
        self._backoff = RetryBackoff(sink.name, rng, clock, log)
        self._started = False
        self._skipped = 0
        self._batch_end: int | None = None  # the last record of the batch that is being delivered
        self._oldest_undelivered: bytes | None = (
            None  # the oldest record that the sink does not have
        )
        self._moved = Wakeup()
        self._saved_cursor = -1
        self._save_at = 0.0
        self._save_failure_logged_at: float | None = None
        self._letters_counted_from = -LOG_EVERY_S
        self._letter_lines = self._unlogged_letters = self._letters_dropped = 0

    @property
    def name(self) -> str:
        """Return what the sink is called."""
        return self._sink.name

    @property
    def saved_cursor(self) -> int:
        """The last record that is durably known to be with the sink; 0 before that is known."""
        return max(0, self._saved_cursor)

    @property
    def lost(self) -> int:
        """Return how many records were removed before the sink had them, once that is certain."""
        batch_end = self._batch_end
        return self._skipped + (0 if batch_end is None else self._tail.removed_after(batch_end))

    @property
    def lag_records(self) -> int:
        """Return how many records the sink does not have yet."""
        return max(0, self._tail.last_seq - self.cursor) if self._started else 0

    @property
    def lag_s(self) -> float:
        """Return how long ago the oldest record that the sink does not have was recorded."""
        since = None if self._oldest_undelivered is None else recorded_at(self._oldest_undelivered)
        return 0.0 if since is None else max(0.0, (self._wall() - since).total_seconds())

    @property
    def error(self) -> str:
        """Return what keeps the sink from getting its records; empty when nothing does.

        It is no answer until the sink has taken or rejected one.
        """
        if self._backoff.current_error or self.delivered or self.dead_letters:
            return self._backoff.current_error
        return NO_ANSWER_YET

    def collect(self) -> Iterator[Metric]:
        """Yield the sink's metrics."""
        yield DELIVERED.value(self.delivered, self.name)
        yield RETRIES.value(self.retries, self.name)
        yield DEAD_LETTERS.value(self.dead_letters, self.name)
        yield LOST.value(self.lost, self.name)
        yield LAG_RECORDS.value(self.lag_records, self.name)
        yield LAG_SECONDS.value(self.lag_s, self.name)
        yield UP.value(not self.error, self.name)
        if isinstance(self._sink, CountsDropped):
            yield DROPPED.value(self._sink.dropped, self.name)

    async def run(self) -> None:
        """Follow the journal until cancelled; then keep the position and close the sink."""
        try:
            saved, is_there = await self._load_cursor()
            self._start_at(saved, is_there=is_there)
            while True:
                await self._deliver_batch()
        finally:
            with anyio.move_on_after(_FINAL_SAVE_TIMEOUT_S, shield=True):
                await self._save_cursor()
            with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
                await self._sink.close()

    async def drained(self, timeout_s: float) -> bool:
        """Wait until the sink has everything that is durable now; say whether it came to that."""
        goal = self._tail.last_seq
        with anyio.move_on_after(timeout_s):
            while not self._started or self.cursor < goal:
                await self._moved.wait()
            return True
        return False

    async def _load_cursor(self) -> tuple[Cursor | None, bool]:
        """Return the kept position, and whether there is one at all, however long that takes."""
        while True:
            try:
                return await run_sync(self._read_cursor, abandon_on_cancel=True)
            except OSError as error:
                await self._backoff.wait(f"the sink's position cannot be looked up: {error}")

    def _read_cursor(self) -> tuple[Cursor | None, bool]:
        saved = self._cursors.read(self._sink.name)
        return saved, saved is not None or self._cursors.exists(self._sink.name)

    def _start_at(self, saved: Cursor | None, *, is_there: bool) -> None:
        name = self._sink.name
        self._backoff.recovered()
        self._started = True
        if saved is not None:
            if (
                saved.seq <= self._tail.last_seq
            ):  # else it is of another journal: nothing is kept yet
                self._saved_cursor = saved.seq
            self._advance(saved.seq)
        elif is_there:
            self._advance(self._oldest_cursor())
            text = "the sink's cursor cannot be read: the whole journal is sent again"
            self._log.warning(text, sink=name, cursor=self.cursor)
        else:
            self._advance(self._initial_cursor())
            self._log.debug("a sink starts without a saved cursor", sink=name, cursor=self.cursor)

    def _initial_cursor(self) -> int:
        return self._oldest_cursor() if self._sink.from_start else self._tail.last_seq

    def _oldest_cursor(self) -> int:
        return max(0, self._tail.oldest_seq - 1)

    def _start_over(self, cursor: int) -> None:
        text = "the sink's cursor is of another journal: the sink starts over"
        self._log.warning(text, sink=self._sink.name, kept=cursor, last=self._tail.last_seq)
        self._advance(self._initial_cursor())

    async def _deliver_batch(self) -> None:
        self._batch_end = None  # read_after reports what was removed after the cursor
        try:
            entries = await self._tail.read_after(self.cursor)
        except RecordsExpired as gone:
            self._skip_to(gone.oldest)
        except (OSError, EOFError, JournalError) as error:
            await self._backoff.wait(f"the journal cannot be read: {error}")
        else:
            await (self._deliver_all(entries) if entries else self._wait_for_records())

    async def _wait_for_records(self) -> None:
        """Wait for more; meanwhile keep the position, once that is due."""
        self._oldest_undelivered = None
        if self._saved_cursor == self.cursor:
            await self._tail.wait_past(self.cursor)
            return
        with anyio.move_on_after(self._save_at - self._clock()):
            await self._tail.wait_past(self.cursor)
        await self._save_cursor_if_due()

    async def _deliver_all(self, entries: Sequence[JournalRecord]) -> None:
        self._batch_end = entries[-1].seq
        while entries:
            self._oldest_undelivered = entries[0].raw
            count = await self._deliver(entries)
            if count:
                self._advance(entries[count - 1].seq)
                await self._save_cursor_if_due()
            entries = entries[count:]

    async def _deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Return how many records are done with; after a failure and a pause, none."""
        try:
            count = _validate_count(await self._sink.deliver(entries), len(entries))
        except EventRejected as refused:
            await self._dead_letter(entries[0], str(refused))
            return 1
        except SinkUnavailable as error:
            self.retries += 1
            await self._backoff.wait(str(error), error.retry_after_s)
            return 0
        except Exception as error:  # noqa: BLE001  # a bug in one sink must not end the others
            self.retries += 1
            await self._backoff.wait(_describe_bug(error))
            return 0
        self._backoff.recovered()
        self.delivered += count
        return count

    async def _dead_letter(self, entry: JournalRecord, reason: str) -> None:
        """Put an event with the dead letters, however long that takes."""
        while True:
            try:
                dropped = await self._in_thread(self._dead_letter_files.append, entry, reason)
            except OSError as error:
                await self._backoff.wait(f"the dead letters cannot be written: {error}")
                continue
            self._backoff.recovered()
            self.dead_letters += 1
            self.last_rejection = reason
            self._log_dead_letter(entry.seq, reason, dropped)
            return

    def _log_dead_letter(self, sequence: int, reason: str, dropped: int) -> None:
        """Log a dead letter, ten a minute at most; the next line counts those without one."""
        now = self._clock()
        if now - self._letters_counted_from >= LOG_EVERY_S:
            self._letters_counted_from, self._letter_lines = now, 0
        self._letters_dropped += dropped
        if self._letter_lines >= MAX_LETTER_LINES:
            self._unlogged_letters += 1
            return
        self._log.warning(
            "the sink rejected an event for good: moved to the dead letters",
            sink=self._sink.name,
            sequence=sequence,
            message=reason,
            oldest_letters_dropped=self._letters_dropped,
            without_a_line=self._unlogged_letters,
        )
        self._letter_lines += 1
        self._unlogged_letters = self._letters_dropped = 0

    def _skip_to(self, oldest: int) -> None:
        if (gone := oldest - 1 - self.cursor) <= 0:  # not behind the oldest: beyond the newest
            self._start_over(self.cursor)
            return
        self._skipped += gone
        name, first = self._sink.name, self.cursor + 1
        text = "records were removed before the sink had them"
        self._log.warning(text, sink=name, lost=gone, first=first, resumes_at=oldest)
        self._advance(oldest - 1)

    def _advance(self, cursor: int) -> None:
        self.cursor = cursor
        self._moved.notify()

    async def _save_cursor_if_due(self) -> None:
        if self._clock() >= self._save_at and self._saved_cursor != self.cursor:
            await self._save_cursor()

    async def _save_cursor(self) -> None:
        """Save the cursor; a failure is logged, and tried again a second later."""
        position = self.cursor
        if not self._started or self._saved_cursor == position:
            return
        self._save_at = self._clock() + SAVE_EVERY_S
        try:
            await self._in_thread(self._cursors.save, position)
        except OSError as error:
            self._log_save_failure(error)
        else:
            self._saved_cursor = position
            self._save_failure_logged_at = None

    def _log_save_failure(self, error: OSError) -> None:
        now = self._clock()
        if (
            self._save_failure_logged_at is None
            or now - self._save_failure_logged_at >= LOG_EVERY_S
        ):
            self._save_failure_logged_at = now
            text = "the position of a sink cannot be kept: after a crash, more is sent again"
            self._log.warning(text, sink=self._sink.name, message=str(error))

    async def _in_thread(self, write: Callable[..., Any], *args: object) -> Any:  # of both keepers
        time = self._wall().astimezone(UTC).isoformat(timespec="milliseconds")
        time = time.removesuffix("+00:00") + "Z"
        work = partial(write, self._sink.name, *args, time)
        return await run_sync(work, abandon_on_cancel=True)


def _validate_count(count: int, limit: int) -> int:
    if not 1 <= count <= limit:
        raise RuntimeError(f"the sink acknowledged {count} of {limit} records")
    return count


def _describe_bug(error: Exception) -> str:
    """Name a foreign exception and its place; its text may hold what is not for logs."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    location = "" if frame is None else f" at {frame.tb_frame.f_code.co_name}:{frame.tb_lineno}"
    return f"unexpected {type(error).__name__}{location}: please report it"
