"""The way of records to a Kafka topic, and back through another client: `way.record(20)`."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, cast

import anyio
from anyio.to_thread import run_sync
from confluent_kafka import Consumer, KafkaError, TopicPartition

from reactive_desched.api.event import EVICTION_SUCCEEDED
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.event_builder import Correlation, build_event
from reactive_desched.journal.records import GENESIS, JournalRecord, encode, format_line
from reactive_desched.journal.tail import LiveTail
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.dead_letters import DeadLetter, DeadLetterFiles
from reactive_desched.sinks.kafka.sink import KafkaSink
from reactive_desched.sinks.sink_runner import SinkRunner
from reactive_desched.text.causes import NO_ANSWER_YET
from tests.support.dead_letters import read_dead_letters
from tests.support.entries import outcome_data
from tests.support.journals import SOURCE, STARTED_AT
from tests.support.manual_clock import wait_until
from tests.support.mock_kafka import MockKafka
from tests.support.recording_logger import RecordingLogger

__all__ = [
    "KEYS",
    "TOPIC",
    "KafkaPipeline",
    "TopicMessage",
    "assert_complete",
    "eviction_entry",
    "read_topic",
    "under_load",
]

TOPIC: Final = "events"

KEYS: Final = [f"uid-{number}" for number in range(7)]
"""The keys of the records, in turns."""

TIMEOUT_S: Final = 30.0


class TopicMessage(NamedTuple):
    """One message as another Kafka client reads it."""

    partition: int
    key: str
    value: bytes
    headers: list[tuple[str, bytes]]

    @property
    def id(self) -> str:
        """The event's id."""
        return dict(self.headers)["ce_id"].decode()

    @property
    def seq(self) -> int:
        """The record's number in the journal."""
        return int(dict(self.headers)["ce_sequence"])


class KafkaPipeline:
    """From records to a topic: a journal's tail, a relay and the sink."""

    def __init__(self, directory: Path, kafka: KafkaSettings) -> None:
        self.tail = LiveTail(directory, SOURCE, 1, 0)
        self.logger = RecordingLogger()
        self.sink = KafkaSink(kafka, clock=time.monotonic, log=self.logger)
        self.entries: list[JournalRecord] = []
        self._dead_letter_store = DeadLetterFiles(directory / "dead-letters")
        self.runner = SinkRunner(
            self.sink,
            self.tail,
            Cursors(directory / "positions"),
            self._dead_letter_store,
            clock=time.monotonic,
            wall=lambda: datetime.now(UTC),
            rng=Random(1),
            log=self.logger,
        )

    def record(self, count: int, size: int = 0) -> None:
        """Have so many more records become durable, each with so many bytes to spare."""
        first = self.tail.last_seq + 1
        new = [eviction_entry(seq, size=size) for seq in range(first, first + count)]
        self.entries += new
        self.tail.publish(new)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Relay while the block lasts."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.runner.run)
            yield
            group.cancel_scope.cancel()

    async def wait_for_delivery(self) -> None:
        """Return when Kafka has everything; fail with what the relay complains of."""
        assert await self.runner.drained(TIMEOUT_S), self.runner.error

    async def run_until_delivered(self) -> None:
        """Relay until Kafka has everything."""
        async with self.running():
            await self.wait_for_delivery()

    async def wait_for_failure(self) -> str:
        """Return what keeps the relay waiting, as soon as something does."""
        await wait_until(lambda: self.runner.error not in ("", NO_ANSWER_YET), TIMEOUT_S)
        return self.runner.error

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """The events that Kafka will never take."""
        path = self._dead_letter_store.path("kafka")
        return list(read_dead_letters(path)) if path.exists() else []

    @property
    def dead_letter_seqs(self) -> list[int]:
        """The numbers of those events."""
        return [letter.sequence for letter in self.dead_letters]


def eviction_entry(seq: int, size: int = 0) -> JournalRecord:
    """Return the record of an eviction; keys come in turns."""
    story = Correlation(f"case-{seq}", "shop/web", KEYS[seq % len(KEYS)])
    data = outcome_data("evicted", "x" * size)
    event = build_event(
        SOURCE, EVICTION_SUCCEEDED, story, STARTED_AT, data, id_=f"id-{seq}", causation_id="n1"
    )
    return JournalRecord(
        seq, format_line(encode(event), GENESIS, "2026-03-29T01:30:01.000000Z", seq)
    )


async def under_load(way: KafkaPipeline, fail: Callable[[], Awaitable[None]]) -> None:
    """Let something fail while records come in; return when all of them are delivered."""
    async with way.running():
        way.record(100)
        await way.wait_for_delivery()
        async with anyio.create_task_group() as group:
            group.start_soon(_record_on, way)
            await fail()
            group.cancel_scope.cancel()
        way.record(100)
        await way.wait_for_delivery()


async def read_topic(
    kafka: MockKafka, topic: str = TOPIC, partitions: int = 3
) -> list[TopicMessage]:
    """Return the whole topic, partition after partition, through librdkafka."""
    return await run_sync(_read, kafka.brokers, topic, partitions)


def assert_complete(
    got: Iterable[TopicMessage], recorded: Iterable[JournalRecord], without: tuple[int, ...] = ()
) -> None:
    """Hold that nothing is lost, duplicates are equal, and order holds for each key."""
    got = list(got)
    expected = {entry.seq: entry.raw for entry in recorded if entry.seq not in without}
    assert {one.seq: one.value for one in got} == expected
    assert all(expected[one.seq] == one.value for one in got)
    assert len({(one.key, one.partition) for one in got}) == len({one.key for one in got})
    for key in {one.key for one in got}:
        first = list(dict.fromkeys(one.id for one in got if one.key == key))
        assert first == sorted(first, key=lambda id_: int(id_.removeprefix("id-")))


async def _record_on(way: KafkaPipeline) -> None:
    while True:
        way.record(20)
        await anyio.sleep(0.02)


def _read(brokers: tuple[str, ...], topic: str, partitions: int) -> list[TopicMessage]:
    where = {"bootstrap.servers": ",".join(brokers), "group.id": "test"}
    how = {"enable.partition.eof": True, "fetch.wait.max.ms": 10, "log_level": 0}
    consumer = Consumer({**where, **how})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    got: list[TopicMessage] = []
    at_end = 0
    while at_end < partitions:
        message = consumer.poll(10)
        assert message is not None, "the topic cannot be read"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            at_end += 1
            continue
        value, key = message.value() or b"", message.key() or b""
        assert isinstance(value, bytes)
        assert isinstance(key, bytes)
        headers = cast("list[tuple[str, bytes]]", message.headers())
        got.append(TopicMessage(message.partition() or 0, key.decode(), value, headers))
    consumer.close()
    return sorted(got, key=lambda one: one.partition)
