"""One writer for each journal: two would interleave their lines."""

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from reactive_desched.errors import JournalError, JournalInUse


class DirectoryLock:
    """Holds a directory until closed, or until the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Take the lock; raise JournalInUse naming the process that has it."""
        self._lock_file_fd: int | None = _open_lock_file(directory)
        try:
            self._directory_fd: int | None = _lock_directory(directory)
        except BaseException:
            os.close(self._lock_file_fd)
            raise

    def close(self) -> None:
        """Release the directory; a second call does nothing."""
        if self._lock_file_fd is not None:
            os.close(self._lock_file_fd)
            self._lock_file_fd = None
        if self._directory_fd is not None:
            os.close(self._directory_fd)
            self._directory_fd = None


def _open_lock_file(directory: Path) -> int:
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        _lock_file(descriptor, directory)
    except (OSError, JournalError):
        os.close(descriptor)
        raise
    return descriptor


def _lock_directory(directory: Path) -> int | None:
    """Lock the folder too, where that can be done: the lock's file may be removed meanwhile."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise JournalInUse(
            f"{directory}: the journal is in use by a process whose lock file was removed;"
            " stop it, or give this one a folder of its own with --journal DIR"
        ) from error
    except OSError:  # some network file systems lock files alone
        os.close(descriptor)
        return None
    return descriptor


def _lock_file(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
        raise JournalInUse(
            f"{directory}: the journal is in use by {holder or 'another process'};"
            " stop it, or give this one a folder of its own with --journal DIR"
        ) from error
    with suppress(OSError):  # a full disk: the lock holds, it only stays nameless
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
