"""Packs messages into batches, and sends those of one partition one after the other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import anyio.lowlevel
from msgspec import Struct

from reactive_desched.sinks.kafka.message import KafkaMessage
from reactive_desched.sinks.kafka.produce_errors import ProduceFailure, TooLarge

RECORDS_AT_ONCE: Final = 50
"""So many are read or packed before others have their turn on the event loop."""

AioProducer = Any  # a producer of aiokafka, which has no types

TopicPartition = tuple[str, int]
"""A topic and a partition."""


class OutboundMessage(Struct, frozen=True, gc=False):
    """A message to send, and its index among the records of this delivery."""

    index: int
    topic_partition: TopicPartition
    message: KafkaMessage


class BatchFailure(Struct, frozen=True, gc=False):
    """A batch that was not taken, nor what came behind it in its partition; its indexes."""

    indexes: tuple[int, ...]
    failure: ProduceFailure


class BatchLimits(Struct, frozen=True, gc=False):
    """The most bytes of a batch, and the most records of the first batch of a partition.

    The second has as many; each further one may have twice as many as the one before it.
    """

    max_bytes: int
    first_records: int


ClassifyError = Callable[[Exception, str, int], ProduceFailure]
"""Says of an error, a topic and a batch's size what it means."""


class Batch:
    """Messages that are taken all or none."""

    def __init__(self, builder: Any, max_records: int) -> None:  # Any: aiokafka has no types
        self.builder = builder
        self.indexes: list[int] = []
        self._max_records = max_records

    def add(self, outbound: OutboundMessage) -> bool:
        """Pack it, if there is room; there always is for a first one."""
        if len(self.indexes) >= self._max_records:
            return False
        message = outbound.message
        if not self.builder.append(
            timestamp=message.timestamp_ms,
            key=message.key,
            value=message.value,
            headers=message.headers,
        ):
            return False
        self.indexes.append(outbound.index)
        return True

    def failed(self, failure: ProduceFailure) -> BatchFailure:
        """Say that it was not taken."""
        return BatchFailure(tuple(self.indexes), failure)


class PartitionSender:
    """The batches of one partition, sent one after the other; the first that fails ends it."""

    def __init__(
        self, topic_partition: TopicPartition, limits: BatchLimits, classify: ClassifyError
    ) -> None:
        self._topic, self._partition = topic_partition
        self._limits = limits
        self._classify = classify
        self._batches: list[Batch] = []
        self._sent_batches = 0
        self._failure: BatchFailure | None = None

    def add(self, outbound: OutboundMessage, aio: AioProducer) -> None:
        """Pack a message into the last batch, or into a new one."""
        if not self._batches or not self._batches[-1].add(outbound):
            max_records = self._limits.first_records << max(0, len(self._batches) - 1)
            self._batches.append(Batch(aio.create_batch(), max_records))
            self._batches[-1].add(outbound)

    async def send(self, aio: AioProducer) -> None:
        """Send the batches in order; stop at the first failure (see `failure`)."""
        for batch in self._batches:
            size = batch.builder.size()
            try:
                await self._send_batch(aio, batch, size)
            except Exception as error:  # noqa: BLE001  # whatever it is, it was not taken
                self._failure = batch.failed(self._classify(error, self._topic, size))
                return
            self._sent_batches += 1

    async def _send_batch(self, aio: AioProducer, batch: Batch, size: int) -> None:
        if size > self._limits.max_bytes:
            raise TooLarge
        sent = await aio.send_batch(batch.builder, self._topic, partition=self._partition)
        await sent

    @property
    def is_unanswered(self) -> bool:
        """Say whether a batch was neither taken nor refused."""
        return self._failure is None and self._sent_batches < len(self._batches)

    def acknowledged(self) -> Iterator[int]:
        """Yield the indexes of what was taken."""
        for batch in self._batches[: self._sent_batches]:
            yield from batch.indexes

    def failure(self, default: ProduceFailure) -> BatchFailure | None:
        """Return the first batch that was not taken, with `default` if it was not answered."""
        return (
            self._batches[self._sent_batches].failed(default)
            if self.is_unanswered
            else self._failure
        )


async def pack_batches(
    aio: AioProducer,
    messages: Sequence[OutboundMessage],
    limits: BatchLimits,
    classify: ClassifyError,
) -> list[PartitionSender]:
    """Return everything in batches, by partition."""
    senders: dict[TopicPartition, PartitionSender] = {}
    for number, outbound in enumerate(messages, 1):
        place = outbound.topic_partition
        if (sender := senders.get(place)) is None:
            sender = senders[place] = PartitionSender(place, limits, classify)
        sender.add(outbound, aio)
        if number % RECORDS_AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
    return list(senders.values())
