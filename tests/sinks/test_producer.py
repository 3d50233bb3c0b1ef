"""A producer lives until its first error, and nothing of it outlives it."""

import asyncio
import contextlib
import gc
import os
import socket
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import SinkUnavailable
from reactive_desched.sinks.kafka import producer
from tests.support.kafka_way import KafkaPipeline, eviction_entry
from tests.support.manual_clock import wait_until
from tests.support.mock_kafka import NEW_PRODUCER_ID, PRODUCE, MockKafka

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.parametrize("error", [10, 29, 45, 47, 87])
async def test_after_an_error_that_reaches_us_there_is_a_new_producer(
    kafka: MockKafka, way: KafkaPipeline, error: int
) -> None:
    async with way.running():
        way.record(1)
        await way.wait_for_delivery()
        kafka.start_request_counts()
        kafka.fail_requests(PRODUCE, error)
        way.record(14)
        await way.wait_for_delivery()

    assert kafka.request_count(NEW_PRODUCER_ID) >= 1


async def test_without_an_error_a_producer_stays(kafka: MockKafka, way: KafkaPipeline) -> None:
    kafka.start_request_counts()
    async with way.running():
        for _ in range(3):
            way.record(5)
            await way.wait_for_delivery()

    assert kafka.request_count(NEW_PRODUCER_ID) == 1


async def test_acknowledgements_that_stay_away_end_a_round(
    kafka: MockKafka, way: KafkaPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    await way.sink.deliver([eviction_entry(1)])
    monkeypatch.setattr(producer, "ACK_TIMEOUT_S", 0.3)
    kafka.set_latency(2000)

    with pytest.raises(SinkUnavailable, match="no acknowledgement"):
        await way.sink.deliver([eviction_entry(2)])

    kafka.set_latency(0)
    monkeypatch.undo()
    assert await way.sink.deliver([eviction_entry(2)]) == 1
    await way.sink.close()


async def test_a_delivery_that_was_cut_short_costs_its_producer(
    kafka: MockKafka, way: KafkaPipeline
) -> None:
    await way.sink.deliver([eviction_entry(1)])
    kafka.start_request_counts()
    kafka.set_latency(1000)
    with anyio.move_on_after(0.2):
        await way.sink.deliver([eviction_entry(2)])
    kafka.set_latency(0)

    assert await way.sink.deliver([eviction_entry(2)]) == 1
    assert kafka.request_count(NEW_PRODUCER_ID) == 1
    await way.sink.close()


async def test_nothing_of_a_producer_is_left_when_it_is_thrown_away_in_an_outage(
    kafka: MockKafka, way: KafkaPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asyncio.all_tasks()
    await way.sink.deliver([eviction_entry(1)])
    monkeypatch.setattr(producer, "ACK_TIMEOUT_S", 0.5)
    kafka.stop_brokers()
    with pytest.raises(SinkUnavailable):
        await way.sink.deliver([eviction_entry(2)])

    await wait_until(lambda: asyncio.all_tasks() == before)
    await way.sink.close()


async def test_closing_takes_a_moment_even_with_messages_on_their_way(
    kafka: MockKafka, way: KafkaPipeline
) -> None:
    before = asyncio.all_tasks()
    await way.sink.deliver([eviction_entry(1)])
    kafka.stop_brokers()
    with anyio.move_on_after(0.3) as scope:
        await way.sink.deliver([eviction_entry(2)])
    assert scope.cancelled_caught
    with anyio.fail_after(20):
        await way.sink.close()

    await wait_until(lambda: asyncio.all_tasks() == before)


@pytest.mark.filterwarnings("ignore:Unclosed AIOKafkaConnection:ResourceWarning")
async def test_a_start_that_takes_too_long_leaves_no_connection_open(
    kafka: MockKafka, way: KafkaPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client forgets the connection on which it waits for its first answer."""
    monkeypatch.setattr(producer, "START_TIMEOUT_S", 0.3)
    kafka.set_latency(200)  # the versions come in time, the topics do not
    before = connections()

    with pytest.raises(SinkUnavailable):
        await way.sink.deliver([eviction_entry(1)])

    def collected() -> bool:
        gc.collect()  # this is what closes it
        return connections() <= before

    await wait_until(collected)
    await way.sink.close()


def connections() -> set[object]:
    """Return the addresses of both ends of each connection that this process has open."""
    found: set[object] = set()
    for link in Path("/proc/self/fd").iterdir():
        with (
            contextlib.suppress(OSError),  # it is no socket, not connected, or closed by now
            socket.socket(fileno=os.dup(int(link.name))) as one,
        ):
            found.add((one.getsockname(), one.getpeername()))
    return found
