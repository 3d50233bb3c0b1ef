"""A relay on virtual time: made-up records, a sink that does as scripted, notes in memory."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from math import inf
from pathlib import Path
from random import Random
from typing import Final

import anyio
import anyio.lowlevel
import trio
import trio.testing
from anyio.to_thread import current_default_thread_limiter

from reactive_desched.errors import EventRefused
from reactive_desched.journal.cursors import Position, Positions
from reactive_desched.journal.records import Entry
from reactive_desched.journal.tail import Tail
from reactive_desched.sinks.dead_letters import DeadLetters
from reactive_desched.sinks.sink_runner import Relay
from tests.support.entries import evictions
from tests.support.log_book import LogBook

__all__ = ["Following", "ScriptedSink", "eventually"]

RECORDED: Final = datetime(2026, 3, 29, 1, 30, 1, tzinfo=UTC)
"""When the records of `evictions` were written."""


class ScriptedSink:
    """A sink that keeps what it gets and behaves as scripted, at last well."""

    name = "shop"

    def __init__(self, *, from_start: bool = True) -> None:
        self.from_start = from_start
        self.script: list[Exception | int] = []
        self.always: Exception | None = None
        self.poison: int | None = None
        self.got: list[int] = []
        self.asked: list[tuple[float, int]] = []
        self.closed = 0

    async def deliver(self, entries: Sequence[Entry]) -> int:
        """Take as many as the script says, up to the poisonous one; fail if it says so."""
        await anyio.lowlevel.checkpoint()
        self.asked.append((trio.current_time(), entries[0].seq))
        step = self.always or (self.script.pop(0) if self.script else len(entries))
        if isinstance(step, Exception):
            raise step
        if entries[0].seq == self.poison:
            raise EventRefused("too large")
        seqs = [entry.seq for entry in entries[:step]]
        taken = list(takewhile(lambda seq: seq != self.poison, seqs))
        self.got += taken
        return len(taken) if len(taken) < len(seqs) else step

    async def close(self) -> None:
        """Count how often it was closed."""
        self.closed += 1


class MemoryPositions(Positions):
    """Positions in memory that remember every time, and can be made to fail."""

    def __init__(self, seq: int | None = None) -> None:
        self.kept: list[Position] = [] if seq is None else [Position(seq, "")]
        self.fault: OSError | None = None
        self.tries = 0
        self.is_damaged = False

    def read(self, name: str) -> Position | None:
        """Return the last one, whoever asks."""
        return self.kept[-1] if self.kept else None

    def is_there(self, name: str) -> bool:
        """Say whether there is one, readable or not."""
        return self.is_damaged or bool(self.kept)

    def keep(self, name: str, seq: int, time: str) -> None:
        """Keep one, or fail."""
        self.tries += 1
        if self.fault is not None:
            raise self.fault
        self.kept.append(Position(seq, time))

    @property
    def last(self) -> int | None:
        """The newest place that was kept."""
        return self.kept[-1].seq if self.kept else None


class FragileDeadLetters(DeadLetters):
    """Dead letters on a disk that can be full."""

    fault: OSError | None = None

    def keep(self, sink: str, entry: Entry, reason: str, time: str) -> int:
        """Keep a letter, or fail."""
        if self.fault is not None:
            raise self.fault
        return super().keep(sink, entry, reason, time)


class Following:
    """A relay with all it works with; records are 1, 2, 3 and so on.

    `kept` is the position it has from an earlier life; with `removed` the first so many records
    are gone, as retention leaves it.
    """

    def __init__(
        self,
        directory: Path,
        sink: ScriptedSink | None = None,
        *,
        kept: int | None = None,
        removed: int = 0,
    ) -> None:
        self.sink = sink or ScriptedSink()
        self.tail = Tail(directory, "//here", removed + 1, removed)
        self.positions = MemoryPositions(kept)
        self.graves = FragileDeadLetters(directory / "dead-letters")
        self.book = LogBook(trio.current_time)
        self.relay = self.again()

    def again(self) -> Relay:
        """Make the relay anew, as a restart does."""
        self.relay = Relay(
            self.sink,
            self.tail,
            self.positions,
            self.graves,
            clock=trio.current_time,
            wall=lambda: RECORDED + timedelta(seconds=trio.current_time()),
            rng=Random(1),
            log=self.book,
        )
        return self.relay

    def record(self, count: int) -> None:
        """Have so many more records become durable."""
        self.tail.published(evictions(count, self.tail.last + 1))

    async def caught_up(self) -> None:
        """Wait until the relay is done with every record; virtual time passes meanwhile."""
        await eventually(lambda: self.relay.position == self.tail.last)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Relay while the block lasts, and let time pass."""
        async with anyio.create_task_group() as group:
            group.start_soon(_pass_time)
            async with anyio.create_task_group() as running:
                running.start_soon(self.relay.run)
                await anyio.sleep(0.001)  # it begins
                yield
                running.cancel_scope.cancel()
            group.cancel_scope.cancel()


async def eventually(holds: Callable[[], bool]) -> None:
    """Let virtual time pass until something holds."""
    with anyio.fail_after(10_000):
        while not holds():  # noqa: ASYNC110  # what is waited for knows nothing of events
            await anyio.sleep(0.05)


async def _pass_time() -> None:
    """Jump to whatever comes next, as soon as every task waits and no thread works.

    The clock's own jumping takes a working thread for idleness.
    """
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock), "it takes virtual time"
    clock.autojump_threshold = inf
    while True:
        await trio.testing.wait_all_tasks_blocked()
        ahead_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if current_default_thread_limiter().borrowed_tokens or ahead_s == inf:
            time.sleep(0.0002)  # noqa: ASYNC251  # nobody but the thread has anything to do
        elif ahead_s > 0:
            clock.jump(ahead_s)
