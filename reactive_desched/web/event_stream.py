"""Serves the journal's records over HTTP, to each client at its own pace."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import anyio
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from msgspec import Struct

from reactive_desched.errors import ConfigError, RecordsExpired
from reactive_desched.journal.event_builder import journal_epoch
from reactive_desched.telemetry.logs import Logger
from reactive_desched.web.clients import RETRY_AFTER_S, StreamClients
from reactive_desched.web.framing import Framing, Gap, NdjsonFraming, SseFraming
from reactive_desched.web.live_buffer import Chunk, LiveBuffer, RecordSource
from reactive_desched.web.page_cache import PageCache
from reactive_desched.web.stream_connection import ClientStalled, StreamConnection
from reactive_desched.web.stream_request import StreamRequest, parse_stream_request

MIN_INTERVAL_S: Final = 0.02
"""The least heartbeat interval and stall timeout, whatever the settings say."""

LAST_RECORDS_S: Final = 1.0
"""At shutdown a stream has this long to get the last records."""


NOT_OPEN: Final = "no journal is open here: a standby records nothing, the leader does\n"


class StreamLimits(Struct, frozen=True):
    """The most clients, the heartbeat interval, and how long a client may take nothing."""

    max_clients: int = 256
    heartbeat_s: float = 15.0
    stall_timeout_s: float = 20.0


class EventStream:
    """Answers GET /events from the journal.

    A client costs a bounded amount of memory, and no other client waits for it: see
    `StreamClients`, `StreamConnection` and `LiveBuffer` for the bounds. `clock` is the time of day.
    Before the journal is open, and on a standby, clients are asked to come back.
    """

    _records: RecordSource
    _live: LiveBuffer
    _pages: PageCache

    def __init__(
        self,
        limits: StreamLimits,
        clock: Callable[[], datetime],
        log: Logger,
    ) -> None:
        self.clients = StreamClients(limits.max_clients)
        self._heartbeat_s = max(MIN_INTERVAL_S, limits.heartbeat_s)
        self._stall_timeout_s = max(MIN_INTERVAL_S, limits.stall_timeout_s)
        self._clock = clock
        self._log = log
        self._is_finishing = False
        self._is_open = False

    @asynccontextmanager
    async def following(self, records: RecordSource) -> AsyncIterator[None]:
        """Follow an open journal for all clients while the block runs; at its end close them."""
        self._records = records
        self._live, self._pages = LiveBuffer(records), PageCache(records)
        async with anyio.create_task_group() as group:
            group.start_soon(self._live.run)
            self._is_open = True
            try:
                yield
            finally:
                self.close()
                group.cancel_scope.cancel()

    async def finish(self, within_s: float = LAST_RECORDS_S) -> None:
        """Refuse new clients; end each stream after the newest record, or when time is up."""
        self._is_finishing = True
        self.clients.refuse_new()
        self._live.notify()
        with anyio.move_on_after(within_s, shield=True):
            await self.clients.wait_until_empty()
        self.close()

    def close(self) -> None:
        """End all streams now, and accept no further client."""
        self.clients.close()

    async def handle(self, request: BaseRequest) -> StreamResponse:
        """Answer a request for events."""
        try:
            stream_request = parse_stream_request(request, self._clock())
        except ConfigError as error:
            return Response(status=400, text=f"{error}\n")
        if not self._is_open:
            wait = {"Retry-After": str(RETRY_AFTER_S)}
            return Response(status=503, text=NOT_OPEN, headers=wait)
        framing = (
            NdjsonFraming()
            if stream_request.ndjson
            else SseFraming(journal_epoch(self._records.source))
        )
        if request.method == "HEAD":
            return Response(headers={"Content-Type": framing.media_type})
        if not self.clients.has_capacity:
            wait = {"Retry-After": str(RETRY_AFTER_S)}
            return Response(status=503, text="all places are taken\n", headers=wait)
        return await self._stream(request, stream_request, framing)

    async def _stream(
        self, request: BaseRequest, stream_request: StreamRequest, framing: Framing
    ) -> StreamResponse:
        response = StreamResponse(
            headers={"Content-Type": framing.media_type, "X-Accel-Buffering": "no"}
        )
        response.force_close()
        connection = StreamConnection(request, self._stall_timeout_s)
        client = _Client(connection, framing, stream_request)
        self._live.add_client()
        with self.clients.slot(request.protocol) as scope:
            try:
                await connection.open(response)
                await self._serve_client(client)
            except ClientStalled:
                await self._disconnect_stalled(client, request)
            except ConnectionError:
                pass  # it has gone
            except OSError as error:
                self._log.warning("the event stream cannot read the journal", message=str(error))
                await connection.disconnect(
                    framing.goodbye(client.seq, "the journal cannot be read")
                )
            finally:
                self._live.remove_client()
        if scope.cancelled_caught and connection.unsent_bytes:
            await connection.disconnect(b"")
        return response

    async def _serve_client(self, client: "_Client") -> None:
        """Send the wanted records to a client; a client that follows gets new ones, too."""
        await client.connection.send(client.framing.preamble())
        try:
            client.seq = await self._pages.resolve_start(client.stream_request.start)
        except RecordsExpired as gone:
            await self._send_reset(client, gone)
        until = self._records.last_seq
        while True:
            await self._send_heartbeat_if_due(client)
            try:
                found = await self._next_chunk(client)
            except RecordsExpired as gone:
                await self._send_reset(client, gone)
                continue
            client.seq = max(client.seq, found.seq)
            if found.data:
                self.clients.count_sent(found.records)
                await client.connection.send(found.data)
            if self._ends(client, until):
                await client.connection.send(client.framing.heartbeat(client.seq))
                return
            if client.stream_request.follow:
                await self._wait_for_records(client)

    def _ends(self, client: "_Client", until: int) -> bool:
        """Say whether a client has everything it wants, or everything there will be."""
        if self._is_finishing:
            return client.seq >= self._records.last_seq
        return not client.stream_request.follow and client.seq >= until

    async def _next_chunk(self, client: "_Client") -> Chunk:
        position = client.seq, client.stream_request.event_filter, client.framing
        latest = await self._live.chunk(*position)
        if latest is not None and (latest.seq > client.seq or client.stream_request.follow):
            return latest
        return await self._pages.chunk(*position)

    async def _send_heartbeat_if_due(self, client: "_Client") -> None:
        """Send a heartbeat when one is due, the first one at once."""
        client.connection.check_progress()
        if anyio.current_time() >= client.heartbeat_at:
            client.heartbeat_at = anyio.current_time() + self._heartbeat_s
            await client.connection.send(client.framing.heartbeat(client.seq))

    async def _wait_for_records(self, client: "_Client") -> None:
        """Wait for new records, at most until a heartbeat or a check is due."""
        check_at = anyio.current_time() + client.connection.check_interval_s
        due = (
            min(client.heartbeat_at, check_at)
            if client.connection.unsent_bytes
            else client.heartbeat_at
        )
        with anyio.move_on_at(due):
            await self._live.wait_for_records(client.seq)

    async def _send_reset(self, client: "_Client", gone: RecordsExpired) -> None:
        """Send `reset` for missing records; the client goes on behind them."""
        oldest = self._records.oldest_seq
        gap = Gap(oldest, max(oldest, gone.oldest), str(gone))
        client.seq = gap.next - 1
        self.clients.count_reset()
        await client.connection.send(client.framing.reset(gap))

    async def _disconnect_stalled(self, client: "_Client", request: BaseRequest) -> None:
        self.clients.count_cut()
        message = f"cut: nothing was taken for {self._stall_timeout_s:g} s"
        await client.connection.disconnect(client.framing.goodbye(client.seq, message))
        self._log.info(
            "disconnected a client of the event stream", client=request.remote, at=client.seq
        )


class _Client:
    """One client: its request, its last record, and when its next heartbeat is due."""

    def __init__(
        self, connection: StreamConnection, framing: Framing, stream_request: StreamRequest
    ) -> None:
        self.connection = connection
        self.framing = framing
        self.stream_request = stream_request
        self.seq = 0
        self.heartbeat_at = 0.0
