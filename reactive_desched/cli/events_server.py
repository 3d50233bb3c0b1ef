"""Shows the stream of a running controller; a lost connection is made again where it broke off."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

import aiohttp
from msgspec import Struct

from reactive_desched.cli.commands import print_warning
from reactive_desched.cli.controller_client import (
    UNAUTHORIZED,
    ControllerClient,
    os_error_text,
    split_address,
)
from reactive_desched.cli.proxied_request import cut_off_on_error
from reactive_desched.cli.record_filters import FilterValues
from reactive_desched.cli.sse import ServerSentEvent, SseReader
from reactive_desched.errors import ConfigError, StreamFailed
from reactive_desched.journal.records import JournalRecord, parse_header, recorded_at
from reactive_desched.journal.start_position import parse_id
from reactive_desched.journal.summary import EventFilter
from reactive_desched.primitives.http_failures import proxy_failure


class TailOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `events tail`: a controller or a journal; `last` counts without a start."""

    controller: ControllerClient | None = None
    journal: Path | None = None
    start: str | None = None
    until: datetime | None = None
    last: int = 10
    follow: bool = False
    filters: FilterValues = {}
    output: str = "table"


class Printer(Protocol):
    """Shows records."""

    def show(self, records: Iterable[JournalRecord]) -> None:
        """Write them and have them seen."""
        ...


def is_before(entry: JournalRecord, until: datetime | None) -> bool:
    """Return whether a record was written before a moment; a damaged line counts as such."""
    return until is None or (written := recorded_at(entry.raw)) is None or written < until


INITIAL_RETRY_S: Final = 0.5
MAX_RETRY_S: Final = 15.0
"""After a lost connection the next try comes so soon, and then later each time, up to this."""

CONNECT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 60.0
"""A connection that says nothing for so long is given up; there is a heartbeat much more often."""

INITIAL_LOOKBACK: Final = 1000
"""The last records that are wanted are looked for in so many, then in four times as many."""


_WANTS_LOGIN: Final = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
_EXPLAINED: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


class StreamUnavailable(Exception):  # noqa: N818  it is raised as the fact it names
    """The connection was lost, or the server has no place: worth another try."""


def tail_server(options: TailOptions, record_filter: EventFilter, printer: Printer) -> None:
    """Print a server's events; raises StreamFailed, or ConfigError for what it does not take."""
    assert options.controller is not None, "it was asked for"
    asyncio.run(_ServerTail(options.controller, options, record_filter, printer).run())


def stream_url(server: str) -> str:
    """Return the address of the stream; raises ConfigError for what is no address."""
    url = split_address(server).geturl()
    return f"{url.rstrip('/').removesuffix('/events')}/events"


