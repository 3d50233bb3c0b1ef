"""One life of a Kafka producer: used until its first error, then thrown away.

After an error aiokafka's producer leaves gaps in its sequence numbers, and its `stop` may wait for
a broker that is gone. This file alone imports aiokafka, and alone knows what is inside it.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol

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
"""Without all acknowledgements by then a round has failed: aiokafka itself would wait for ever."""

_CLOSE_TIMEOUT_S: Final = 2.0
_PARTITION_CACHE_SIZE: Final = 16_384


class WarningSource(Protocol):
    """What aiokafka has said last; some reasons it tells nowhere else."""

    last_warning: str


def import_client() -> None:
    """Import the client library; blocks for a tenth of a second, so it is for a thread."""
    import_module("aiokafka.partitioner")


class KafkaProducer:
    """Sends rounds of messages, in order within each lane; it must be thrown away in the end."""

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
        sender = self._aio._sender.sender_task  # noqa: SLF001  # when it has ended, nothing comes
        try:
            await asyncio.wait(
                {sending, sender}, timeout=ACK_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            sending.cancel()
        late = remedies.no_acknowledgement(ACK_TIMEOUT_S, self._warnings.last_warning)
        reason = "the sender of the Kafka client has ended" if sender.done() else late
        return [failure for way in senders if (failure := way.failure(reason)) is not None]

    async def abort(self) -> None:
        """Let go of connections and tasks, within seconds; whatever is on its way is forgotten."""
        with anyio.CancelScope(shield=True):
            tasks = _tasks_of(self._aio._sender)  # noqa: SLF001  # nobody else knows them
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._aio._closed = True  # noqa: SLF001  # `stop` would wait for what was on its way
            transports = _transports_of(self._aio.client)
            with anyio.move_on_after(_CLOSE_TIMEOUT_S):
                await self._aio.client.close()
            for transport in transports:
                transport.abort()  # what a frozen broker does not take would keep it open for ever

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


def _transports_of(client: Any) -> list[asyncio.WriteTransport]:  # of a library without types
    """Return what connects an aiokafka client: its connections forget it when they close."""
    writers = (conn._writer for conn in client._conns.values())  # noqa: SLF001  # as above
    transports = [writer.transport for writer in writers if writer is not None]
    return [*transports, *_orphaned_transports()]


def _orphaned_transports() -> Iterator[asyncio.WriteTransport]:
    """Yield connections that no client keeps: it waits for its first answer there, or gave it up.

    Only what reads them knows them. There is one producer at a time.
    """
    for _, frame_locals in _tasks_running("AIOKafkaConnection._read"):
        conn = frame_locals["self_ref"]()
        if conn is None or conn._on_close_cb is None:  # noqa: SLF001  # as above
            yield frame_locals["reader"]._transport  # noqa: SLF001  # the connection may be gone


def _tasks_of(sender: Any) -> list[asyncio.Task[Any]]:  # results are of no interest
    """Return the tasks that run methods of aiokafka's sender: it keeps no list of its requests."""
    return [
        task
        for task, frame_locals in _tasks_running("Sender.")
        if frame_locals.get("self") is sender
    ]


def _tasks_running(method: str) -> Iterator[tuple[asyncio.Task[Any], dict[str, Any]]]:
    """Yield the tasks that run methods so called, and what each holds."""
    for task in asyncio.all_tasks():
        coroutine = task.get_coro()
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None and getattr(coroutine, "__qualname__", "").startswith(method):
            yield task, frame.f_locals


def _retrieve_exception(sending: "asyncio.Future[list[None]]") -> None:
    """Look at how it ended: asyncio complains, much later, of an end that nobody looked at."""
    if not sending.cancelled():
        sending.exception()
