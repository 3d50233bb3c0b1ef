"""Every event into a Kafka topic: at least once, and in order for each workload."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio.lowlevel
from anyio.to_thread import run_sync

from reactive_desched.errors import EventRefused, SinkUnavailable
from reactive_desched.journal.records import Entry
from reactive_desched.policy.recording import Kafka
from reactive_desched.primitives.decode_errors import UNDECODABLE
from reactive_desched.sinks.kafka.client_log import KafkaLog
from reactive_desched.sinks.kafka.connection import LEAST_BATCH_BYTES, producer_settings
from reactive_desched.sinks.kafka.message import Message, message
from reactive_desched.sinks.kafka.partitions import RECORDS_AT_ONCE, Failure, Parcel
from reactive_desched.sinks.kafka.producer import Producer, load
from reactive_desched.telemetry.logs import Log

NAME: Final = "kafka"


class KafkaSink:
    """The sink; a producer lives until the first error that reaches it.

    Where a batch was too large, its events are `_suspects`: they travel singly, until the one that
    is to blame is found. They are bounded by what is delivered at once. Later batches are half as
    large, as the topic's bound may be lower than ours.
    """

    name = NAME
    from_start = True

    def __init__(self, kafka: Kafka, *, clock: Callable[[], float], log: Log) -> None:
        self._kafka = kafka
        self._heard = KafkaLog(log, clock)
        self._producer: Producer | None = None
        self._is_used = False
        self._suspects: frozenset[int] = frozenset()
        self._batch_bytes = kafka.max_request_bytes

    async def deliver(self, entries: Sequence[Entry]) -> int:
        """Return how many, from the first, every replica in sync has."""
        while True:
            sent, failures = await self._round(entries)
            if not failures:
                return sent
            first = min(failures, key=lambda one: one.indexes[0])
            self._suspect(entries, failures)
            if done := first.indexes[0]:
                return done
            self._raise_unless_shared(first)

    async def close(self) -> None:
        """Let go of the producer."""
        await self._throw_away()
        self._heard.close()

    async def _round(self, entries: Sequence[Entry]) -> tuple[int, list[Failure]]:
        """Send everything once; after a failure, or when cut short, the producer is thrown away."""
        producer = await self._ready()
        self._is_used = True
        parcels = await self._parcels(entries, producer)
        failures = await producer.send(parcels)
        if failures:
            await self._throw_away()
        self._is_used = False
        return len(parcels), failures

    async def _parcels(self, entries: Sequence[Entry], producer: Producer) -> list[Parcel]:
        """Return the first of them, up to one that cannot be sent."""
        partitions = {topic: producer.partitions(topic) for topic in self._topics}
        parcels: list[Parcel] = []
        for index, entry in enumerate(entries):
            if (one := self._message(entry)) is None:
                break
            topic = self._topic_of(one)
            lane = (topic, producer.partition(one.key, partitions[topic]))
            parcels.append(Parcel(index, lane, one, entry.seq in self._suspects))
            if index % RECORDS_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
        if not parcels:
            raise EventRefused("the record is no event")
        return parcels

    def _message(self, entry: Entry) -> Message | None:
        try:
            return message(entry.raw, binary=self._kafka.mode == "binary")
        except (*UNDECODABLE, KeyError, ValueError):
            return None

    async def _ready(self) -> Producer:
        if self._is_used:
            await self._throw_away()
        if self._producer is None:
            self._heard.open()
            await run_sync(load)
            settings = await run_sync(producer_settings, self._kafka)
            self._batch_bytes = min(self._batch_bytes, settings["max_batch_size"])
            settings["max_batch_size"] = self._batch_bytes
            self._producer = Producer(self._kafka, settings, self._heard)
            try:
                await self._producer.start(self._topics)
            except SinkUnavailable:
                await self._throw_away()
                raise
        self._heard.last = ""
        return self._producer

    async def _throw_away(self) -> None:
        if (producer := self._producer) is not None:
            self._producer = None
            await producer.throw_away()

    @property
    def _topics(self) -> list[str]:
        both = (self._kafka.topic, self._kafka.checkpoint_topic)
        return list(dict.fromkeys(filter(None, both)))

    def _topic_of(self, one: Message) -> str:
        return (one.is_checkpoint and self._kafka.checkpoint_topic) or self._kafka.topic

    def _suspect(self, entries: Sequence[Entry], failures: Sequence[Failure]) -> None:
        large = [one for one in failures if one.is_too_large]
        if any(len(one.indexes) > 1 for one in large):
            self._batch_bytes = max(self._batch_bytes // 2, LEAST_BATCH_BYTES)
        self._suspects = frozenset(entries[index].seq for one in large for index in one.indexes)

    def _raise_unless_shared(self, failure: Failure) -> None:
        """Say why nothing was taken, unless a batch was too large that held several events."""
        if not failure.is_too_large:
            raise SinkUnavailable(failure.reason)
        if len(failure.indexes) == 1:
            raise EventRefused(failure.reason)
