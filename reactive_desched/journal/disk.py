"""The few things asked of the file system, so that tests can make each of them fail."""

import os
from pathlib import Path

_WRITE = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_DSYNC


class Disk:
    """Plain files; every call blocks, and raises OSError when the file system does."""

    def create(self, path: Path) -> int:
        """Return a descriptor of a new, empty file whose name is durable."""
        descriptor = os.open(path, _WRITE | os.O_CREAT | os.O_TRUNC, 0o640)
        try:
            self._sync_directory(path.parent)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def reopen(self, path: Path, size: int) -> int:
        """Return a descriptor of a file cut to this size, durably."""
        descriptor = os.open(path, _WRITE)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
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

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        os.close(descriptor)

    def _sync_directory(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
