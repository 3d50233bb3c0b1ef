"""An ordinary Kafka consumer group, of another client library than ours."""

import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.support.control_plane import wait_until

__all__ = ["ConsumedMessage", "read_group"]

_WITHIN_S = 30.0


class ConsumedMessage(NamedTuple):
    """A message as it was read."""

    partition: int
    offset: int
    key: bytes
    value: bytes
    headers: dict[str, bytes]


def read_group(address: str, topic: str) -> list[ConsumedMessage]:
    """Return all messages that are in the topic now, as the one member of a new group; blocks.

    The messages of a partition are in order.
    """
    settings = {"bootstrap.servers": address, "group.id": f"readers-of-{topic}", "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        return _read(consumer, topic)
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str) -> list[ConsumedMessage]:
    left = wait_until(
        lambda: _end_offsets(consumer, topic), within_s=_WITHIN_S, what=f"{topic} is served"
    )
    consumer.subscribe([topic])
    messages: list[ConsumedMessage] = []
    deadline = time.monotonic() + _WITHIN_S
    left = {number: end for number, end in left.items() if end}
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(messages)} messages came; these partitions have more: {left}")
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is None:  # else a passing one, such as a group that is being made
                messages.append(_received(message))
                if messages[-1].offset + 1 >= left.get(messages[-1].partition, 0):
                    left.pop(messages[-1].partition, None)
    return messages


def _end_offsets(consumer: Consumer, topic: str) -> dict[int, int] | None:
    """Return where each partition ends, by its number; None when a broker is not ready for that."""
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        end_offsets = [TopicPartition(topic, number) for number in partitions]
        ends = [consumer.get_watermark_offsets(offsets, timeout=30)[1] for offsets in end_offsets]
    except KafkaException:
        return None
    return dict(zip(partitions, ends, strict=True)) or None


def _received(message: Message) -> ConsumedMessage:
    key, value = message.key(), message.value()
    partition, offset = message.partition(), message.offset()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    assert partition is not None
    assert offset is not None
    headers = message.headers() or []
    assert isinstance(headers, list)
    texts = {name: text for name, text in headers if isinstance(text, bytes)}
    return ConsumedMessage(partition, offset, key, value, texts)
