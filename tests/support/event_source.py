"""A client of a stream of server-sent events, as strict as the standard of the WHATWG."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import NamedTuple

import aiohttp
import anyio

__all__ = ["DispatchedEvent", "EventSource", "read_all_events", "take_events"]

TIMEOUT_S = 30.0
HEARTBEAT = "heartbeat"


class DispatchedEvent(NamedTuple):
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
        self._events = self._dispatch()
        self.last_id = ""
        self.retry_ms: int | None = None

    def __aiter__(self) -> AsyncIterator[DispatchedEvent]:
        return self._events

    async def _dispatch(self) -> AsyncIterator[DispatchedEvent]:
        type_, data = "", list[str]()
        async for line in self._lines():
            if not line:
                if data:
                    yield DispatchedEvent(self.last_id, type_ or "message", "\n".join(data))
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
                    self._apply_field(field, value)

    def _apply_field(self, field: str, value: str) -> None:
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


async def take_events(source: EventSource, count: int) -> list[DispatchedEvent]:
    """Return the next so many events, heartbeats left out."""
    events: list[DispatchedEvent] = []
    with anyio.fail_after(TIMEOUT_S):
        while len(events) < count:
            event = await anext(aiter(source))
            if event.type != HEARTBEAT:
                events.append(event)
    return events


async def read_all_events(url: str, query: str = "", **headers: str) -> list[DispatchedEvent]:
    """Return all there is for a client that does not follow, heartbeats left out."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/events?follow=false{query}", headers=headers) as response,
    ):
        return [event async for event in EventSource(response) if event.type != HEARTBEAT]
