"""A journal with a relay that carries its events to Kafka, as the controller has it."""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import anyio
from anyio.to_thread import run_sync

from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.journal import Journal, open_journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig
from reactive_desched.journal.records import AnyEvent, JournalRecord
from reactive_desched.journal.segments import list_segments, read_records
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.dead_letters import DeadLetter, DeadLetterFiles
from reactive_desched.sinks.kafka.sink import KafkaSink
from reactive_desched.sinks.sink_runner import SinkRunner
from tests.support.control_plane import wait_until
from tests.support.dead_letters import read_dead_letters
from tests.support.journals import some_events

__all__ = ["JournalToKafka", "journal_to_kafka"]

SEGMENT_BYTES, SEGMENT_AGE_S = 1 << 20, 3600.0
CHECKPOINT_EVERY = 500
MAX_EVENTS = 15_000


class RecordingLog:
    """Keeps what the sink and its relay log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **values: Any) -> None:  # as structlog takes them
        """Keep a line."""
        self.lines.append(f"{event} {values}")

    debug = warning = info


class JournalToKafka:
    """What a test sees of it: append events, wait, and look at what is recorded."""

    def __init__(
        self, folder: Path, journal: Journal, relay: SinkRunner, log: RecordingLog
    ) -> None:
        self.journal = journal
        self.runner = relay
        self.log = log
        self._folder = folder
        self._unread_events = iter(some_events(MAX_EVENTS, pods=24, source=journal.source))

    def events(self, count: int) -> list[AnyEvent]:
        """Return the next so many made-up events, MAX_EVENTS in all."""
        return list(islice(self._unread_events, count))

    async def append(self, events: Iterable[AnyEvent], *, per_second: float = 0.0) -> list[float]:
        """Append events one after the other, at a pace if given; return how long each took."""
        took = []
        for event in events:
            began = time.perf_counter()
            await self.journal.append(event)
            took.append(time.perf_counter() - began)
            if per_second:
                await anyio.sleep(max(0.0, 1 / per_second - took[-1]))
        return took

    async def drained(self, within_s: float) -> None:
        """Wait until Kafka has everything; raise with what the relay complains of."""
        if not await self.runner.drained(within_s):
            raise TimeoutError(f"{self.runner.lag_records} records wait: {self.runner.error}")

    async def wait_for_failure(self, text: str, within_s: float) -> str:
        """Return what keeps the relay waiting as soon as it says these words."""

        def said() -> str:
            failure = self.runner.error
            return failure if text in failure else ""

        what = f"the relay complains of {text!r}"
        return await run_sync(lambda: wait_until(said, within_s=within_s, what=what, every_s=0.05))

    @property
    def recorded(self) -> list[JournalRecord]:
        """Every record of the journal."""
        return [entry for one in list_segments(self._folder) for entry in read_records(one)]

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """The events that Kafka will never take."""
        path = DeadLetterFiles(self._folder / "dead-letters").path("kafka")
        return list(read_dead_letters(path)) if path.exists() else []


def _now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def journal_to_kafka(
    folder: Path, kafka: KafkaSettings, clock: Callable[[], datetime] = _now
) -> AsyncIterator[JournalToKafka]:
    """Keep a journal in a folder and relay it while the block runs."""
    making = JournalConfig(Rotation(SEGMENT_BYTES, SEGMENT_AGE_S), every_records=CHECKPOINT_EVERY)
    async with open_journal(folder, making, clock=clock) as journal:
        log = RecordingLog()
        relay = SinkRunner(
            KafkaSink(kafka, clock=anyio.current_time, log=log),
            journal.tail,
            Cursors(folder / "positions"),
            DeadLetterFiles(folder / "dead-letters"),
            clock=anyio.current_time,
            wall=_now,
            rng=Random(0),
            log=log,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(relay.run)
            try:
                yield JournalToKafka(folder, journal, relay, log)
            finally:
                group.cancel_scope.cancel()
