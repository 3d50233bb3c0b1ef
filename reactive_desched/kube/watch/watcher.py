"""Reads one open watch: decodes each line and applies it at once.

This is the hot path: no queue, no task per event, and the clock is read once in five lines.
"""

from collections.abc import Callable, Coroutine
from typing import Generic, TypeAlias, TypeVar

import anyio
from aiohttp.http_exceptions import LineTooLong
from anyio.lowlevel import checkpoint

from reactive_desched.errors import Malformed
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.failures import CONNECTION_ERRORS, describe_error
from reactive_desched.kube.client.session import WatchStream
from reactive_desched.kube.codec import Codec, WatchEvent
from reactive_desched.kube.watch.resume import StopReason, WatchEnd

__all__ = ["EventHandler", "WatchReader"]

T = TypeVar("T")
EventHandler: TypeAlias = Callable[[WatchEvent[T]], WatchEnd | None]

_LINES_PER_CLOCK_CHECK = 5
_BYTES_PER_CLOCK_CHECK = 2**18
_SLICE_S = 0.001
_IDLE_CHECK_S = 5.0


class WatchReader(Generic[T]):
    """Passes every event of a stream to a handler, until one of them or a timeout ends it.

    A line that cannot be decoded, or exceeds the limit, goes to `on_malformed`; reading continues
    with the next line.
    """

    def __init__(
        self, codec: Codec[T], on_malformed: Callable[[Malformed], None], clock: Clock
    ) -> None:
        self._codec = codec
        self._on_malformed = on_malformed
        self._clock = clock
        self._skipping_line = False
        self._scope: anyio.CancelScope | None = None
        self._stop_message = ""

    def stop(self, reason: str) -> None:
        """End the current read, if there is one, as an idle timeout does."""
        if self._scope is not None:
            self._stop_message = reason
            self._scope.cancel()

    async def read(
        self,
        stream: WatchStream,
        handle: EventHandler[T],
        idle_limit_s: Callable[[], float],
        background: Callable[[], Coroutine[object, None, None]] | None = None,
    ) -> WatchEnd:
        """Read until the end; `idle_limit_s` returns how long the stream may send nothing.

        The task `background` runs during the read and is cancelled at its end.
        """
        self._stop_message = "nothing came for too long"
        ending: WatchEnd | None = None
        async with anyio.create_task_group() as both:
            self._scope = both.cancel_scope
            both.start_soon(self._idle_watchdog, stream, idle_limit_s, both.cancel_scope)
            if background is not None:
                both.start_soon(background)
            ending = await self._read_lines(stream, handle)
            both.cancel_scope.cancel()
        self._scope = None
        return ending or WatchEnd(
            StopReason.IDLE_TIMEOUT, f"watch {self._codec.path}: {self._stop_message}"
        )

    async def _read_lines(self, stream: WatchStream, handle: EventHandler[T]) -> WatchEnd:
        self._skipping_line = False
        while True:
            try:
                return await self._read_until_end(stream, handle)
            except LineTooLong:
                if not self._skipping_line:
                    self._on_malformed(self._line_too_long())
                self._skipping_line = True
            except CONNECTION_ERRORS as error:
                return self._connection_broken(describe_error(error))

    async def _read_until_end(self, stream: WatchStream, handle: EventHandler[T]) -> WatchEnd:
        now, readline, read_line = self._clock.now, stream.readline, self._handle_line
        turn_ends, lines, size = now() + _SLICE_S, 0, 0
        while line := await readline():
            if line[-1:] != b"\n":
                return self._connection_broken("cut in the middle of a line")
            if (ending := read_line(line, handle)) is not None:
                return ending
            lines += 1
            size += len(line)
            if lines >= _LINES_PER_CLOCK_CHECK or size >= _BYTES_PER_CLOCK_CHECK:
                lines = size = 0
                if now() >= turn_ends:
                    await checkpoint()
                    turn_ends = now() + _SLICE_S
        return _CLEAN

    def _handle_line(self, line: bytes, handle: EventHandler[T]) -> WatchEnd | None:
        torn, self._skipping_line = self._skipping_line, False
        try:
            return handle(self._codec.decode_event(line)) if line != b"\n" else None
        except Malformed as error:
            if not torn:  # the rest of a line that was too long never reads as a whole document
                self._on_malformed(error)
            return None

    async def _idle_watchdog(
        self, stream: WatchStream, limit_s: Callable[[], float], reading: anyio.CancelScope
    ) -> None:
        received, since = stream.received_bytes(), self._clock.now()
        while True:
            await self._clock.sleep(min(_IDLE_CHECK_S, limit_s()))
            if (sofar := stream.received_bytes()) != received:
                received, since = sofar, self._clock.now()
            elif self._clock.now() - since >= limit_s():
                reading.cancel()
                return

    def _connection_broken(self, message: str) -> WatchEnd:
        return WatchEnd(StopReason.BROKEN, f"watch {self._codec.path}: {message}")

    def _line_too_long(self) -> Malformed:
        return Malformed(self._codec.kind, "", "its watch line is longer than we read")


_CLEAN = WatchEnd(StopReason.CLEAN, "the server ended the watch")
