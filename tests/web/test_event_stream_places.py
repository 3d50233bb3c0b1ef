"""Where in the journal a client begins, and how it goes on after a lost connection."""

import json

import aiohttp
import anyio
import pytest

from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.tail import LiveTail
from tests.support.event_source import DispatchedEvent, EventSource, read_all_events, take_events
from tests.support.golden import Golden
from tests.support.served_journal import EPOCH, ServeStream, to_sse_event

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("query", "first"),
    [
        pytest.param("&from=7", 8, id="a sequence"),
        pytest.param("&from=00000000000000000007", 8, id="a sequence as events have it"),
        pytest.param(f"&from={EPOCH}.7", 8, id="an id"),
        pytest.param("&from=0", 1, id="before the first"),
        pytest.param("&from=now", 24, id="now"),
        pytest.param("", 24, id="nothing said"),
        pytest.param("&from=2026-03-29T01:30:07Z", 7, id="a time"),
        pytest.param("&from=2026-03-29T03:30:06.5%2B02:00", 7, id="a time in another zone"),
        pytest.param("&from=2026-03-29", 1, id="a day"),
        pytest.param("&from=2026-03-30", 24, id="a day to come"),
        pytest.param("&from=59m50s", 10, id="a while ago"),
        pytest.param("&from=2020-01-01T00:00:00Z", 1, id="a time before everything"),
        pytest.param("&from=2030-01-01T00:00:00Z", 24, id="a time to come"),
    ],
)
async def test_a_client_begins_behind_the_place_it_names(
    serving: ServeStream, query: str, first: int
) -> None:
    async with serving(22) as served:
        assert len(served.records) == 23
        expected = served.records[first - 1 :]

        assert await read_all_events(served.url, query) == list(map(to_sse_event, expected))


async def test_the_place_a_reconnecting_client_sends_counts_more_than_that_of_its_address(
    serving: ServeStream,
) -> None:
    async with serving(20) as served:
        found = await read_all_events(
            served.url, "&from=oldest", **{"Last-Event-ID": f"{EPOCH}.18"}
        )

        assert found == list(map(to_sse_event, served.records[18:]))


@pytest.mark.parametrize("query", ["", "&type=eviction"], ids=["all", "filtered"])
async def test_a_client_that_is_cut_again_and_again_misses_nothing_and_gets_nothing_twice(
    serving: ServeStream, query: str
) -> None:
    found: list[DispatchedEvent] = []
    async with serving(900, there=1) as served, anyio.create_task_group() as group:

        async def write() -> None:
            while served.tail.last_seq < len(served.records):
                served.publish(7)
                await anyio.sleep(0.002)

        last_id = f"{EPOCH}.0"
        wanted = [
            event
            for event in map(to_sse_event, served.records)
            if not query or event.type.startswith("eviction.")
        ]
        group.start_soon(write)
        for taken in (1, 2, 40, 3, 100, 1, 17) * 20:
            async with (
                aiohttp.ClientSession(served.url) as session,
                session.get(f"/events?{query}", headers={"Last-Event-ID": last_id}) as response,
            ):
                source = EventSource(response)
                found += await take_events(source, min(taken, len(wanted) - len(found)))
                last_id = source.last_id
            if len(found) == len(wanted):
                break

    assert found == wanted


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(f"{EPOCH}.3", id="removed"),
        pytest.param("3", id="removed, a bare sequence"),
        pytest.param("another.15", id="another journal"),
        pytest.param(f"{EPOCH}.99", id="not there yet"),
        pytest.param("Grüße".encode().decode("latin-1"), id="no id at all"),
    ],
)
async def test_a_position_that_is_gone_is_reported_once_and_the_oldest_comes_next(
    serving: ServeStream, place: str, golden: Golden
) -> None:
    async with serving(20, oldest=11) as served:
        reset, *events = await read_all_events(served.url, **{"Last-Event-ID": place})

        assert reset.type == "reset"
        assert reset.id == f"{EPOCH}.10"
        told = json.loads(reset.data)
        assert (told["oldest"], told["next"]) == (11, 11)
        assert golden() in told["reason"]
        assert events == list(map(to_sse_event, served.records[10:]))
        assert served.stream.clients.counters.resets == 1
        again = await read_all_events(served.url, **{"Last-Event-ID": reset.id})
        assert again == events


async def test_what_is_removed_while_a_client_is_behind_is_reported_too(
    serving: ServeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(700) as served:
        after = LiveTail.read_after

        async def removing(tail: LiveTail, seq: int, most: int = 500) -> list[JournalRecord]:
            found = await after(tail, seq, most)
            tail.set_oldest(601)
            return found

        monkeypatch.setattr(LiveTail, "read_after", removing)
        events = await read_all_events(served.url, "&from=oldest")

        resets = [event for event in events if event.type == "reset"]
        assert [json.loads(reset.data)["next"] for reset in resets] == [601]
        at = events.index(resets[0])
        assert events[:at] == list(map(to_sse_event, served.records[:at]))
        assert events[at + 1 :] == list(map(to_sse_event, served.records[600:]))
