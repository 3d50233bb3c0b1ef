"""Taking a directory for a journal: every way this can fail gets an error that says what to do."""

import secrets
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from reactive_desched.errors import ConfigError, JournalError
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.lock import DirectoryLock
from reactive_desched.journal.log import Log, Rotation
from reactive_desched.journal.os_error_hints import remedy
from reactive_desched.journal.recovery import Recovery, recover
from reactive_desched.journal.signing.checkpointer import Seals
from reactive_desched.journal.signing.signer import Signer, open_signer
from reactive_desched.journal.truncation import reached, step_back

_EPOCH_BYTES = 8


class Making(Struct, frozen=True):
    """How a journal is kept; cluster and instance name it when it is begun, and stay."""

    rotation: Rotation
    cluster: str = "kubernetes"
    instance: str = "reactive-desched"
    every_records: int = 1000
    every_s: float = 60.0
    key_file: str = ""


class Opened(NamedTuple):
    """A directory that is ours now."""

    directory: Path
    lock: DirectoryLock
    recovery: Recovery
    log: Log
    seals: Seals


def take(directory: Path, disk: Disk, making: Making, clock: Callable[[], datetime]) -> Opened:
    """Lock the directory, repair what the last writer left, and let a log go on behind it.

    Where the end is missing, by what followers had of it, another epoch begins: its sequences are
    used again, under another source.
    """
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        lock = DirectoryLock(directory)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        disk.forget_room(directory)
        recovery = recover(directory)
        recovery.cut_to = _cut_to(directory, recovery.next_seq - 1)
        is_same = recovery.source and not recovery.cut_to
        source = recovery.source if is_same else _source(making)
        signer = open_signer(directory, making.key_file, source.removeprefix("//"))
        recovery.has_new_key = signer.is_new and recovery.next_seq > 1
        seals = _seals(signer, making, clock, recovery)
        log = Log(directory, disk=disk, rotation=making.rotation, seals=seals, clock=clock)
        log.resume(recovery, source)
        step_back(directory, recovery.next_seq - 1, clock().isoformat())
    except OSError as error:
        lock.close()
        raise _unusable(directory, error) from error
    except (JournalError, ConfigError):
        lock.close()
        raise
    return Opened(directory, lock, recovery, log, seals)


def _cut_to(directory: Path, last: int) -> int:
    """Return how far the journal once reached if its end is missing; else 0."""
    far = reached(directory)
    return far if far > last else 0


def _seals(
    signer: Signer, making: Making, clock: Callable[[], datetime], recovery: Recovery
) -> Seals:
    return Seals(
        signer,
        every_records=making.every_records,
        every_s=making.every_s,
        clock=clock,
        monotonic=time.monotonic,
        size=recovery.sealed,
        root=recovery.sealed_root,
    )


def _source(making: Making) -> str:
    """Name a new journal; nobody else's is called so."""
    epoch = secrets.token_hex(_EPOCH_BYTES)
    return f"//{making.cluster}/descheduler/{making.instance}/{epoch}"


def _unusable(directory: Path, error: OSError) -> JournalError:
    what_to_do = remedy(error, "name a directory that this process may write to")
    return JournalError(f"{directory}: cannot keep a journal here: {said(error)}; {what_to_do}")


def said(error: OSError) -> str:
    """Return the operating system's words for an error."""
    return error.strerror or str(error)
