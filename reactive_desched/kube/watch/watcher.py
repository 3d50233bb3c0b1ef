"""Read one open watch, line by line, decoding and applying each where it is read.

This is the hot path: no queue, no task per event, one look at the clock per five lines.
"""

from collections.abc import Callable, Coroutine
from typing import Generic, TypeAlias, TypeVar

import anyio
from aiohttp.http_exceptions import LineTooLong
from anyio.lowlevel import checkpoint

from reactive_desched.errors import Malformed
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.failures import LINK_ERRORS, reason_of
from reactive_desched.kube.client.session import Stream
from reactive_desched.kube.decode.codec import Codec, WatchEvent
from reactive_desched.kube.watch.watch_end import End, Ending

__all__ = ["Take", "WatchReader"]

T = TypeVar("T")
Take: TypeAlias = Callable[[WatchEvent[T]], Ending | None]

_LINES_PER_LOOK = 5
_BYTES_PER_LOOK = 2**18
_TURN_S = 0.001
_LOOK_FOR_SILENCE_S = 5.0


class WatchReader(Generic[T]):
    """Hands every event of a stream to a function until that, the server or silence ends it.

    A line that cannot be read, or is longer than the session allows, goes to `malformed`; the
    lines after it are read on.
    """

    def __init__(
        self, codec: Codec[T], malformed: Callable[[Malformed], None], clock: Clock
    ) -> None:
        self._codec = codec
        self._malformed = malformed
        self._clock = clock
        self._torn = False
        self._reading: anyio.CancelScope | None = None
        self._why = ""

    def stop(self, reason: str) -> None:
        """End the reading under way, if there is one, as if the link were silent."""
        if self._reading is not None:
            self._why = reason
            self._reading.cancel()

    async def read(
        self,
        stream: Stream,
        take: Take[T],
        silence_limit_s: Callable[[], float],
        beside: Callable[[], Coroutine[object, None, None]] | None = None,
    ) -> Ending:
        """Read until the end; `silence_limit_s` says how long nothing at all may come.

        What runs `beside` the reading is ended with it.
        """
        self._why = "nothing came for too long"
        ending: Ending | None = None
        async with anyio.create_task_group() as both:
            self._reading = both.cancel_scope
            both.start_soon(self._listen_for_silence, stream, silence_limit_s, both.cancel_scope)
            if beside is not None:
                both.start_soon(beside)
            ending = await self._lines(stream, take)
            both.cancel_scope.cancel()
        self._reading = None
        return ending or Ending(End.SILENT, f"watch {self._codec.path}: {self._why}")

    async def _lines(self, stream: Stream, take: Take[T]) -> Ending:
        self._torn = False
        while True:
            try:
                return await self._until_the_end(stream, take)
            except LineTooLong:
                if not self._torn:
                    self._malformed(self._too_long())
                self._torn = True
            except LINK_ERRORS as error:
                return self._broken(reason_of(error))

    async def _until_the_end(self, stream: Stream, take: Take[T]) -> Ending:
        now, readline, read_line = self._clock.now, stream.readline, self._line
        turn_ends, lines, size = now() + _TURN_S, 0, 0
        while line := await readline():
            if line[-1:] != b"\n":
                return self._broken("cut in the middle of a line")
            if (ending := read_line(line, take)) is not None:
                return ending
            lines += 1
            size += len(line)
            if lines >= _LINES_PER_LOOK or size >= _BYTES_PER_LOOK:
                lines = size = 0
                if now() >= turn_ends:
                    await checkpoint()
                    turn_ends = now() + _TURN_S
        return _CLEAN

    def _line(self, line: bytes, take: Take[T]) -> Ending | None:
        torn, self._torn = self._torn, False
        try:
            return take(self._codec.event(line)) if line != b"\n" else None
        except Malformed as error:
            if not torn:  # the rest of a line that was too long never reads as a whole document
                self._malformed(error)
            return None

    async def _listen_for_silence(
        self, stream: Stream, limit_s: Callable[[], float], reading: anyio.CancelScope
    ) -> None:
        received, since = stream.received(), self._clock.now()
        while True:
            await self._clock.sleep(min(_LOOK_FOR_SILENCE_S, limit_s()))
            if (sofar := stream.received()) != received:
                received, since = sofar, self._clock.now()
            elif self._clock.now() - since >= limit_s():
                reading.cancel()
                return

    def _broken(self, detail: str) -> Ending:
        return Ending(End.BROKEN, f"watch {self._codec.path}: {detail}")

    def _too_long(self) -> Malformed:
        return Malformed(self._codec.kind, "", "its watch line is longer than we read")


_CLEAN = Ending(End.CLEAN, "the server ended the watch")
