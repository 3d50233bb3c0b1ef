"""Shows the stream of a running controller; a lost connection is made again where it broke off."""

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from reactive_desched.cli.events_tail import Printer, TailOptions
from reactive_desched.cli.messages import complain
from reactive_desched.cli.sse import ServerSentEvent, SseReader
from reactive_desched.errors import ConfigError, StreamFailed
from reactive_desched.journal.records import Entry, mark
from reactive_desched.journal.start_position import parse_id
from reactive_desched.journal.summary import Filter

FIRST_S: Final = 0.5
LONGEST_S: Final = 15.0
"""After a lost connection the next try comes so soon, and then later each time, up to this."""

CONNECT_S: Final = 5.0
SILENCE_S: Final = 60.0
"""A connection that says nothing for so long is given up; there is a heartbeat much more often."""

FIRST_LOOK: Final = 1000
"""The last records that are wanted are looked for in so many, then in four times as many."""


class Away(Exception):  # noqa: N818  it is raised as the fact it names
    """The connection was lost, or the server has no place: worth another try."""


def tail_server(options: TailOptions, wanted: Filter, printer: Printer) -> None:
    """Show what a server tells; raises StreamFailed, or ConfigError for what it does not take."""
    assert options.server is not None, "it was asked for"
    asyncio.run(_Tail(address_of(options.server), options, wanted, printer).run())


def address_of(server: str) -> str:
    """Return the address of the stream; raises ConfigError for what is no address."""
    url = server if "://" in server else f"http://{server}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ConfigError(f"--server {server!r} is no address: write for example http://HOST:10258")
    return f"{url.rstrip('/').removesuffix('/events')}/events"


class _Tail:
    """One run of the command: where it is in the stream, and what it showed."""

    def __init__(
        self, address: str, options: TailOptions, wanted: Filter, printer: Printer
    ) -> None:
        self._address = address
        self._options = options
        self._all = wanted.is_empty
        self._printer = printer
        self._id = ""
        self._was_there = False

    async def run(self) -> None:
        """Show what was asked for; return at the newest record unless it should follow."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            try:
                await self._run(session)
            except Away as away:
                raise StreamFailed(str(away)) from away

    async def _run(self, session: aiohttp.ClientSession) -> None:
        if self._options.start is None:
            self._printer.show(await self._last(session))
        elif not self._options.follow:
            await self._show(session, follow=False)
        if self._options.follow:
            await self._follow(session)

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        delay_s = FIRST_S
        while True:
            before = self._id
            try:
                await self._show(session, follow=True)
                why = "the server ended the stream"
            except Away as away:
                if not self._was_there:
                    raise
                why = str(away)
            delay_s = FIRST_S if self._id != before else min(2 * delay_s, LONGEST_S)
            if delay_s == FIRST_S:
                complain(f"{why}; trying again")
            await asyncio.sleep(delay_s)

    async def _show(self, session: aiohttp.ClientSession, *, follow: bool) -> None:
        """Show what one answer holds; raises Away when it breaks off."""
        async for events in self._answer(session, self._query(follow=follow)):
            records = []
            for event in events:
                if event.type == "reset":
                    _tell_reset(event)
                elif (record := _record(event)) is not None:
                    records.append(record)
            self._printer.show(records)

    async def _last(self, session: aiohttp.ClientSession) -> list[Entry]:
        """Return the last records that are wanted, looked for from the end on backwards."""
        async for _ in self._answer(session, [("from", "now"), ("follow", "false")]):
            pass
        newest = parse_id(self._id)
        last = 0 if newest is None else newest.seq
        looked = self._options.last if self._all else FIRST_LOOK
        while True:
            found, is_all = await self._behind(session, max(0, last - looked))
            if len(found) >= self._options.last or is_all:
                return found
            looked *= 4

    async def _behind(self, session: aiohttp.ClientSession, begin: int) -> tuple[list[Entry], bool]:
        """Return the last wanted records behind a place, and whether there is nothing before it."""
        found: deque[Entry] = deque(maxlen=self._options.last)
        is_all, self._id = begin == 0, ""
        query = [*self._chosen(), ("from", str(begin)), ("follow", "false")]
        async for events in self._answer(session, query):
            is_all = is_all or any(event.type == "reset" for event in events)
            found.extend(record for record in map(_record, events) if record is not None)
        return list(found), is_all

    def _query(self, *, follow: bool) -> list[tuple[str, str]]:
        start = [("from", self._options.start)] if self._options.start is not None else []
        return [*self._chosen(), *start, ("follow", "true" if follow else "false")]

    def _chosen(self) -> list[tuple[str, str]]:
        chosen = self._options.chosen.items()
        return [(name, word) for name, words in chosen for word in words]

    async def _answer(
        self, session: aiohttp.ClientSession, query: list[tuple[str, str]]
    ) -> AsyncIterator[list[ServerSentEvent]]:
        """Yield the events of one answer, those that came together at once; raises Away."""
        headers = {"Accept": "text/event-stream"}
        if self._id:
            headers["Last-Event-ID"] = self._id
        try:
            async with session.get(self._address, params=query, headers=headers) as response:
                await self._check(response)
                self._was_there = True
                reader = SseReader()
                async for piece in response.content.iter_any():
                    if events := list(reader.feed(piece)):
                        self._id = events[-1].id or self._id
                        yield events
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Away(self._said(error)) from error

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        """Raise what an answer that is no stream means."""
        if response.status == HTTPStatus.BAD_REQUEST:
            raise ConfigError((await response.text()).strip())
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise Away(f"{self._address}: {(await response.text()).strip()}")
        if self._was_there and response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Away(f"{self._address} answers {response.status} {response.reason}")
        if response.status != HTTPStatus.OK or response.content_type != "text/event-stream":
            raise StreamFailed(
                f"{self._address} answers {response.status} {response.reason},"
                " which is no stream of events: is that the address of a controller?"
            )

    def _said(self, error: Exception) -> str:
        if self._was_there:
            return f"the connection to {self._address} was lost"
        reason = _reason(error) or f"no answer within {CONNECT_S:g} s"
        return f"nobody answers at {self._address}: {reason}; is a controller running there?"


def _record(event: ServerSentEvent) -> Entry | None:
    """Return the record that an event is; None for a heartbeat and the like."""
    found = mark(event.data)
    return None if found is None else Entry(found.seq, event.data)


def _tell_reset(event: ServerSentEvent) -> None:
    told = json.loads(event.data)
    complain(f"{told['reason']}; going on with record {told['next']}")


def _reason(error: Exception) -> str:
    """Return the operating system's words, if there are any."""
    if isinstance(error, aiohttp.ClientConnectorError):
        number, text = error.os_error.errno, error.os_error.strerror
        return os.strerror(number) if number is not None and number > 0 else str(text)
    return str(error)
