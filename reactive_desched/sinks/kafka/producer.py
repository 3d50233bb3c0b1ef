"""A Kafka producer that is used until its first error and then replaced.

After an error aiokafka's producer leaves gaps in its sequence numbers, and its `stop` waits for a
broker that is gone.
"""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Final, NamedTuple, Protocol

import anyio

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka import error_hints
from reactive_desched.sinks.kafka.advertised import BrokerAddress, find_unreachable
from reactive_desched.sinks.kafka.connection import ProducerSettings
from reactive_desched.sinks.kafka.partitions import (
    AioProducer,
    BatchFailure,
    BatchLimits,
    OutboundMessage,
    pack_batches,
)
from reactive_desched.sinks.kafka.produce_errors import (
    ErrorClassifier,
    ProduceFailure,
    add_missing_errors,
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
    add_missing_errors(import_module("aiokafka.errors"))


class SendResult(NamedTuple):
    """The indexes of what was acknowledged, and the first batch of each partition that was not."""

    acknowledged: frozenset[int]
    failures: list[BatchFailure]


class KafkaProducer:
    """Sends rounds of messages, in order within each partition; it must be closed in the end."""

    def __init__(
        self, kafka: KafkaSettings, settings: ProducerSettings, warnings: WarningSource
    ) -> None:
        from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types

        self._kafka = kafka
        self._errors = ErrorClassifier(kafka)
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
            raise SinkUnavailable(await self._unanswered_reason(START_TIMEOUT_S)) from None
        except SinkUnavailable:
            raise
        except Exception as error:
            raise SinkUnavailable(self._classify(error, topics[0], 0).reason) from error

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Return a topic's partitions in order; raises SinkUnavailable."""
        if not (found := self._aio.client.cluster.partitions_for_topic(topic)):
            raise SinkUnavailable(error_hints.unknown_topic(self._kafka, topic))
        return tuple(sorted(found))

    def partition(self, key: bytes, partitions: tuple[int, ...]) -> int:
        """Return the one of these partitions where every Kafka client puts the key."""
        return self._partition(key, partitions)

    async def send(self, messages: Sequence[OutboundMessage], first_records: int) -> SendResult:
        """Return what was acknowledged, as soon as all is; else what was not, after 15 s at most.

        The first batch of each partition has at most `first_records`.
        """
        limits = BatchLimits(self._kafka.max_request_bytes, first_records)
        senders = await pack_batches(self._aio, messages, limits, self._classify)
        sending = asyncio.gather(*(one.send(self._aio) for one in senders))
        sending.add_done_callback(_retrieve_exception)
        try:
            await asyncio.wait({sending}, timeout=ACK_TIMEOUT_S)
        finally:
            sending.cancel()
        acknowledged = frozenset(index for one in senders for index in one.acknowledged())
        is_unanswered = any(one.is_unanswered for one in senders)
        reason = await self._unanswered_reason(ACK_TIMEOUT_S) if is_unanswered else ""
        found = (one.failure(ProduceFailure(reason)) for one in senders)
        return SendResult(acknowledged, [each for each in found if each is not None])

    async def close(self) -> None:
        """Close within two seconds; messages without an acknowledgement are given up.

        aiokafka's `stop` waits for all messages, and an idempotent producer retries each for ever
        (aio-libs/aiokafka#1101): so its sender and its client are closed instead, by names that a
        minor version may change; pyproject.toml bounds it. A request that is still under way then
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
            raise SinkUnavailable(error_hints.no_broker(self._kafka, self._warnings.last_warning))
        for topic in topics:
            if topic in client.cluster.unauthorized_topics:
                raise SinkUnavailable(error_hints.not_authorised(self._kafka, topic))
            self.partitions(topic)

    async def _unanswered_reason(self, seconds: float) -> str:
        """Return why no answer came: brokers that we were sent to and cannot reach, if any."""
        brokers = self._aio.client.cluster.brokers()
        if not brokers:  # so aiokafka leaves it when a broker refuses a token
            return error_hints.no_broker(self._kafka, self._warnings.last_warning)
        known = set(self._kafka.brokers)
        advertised = [BrokerAddress(one.nodeId, one.host, one.port) for one in brokers]
        elsewhere = [one for one in advertised if f"{one.host}:{one.port}" not in known]
        if unreachable := await find_unreachable(elsewhere):
            return error_hints.unreachable_brokers(self._kafka, unreachable)
        return error_hints.no_acknowledgement(seconds, self._warnings.last_warning)

    def _classify(self, error: Exception, topic: str, size: int) -> ProduceFailure:
        return self._errors.classify(error, topic, size, self._warnings.last_warning)


def _partition(key: bytes, partitions: tuple[int, ...]) -> int:
    from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]  # as above

    found: int = DefaultPartitioner()(key, partitions, partitions)
    return found


def _retrieve_exception(sending: "asyncio.Future[list[None]]") -> None:
    """Retrieve the exception: asyncio logs one that is never retrieved."""
    if not sending.cancelled():
        sending.exception()
