"""A relay on virtual time: made-up records, a sink that does as scripted, notes in memory."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Final

import anyio
import anyio.lowlevel
import trio

from reactive_desched.errors import EventRejected
from reactive_desched.journal.cursors import Cursor, Cursors
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.tail import LiveTail
from reactive_desched.sinks.dead_letters import DeadLetterFiles
from reactive_desched.sinks.sink_runner import SinkRunner
from tests.support.entries import eviction_entries
from tests.support.recording_logger import RecordingLogger
from tests.support.thread_time import time_beside_threads

__all__ = ["ScriptedSink", "SinkRunnerHarness", "wait_until"]

RECORDED: Final = datetime(2026, 3, 29, 1, 30, 1, tzinfo=UTC)
"""When the records of `eviction_entries` were written."""


class ScriptedSink:
    """A sink that keeps what it gets and behaves as scripted, at last well."""

    name = "shop"

    def __init__(self, *, from_start: bool = True) -> None:
        self.from_start = from_start
        self.script: list[Exception | int] = []
        self.always_raise: Exception | None = None
        self.always_take_s = 0.0
        self.poison_seq: int | None = None
        self.delivered: list[int] = []
        self.attempts: list[tuple[float, int]] = []
        self.closed = 0

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Take as many as the script says, up to the poisonous one; fail if it says so."""
        await anyio.sleep(self.always_take_s)
        self.attempts.append((trio.current_time(), entries[0].seq))
        step = self.always_raise or (self.script.pop(0) if self.script else len(entries))
        if isinstance(step, Exception):
            raise step
        if entries[0].seq == self.poison_seq:
            raise EventRejected("too large")
        seqs = [entry.seq for entry in entries[:step]]
        taken = list(takewhile(lambda seq: seq != self.poison_seq, seqs))
        self.delivered += taken
        return len(taken) if len(taken) < len(seqs) else step

    async def close(self) -> None:
        """Count how often it was closed."""
        self.closed += 1


class MemoryCursors(Cursors):
    """Positions in memory that remember every time, and can be made to fail."""

    def __init__(self, seq: int | None = None) -> None:
        self.saved: list[Cursor] = [] if seq is None else [Cursor(seq, "")]
        self.fault: OSError | None = None
        self.save_attempts = 0
        self.is_damaged = False

    def read(self, name: str) -> Cursor | None:
        """Return the last one, whoever asks."""
        return self.saved[-1] if self.saved else None

    def exists(self, name: str) -> bool:
        """Say whether there is one, readable or not."""
        return self.is_damaged or bool(self.saved)

    def save(self, name: str, seq: int, time: str) -> None:
        """Keep one, or fail."""
        self.save_attempts += 1
        if self.fault is not None:
            raise self.fault
        self.saved.append(Cursor(seq, time))

    @property
    def last_seq(self) -> int | None:
        """The newest place that was kept."""
        return self.saved[-1].seq if self.saved else None


class FragileDeadLetters(DeadLetterFiles):
    """Dead letters on a disk that can be full."""

    fault: OSError | None = None

    def append(self, sink: str, entry: JournalRecord, reason: str, time: str) -> int:
        """Keep a letter, or fail."""
        if self.fault is not None:
            raise self.fault
        return super().append(sink, entry, reason, time)


class SinkRunnerHarness:
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
        self.tail = LiveTail(directory, "//here", removed + 1, removed)
        self.cursors = MemoryCursors(kept)
        self.dead_letters = FragileDeadLetters(directory / "dead-letters")
        self.logger = RecordingLogger(trio.current_time)
        self.runner = self.restart()

    def restart(self) -> SinkRunner:
        """Make the relay anew, as a restart does."""
        self.runner = SinkRunner(
            self.sink,
            self.tail,
            self.cursors,
            self.dead_letters,
            clock=trio.current_time,
            wall=lambda: RECORDED + timedelta(seconds=trio.current_time()),
            rng=Random(1),
            log=self.logger,
        )
        return self.runner

    def record(self, count: int) -> None:
        """Have so many more records become durable."""
        self.tail.publish(eviction_entries(count, self.tail.last_seq + 1))

    async def caught_up(self) -> None:
        """Wait until the relay is done with every record; virtual time passes meanwhile."""
        await wait_until(lambda: self.runner.cursor == self.tail.last_seq)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Relay while the block lasts, and let time pass."""
        async with time_beside_threads(), anyio.create_task_group() as running:
            running.start_soon(self.runner.run)
            await anyio.sleep(0.001)  # it begins
            yield
            running.cancel_scope.cancel()


async def wait_until(condition: Callable[[], bool]) -> None:
    """Let virtual time pass until something holds."""
    with anyio.fail_after(10_000):
        while not condition():  # noqa: ASYNC110  # what is waited for knows nothing of events
            await anyio.sleep(0.05)
