"""A sign of life comes now and then, and tells how far was looked."""

import json

import aiohttp
import anyio
import pytest

from tests.support.event_source import DispatchedEvent, EventSource
from tests.support.served_journal import EPOCH, ServeStream

pytestmark = pytest.mark.anyio


async def test_a_heartbeat_says_how_far_was_searched_so_that_nothing_is_searched_twice(
    serving: ServeStream,
) -> None:
    async with (
        serving(30, there=5, heartbeat_s=0.03) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events?namespace=nowhere") as response,
    ):
        beats: list[DispatchedEvent] = []
        with anyio.fail_after(60):
            async for event in EventSource(response):
                beats.append(event)
                served.publish()
                if len(beats) == 10:
                    break

        assert {event.type for event in beats} == {"heartbeat"}
        assert [json.loads(beat.data)["sequence"] for beat in beats] == [
            int(beat.id.rpartition(".")[2]) for beat in beats
        ]
        assert beats[0].id == f"{EPOCH}.5"
        assert json.loads(beats[-1].data)["sequence"] > 8


async def test_an_answer_ends_with_how_far_it_searched(serving: ServeStream) -> None:
    async with (
        serving(30) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events?namespace=nowhere&from=oldest&follow=false") as response,
    ):
        *_, last = [event async for event in EventSource(response)]

        assert last == DispatchedEvent(f"{EPOCH}.31", "heartbeat", '{"sequence":31}')


async def test_heartbeats_come_while_events_do(serving: ServeStream) -> None:
    async with (
        serving(300, there=5, heartbeat_s=0.05) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events") as response,
    ):
        beats = 0
        with anyio.fail_after(60):
            async for event in EventSource(response):
                beats += event.type == "heartbeat"
                served.publish(1 if served.tail.last_seq < len(served.records) else 0)
                if beats == 4:
                    break

        assert served.stream.clients.counters.sent > 0


async def test_a_heartbeat_between_lines_is_an_empty_one(serving: ServeStream) -> None:
    async with (
        serving(20, there=3, heartbeat_s=0.02) as served,
        aiohttp.ClientSession(served.url) as session,
        session.get("/events", headers={"Accept": "application/x-ndjson"}) as response,
    ):
        with anyio.fail_after(60):
            assert [await response.content.readline() for _ in range(3)] == [b"\n"] * 3
            served.publish()
            while (line := await response.content.readline()) == b"\n":
                pass

        assert line == served.records[3].raw + b"\n"
