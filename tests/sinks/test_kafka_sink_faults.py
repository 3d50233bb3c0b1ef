"""Brokers that go away, move and refuse: nothing is lost, and order holds for each key."""

import time

import anyio
import pytest

from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka.sink import KafkaSink
from tests.support.kafka_way import (
    TOPIC,
    KafkaPipeline,
    assert_complete,
    eviction_entry,
    read_topic,
    under_load,
)
from tests.support.mock_kafka import PRODUCE, MockKafka
from tests.support.recording_logger import RecordingLogger

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60), pytest.mark.waits]


async def test_without_a_broker_at_start_records_wait_for_it(
    kafka: MockKafka, way: KafkaPipeline
) -> None:
    kafka.stop_brokers()
    way.record(50)
    async with way.running():
        trouble = await way.wait_for_failure()
        assert kafka.brokers[0] in trouble
        assert "check brokers" in trouble
        kafka.start_brokers()
        await way.wait_for_delivery()
        assert way.runner.error == ""

    assert_complete(await read_topic(kafka), way.entries)


async def test_a_broker_that_is_gone_for_a_while_costs_nothing(
    kafka: MockKafka, way: KafkaPipeline
) -> None:
    async def fail() -> None:
        kafka.stop_brokers()
        await anyio.sleep(1.5)
        kafka.start_brokers()

    await under_load(way, fail)

    assert_complete(await read_topic(kafka), way.entries)


async def test_when_leaders_move_nothing_is_lost(kafka: MockKafka, way: KafkaPipeline) -> None:
    async def fail() -> None:
        for number in range(6):
            kafka.move_leader(TOPIC, number % 3, 1 + number % 2)
            await anyio.sleep(0.15)

    await under_load(way, fail)

    assert_complete(await read_topic(kafka), way.entries)


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param((6, 6, 6), id="not the leader"),
        pytest.param((7, 7), id="timed out at the broker"),
        pytest.param((-195, -195), id="connection cut"),
        pytest.param((10,), id="a whole batch too large"),
        pytest.param((29, 29), id="not authorised"),
        pytest.param((45, 45), id="out of sequence"),
        pytest.param((47,), id="fenced"),
        pytest.param((87, 89), id="codes that the client does not know"),
        pytest.param((6, 45, -195, 7, 10, 0, 19, 0, 29), id="one after the other"),
    ],
)
async def test_after_errors_nothing_is_lost_and_order_holds(
    kafka: MockKafka, way: KafkaPipeline, errors: tuple[int, ...]
) -> None:
    async def fail() -> None:
        kafka.fail_requests(PRODUCE, *errors)
        await anyio.sleep(0.2)

    await under_load(way, fail)

    assert_complete(await read_topic(kafka), way.entries)
    assert way.dead_letter_seqs == []


async def test_what_follows_a_failure_in_its_partition_is_not_counted_as_delivered(
    kafka: MockKafka,
) -> None:
    kafka.create_topic("one", 1)
    settings = KafkaSettings(brokers=kafka.brokers, topic="one", max_request_bytes=8192)
    sink = KafkaSink(settings, clock=time.monotonic, log=RecordingLogger())
    entries = [eviction_entry(seq, size=2000) for seq in range(1, 9)]  # two in a batch
    kafka.fail_requests(PRODUCE, 0, 29, 0, 0)
    assert await sink.deliver(entries) == 2
    assert await sink.deliver(entries[2:]) == 6
    await sink.close()

    assert [one.seq for one in await read_topic(kafka, "one", 1)] == [*range(1, 9)]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (3, "kafka-topics.sh --bootstrap-server"),
        (29, "kafka-acls.sh --bootstrap-server"),
    ],
    ids=["unknown topic", "not authorised"],
)
async def test_a_topic_that_cannot_be_written_to_is_named_with_the_remedy_until_it_can(
    kafka: MockKafka, way: KafkaPipeline, error: int, remedy: str
) -> None:
    kafka.set_topic_error(TOPIC, error)
    way.record(3)
    async with way.running():
        trouble = await way.wait_for_failure()
        assert f"topic {TOPIC}" in trouble
        assert remedy in trouble
        kafka.set_topic_error(TOPIC, 0)
        await way.wait_for_delivery()

    assert_complete(await read_topic(kafka), way.entries)
