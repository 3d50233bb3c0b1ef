"""A journal with a relay that carries its events to Kafka, as the controller has it."""

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import anyio
from anyio.to_thread import run_sync

from reactive_desched.journal.cursors import Positions
from reactive_desched.journal.journal import Journal, open_journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import Making
from reactive_desched.journal.records import AnyEvent, Entry
from reactive_desched.journal.segments import entries, segments
from reactive_desched.policy.recording import Kafka
from reactive_desched.sinks.dead_letters import DeadLetters, Letter, letters
from reactive_desched.sinks.kafka.sink import KafkaSink
from reactive_desched.sinks.sink_runner import Relay
from tests.support.control_plane import eventually
from tests.support.journals import some_events

__all__ = ["Relaying", "relaying"]

SEGMENT_BYTES, SEGMENT_AGE_S = 1 << 20, 3600.0
CHECKPOINT_EVERY = 500
MOST_EVENTS = 15_000


class LogLines:
    """Keeps what the sink and its relay log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **values: Any) -> None:  # as structlog takes them
        """Keep a line."""
        self.lines.append(f"{event} {values}")

    warning = info


class Relaying:
    """What a test sees of it: append events, wait, and look at what is recorded."""

    def __init__(self, folder: Path, journal: Journal, relay: Relay, log: LogLines) -> None:
        self.journal = journal
        self.relay = relay
        self.log = log
        self._folder = folder
        self._rest = iter(some_events(MOST_EVENTS, pods=24, source=journal.source))

    def events(self, count: int) -> list[AnyEvent]:
        """Return the next so many made-up events, MOST_EVENTS in all."""
        return list(islice(self._rest, count))

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
        if not await self.relay.flushed(within_s):
            raise TimeoutError(f"{self.relay.lag_records} records wait: {self.relay.trouble}")

    async def complaint(self, words: str, within_s: float) -> str:
        """Return what keeps the relay waiting as soon as it says these words."""

        def said() -> str:
            trouble = self.relay.trouble
            return trouble if words in trouble else ""

        what = f"the relay complains of {words!r}"
        return await run_sync(lambda: eventually(said, within_s=within_s, what=what, every_s=0.05))

    @property
    def recorded(self) -> list[Entry]:
        """Every record of the journal."""
        return [entry for one in segments(self._folder) for entry in entries(one)]

    @property
    def dead_letters(self) -> list[Letter]:
        """The events that Kafka will never take."""
        path = DeadLetters(self._folder / "dead-letters").path("kafka")
        return list(letters(path)) if path.exists() else []


@asynccontextmanager
async def relaying(folder: Path, kafka: Kafka) -> AsyncIterator[Relaying]:
    """Keep a journal in a folder and relay it while the block runs."""
    making = Making(Rotation(SEGMENT_BYTES, SEGMENT_AGE_S), every_records=CHECKPOINT_EVERY)
    async with open_journal(folder, making, clock=_now) as journal:
        log = LogLines()
        relay = Relay(
            KafkaSink(kafka, clock=anyio.current_time, log=log),
            journal.tail,
            Positions(folder / "positions"),
            DeadLetters(folder / "dead-letters"),
            clock=anyio.current_time,
            wall=_now,
            rng=Random(0),
            log=log,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(relay.run)
            try:
                yield Relaying(folder, journal, relay, log)
            finally:
                group.cancel_scope.cancel()


def _now() -> datetime:
    return datetime.now(UTC)
