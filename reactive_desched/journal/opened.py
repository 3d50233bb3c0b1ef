"""Taking a directory for a journal: every way this can fail gets an error that says what to do."""

import secrets
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.event import EPOCH_BEGAN, EpochBegan
from reactive_desched.errors import ConfigError, JournalError
from reactive_desched.journal.cursors import highest_acked, rewind
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.event_builder import journal_event
from reactive_desched.journal.lock import DirectoryLock
from reactive_desched.journal.log import Rotation, SegmentWriter
from reactive_desched.journal.paths import os_error_hint
from reactive_desched.journal.records import encode
from reactive_desched.journal.recovery import Recovery, recover
from reactive_desched.journal.signing.checkpointer import CheckpointContext, Checkpointer
from reactive_desched.journal.signing.signer import Ed25519Signer, open_signer

_EPOCH_BYTES = 8


class JournalConfig(Struct, frozen=True):
    """Settings of a journal; cluster and instance name it when it is begun, and stay."""

    rotation: Rotation
    cluster: str = "kubernetes"
    instance: str = "reactive-desched"
    every_records: int = 1000
    every_s: float = 60.0
    key_file: str = ""


class OpenedJournal(NamedTuple):
    """A directory that is ours now."""

    directory: Path
    lock: DirectoryLock
    recovery: Recovery
    writer: SegmentWriter
    checkpointer: Checkpointer


def open_directory(
    directory: Path,
    disk: Disk,
    config: JournalConfig,
    clock: Callable[[], datetime],
    monotonic: Callable[[], float] = time.monotonic,
) -> OpenedJournal:
    """Lock the directory, repair what the last writer left, and let a log go on behind it.

    `monotonic` returns the seconds by which checkpoints become due, in any thread.

    Where the end is missing, by what followers had of it, another epoch begins: its sequences are
    used again, under another source. A record says so before the positions of followers are
    stepped back: where a crash comes between the two, the next start says it once more.
    """
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        lock = DirectoryLock(directory)
    except OSError as error:
        raise _unusable_error(directory, error) from error
    try:
        disk.remove_space_probe(directory)
        recovered = recover(directory)
        recovery = replace(
            recovered, truncated_from=_truncated_from(directory, recovered.next_seq - 1)
        )
        is_same = recovery.source and not recovery.truncated_from
        source = recovery.source if is_same else _new_source(config)
        signer = open_signer(directory, config.key_file, source.removeprefix("//"))
        recovery = replace(recovery, has_new_key=signer.replaces_key and recovery.next_seq > 1)
        checkpointer = _checkpointer(signer, config, clock, monotonic, recovery)
        log = SegmentWriter(
            directory, disk=disk, rotation=config.rotation, checkpointer=checkpointer, clock=clock
        )
        log.resume(recovery, source)
        if recovery.truncated_from or (not is_same and recovery.next_seq > 1):
            _record_epoch(log, recovery, clock())
        rewind(directory, recovery.next_seq - 1, clock().isoformat())
    except OSError as error:
        lock.close()
        raise _unusable_error(directory, error) from error
    except (JournalError, ConfigError):
        lock.close()
        raise
    return OpenedJournal(directory, lock, recovery, log, checkpointer)


def _truncated_from(directory: Path, last_seq: int) -> int:
    """Return how far the journal once reached if its end is missing; else 0."""
    acked = highest_acked(directory)
    return acked if acked > last_seq else 0


def _record_epoch(log: SegmentWriter, found: Recovery, time: datetime) -> None:
    """Write down, durably and signed, that another epoch begins and what is missing before it."""
    last_seq = found.next_seq - 1
    if found.truncated_from:
        acked = found.truncated_from
        message = f"followers had records up to {acked}, and the journal ended at {last_seq}"
        data = EpochBegan(
            first_missing=last_seq + 1,
            last_missing=found.truncated_from,
            previous=found.source,
            message=message,
        )
    else:
        data = EpochBegan(previous=found.source, message="the source of its last record is unknown")
    body = encode(journal_event(log.source, EPOCH_BEGAN, log.last_seq, time, data))
    log.commit([body], lambda _: CheckpointContext(found.oldest_open_seq), force_checkpoint=True)


def _checkpointer(
    signer: Ed25519Signer,
    config: JournalConfig,
    clock: Callable[[], datetime],
    monotonic: Callable[[], float],
    recovery: Recovery,
) -> Checkpointer:
    return Checkpointer(
        signer,
        every_records=config.every_records,
        every_s=config.every_s,
        clock=clock,
        monotonic=monotonic,
        size=recovery.checkpoint_size,
        root=recovery.checkpoint_root,
    )


def _new_source(config: JournalConfig) -> str:
    """Return a unique name for a new journal."""
    epoch = secrets.token_hex(_EPOCH_BYTES)
    return f"//{config.cluster}/descheduler/{config.instance}/{epoch}"


def _unusable_error(directory: Path, error: OSError) -> JournalError:
    what_to_do = os_error_hint(error, "name a directory that this process may write to")
    return JournalError(
        f"{directory}: cannot keep a journal here: {os_error_text(error)}; {what_to_do}"
    )


def os_error_text(error: OSError) -> str:
    """Return the operating system's words for an error."""
    return error.strerror or str(error)
