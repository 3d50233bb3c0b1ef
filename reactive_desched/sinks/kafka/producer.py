"""A Kafka producer that is used until its first error and then replaced.

After an error aiokafka's producer leaves gaps in its sequence numbers, and its `stop` waits for a
broker that is gone. This file alone imports aiokafka.
"""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Final, Protocol

import anyio

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.recording import KafkaSettings
from reactive_desched.sinks.kafka import error_hints as remedies
from reactive_desched.sinks.kafka.connection import ProducerSettings
from reactive_desched.sinks.kafka.partitions import (
    AioProducer,
    BatchFailure,
    OutboundMessage,
    TooLarge,
    pack_batches,
)

START_TIMEOUT_S: Final = 15.0
ACK_TIMEOUT_S: Final = 15.0
"""A round without all acknowledgements by then has failed: aiokafka itself retries for ever."""

_CLOSE_TIMEOUT_S: Final = 2.0
_PARTITION_CACHE_SIZE: Final = 16_384


class WarningSource(Protocol):
    """The last warning of aiokafka: some causes are in no exception."""

    last_warning: str


def import_client() -> None:
    """Import the client library; blocks for a tenth of a second, so it is for a thread."""
    import_module("aiokafka.partitioner")


class KafkaProducer:
    """Sends rounds of messages, in order within each lane; it must be closed in the end."""

    def __init__(
        self, kafka: KafkaSettings, settings: ProducerSettings, warnings: WarningSource
    ) -> None:
        from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types

        self._kafka = kafka
        self._warnings = warnings
        self._aio: AioProducer = AIOKafkaProducer(**settings)
        self._partition = lru_cache(_PARTITION_CACHE_SIZE)(_partition)

    async def start(self, topics: Sequence[str]) -> None:
        """Connect, and find the topics; raises SinkUnavailable with what is to be done."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._aio.start()
                await self._check_topics(topics)
        except TimeoutError:
            raise SinkUnavailable(
                remedies.no_acknowledgement(START_TIMEOUT_S, self._warnings.last_warning)
            ) from None
        except SinkUnavailable:
            raise
        except Exception as error:
            raise SinkUnavailable(self._classify_error(error, topics[0])[0]) from error

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Return a topic's partitions in order; raises SinkUnavailable."""
        if not (found := self._aio.client.cluster.partitions_for_topic(topic)):
            raise SinkUnavailable(remedies.unknown_topic(self._kafka, topic))
        return tuple(sorted(found))

    def partition(self, key: bytes, partitions: tuple[int, ...]) -> int:
        """Return the one of these partitions where every Kafka client puts the key."""
        return self._partition(key, partitions)

    async def send(self, messages: Sequence[OutboundMessage]) -> list[BatchFailure]:
        """Return what was not acknowledged: nothing, as soon as all is; else after 15 s at most."""
        senders = await pack_batches(
            self._aio, messages, self._kafka.max_request_bytes, self._classify_error
        )
        sending = asyncio.gather(*(way.send(self._aio) for way in senders))
        sending.add_done_callback(_retrieve_exception)
        try:
            await asyncio.wait({sending}, timeout=ACK_TIMEOUT_S)
        finally:
            sending.cancel()
        reason = remedies.no_acknowledgement(ACK_TIMEOUT_S, self._warnings.last_warning)
        return [failure for way in senders if (failure := way.failure(reason)) is not None]

    async def close(self) -> None:
        """Close within two seconds; messages without an acknowledgement are given up.

        aiokafka's `stop` waits for all messages, and an idempotent producer retries each for ever:
        so its sender and its client are closed instead. A request that is still under way then
        ends by its own time-out, and a broker that reads nothing may keep its socket open.
        """
        with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
            await asyncio.gather(
                self._aio._sender.close(),  # noqa: SLF001 -- there is no public way to give up
                self._close_connections(),
            )
        self._aio._closed = True  # noqa: SLF001 -- else it warns that `stop` was not called

    async def _close_connections(self) -> None:
        """Close every connection, and then the one that was being opened meanwhile, if any."""
        client = self._aio.client
        await client.close()
        async with client._get_conn_lock:  # noqa: SLF001 -- held while a connection is opened
            await client.close()

    async def _check_topics(self, topics: Sequence[str]) -> None:
        client = self._aio.client
        if not await client.set_topics(topics):
            raise SinkUnavailable(remedies.no_broker(self._kafka, self._warnings.last_warning))
        for topic in topics:
            if topic in client.cluster.unauthorized_topics:
                raise SinkUnavailable(remedies.not_authorised(self._kafka, topic))
            self.partitions(topic)

    def _classify_error(self, error: Exception, topic: str, size: int = 0) -> tuple[str, bool]:
        """Return what an error means, and whether something was too large."""
        from aiokafka import errors

        match error:
            case SinkUnavailable():
                return str(error), False
            case TooLarge() | errors.MessageSizeTooLargeError() | errors.RecordListTooLargeError():
                return remedies.too_large(size, self._kafka, topic), True
            case errors.TopicAuthorizationFailedError() | errors.ClusterAuthorizationFailedError():
                return remedies.not_authorised(self._kafka, topic), False
            case errors.UnknownTopicOrPartitionError():
                return remedies.unknown_topic(self._kafka, topic), False
            case errors.KafkaConnectionError():
                return remedies.no_broker(self._kafka, self._warnings.last_warning), False
            case errors.KafkaError():
                return f"Kafka does not take events for topic {topic}: {_error_name(error)}", False
            case _:
                return (
                    f"unexpected {_error_name(error)} in the Kafka client: please report it",
                    False,
                )


def _partition(key: bytes, partitions: tuple[int, ...]) -> int:
    from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]  # as above

    found: int = DefaultPartitioner()(key, partitions, partitions)
    return found


def _error_name(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return type(error).__name__ if number is None else f"{type(error).__name__} ({number})"


def _retrieve_exception(sending: "asyncio.Future[list[None]]") -> None:
    """Retrieve the exception: asyncio logs one that is never retrieved."""
    if not sending.cancelled():
        sending.exception()
