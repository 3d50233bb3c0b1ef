"""The files that a recorder writes: one for each segment, and the oldest removed first."""

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from reactive_desched.recording.frames import NO_FRAME, pack_begin, pack_frame, segment_paths
from reactive_desched.recording.items import Instant

SPARED_BYTES: Final = 64 * 2**20
"""So much stays free on the disk, or a twentieth of it where that is less: others need it."""

_DIGITS: Final = 8

FreeBytes = Callable[[Path], int]


def spare_bytes(folder: Path) -> int:
    """Return how many bytes may still be written to the disk; negative where it is too full."""
    found = os.statvfs(folder)
    spared = min(SPARED_BYTES, found.f_blocks * found.f_frsize // 20)
    return found.f_bavail * found.f_frsize - spared


def is_being_written(segment: Path) -> bool:
    """Say whether another process holds a segment open to write it; one that ended does not."""
    try:
        fd = os.open(segment, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(fd)
    return False


class DiskTooFull(OSError):  # noqa: N818 -- it is raised as the fact it names
    """The disk has so little free that a recording leaves it to others."""


class SegmentFile:
    """The segment that is being written. All its methods block: a thread calls them.

    Before each write it removes what is beyond the bounds, and the oldest segments where the disk
    is nearly full. Raises OSError where nothing can be written, or another process writes there.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        max_age_s: float,
        spare: FreeBytes = spare_bytes,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._spare = spare
        self._fd: int | None = None
        self._path: Path | None = None
        self._last = NO_FRAME
        self.removed = 0
        self.total_bytes = 0

    @property
    def is_open(self) -> bool:
        """Say whether a segment has begun."""
        return self._fd is not None

    def begin(self, at: Instant, *, is_continued: bool) -> None:
        """Close the segment before, and begin one, which may continue that."""
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        began = datetime.fromtimestamp(at.wall_s, UTC)
        before = segment_paths(self._folder)
        if before and is_being_written(before[-1]):
            raise OSError(
                0,
                "another process records into it: set `recording.directory` to a folder of its own",
            )
        number = 1 + (int(before[-1].name[:_DIGITS]) if before else 0)
        path = self._folder / f"{number:0{_DIGITS}}-{began:%Y%m%dT%H%M%SZ}.rdrec"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        with suppress(OSError):  # where the disk has no locks there is none
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._path = path
        self._last = self._last if is_continued else NO_FRAME
        try:
            self._write(pack_begin(self._last), at.wall_s)
        except OSError:
            self.close()
            path.unlink(missing_ok=True)  # an empty one would look as if its contents were lost
            raise

    def write(self, at: Instant, rows: bytes) -> int:
        """Compress and write a frame; return how many bytes it takes."""
        frame, self._last = pack_frame(at, rows, self._last)
        self._write(frame, at.wall_s)
        return len(frame)

    def _write(self, data: bytes, wall_s: float) -> None:
        assert self._fd is not None, "a segment has begun"
        self._remove_beyond(len(data), wall_s)
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _remove_beyond(self, more: int, now_s: float) -> None:
        """Remove segments beyond the bounds; raises DiskTooFull where none is left to remove."""
        older = [each for each in segment_paths(self._folder) if each != self._path]
        sizes = {each: each.stat() for each in older}
        total = sum(each.st_size for each in sizes.values()) + more
        if self._path is not None:
            total += self._path.stat().st_size
        while older:
            oldest = sizes[older[0]]
            is_old = oldest.st_mtime < now_s - self._max_age_s
            if total <= self._max_bytes and not is_old and self._spare(self._folder) >= more:
                break
            older.pop(0).unlink()
            total -= oldest.st_size
            self.removed += 1
        self.total_bytes = total
        if total > self._max_bytes:
            raise DiskTooFull(0, f"a segment needs more than maxBytes, {self._max_bytes} bytes")
        if self._spare(self._folder) < more:
            raise DiskTooFull(0, "the disk is nearly full, and what is left is for the journal")

    def close(self) -> None:
        """End the segment."""
        if self._fd is not None:
            fd, self._fd, self._path = self._fd, None, None
            os.close(fd)
