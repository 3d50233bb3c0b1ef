"""Writes events to standard output, one JSON object a line, for a pipe or a log collector."""

from collections.abc import Sequence
from io import FileIO
from select import select
from typing import Protocol

from anyio.lowlevel import checkpoint

from reactive_desched.api.sink import SinkHost
from reactive_desched.errors import ConfigError, EventRejected, SinkUnavailable
from reactive_desched.journal.disk import DiskThread
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import StdoutSettings
from reactive_desched.sinks.type_filter import TypeFilter


class UnbufferedStream(Protocol):
    """A stream of bytes that keeps nothing back: what it held would be written again at exit."""

    def write(self, line: memoryview, /) -> int | None:
        """Write some of it and return how much; None when it takes nothing just now."""
        ...

    def fileno(self) -> int:
        """Return its file descriptor."""
        ...


class StdoutSink:
    """Writes each event that is wanted, in a thread of its own: a full pipe delays nothing else.

    The thread ends with the process, even while a full pipe blocks it.
    """

    name = "stdout"
    settings = StdoutSettings
    from_start = False

    @classmethod
    def open(cls, settings: StdoutSettings, host: SinkHost) -> "StdoutSink":
        """Return the sink of this process's own output; raises ConfigError without one."""
        del host
        return cls(settings, standard_output())

    def __init__(self, settings: StdoutSettings, stream: UnbufferedStream) -> None:
        self._type_filter = TypeFilter(settings.types)
        self._stream = stream
        self._thread: DiskThread | None = None
        self._is_within_line = False

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Write lines until one cannot be written, and return how many events are done with."""
        await checkpoint()
        if self._thread is None:
            self._thread = DiskThread("stdout")
        return await self._thread.run(lambda: self._write(entries))

    async def close(self) -> None:
        """Release the thread; the caller closes the stream."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _write(self, entries: Sequence[JournalRecord]) -> int:
        for done, entry in enumerate(entries):
            try:
                if self._type_filter.match(entry) is not None:
                    self._write_line(entry.raw)
            except (EventRejected, OSError, ValueError) as error:
                if done:
                    return done  # what is wrong shows again when the rest is handed over
                if isinstance(error, EventRejected):
                    raise
                raise SinkUnavailable(_error_text(error)) from error
        return len(entries)

    def _write_line(self, raw: bytes) -> None:
        """Write a whole line; one that broke off stays behind on a line of its own."""
        before = b"\n" if self._is_within_line else b""
        rest = memoryview(before + raw + b"\n")
        while rest:
            written = self._stream.write(rest)
            if written is None:
                select([], [self._stream.fileno()], [])
                continue
            self._is_within_line = True
            rest = rest[written:]
        self._is_within_line = False


def standard_output() -> FileIO:
    """Return this process's own, without a buffer; raises ConfigError when it has none."""
    try:
        return FileIO(1, "wb", closefd=False)
    except OSError as error:
        raise ConfigError("sinks.stdout: this process has no standard output") from error


def _error_text(error: OSError | ValueError) -> str:
    if isinstance(error, BrokenPipeError):
        return "the reader of standard output is gone: start again with a reader"
    if isinstance(error, OSError):
        return f"standard output takes nothing: {error.strerror}"
    return "standard output is closed"
