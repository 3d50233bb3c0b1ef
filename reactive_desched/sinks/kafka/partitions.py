"""Messages packed into batches and sent so that order holds: a lane is one partition of a topic."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio.lowlevel
from msgspec import Struct

from reactive_desched.sinks.kafka.message import KafkaMessage

RECORDS_AT_ONCE: Final = 50
"""So many are read or packed before others have their turn on the event loop."""

AioProducer = Any  # a producer of aiokafka, which has no types

TopicPartition = tuple[str, int]
"""A topic and a partition."""


class OutboundMessage(Struct, frozen=True, gc=False):
    """A message on its way: its place in the round, and whether it must not share a batch."""

    index: int
    topic_partition: TopicPartition
    message: KafkaMessage
    needs_own_batch: bool


class BatchFailure(Struct, frozen=True, gc=False):
    """A batch that was not taken, nor what came behind it in its lane; places of its messages."""

    indexes: tuple[int, ...]
    reason: str
    is_too_large: bool = False


class TooLarge(Exception):  # noqa: N818  it is raised as the fact it names
    """A batch of one message is larger than we may send."""


ErrorClassifier = Callable[[Exception, str, int], tuple[str, bool]]
"""Says of an error, a topic and a batch's size what it means, and whether that was too large."""


class Batch:
    """Messages that are taken all or none."""

    def __init__(self, builder: Any) -> None:  # aiokafka's, which has no types
        self.builder = builder
        self.indexes: list[int] = []
        self._is_full = False

    def add(self, outbound: OutboundMessage) -> bool:
        """Pack it, if there is room; there always is for a first one."""
        if self._is_full or (outbound.needs_own_batch and self.indexes):
            return False
        message = outbound.message
        if not self.builder.append(
            timestamp=message.timestamp_ms,
            key=message.key,
            value=message.value,
            headers=message.headers,
        ):
            return False
        self._is_full = outbound.needs_own_batch
        self.indexes.append(outbound.index)
        return True

    def failure(self, reason: str, *, is_too_large: bool = False) -> BatchFailure:
        """Say that it was not taken."""
        return BatchFailure(tuple(self.indexes), reason, is_too_large)


class PartitionSender:
    """The batches of one lane, sent one after the other; the first that fails ends it."""

    def __init__(
        self, topic_partition: TopicPartition, max_bytes: int, classify_error: ErrorClassifier
    ) -> None:
        self.batches: list[Batch] = []
        self._topic, self._partition = topic_partition
        self._max_bytes = max_bytes
        self._classify_error = classify_error
        self._sent_batches = 0
        self._failure: BatchFailure | None = None

    async def send(self, aio: AioProducer) -> None:
        """Send the batches in order; stop at the first failure (see `failure`)."""
        for batch in self.batches:
            size = batch.builder.size()
            try:
                await self._send_batch(aio, batch, size)
            except Exception as error:  # noqa: BLE001  # whatever it is, it was not taken
                reason, is_too_large = self._classify_error(error, self._topic, size)
                self._failure = batch.failure(reason, is_too_large=is_too_large)
                return
            self._sent_batches += 1

    async def _send_batch(self, aio: AioProducer, batch: Batch, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge
        sent = await aio.send_batch(batch.builder, self._topic, partition=self._partition)
        await sent

    def failure(self, default_reason: str) -> BatchFailure | None:
        """Return the first batch that was not taken, for this reason if there is no better one."""
        if self._failure is None and self._sent_batches < len(self.batches):
            return self.batches[self._sent_batches].failure(default_reason)
        return self._failure


async def pack_batches(
    aio: AioProducer,
    messages: Sequence[OutboundMessage],
    max_bytes: int,
    classify_error: ErrorClassifier,
) -> list[PartitionSender]:
    """Return everything in batches, by lane."""
    senders: dict[TopicPartition, PartitionSender] = {}
    for number, parcel in enumerate(messages, 1):
        sender = senders.setdefault(
            parcel.topic_partition,
            PartitionSender(parcel.topic_partition, max_bytes, classify_error),
        )
        if not sender.batches or not sender.batches[-1].add(parcel):
            sender.batches.append(Batch(aio.create_batch()))
            sender.batches[-1].add(parcel)
        if number % RECORDS_AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
    return list(senders.values())
