"""A client of a stream of server-sent events, as strict as the standard of the WHATWG."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import NamedTuple

import aiohttp
import anyio

__all__ = ["Event", "EventSource", "everything", "take"]

PATIENCE_S = 10.0
HEARTBEAT = "heartbeat"


class Event(NamedTuple):
    """What an EventSource dispatches."""

    id: str
    type: str
    data: str


class EventSource:
    """Reads a stream event by event, as often as it is asked for more."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        assert response.status == HTTPStatus.OK
        assert response.headers["Content-Type"].split(";")[0] == "text/event-stream"
        self._content = response.content
        self._events = self._dispatched()
        self.last_id = ""
        self.retry_ms: int | None = None

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    async def _dispatched(self) -> AsyncIterator[Event]:
        type_, data = "", list[str]()
        async for line in self._lines():
            if not line:
                if data:
                    yield Event(self.last_id, type_ or "message", "\n".join(data))
                type_, data = "", []
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "event":
                    type_ = value
                case "data":
                    data.append(value)
                case _:
                    self._take_in(field, value)

    def _take_in(self, field: str, value: str) -> None:
        """Keep what belongs to the stream rather than to an event; a comment is nothing to keep."""
        match field:
            case "":
                pass
            case "id" if "\0" not in value:
                self.last_id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_ms = int(value)
            case _:
                raise AssertionError(f"no field of an event: {field!r}: {value!r}")

    async def _lines(self) -> AsyncIterator[str]:
        rest = b""
        async for chunk in self._content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                assert b"\r" not in line
                yield line.decode("utf-8", "strict")


async def take(source: EventSource, count: int) -> list[Event]:
    """Return the next so many events, heartbeats left out."""
    found: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        while len(found) < count:
            event = await anext(aiter(source))
            if event.type != HEARTBEAT:
                found.append(event)
    return found


async def everything(url: str, query: str = "", **headers: str) -> list[Event]:
    """Return all there is for a client that does not follow, heartbeats left out."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/events?follow=false{query}", headers=headers) as response,
    ):
        return [event async for event in EventSource(response) if event.type != HEARTBEAT]
