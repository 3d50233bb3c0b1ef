"""Every event into a Kafka topic: at least once, and in order for each workload."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio.lowlevel
from anyio.to_thread import run_sync

from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.recording import KafkaSettings
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.sinks.kafka.client_log import KafkaLog
from reactive_desched.sinks.kafka.connection import MIN_BATCH_BYTES, producer_settings
from reactive_desched.sinks.kafka.message import KafkaMessage, to_kafka_message
from reactive_desched.sinks.kafka.partitions import RECORDS_AT_ONCE, BatchFailure, OutboundMessage
from reactive_desched.sinks.kafka.producer import KafkaProducer, import_client
from reactive_desched.telemetry.logs import Logger

NAME: Final = "kafka"


class KafkaSink:
    """The sink; a producer lives until the first error that reaches it.

    Where a batch was too large, its events are suspects: they travel singly, until the one that
    is to blame is found. They are bounded by what is delivered at once. Later batches are half as
    large, as the topic's bound may be lower than ours.
    """

    name = NAME
    from_start = True

    def __init__(self, settings: KafkaSettings, *, clock: Callable[[], float], log: Logger) -> None:
        self._settings = settings
        self._client_log = KafkaLog(log, clock)
        self._producer: KafkaProducer | None = None
        self._is_sending = False
        self._oversize_candidates: frozenset[int] = frozenset()
        self._batch_bytes = settings.max_request_bytes

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Return how many, from the first, every replica in sync has."""
        while True:
            sent, failures = await self._send_once(entries)
            if not failures:
                return sent
            first = min(failures, key=lambda one: one.indexes[0])
            self._mark_oversize_candidates(entries, failures)
            if done := first.indexes[0]:
                return done
            self._raise_failure(first)

    async def close(self) -> None:
        """Close the producer."""
        await self._abort_producer()
        self._client_log.close()

    async def _send_once(self, entries: Sequence[JournalRecord]) -> tuple[int, list[BatchFailure]]:
        """Send everything once; after a failure, or when cut short, the producer is thrown away."""
        producer = await self._ensure_producer()
        self._is_sending = True
        messages = await self._outbound_messages(entries, producer)
        failures = await producer.send(messages)
        if failures:
            await self._abort_producer()
        self._is_sending = False
        return len(messages), failures

    async def _outbound_messages(
        self, entries: Sequence[JournalRecord], producer: KafkaProducer
    ) -> list[OutboundMessage]:
        """Return the messages of the first records, up to one that cannot be sent."""
        partitions = {topic: producer.partitions(topic) for topic in self._topics}
        messages: list[OutboundMessage] = []
        for index, entry in enumerate(entries):
            if (one := self._to_message(entry)) is None:
                break
            topic = self._topic_of(one)
            topic_partition = (topic, producer.partition(one.key, partitions[topic]))
            messages.append(
                OutboundMessage(index, topic_partition, one, entry.seq in self._oversize_candidates)
            )
            if index % RECORDS_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
        if not messages:
            raise EventRejected("the record is no event")
        return messages

    def _to_message(self, entry: JournalRecord) -> KafkaMessage | None:
        try:
            return to_kafka_message(entry.raw, binary=self._settings.mode == "binary")
        except (*DECODE_ERRORS, KeyError, ValueError):
            return None

    async def _ensure_producer(self) -> KafkaProducer:
        if self._is_sending:
            await self._abort_producer()
        if self._producer is None:
            self._client_log.open()
            await run_sync(import_client)
            settings = await run_sync(producer_settings, self._settings)
            self._batch_bytes = min(self._batch_bytes, settings["max_batch_size"])
            settings["max_batch_size"] = self._batch_bytes
            self._producer = KafkaProducer(self._settings, settings, self._client_log)
            try:
                await self._producer.start(self._topics)
            except SinkUnavailable:
                await self._abort_producer()
                raise
        self._client_log.forget_last_warning()
        return self._producer

    async def _abort_producer(self) -> None:
        if (producer := self._producer) is not None:
            self._producer = None
            await producer.close()

    @property
    def _topics(self) -> list[str]:
        both = (self._settings.topic, self._settings.checkpoint_topic)
        return list(dict.fromkeys(filter(None, both)))

    def _topic_of(self, one: KafkaMessage) -> str:
        return (one.is_checkpoint and self._settings.checkpoint_topic) or self._settings.topic

    def _mark_oversize_candidates(
        self, entries: Sequence[JournalRecord], failures: Sequence[BatchFailure]
    ) -> None:
        large = [one for one in failures if one.is_too_large]
        if any(len(one.indexes) > 1 for one in large):
            self._batch_bytes = max(self._batch_bytes // 2, MIN_BATCH_BYTES)
        self._oversize_candidates = frozenset(
            entries[index].seq for one in large for index in one.indexes
        )

    def _raise_failure(self, failure: BatchFailure) -> None:
        """Say why nothing was taken, unless a batch was too large that held several events."""
        if not failure.is_too_large:
            raise SinkUnavailable(failure.reason)
        if len(failure.indexes) == 1:
            raise EventRejected(failure.reason)
