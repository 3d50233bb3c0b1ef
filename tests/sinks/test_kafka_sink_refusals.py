"""Events that Kafka never takes are found one by one, and cost the others nothing."""

from pathlib import Path

import pytest

from reactive_desched.errors import EventRejected
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka.connection import MIN_BATCH_BYTES
from tests.support.kafka_way import (
    TOPIC,
    KafkaPipeline,
    assert_complete,
    eviction_entry,
    read_topic,
)
from tests.support.mock_kafka import PRODUCE, MockKafka

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_the_one_event_that_is_too_large_is_found_and_the_rest_continues(
    kafka: MockKafka, one_lane: KafkaPipeline
) -> None:
    async with one_lane.running():
        one_lane.record(1)
        await one_lane.wait_for_delivery()
        # Six; three are taken, the next three not; the first of these is not, even alone.
        kafka.fail_requests(PRODUCE, 10, 0, 10, 10)
        one_lane.record(6)
        await one_lane.wait_for_delivery()

    assert_complete(await read_topic(kafka, "one", 1), one_lane.entries, without=(5,))
    (letter,) = one_lane.dead_letters
    assert letter.sequence == 5
    assert "max.message.bytes" in letter.reason


async def test_after_batches_that_were_too_large_there_are_smaller_ones(
    kafka: MockKafka, one_lane: KafkaPipeline
) -> None:
    kafka.start_request_counts()
    async with one_lane.running():
        one_lane.record(100)
        await one_lane.wait_for_delivery()
        assert kafka.request_count(PRODUCE) == 1
        for _ in range(9):
            kafka.fail_requests(PRODUCE, 10)
            one_lane.record(2)
            await one_lane.wait_for_delivery()
        kafka.reset_counts()
        one_lane.record(100)
        await one_lane.wait_for_delivery()

    size = sum(len(entry.raw) for entry in one_lane.entries[-100:])
    assert size / MIN_BATCH_BYTES <= kafka.request_count(PRODUCE) <= 3 * size / MIN_BATCH_BYTES
    assert one_lane.dead_letter_seqs == []


async def test_what_is_larger_than_we_may_send_is_refused_alone(
    kafka: MockKafka, tmp_path: Path
) -> None:
    settings = KafkaSettings(brokers=kafka.brokers, topic=TOPIC, max_request_bytes=8192)
    way = KafkaPipeline(tmp_path, settings)
    way.record(5)
    way.record(1, size=9000)
    way.record(5)
    await way.run_until_delivered()

    assert way.dead_letter_seqs == [6]
    assert_complete(await read_topic(kafka), way.entries, without=(6,))


async def test_what_is_no_event_is_refused_and_what_came_before_is_sent(
    kafka: MockKafka, way: KafkaPipeline
) -> None:
    broken = JournalRecord(2, b'{"id":1}')
    assert await way.sink.deliver([eviction_entry(1), broken, eviction_entry(3)]) == 1
    with pytest.raises(EventRejected, match="no event"):
        await way.sink.deliver([broken, eviction_entry(3)])
    assert await way.sink.deliver([eviction_entry(3)]) == 1
    await way.sink.close()

    assert sorted(one.seq for one in await read_topic(kafka)) == [1, 3]
