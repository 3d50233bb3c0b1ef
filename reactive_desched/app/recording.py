"""Opens the journal and has it kept and followed: what becomes of a record is arranged here."""

import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import anyio
from msgspec import Struct

from reactive_desched.audit.index_sink import IndexSink
from reactive_desched.journal.cursors import Positions
from reactive_desched.journal.journal import Journal, open_journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import Making
from reactive_desched.journal.paths import DEAD_LETTERS, POSITIONS
from reactive_desched.journal.recorder import Ledger
from reactive_desched.journal.upkeep.retention_worker import Bounds, Followed, Keeper
from reactive_desched.policy.recording import Sinks
from reactive_desched.policy.settings import ReactiveSettings
from reactive_desched.primitives.token_bucket import Rate
from reactive_desched.sinks.dead_letters import DeadLetters
from reactive_desched.sinks.sink import Sink
from reactive_desched.sinks.sink_runner import Relay
from reactive_desched.telemetry.logs import Log
from reactive_desched.telemetry.metrics import Metrics

FLUSHED_WITHIN_S = 3.0
"""At the end sinks have this long to get what is written; the rest follows in the next life."""

LOOK_EVERY_S = 0.25
"""How often we look whether the journal can be written: a stuck disk tells nobody."""

JOURNAL_FAULT = (
    "the journal cannot be written: nothing is evicted",
    "the journal can be written again",
)
"""What is logged of that, and of its end."""


class Books(Struct, frozen=True):
    """A journal that is open, what writes into it, and who follows it."""

    journal: Journal
    ledger: Ledger
    relays: Mapping[str, Relay]
    keeper: Keeper


@asynccontextmanager
async def open_books(
    directory: Path,
    settings: ReactiveSettings,
    metrics: Metrics,
    log: Log,
    best_effort: Sequence[Sink],
    *,
    dry_run: bool,
) -> AsyncIterator[Books]:
    """Open the journal and let everyone follow it while the block lasts.

    Besides the sinks of the settings, those that are `best_effort` follow: they may miss records,
    and no record is kept for them. Raises JournalError where the directory cannot be used, and
    ConfigError for a key that cannot sign.
    """
    kept = settings.journal
    async with open_journal(
        directory, making(settings), clock=utc_now, committed=metrics.journal_written
    ) as journal:
        verdicts = Rate(kept.verdicts.per_second, kept.verdicts.burst)
        ledger = Ledger(journal, utc_now, verdicts=verdicts, dry_run=dry_run)
        sinks = tuple(_sinks(settings.sinks, log))
        everyone = (*sinks, IndexSink(directory), *best_effort)
        relays = {sink.name: _relay(sink, journal, directory, log) for sink in everyone}
        keeper = _keeper(directory, settings, journal, ledger, [relays[s.name] for s in sinks], log)
        async with anyio.create_task_group() as followers, anyio.create_task_group() as keepers:
            for relay in relays.values():
                followers.start_soon(relay.run)
            keepers.start_soon(keeper.run)
            keepers.start_soon(tell, lambda: journal.reason, log, *JOURNAL_FAULT)
            try:
                yield Books(journal, ledger, relays, keeper)
            finally:
                keepers.cancel_scope.cancel()
                await journal.finish()
                await _flushed(relays.values())
                followers.cancel_scope.cancel()


async def tell(reason: Callable[[], str], log: Log, stopped: str, resumed: str) -> None:
    """Log why something stands still, and its end; what passes between two looks is not told."""
    told = ""
    while True:
        await anyio.sleep(LOOK_EVERY_S)
        because = reason()
        if because and because != told:
            log.warning(stopped, because=because)
        elif told and not because:
            log.info(resumed, after=told)
        told = because


def making(settings: ReactiveSettings) -> Making:
    """Say how a journal is kept."""
    journal = settings.journal
    return Making(
        Rotation(journal.max_segment_bytes, journal.max_segment_age_s),
        settings.events.cluster,
        socket.gethostname(),
        journal.checkpoints.every_records,
        journal.checkpoints.every_s,
        journal.checkpoints.key_file,
    )


def utc_now() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


def _sinks(settings: Sinks, log: Log) -> Iterable[Sink]:
    """Make the sinks that are asked for, each loaded only then."""
    if settings.kafka is not None:
        from reactive_desched.sinks.kafka.sink import KafkaSink

        yield KafkaSink(settings.kafka, clock=time.monotonic, log=log)
    if settings.webhook is not None:
        from reactive_desched.sinks.webhook.sink import WebhookSink

        yield WebhookSink(settings.webhook, wall=time.time, clock=time.monotonic)
    if settings.stdout is not None:
        from reactive_desched.sinks.stdout import StdoutSink, standard_output

        yield StdoutSink(settings.stdout, standard_output())


def _relay(sink: Sink, journal: Journal, directory: Path, log: Log) -> Relay:
    return Relay(
        sink,
        journal.tail,
        Positions(directory / POSITIONS),
        DeadLetters(directory / DEAD_LETTERS),
        clock=time.monotonic,
        wall=utc_now,
        rng=Random(),  # noqa: S311 -- pauses, no secrets
        log=log,
    )


def _keeper(
    directory: Path,
    settings: ReactiveSettings,
    journal: Journal,
    ledger: Ledger,
    relays: Sequence[Relay],
    log: Log,
) -> Keeper:
    followed = Followed(
        open_from=lambda: journal.segment_began,
        oldest_open=lambda: journal.oldest_open,
        read_to=lambda: {relay.name: relay.kept for relay in relays},
    )
    bounds = Bounds(
        retention=settings.journal.retention, compress=settings.journal.compress == "gzip"
    )
    return Keeper(
        directory,
        followed,
        bounds,
        ledger.lost,
        removing=journal.tail.removed_before,
        log=log,
        clock=time.time,
        monotonic=time.monotonic,
    )


async def _flushed(relays: Iterable[Relay]) -> None:
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as group:
            for relay in relays:
                group.start_soon(relay.flushed, FLUSHED_WITHIN_S)