class _ServerTail:
    """One run of the command: where it is in the stream, and what it showed."""

    def __init__(
        self,
        controller: ControllerClient,
        options: TailOptions,
        record_filter: EventFilter,
        printer: Printer,
    ) -> None:
        self._controller = controller
        self._address = stream_url(controller.server)
        self._proxy = controller.proxy()
        self._tls = controller.tls_context() if self._address.startswith("https:") else True
        self._options = options
        self._is_unfiltered = record_filter.is_empty and options.until is None
        self._printer = printer
        self._last_event_id = ""
        self._has_connected = False

    async def run(self) -> None:
        """Show what was asked for; return at the newest record unless it should follow."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=READ_TIMEOUT_S
        )
        async with aiohttp.ClientSession(timeout=timeout) as session:
            try:
                await self._run(session)
            except StreamUnavailable as away:
                raise StreamFailed(str(away)) from away

    async def _run(self, session: aiohttp.ClientSession) -> None:
        if self._options.start is None:
            self._printer.show(await self._last_records(session))
        elif not self._options.follow:
            await self._show(session, follow=False)
        if self._options.follow:
            await self._follow(session)

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        delay_s = INITIAL_RETRY_S
        while True:
            before = self._last_event_id
            try:
                await self._show(session, follow=True)
                message = "the server ended the stream"
            except StreamUnavailable as away:
                if not self._has_connected:
                    raise
                message = str(away)
            delay_s = (
                INITIAL_RETRY_S if self._last_event_id != before else min(2 * delay_s, MAX_RETRY_S)
            )
            if delay_s == INITIAL_RETRY_S:
                print_warning(f"{message}; trying again")
            await asyncio.sleep(delay_s)

    async def _show(self, session: aiohttp.ClientSession, *, follow: bool) -> None:
        """Show what one answer holds; raises StreamUnavailable when it breaks off."""
        async for events in self._stream_events(session, self._query(follow=follow)):
            records = []
            for event in events:
                if event.type == "reset":
                    _warn_reset(event)
                elif (record := self._wanted_record(event)) is not None:
                    records.append(record)
            self._printer.show(records)

    async def _last_records(self, session: aiohttp.ClientSession) -> list[JournalRecord]:
        """Return the last records that are wanted, looked for from the end on backwards."""
        async for _ in self._stream_events(session, [("from", "now"), ("follow", "false")]):
            pass
        newest = parse_id(self._last_event_id)
        last = 0 if newest is None else newest.seq
        lookback = self._options.last if self._is_unfiltered else INITIAL_LOOKBACK
        while True:
            records, is_all = await self._records_after(session, max(0, last - lookback))
            if len(records) >= self._options.last or is_all:
                return records
            lookback *= 4

    async def _records_after(
        self, session: aiohttp.ClientSession, begin: int
    ) -> tuple[list[JournalRecord], bool]:
        """Return the last wanted records behind a place, and whether there is nothing before it."""
        records: deque[JournalRecord] = deque(maxlen=self._options.last)
        is_all, self._last_event_id = begin == 0, ""
        query = [*self._filter_params(), ("from", str(begin)), ("follow", "false")]
        async for events in self._stream_events(session, query):
            is_all = is_all or any(event.type == "reset" for event in events)
            wanted = map(self._wanted_record, events)
            records.extend(record for record in wanted if record is not None)
        return list(records), is_all

    def _wanted_record(self, event: ServerSentEvent) -> JournalRecord | None:
        """Return the record that an event is; None for a heartbeat, or one after `--until`."""
        line_mark = parse_header(event.data)
        record = None if line_mark is None else JournalRecord(line_mark.seq, event.data)
        return record if record and is_before(record, self._options.until) else None

    def _query(self, *, follow: bool) -> list[tuple[str, str]]:
        start = [("from", self._options.start)] if self._options.start is not None else []
        return [*self._filter_params(), *start, ("follow", "true" if follow else "false")]

    def _filter_params(self) -> list[tuple[str, str]]:
        flags = self._options.filters.items()
        return [(name, value) for name, values in flags for value in values]

    async def _stream_events(
        self, session: aiohttp.ClientSession, query: list[tuple[str, str]]
    ) -> AsyncIterator[list[ServerSentEvent]]:
        """Yield the events of one answer, together as they came; raises StreamUnavailable."""
        headers = {"Accept": "text/event-stream", **self._controller.headers()}
        if self._last_event_id:
            headers["Last-Event-ID"] = self._last_event_id
        try:
            request = session.get(
                self._address,
                params=query,
                headers=headers,
                ssl=self._tls,
                server_hostname=self._controller.tls_server_name,
                proxy=None if self._proxy is None else self._proxy.url,
            )
            async with cut_off_on_error(request) as response:
                await self._raise_for_status(response)
                self._has_connected = True
                reader = SseReader()
                async for piece in response.content.iter_any():
                    if events := list(reader.feed(piece)):
                        self._last_event_id = events[-1].id or self._last_event_id
                        yield events
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StreamUnavailable(self._connection_error(error)) from None

    async def _raise_for_status(self, response: aiohttp.ClientResponse) -> None:
        """Raise what an answer that is no stream means."""
        if response.status == HTTPStatus.BAD_REQUEST:
            raise ConfigError((await response.text()).strip())
        if self._proxy is not None and response.status == _WANTS_LOGIN:
            raise StreamFailed(self._proxy.refusal(response.status, response.headers.items()))
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise StreamFailed(f"{self._address}: {UNAUTHORIZED}")
        if response.status in _EXPLAINED and response.headers.get("Server") == "reactive-desched":
            text = (await response.text()).strip()
            raise StreamFailed(f"{self._address} answers {response.status}: {text}")
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise StreamUnavailable(f"{self._address}: {(await response.text()).strip()}")
        if self._has_connected and response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise StreamUnavailable(f"{self._address} answers {response.status} {response.reason}")
        if response.status != HTTPStatus.OK or response.content_type != "text/event-stream":
            raise StreamFailed(
                f"{self._address} answers {response.status} {response.reason},"
                " which is not a stream of events: is that the address of a controller?"
            )

    def _connection_error(self, error: Exception) -> str:
        if self._has_connected:
            return f"the connection to {self._address} was lost"
        if self._proxy is not None and (failure := proxy_failure(error, self._proxy)):
            return failure
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        reason = (
            f"no answer within {CONNECT_TIMEOUT_S:g} s"
            if isinstance(error, TimeoutError)
            else os_error_text(cause)
        )
        where = f"{self._address}, through {self._proxy}" if self._proxy else self._address
        return f"no answer at {where}: {reason}; is a controller running there?"


def _warn_reset(event: ServerSentEvent) -> None:
    data = json.loads(event.data)
    print_warning(f"{data['reason']}; going on with record {data['next']}")
