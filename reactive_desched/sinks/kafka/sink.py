"""Every event into a Kafka topic: at least once, and in order for each workload."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

import anyio.lowlevel
from anyio.to_thread import run_sync

from reactive_desched.api.sink import SinkHost
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.sinks.kafka.client_log import KafkaLog
from reactive_desched.sinks.kafka.connection import MIN_BATCH_BYTES, producer_settings
from reactive_desched.sinks.kafka.message import KafkaMessage, to_kafka_message
from reactive_desched.sinks.kafka.partitions import RECORDS_AT_ONCE, BatchFailure, OutboundMessage
from reactive_desched.sinks.kafka.produce_errors import FailureKind
from reactive_desched.sinks.kafka.producer import KafkaProducer, import_client
from reactive_desched.sinks.kafka.tokens import token_source
from reactive_desched.sinks.type_filter import TypeFilter
from reactive_desched.telemetry.logs import Logger

NAME: Final = "kafka"
UNLIMITED_RECORDS: Final = 2**31
"""The number of records in a batch while none was refused: its bytes alone bound it."""


class KafkaSink:
    """The sink; a producer lives until the first error that reaches it.

    A broker refuses a whole batch for one record. So the batches after such a failure are smaller
    by half each time, until the one record is alone: it is rejected, and the others are sent. What
    was acknowledged meanwhile is not sent again; that is bounded by what is delivered at once.
    Where a batch was too large, later ones have half as many bytes: the topic's bound may be lower
    than ours.
    """

    settings = KafkaSettings
    from_start = True

    @classmethod
    def open(cls, settings: KafkaSettings, host: SinkHost) -> "KafkaSink":
        """Return a sink that has no connection yet."""
        return cls(settings, clock=host.clock, log=host.log, name=host.name)

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        clock: Callable[[], float],
        log: Logger,
        name: str = NAME,
    ) -> None:
        self.name = name
        self._type_filter = TypeFilter(settings.types)
        self._settings = settings
        self._client_log = KafkaLog(log, clock, name)
        self._tokens = token_source(settings.sasl, clock)
        self._producer: KafkaProducer | None = None
        self._is_sending = False
        self._batch_bytes = settings.max_request_bytes
        self._first_records = UNLIMITED_RECORDS
        self._acknowledged: set[int] = set()
        self._rejected: dict[int, str] = {}
        self._damaged: set[int] = set()

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Return how many, from the first, every replica in sync has."""
        self._forget_others(entries)
        while True:
            if (reason := self._rejected.pop(entries[0].seq, None)) is not None:
                raise EventRejected(reason)
            if done := self._take_acknowledged(entries):
                return done
            failures = await self._send_once(entries)
            first = next((one.failure for one in failures if one.indexes[0] == 0), None)
            if first is not None and first.kind is FailureKind.UNAVAILABLE:
                raise SinkUnavailable(first.reason)

    async def close(self) -> None:
        """Close the producer."""
        await self._abort_producer()
        self._client_log.close()

    async def _send_once(self, entries: Sequence[JournalRecord]) -> list[BatchFailure]:
        """Send what was not answered yet; after a failure, or when cut short, with a new producer.

        Return what was not taken.
        """
        producer = await self._ensure_producer()
        messages = await self._outbound_messages(entries, producer)
        if not messages:
            return []
        self._is_sending = True
        acknowledged, failures = await producer.send(messages, self._first_records)
        if failures:
            await self._abort_producer()
        self._is_sending = False
        self._acknowledged.update(entries[index].seq for index in acknowledged)
        if not failures:
            self._first_records = UNLIMITED_RECORDS
        for failed in failures:
            self._note_failure(failed, [entries[index].seq for index in failed.indexes])
        return failures

    async def _outbound_messages(
        self, entries: Sequence[JournalRecord], producer: KafkaProducer
    ) -> list[OutboundMessage]:
        """Return the messages of the records that were neither acknowledged nor rejected yet."""
        partitions = {topic: producer.partitions(topic) for topic in self._topics}
        messages: list[OutboundMessage] = []
        for index, entry in enumerate(entries):
            if entry.seq in self._acknowledged or entry.seq in self._rejected:
                continue
            if not self._is_wanted(entry):
                self._acknowledged.add(entry.seq)
                continue
            if (one := self._to_message(entry)) is None:
                self._rejected[entry.seq] = "the record is no event"
                continue
            topic = self._topic_of(one)
            topic_partition = (topic, producer.partition(one.key, partitions[topic]))
            messages.append(OutboundMessage(index, topic_partition, one))
            if index % RECORDS_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
        return messages

    def _take_acknowledged(self, entries: Sequence[JournalRecord]) -> int:
        """Return how many, from the first, were acknowledged; delivered again, they are sent."""
        done = [
            entry.seq for entry in takewhile(lambda entry: entry.seq in self._acknowledged, entries)
        ]
        self._acknowledged.difference_update(done)
        return len(done)

    def _forget_others(self, entries: Sequence[JournalRecord]) -> None:
        """Forget what is known of records that are not delivered now."""
        if not (self._acknowledged or self._rejected or self._damaged):
            return
        seqs = {entry.seq for entry in entries}
        self._acknowledged &= seqs
        self._damaged &= seqs
        self._rejected = {seq: why for seq, why in self._rejected.items() if seq in seqs}

    def _note_failure(self, failed: BatchFailure, seqs: Sequence[int]) -> None:
        """Halve the next batches, or reject the record that was alone."""
        kind = failed.failure.kind
        if kind is FailureKind.UNAVAILABLE:
            return
        self._first_records = min(self._first_records, max(1, len(seqs) // 2))
        if len(seqs) > 1:
            if kind is FailureKind.TOO_LARGE:
                self._batch_bytes = max(self._batch_bytes // 2, MIN_BATCH_BYTES)
        elif kind is FailureKind.DAMAGED and seqs[0] not in self._damaged:
            self._damaged.add(seqs[0])  # perhaps on its way: it is sent once more
        else:
            self._rejected[seqs[0]] = failed.failure.reason

    def _is_wanted(self, entry: JournalRecord) -> bool:
        """Say whether a record is of a type to send; one that cannot be read is rejected later."""
        try:
            return self._type_filter.wants_all or self._type_filter.match(entry) is not None
        except EventRejected:
            return True

    def _to_message(self, entry: JournalRecord) -> KafkaMessage | None:
        try:
            return to_kafka_message(entry.raw, binary=self._settings.mode == "binary")
        except (*DECODE_ERRORS, KeyError, ValueError, OverflowError):
            return None

    async def _ensure_producer(self) -> KafkaProducer:
        if self._is_sending:
            await self._abort_producer()
            self._is_sending = False
        if self._producer is None:
            self._client_log.open()
            await run_sync(import_client)
            if self._tokens is not None:
                await self._tokens.token()  # so that a token which cannot be had is named
            settings = await run_sync(producer_settings, self._settings, self._tokens)
            self._batch_bytes = min(self._batch_bytes, settings["max_batch_size"])
            settings["max_batch_size"] = self._batch_bytes
            self._producer = KafkaProducer(self._settings, settings, self._client_log)
            try:
                await self._producer.start(self._topics)
            except SinkUnavailable:
                await self._abort_producer()
                if self._tokens is not None:
                    self._tokens.forget()
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
