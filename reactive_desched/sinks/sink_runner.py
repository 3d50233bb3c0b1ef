"""Drives one sink along the journal at its own pace: whatever fails in between, nothing is lost."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync

from reactive_desched.errors import EventRefused, JournalError, RecordsGone, SinkUnavailable
from reactive_desched.journal.cursors import Position, Positions
from reactive_desched.journal.records import Entry, recorded_at
from reactive_desched.journal.tail import Tail
from reactive_desched.sinks.dead_letters import DeadLetters
from reactive_desched.sinks.retry_backoff import TELL_EVERY_S, Outage
from reactive_desched.sinks.sink import Sink
from reactive_desched.telemetry.logs import Log

KEEP_EVERY_S: Final = 1.0
"""A position is written at most this often; what is lost of it comes again, under equal ids."""
_LAST_KEEP_S: Final = 3.0
_CLOSE_S: Final = 3.0


class Relay:
    """Hands a sink every record once it is durable, in order, and remembers how far it came.

    Its attributes and properties are the sink's numbers for the metrics.
    """

    def __init__(
        self,
        sink: Sink,
        tail: Tail,
        positions: Positions,
        dead_letters: DeadLetters,
        *,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        rng: Random,
        log: Log,
    ) -> None:
        self.delivered = 0
        self.retries = 0
        self.dead_letters = 0
        self.lost = 0
        self.position = 0
        self._sink = sink
        self._tail = tail
        self._positions = positions
        self._dead_letters = dead_letters
        self._clock = clock
        self._wall = wall
        self._log = log
        self._outage = Outage(sink.name, rng, clock, log)
        self._begun = False
        self._next: bytes | None = None  # the oldest record that the sink does not have
        self._moved = anyio.Event()
        self._kept = -1
        self._keep_at = 0.0
        self._told_at: float | None = None

    @property
    def name(self) -> str:
        """What the sink is called."""
        return self._sink.name

    @property
    def kept(self) -> int:
        """The last record that is durably known to be with the sink; 0 before that is known."""
        return max(0, self._kept)

    @property
    def lag_records(self) -> int:
        """How many records the sink does not have yet."""
        return max(0, self._tail.last - self.position) if self._begun else 0

    @property
    def lag_s(self) -> float:
        """How long ago the oldest record that the sink does not have was recorded."""
        since = None if self._next is None else recorded_at(self._next)
        return 0.0 if since is None else max(0.0, (self._wall() - since).total_seconds())

    @property
    def trouble(self) -> str:
        """What keeps the sink from getting its records; empty when nothing does."""
        return self._outage.trouble

    async def run(self) -> None:
        """Follow the journal until cancelled; then keep the position and close the sink."""
        try:
            kept, is_there = await self._last_place()
            self._begin(kept, is_there=is_there)
            while True:
                await self._go_on()
        finally:
            with anyio.move_on_after(_LAST_KEEP_S, shield=True):
                await self._keep()
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._sink.close()

    async def flushed(self, within_s: float) -> bool:
        """Wait until the sink has everything that is durable now; say whether it came to that."""
        goal = self._tail.last
        with anyio.move_on_after(within_s):
            while not self._begun or self.position < goal:
                await self._moved.wait()
            return True
        return False

    async def _last_place(self) -> tuple[Position | None, bool]:
        """Return the kept position, and whether there is one at all, however long that takes."""
        while True:
            try:
                return await run_sync(self._look_up, abandon_on_cancel=True)
            except OSError as error:
                await self._outage.pause(f"the sink's position cannot be looked up: {error}")

    def _look_up(self) -> tuple[Position | None, bool]:
        kept = self._positions.read(self._sink.name)
        return kept, kept is not None or self._positions.is_there(self._sink.name)

    def _begin(self, kept: Position | None, *, is_there: bool) -> None:
        name = self._sink.name
        self._outage.over()
        self._begun = True
        if kept is not None:
            if kept.seq <= self._tail.last:  # else it is of another journal: nothing is kept yet
                self._kept = kept.seq
            self._move(kept.seq)
        elif is_there:
            self._move(self._oldest())
            text = "the sink's position cannot be read: all that is in the journal is sent again"
            self._log.warning(text, sink=name, begins_behind=self.position)
        else:
            self._move(self._start())
            self._log.info("the sink has no position yet", sink=name, begins_behind=self.position)

    def _start(self) -> int:
        return self._oldest() if self._sink.from_start else self._tail.last

    def _oldest(self) -> int:
        return max(0, self._tail.oldest - 1)

    def _start_over(self, place: int) -> None:
        text = "the sink's position is of another journal: starting over"
        self._log.warning(text, sink=self._sink.name, kept=place, last=self._tail.last)
        self._move(self._start())

    async def _go_on(self) -> None:
        try:
            entries = await self._tail.after(self.position)
        except RecordsGone as gone:
            self._skip_to(gone.oldest)
        except (OSError, EOFError, JournalError) as error:
            await self._outage.pause(f"the journal cannot be read: {error}")
        else:
            await (self._hand_over(entries) if entries else self._rest())

    async def _rest(self) -> None:
        """Wait for more; meanwhile keep the position, once that is due."""
        self._next = None
        if self._kept == self.position:
            await self._tail.beyond(self.position)
            return
        with anyio.move_on_after(self._keep_at - self._clock()):
            await self._tail.beyond(self.position)
        await self._keep_if_due()

    async def _hand_over(self, entries: Sequence[Entry]) -> None:
        while entries:
            self._next = entries[0].raw
            count = await self._deliver(entries)
            if count:
                self._move(entries[count - 1].seq)
                await self._keep_if_due()
            entries = entries[count:]

    async def _deliver(self, entries: Sequence[Entry]) -> int:
        """Return how many records are done with; after a failure and a pause, none."""
        try:
            count = _checked(await self._sink.deliver(entries), len(entries))
        except EventRefused as refused:
            await self._bury(entries[0], str(refused))
            return 1
        except SinkUnavailable as error:
            self.retries += 1
            await self._outage.pause(str(error), error.retry_after_s)
            return 0
        except Exception as error:  # noqa: BLE001  # a bug in one sink must not end the others
            self.retries += 1
            await self._outage.pause(_bug(error))
            return 0
        self._outage.over()
        self.delivered += count
        return count

    async def _bury(self, entry: Entry, reason: str) -> None:
        """Put an event with the dead letters, however long that takes."""
        while True:
            try:
                dropped = await self._in_thread(self._dead_letters.keep, entry, reason)
            except OSError as error:
                await self._outage.pause(f"the dead letters cannot be written: {error}")
                continue
            self._outage.over()
            self.dead_letters += 1
            self._log.warning(
                "event will never be taken: it is with the dead letters",
                sink=self._sink.name,
                sequence=entry.seq,
                reason=reason,
                oldest_letters_dropped=dropped,
            )
            return

    def _skip_to(self, oldest: int) -> None:
        if (gone := oldest - 1 - self.position) <= 0:  # not behind the oldest: beyond the newest
            self._start_over(self.position)
            return
        self.lost += gone
        name, first = self._sink.name, self.position + 1
        text = "records were removed before the sink had them"
        self._log.warning(text, sink=name, lost=gone, first=first, goes_on_at=oldest)
        self._move(oldest - 1)

    def _move(self, position: int) -> None:
        self.position = position
        self._moved.set()
        self._moved = anyio.Event()

    async def _keep_if_due(self) -> None:
        if self._clock() >= self._keep_at and self._kept != self.position:
            await self._keep()

    async def _keep(self) -> None:
        """Write the position; when that fails, tell of it and try again a second later."""
        position = self.position
        if not self._begun or self._kept == position:
            return
        self._keep_at = self._clock() + KEEP_EVERY_S
        try:
            await self._in_thread(self._positions.keep, position)
        except OSError as error:
            self._tell_of_fault(error)
        else:
            self._kept = position
            self._told_at = None

    def _tell_of_fault(self, error: OSError) -> None:
        now = self._clock()
        if self._told_at is None or now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            text = "position of a sink cannot be kept: after a crash, more is sent again"
            self._log.warning(text, sink=self._sink.name, reason=str(error))

    async def _in_thread(self, keep: Callable[..., Any], *what: object) -> Any:  # of both keepers
        time = self._wall().astimezone(UTC).isoformat(timespec="milliseconds")
        time = time.removesuffix("+00:00") + "Z"
        work = partial(keep, self._sink.name, *what, time)
        return await run_sync(work, abandon_on_cancel=True)


def _checked(count: int, most: int) -> int:
    if not 1 <= count <= most:
        raise RuntimeError(f"the sink says that {count} of {most} records are safely there")
    return count


def _bug(error: Exception) -> str:
    """Name a foreign exception and its place; its text may hold what is not for logs."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = "" if frame is None else f" at {frame.tb_frame.f_code.co_name}:{frame.tb_lineno}"
    return f"unexpected {type(error).__name__}{place}: please report it"
