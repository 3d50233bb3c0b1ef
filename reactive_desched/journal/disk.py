"""The file system calls of the journal, so that tests can make each of them fail."""

import errno
import os
import time
from pathlib import Path
from typing import TypeAlias

from reactive_desched.journal.atomic_files import sync_directory

PROBE_BYTES = 1 << 18
"""After a fault the journal counts as well only when so much can be written."""

_RESTART = "or restart this process, which begins another journal there"
_PROBE_FILE = "room"
FileId: TypeAlias = tuple[int, int]
"""The device and inode of a file."""

_WRITE_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_DSYNC


class Disk:
    """Plain files; every call blocks, and raises OSError when the file system does."""

    def now(self) -> float:
        """Return seconds of a monotonic clock, in any thread: to time a write."""
        return time.perf_counter()

    def create(self, path: Path) -> int:
        """Return a descriptor of a new, empty file whose name is durable."""
        descriptor = _open_writer(path, _WRITE_FLAGS | os.O_CREAT | os.O_TRUNC)
        try:
            sync_directory(path.parent)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def reopen(self, path: Path, size: int) -> int:
        """Return a descriptor of a file cut to this size, durably."""
        descriptor = _open_writer(path, _WRITE_FLAGS)
        try:
            _truncate(descriptor, path, size)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def append(self, descriptor: int, data: bytes) -> None:
        """Write all of it, durably: O_DSYNC makes each write a write and fdatasync in one call.

        One call matters beside a busy event loop: each return from a call waits for the
        interpreter lock.
        """
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    def file_id(self, descriptor: int) -> FileId:
        """Return what identifies an open file for as long as it is open."""
        ours = os.fstat(descriptor)
        return ours.st_dev, ours.st_ino

    def check_same_file(self, file_id: FileId, path: Path) -> None:
        """Raise OSError unless the path still names this file: else no reader finds the records.

        A folder that is removed, moved away or unmounted takes writes as before.
        """
        try:
            current = os.stat(path)  # noqa: PTH116 -- before each request: fewer calls
        except FileNotFoundError as error:
            raise _removed_error(path) from error
        if (current.st_dev, current.st_ino) != file_id:
            message = f"another file has the name of the journal's: put ours back, {_RESTART}"
            raise OSError(errno.ESTALE, message, str(path))

    def check_free_space(self, directory: Path) -> None:
        """Write PROBE_BYTES and remove them again: a last small record may fit on a full disk."""
        path = directory / _PROBE_FILE
        descriptor = self.create(path)
        try:
            self.append(descriptor, bytes(PROBE_BYTES))
        finally:
            self.close(descriptor)
            path.unlink()

    def remove_space_probe(self, directory: Path) -> None:
        """Remove what a crash left of `check_free_space`."""
        (directory / _PROBE_FILE).unlink(missing_ok=True)

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        os.close(descriptor)


def _open_writer(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags, 0o640)
    except FileNotFoundError as error:
        raise _removed_error(path) from error


def _removed_error(path: Path) -> FileNotFoundError:
    """Say what to do where the journal's folder was removed, and perhaps made again."""
    if path.parent.is_dir():
        message = f"the journal's file is gone from its folder: put it back, {_RESTART}"
    else:
        message = f"the folder is gone: put it back with its files, {_RESTART}"
    return FileNotFoundError(errno.ENOENT, message, str(path))


def _truncate(descriptor: int, path: Path, size: int) -> None:
    if os.fstat(descriptor).st_size < size:  # it would be filled up with zeros
        raise OSError(errno.EIO, "the journal's file has become shorter", str(path))
    os.ftruncate(descriptor, size)
    os.fsync(descriptor)
