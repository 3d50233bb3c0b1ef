"""Everything the journal records, told to whoever asks over HTTP, each at its own pace."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import anyio
from aiohttp import web
from msgspec import Struct

from reactive_desched.errors import ConfigError, RecordsGone
from reactive_desched.journal.envelope import epoch_of
from reactive_desched.telemetry.logs import Log
from reactive_desched.web.clients import COME_BACK_S, Clients
from reactive_desched.web.framing import Framing, Gap, Lines, ServerSentEvents
from reactive_desched.web.live_buffer import Latest, Piece, Records
from reactive_desched.web.page_cache import Past
from reactive_desched.web.stream_connection import Link, Stalled
from reactive_desched.web.stream_request import Asked, asked

SHORTEST_S: Final = 0.02
"""No heartbeat comes sooner, and nobody is cut sooner, whatever the settings say."""


class StreamLimits(Struct, frozen=True):
    """How many clients there may be, how often each hears something, and how long one may stall."""

    max_clients: int = 256
    heartbeat_s: float = 15.0
    stalled_after_s: float = 20.0


class EventStream:
    """Answers GET /events from the journal.

    A client costs a bounded amount of memory, and whatever it does nobody else waits for it: see
    `Clients`, `Link` and `Latest` for the bounds. `clock` is the time of day.
    """

    def __init__(
        self, records: Records, limits: StreamLimits, clock: Callable[[], datetime], log: Log
    ) -> None:
        self.clients = Clients(limits.max_clients)
        self._records = records
        self._heartbeat_s = max(SHORTEST_S, limits.heartbeat_s)
        self._stalled_after_s = max(SHORTEST_S, limits.stalled_after_s)
        self._clock = clock
        self._log = log
        self._latest = Latest(records)
        self._past = Past(records)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Follow the journal for all clients while the block runs."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._latest.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    def close(self) -> None:
        """End all streams now, and let nobody in any more."""
        self.clients.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for events."""
        try:
            wanted = asked(request, self._clock())
        except ConfigError as error:
            return web.Response(status=400, text=f"{error}\n")
        framing = Lines() if wanted.lines else ServerSentEvents(epoch_of(self._records.source))
        if request.method == "HEAD":
            return web.Response(headers={"Content-Type": framing.media_type})
        if not self.clients.has_room:
            wait = {"Retry-After": str(COME_BACK_S)}
            return web.Response(status=503, text="all places are taken\n", headers=wait)
        return await self._stream(request, wanted, framing)

    async def _stream(
        self, request: web.Request, wanted: Asked, framing: Framing
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": framing.media_type, "X-Accel-Buffering": "no"}
        )
        response.force_close()
        link = Link(request, self._stalled_after_s)
        client = _Client(link, framing, wanted)
        self._latest.join()
        with self.clients.place(request.protocol) as scope:
            try:
                await link.open(response)
                await self._tell(client)
            except Stalled:
                await self._cut(client, request)
            except ConnectionError:
                pass  # it has gone
            except OSError as error:
                self._log.warning("the event stream cannot read the journal", because=str(error))
                await link.cut(framing.parting(client.seq, "the journal cannot be read"))
            finally:
                self._latest.leave()
        if scope.cancelled_caught and link.waiting_bytes:
            await link.cut(b"")
        return response

    async def _tell(self, client: "_Client") -> None:
        """Send what a client wants until it has everything, if it does not want to follow."""
        await client.link.send(client.framing.opening())
        try:
            client.seq = await self._past.place(client.wanted.start)
        except RecordsGone as gone:
            await self._reset(client, gone)
        until = self._records.last
        while True:
            await self._beat(client)
            try:
                found = await self._next(client)
            except RecordsGone as gone:
                await self._reset(client, gone)
                continue
            client.seq = max(client.seq, found.seq)
            if found.data:
                self.clients.numbers.sent += found.records
                await client.link.send(found.data)
            if client.wanted.follow:
                await self._rest(client)
            elif client.seq >= until:
                await client.link.send(client.framing.heartbeat(client.seq))
                return

    async def _next(self, client: "_Client") -> Piece:
        asked = client.seq, client.wanted.filter, client.framing
        latest = await self._latest.piece(*asked)
        if latest is not None and (latest.seq > client.seq or client.wanted.follow):
            return latest
        return await self._past.piece(*asked)

    async def _beat(self, client: "_Client") -> None:
        """Give a sign of life when one is due, at first at once."""
        client.link.look()
        if anyio.current_time() >= client.beat_at:
            client.beat_at = anyio.current_time() + self._heartbeat_s
            await client.link.send(client.framing.heartbeat(client.seq))

    async def _rest(self, client: "_Client") -> None:
        """Wait for news, no longer than until something else is due."""
        look_at = anyio.current_time() + client.link.look_after_s
        due = min(client.beat_at, look_at) if client.link.waiting_bytes else client.beat_at
        with anyio.move_on_at(due):
            await self._latest.news(client.seq)

    async def _reset(self, client: "_Client", gone: RecordsGone) -> None:
        """Tell a client that records are missing, and have it go on behind them."""
        oldest = self._records.oldest
        gap = Gap(oldest, max(oldest, gone.oldest), str(gone))
        client.seq = gap.next - 1
        self.clients.numbers.resets += 1
        await client.link.send(client.framing.reset(gap))

    async def _cut(self, client: "_Client", request: web.Request) -> None:
        self.clients.numbers.cut += 1
        words = f"cut: nothing was taken for {self._stalled_after_s:g} s"
        await client.link.cut(client.framing.parting(client.seq, words))
        self._log.info("cut a client of the event stream", client=request.remote, at=client.seq)


class _Client:
    """One client: what it wants, how far it is, and when it hears something next."""

    def __init__(self, link: Link, framing: Framing, wanted: Asked) -> None:
        self.link = link
        self.framing = framing
        self.wanted = wanted
        self.seq = 0
        self.beat_at = 0.0
