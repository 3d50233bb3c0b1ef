"""The disk of the journal: its file system calls, the one thread that makes them, and its health.

Every eviction waits for the thread twice, so little stands between it and the event loop: a pool
for any work would cost several turns of the loop each time.
"""

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import current_token

from reactive_desched.journal.atomic_files import sync_directory
from reactive_desched.primitives.wakeup import Wakeup

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


_T = TypeVar("_T")
_CallSoon = Callable[[Callable[[], None]], object]


class DiskThread:
    """Runs one blocking call after the other for the tasks of one event loop, until closed.

    Created in that loop. Calls wait in a queue; the caller bounds its length.
    """

    def __init__(self, name: str = "journal disk") -> None:
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()  # jobs of every kind of result
        self._call_soon = _call_soon_threadsafe()
        Thread(target=self._run_jobs, name=name, daemon=True).start()

    async def run(self, work: Callable[[], _T], then: Callable[[_T], None] | None = None) -> _T:
        """Return or raise what the call does; a cancelled caller leaves it running.

        `then` is called with the result in the event loop, a turn before this returns; not when
        the caller was cancelled.
        """
        job = _Job(work, then)
        self._jobs.put(job)
        try:
            await job.done.wait()
        finally:
            job.then = None
        if job.error is not None:
            raise job.error
        return job.result

    def close(self) -> None:
        """End the thread when it has done what was asked for."""
        self._jobs.put(None)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            with suppress(RuntimeError):  # the loop has ended, and with it who waited
                self._call_soon(job.end)


class _Job(Generic[_T]):
    """One call and its result."""

    __slots__ = ("done", "error", "result", "then", "work")
    result: _T

    def __init__(self, work: Callable[[], _T], then: Callable[[_T], None] | None) -> None:
        self.work = work
        self.then = then
        self.done = anyio.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do it; called in the thread."""
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is awaited
            self.error = error

    def end(self) -> None:
        """Hand on the result; called in the event loop."""
        try:
            if self.then is not None and self.error is None:
                self.then(self.result)
        except BaseException as error:  # noqa: BLE001  # as above
            self.error = error
        finally:
            self.done.set()


def _call_soon_threadsafe() -> _CallSoon:
    """Return how another thread has something called in this event loop.

    `anyio.from_thread` would also wait for the call: two more switches between the threads.
    """
    loop: Any = current_token().native_token  # asyncio's loop, or trio's token
    call_soon: _CallSoon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
    return call_soon


STALLED_AFTER_S = 1.0
"""A write that takes longer makes the journal unfit until it returns."""


class WriteHealth:
    """Tracks the current fault and the write in progress; the writer passes the time."""

    def __init__(self, recovered: Wakeup | None = None) -> None:
        self._fault = ""
        self._fault_since = 0.0
        self._writing_since: float | None = None
        self._recovered = Wakeup()
        self._also_recovered = recovered or Wakeup()

    def reason(self, clock: Callable[[], float]) -> str:
        """Return why nothing can be written at this moment; empty when it can."""
        if self._fault:
            return self._fault
        if self._writing_since is not None and self._is_stalled(clock()):
            return f"a write has been under way for more than {STALLED_AFTER_S:g} s"
        return ""

    async def wait_recovered(self, clock: Callable[[], float]) -> None:
        """Return when the disk takes records again, at once when it does."""
        if self.reason(clock):
            await self._recovered.wait()

    def mark_failed(self, message: str, now: float) -> None:
        """Note a fault; it lasts until `recovered`."""
        if not self._fault:
            self._fault_since = now
        self._fault = message

    def down_s(self, now: float) -> float:
        """Return how long the fault has lasted."""
        return now - self._fault_since

    def mark_recovered(self) -> None:
        """Note that writing works again."""
        self._fault = ""
        self.notify_waiters()

    def write_started(self, now: float) -> None:
        """Note that a write has begun."""
        self._writing_since = now

    def write_finished(self, now: float) -> None:
        """Note that the write has returned, well or not."""
        was_stalled = self._is_stalled(now)
        self._writing_since = None
        if was_stalled:
            self.notify_waiters()

    def _is_stalled(self, now: float) -> bool:
        since = self._writing_since
        return since is not None and now - since > STALLED_AFTER_S

    def notify_waiters(self) -> None:
        """Wake the tasks that wait for recovery, so that they check again."""
        self._recovered.notify()
        self._also_recovered.notify()
