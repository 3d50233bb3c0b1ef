"""One writer for each journal: two would interleave their lines."""

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from reactive_desched.errors import JournalError


class DirectoryLock:
    """Holds a directory until closed, or until the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Take the lock; raise JournalError naming the process that has it."""
        self._descriptor: int | None = _open(directory)

    def close(self) -> None:
        """Let the directory go; again does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _open(directory: Path) -> int:
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        _lock(descriptor, directory)
    except (OSError, JournalError):
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
        raise JournalError(
            f"{directory}: the journal is in use by {holder or 'another process'};"
            " stop it, or give this one a directory of its own"
        ) from error
    with suppress(OSError):  # a full disk: the lock holds, it only stays nameless
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
