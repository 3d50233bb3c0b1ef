"""Reads one open watch, line by line, decoding and applying each where it is read.

This is the hot path: no queue, and no task per event. What follows from an event, with the work
that was due, is done where it is applied, so one event may take a slice of the event loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

import anyio
from aiohttp.http_exceptions import LineTooLong
from anyio.lowlevel import checkpoint

from reactive_desched.errors import Malformed
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.session import WatchStream
from reactive_desched.kube.codec import Codec, WatchEvent
from reactive_desched.kube.watch.resume import StopReason, WatchEnd
from reactive_desched.primitives.http_failures import CONNECTION_ERRORS, describe_error
from reactive_desched.primitives.wakeup import Epoch

__all__ = ["WatchEventHandler", "WatchReader"]

T = TypeVar("T")

_SLICE_S = 0.001
_IDLE_CHECK_S = 5.0


class WatchEventHandler(ABC, Generic[T]):
    """Takes the events of a watch: a reflector, or the initial list of a streaming watch."""

    @abstractmethod
    def apply(self, event: WatchEvent[T]) -> WatchEnd | None:
        """Apply one event; a return value ends the watch."""


class WatchReader(Generic[T]):
    """Reads a watch until its handler, the server, silence or another epoch ends it.

    A line that cannot be read, or is longer than the session allows, goes to `on_malformed`; the
    lines after it are read on.
    """

    def __init__(
        self,
        codec: Codec[T],
        on_malformed: Callable[[Malformed], None],
        clock: Clock,
        epoch: Epoch,
    ) -> None:
        self._codec = codec
        self._on_malformed = on_malformed
        self._clock = clock
        self._epoch = epoch
        self._skipping_line = False

    async def read(
        self,
        stream: WatchStream,
        handler: WatchEventHandler[T],
        idle_limit_s: Callable[[], float],
        background: Callable[[], Coroutine[object, None, WatchEnd | None]] | None = None,
    ) -> WatchEnd:
        """Read until the end; `idle_limit_s` says how long the watch may stay silent.

        `background` is cancelled when the reading ends; the end that it returns ends the reading.
        """
        ending: WatchEnd | None = None
        verdict: WatchEnd | None = None
        async with anyio.create_task_group() as both:
            both.start_soon(self._idle_watchdog, stream, idle_limit_s, both.cancel_scope)
            both.start_soon(self._end_with_epoch, self._epoch.number, both.cancel_scope)
            if background is not None:

                async def watch_over() -> None:
                    nonlocal verdict
                    if (verdict := await background()) is not None:
                        both.cancel_scope.cancel()

                both.start_soon(watch_over)
            ending = await self._read_lines(stream, handler)
            both.cancel_scope.cancel()
        return (
            ending
            or verdict
            or WatchEnd(
                StopReason.IDLE_TIMEOUT,
                f"watch {self._codec.path}: nothing came for {idle_limit_s():.0f} s: the connection"
                " is dead, or a proxy on the way holds the response back",
            )
        )

    async def _read_lines(self, stream: WatchStream, handler: WatchEventHandler[T]) -> WatchEnd:
        self._skipping_line = False
        while True:
            try:
                return await self._read_until_end(stream, handler)
            except LineTooLong:
                if not self._skipping_line:
                    self._on_malformed(self._line_too_long())
                self._skipping_line = True
            except CONNECTION_ERRORS as error:
                return self._connection_broken(describe_error(error))

    async def _read_until_end(self, stream: WatchStream, handler: WatchEventHandler[T]) -> WatchEnd:
        now, readline, read_line = self._clock.now, stream.readline, self._handle_line
        spent_s = 0.0
        while line := await readline():
            if line[-1:] != b"\n":
                return self._connection_broken("cut in the middle of a line")
            began = now()
            if (ending := read_line(line, handler)) is not None:
                return ending
            spent_s += now() - began
            if spent_s >= _SLICE_S:
                await checkpoint()
                spent_s = 0.0
        return _CLEAN

    def _handle_line(self, line: bytes, handler: WatchEventHandler[T]) -> WatchEnd | None:
        torn, self._skipping_line = self._skipping_line, False
        try:
            return handler.apply(self._codec.decode_event(line)) if line != b"\n" else None
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

    async def _end_with_epoch(self, number: int, reading: anyio.CancelScope) -> None:
        await self._epoch.wait_past(number)
        reading.cancel()

    def _connection_broken(self, message: str) -> WatchEnd:
        return WatchEnd(StopReason.BROKEN, f"watch {self._codec.path}: {message}")

    def _line_too_long(self) -> Malformed:
        return Malformed(self._codec.kind, "", "its watch line is longer than we read")


_CLEAN = WatchEnd(StopReason.CLEAN, "the server ended the watch")
