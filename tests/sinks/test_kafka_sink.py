"""What stands in the topic when all goes well, and where."""

from pathlib import Path

import anyio
import msgspec
import pytest
import structlog
from anyio.to_thread import run_sync
from confluent_kafka import Producer

from reactive_desched.api.event import CHECKPOINT, EVICTION_SUCCEEDED, Checkpoint
from reactive_desched.journal.records import GENESIS, JournalRecord
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka.sink import KafkaSink
from tests.support.entries import entry
from tests.support.journals import SOURCE
from tests.support.kafka_lines import to_journal_line
from tests.support.kafka_way import (
    KEYS,
    TOPIC,
    KafkaPipeline,
    assert_complete,
    eviction_entry,
    read_topic,
)
from tests.support.mock_kafka import MockKafka

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_a_message_has_key_headers_and_the_line_as_value(
    kafka: MockKafka, way: KafkaPipeline
) -> None:
    way.record(20)
    await way.run_until_delivered()

    got = await read_topic(kafka)
    assert_complete(got, way.entries)
    assert len(got) == 20
    (third,) = [one for one in got if one.seq == 3]
    headers = dict(third.headers)
    assert third.key == KEYS[3]
    assert headers["content-type"] == b"application/cloudevents+json"
    assert headers["ce_type"] == EVICTION_SUCCEEDED.encode()
    assert headers["ce_subject"] == b"shop/web"
    assert headers["ce_specversion"] == b"1.0"
    assert headers["ce_source"] == SOURCE.encode()


async def test_records_that_are_delivered_anew_are_sent_anew(kafka: MockKafka) -> None:
    settings = KafkaSettings(brokers=kafka.brokers, topic=TOPIC)
    sink = KafkaSink(settings, clock=anyio.current_time, log=structlog.get_logger())
    entries = [eviction_entry(seq) for seq in range(1, 6)]
    try:
        assert await sink.deliver(entries) == 5
        assert await sink.deliver(entries[2:]) == 3  # as after a position that was not kept
    finally:
        await sink.close()

    assert sorted(one.seq for one in await read_topic(kafka)) == [1, 2, 3, 3, 4, 4, 5, 5]


async def test_a_key_lands_where_other_clients_put_it(kafka: MockKafka, way: KafkaPipeline) -> None:
    way.record(14)
    await way.run_until_delivered()
    ours = {one.key: one.partition for one in await read_topic(kafka)}

    kafka.create_topic("theirs", 3)
    where = {"bootstrap.servers": ",".join(kafka.brokers), "partitioner": "murmur2_random"}
    theirs = Producer({**where, "log_level": 0})
    for key in KEYS:
        theirs.produce("theirs", key=key, value=b"", headers=[("ce_id", b"1")])
    await run_sync(theirs.flush, 20)

    assert {one.key: one.partition for one in await read_topic(kafka, "theirs")} == ours
    assert len(set(ours.values())) > 1


async def test_of_binary_messages_the_lines_can_be_put_together_again(
    kafka: MockKafka, tmp_path: Path
) -> None:
    settings = KafkaSettings(brokers=kafka.brokers, topic=TOPIC, mode="binary", compression="gzip")
    way = KafkaPipeline(tmp_path, settings)
    way.record(30)
    await way.run_until_delivered()

    got = await read_topic(kafka)
    assert "type" not in msgspec.json.decode(got[0].value)
    assert {to_journal_line(one.value, one.headers) for one in got} == {
        one.raw for one in way.entries
    }


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_another_client_reads_batches_of_every_compression(
    kafka: MockKafka, tmp_path: Path, compression: str
) -> None:
    settings = KafkaSettings.model_validate(
        {"brokers": kafka.brokers, "topic": TOPIC, "compression": compression}
    )
    way = KafkaPipeline(tmp_path, settings)
    way.record(200, size=2000)
    await way.run_until_delivered()

    assert_complete(await read_topic(kafka), way.entries)


async def test_a_topic_may_have_some_types_of_event_alone(kafka: MockKafka, tmp_path: Path) -> None:
    settings = KafkaSettings(brokers=kafka.brokers, topic=TOPIC, types=("eviction",))
    way = KafkaPipeline(tmp_path, settings)
    signed = Checkpoint(note="n", root=GENESIS, size=1, unrecorded=0)
    way.tail.publish(
        [entry(CHECKPOINT, signed, 1), eviction_entry(2), entry(CHECKPOINT, signed, 3)]
    )
    await way.run_until_delivered()

    assert [one.seq for one in await read_topic(kafka)] == [2]
    assert way.runner.cursor == 3
    assert way.dead_letter_seqs == []


async def test_a_record_that_cannot_be_read_is_rejected_whatever_types_are_wanted(
    kafka: MockKafka, tmp_path: Path
) -> None:
    settings = KafkaSettings(brokers=kafka.brokers, topic=TOPIC, types=("eviction",))
    way = KafkaPipeline(tmp_path, settings)
    way.tail.publish([JournalRecord(1, b"{"), eviction_entry(2)])
    await way.run_until_delivered()

    assert way.dead_letter_seqs == [1]


async def test_checkpoints_may_have_a_topic_of_their_own(kafka: MockKafka, tmp_path: Path) -> None:
    kafka.create_topic("checkpoints", 1)
    settings = KafkaSettings(brokers=kafka.brokers, topic=TOPIC, checkpoint_topic="checkpoints")
    way = KafkaPipeline(tmp_path, settings)
    signed = Checkpoint(note="n", root=GENESIS, size=1, unrecorded=0)
    way.tail.publish([eviction_entry(1), entry(CHECKPOINT, signed, 2), eviction_entry(3)])
    await way.run_until_delivered()

    assert sorted(one.seq for one in await read_topic(kafka)) == [1, 3]
    assert [one.seq for one in await read_topic(kafka, "checkpoints", 1)] == [2]
