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
from reactive_desched.journal.cursors import Positions
from reactive_desched.journal.envelope import Story, envelope
from reactive_desched.journal.records import GENESIS, Entry, encode, line
from reactive_desched.journal.tail import Tail
from reactive_desched.policy.recording import Kafka
from reactive_desched.sinks.dead_letters import DeadLetters, Letter, letters
from reactive_desched.sinks.kafka.sink import KafkaSink
from reactive_desched.sinks.sink_runner import Relay
from reactive_desched.testing.manual_clock import until
from tests.support.entries import ended
from tests.support.journals import BEGAN, SOURCE
from tests.support.log_book import LogBook
from tests.support.mock_kafka import MockKafka

__all__ = ["KEYS", "TOPIC", "Got", "Way", "assert_complete", "evicted", "read_topic", "under_load"]

TOPIC: Final = "events"

KEYS: Final = [f"uid-{number}" for number in range(7)]
"""The keys of the records, in turns."""

PATIENCE_S: Final = 30.0


class Got(NamedTuple):
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


class Way:
    """From records to a topic: a journal's tail, a relay and the sink."""

    def __init__(self, directory: Path, kafka: Kafka) -> None:
        self.tail = Tail(directory, SOURCE, 1, 0)
        self.book = LogBook()
        self.sink = KafkaSink(kafka, clock=time.monotonic, log=self.book)
        self.recorded: list[Entry] = []
        self._graves = DeadLetters(directory / "dead-letters")
        self.relay = Relay(
            self.sink,
            self.tail,
            Positions(directory / "positions"),
            self._graves,
            clock=time.monotonic,
            wall=lambda: datetime.now(UTC),
            rng=Random(1),
            log=self.book,
        )

    def record(self, count: int, size: int = 0) -> None:
        """Have so many more records become durable, each with so many bytes to spare."""
        first = self.tail.last + 1
        new = [evicted(seq, size=size) for seq in range(first, first + count)]
        self.recorded += new
        self.tail.published(new)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Relay while the block lasts."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.relay.run)
            yield
            group.cancel_scope.cancel()

    async def arrived(self) -> None:
        """Return when Kafka has everything; fail with what the relay complains of."""
        assert await self.relay.flushed(PATIENCE_S), self.relay.trouble

    async def carried(self) -> None:
        """Relay until Kafka has everything."""
        async with self.running():
            await self.arrived()

    async def troubled(self) -> str:
        """Return what keeps the relay waiting, as soon as something does."""
        await until(lambda: bool(self.relay.trouble), PATIENCE_S)
        return self.relay.trouble

    @property
    def dead_letters(self) -> list[Letter]:
        """The events that Kafka will never take."""
        path = self._graves.path("kafka")
        return list(letters(path)) if path.exists() else []

    @property
    def dead(self) -> list[int]:
        """The numbers of those events."""
        return [letter.sequence for letter in self.dead_letters]


def evicted(seq: int, size: int = 0) -> Entry:
    """Return the record of an eviction; keys come in turns."""
    story = Story(f"case-{seq}", "shop/web", KEYS[seq % len(KEYS)])
    data = ended("evicted", "x" * size)
    event = envelope(SOURCE, EVICTION_SUCCEEDED, story, BEGAN, data, id_=f"id-{seq}", cause="n1")
    return Entry(seq, line(encode(event), GENESIS, "2026-03-29T01:30:01.000000Z", seq))


async def under_load(way: Way, fail: Callable[[], Awaitable[None]]) -> None:
    """Let something fail while records come in; return when all of them are delivered."""
    async with way.running():
        way.record(100)
        await way.arrived()
        async with anyio.create_task_group() as group:
            group.start_soon(_record_on, way)
            await fail()
            group.cancel_scope.cancel()
        way.record(100)
        await way.arrived()


async def read_topic(kafka: MockKafka, topic: str = TOPIC, partitions: int = 3) -> list[Got]:
    """Return the whole topic, partition after partition, through librdkafka."""
    return await run_sync(_read, kafka.brokers, topic, partitions)


def assert_complete(
    got: Iterable[Got], recorded: Iterable[Entry], without: tuple[int, ...] = ()
) -> None:
    """Hold that nothing is lost, duplicates are equal, and order holds for each key."""
    got = list(got)
    wanted = {entry.seq: entry.raw for entry in recorded if entry.seq not in without}
    assert {one.seq: one.value for one in got} == wanted
    assert all(wanted[one.seq] == one.value for one in got)
    assert len({(one.key, one.partition) for one in got}) == len({one.key for one in got})
    for key in {one.key for one in got}:
        first = list(dict.fromkeys(one.id for one in got if one.key == key))
        assert first == sorted(first, key=lambda id_: int(id_.removeprefix("id-")))


async def _record_on(way: Way) -> None:
    while True:
        way.record(20)
        await anyio.sleep(0.02)


def _read(brokers: tuple[str, ...], topic: str, partitions: int) -> list[Got]:
    where = {"bootstrap.servers": ",".join(brokers), "group.id": "test"}
    how = {"enable.partition.eof": True, "fetch.wait.max.ms": 10, "log_level": 0}
    consumer = Consumer({**where, **how})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    got: list[Got] = []
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
        got.append(Got(message.partition() or 0, key.decode(), value, headers))
    consumer.close()
    return sorted(got, key=lambda one: one.partition)
