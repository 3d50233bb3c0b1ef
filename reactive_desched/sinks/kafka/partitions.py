"""Messages packed into batches and sent so that order holds: a lane is one partition of a topic."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio.lowlevel
from msgspec import Struct

from reactive_desched.sinks.kafka.message import Message

RECORDS_AT_ONCE: Final = 50
"""So many are read or packed before others have their turn on the event loop."""

Aio = Any  # a producer of aiokafka, which has no types

Lane = tuple[str, int]
"""A topic and a partition."""


class Parcel(Struct, frozen=True, gc=False):
    """A message on its way: its place in the round, and whether it must not share a batch."""

    index: int
    lane: Lane
    message: Message
    alone: bool


class Failure(Struct, frozen=True, gc=False):
    """A batch that was not taken, nor what came behind it in its lane; places of its messages."""

    indexes: tuple[int, ...]
    reason: str
    is_too_large: bool = False


class TooLarge(Exception):  # noqa: N818  it is raised as the fact it names
    """A batch of one message is larger than we may send."""


Told = Callable[[Exception, str, int], tuple[str, bool]]
"""Says of an error, a topic and a batch's size what it means, and whether that was too large."""


class Batch:
    """Messages that are taken all or none."""

    def __init__(self, builder: Any) -> None:  # aiokafka's, which has no types
        self.builder = builder
        self.indexes: list[int] = []
        self._is_full = False

    def take(self, parcel: Parcel) -> bool:
        """Pack it, if there is room; there always is for a first one."""
        if self._is_full or (parcel.alone and self.indexes):
            return False
        message = parcel.message
        if not self.builder.append(
            timestamp=message.timestamp_ms,
            key=message.key,
            value=message.value,
            headers=message.headers,
        ):
            return False
        self._is_full = parcel.alone
        self.indexes.append(parcel.index)
        return True

    def failure(self, reason: str, *, is_too_large: bool = False) -> Failure:
        """Say that it was not taken."""
        return Failure(tuple(self.indexes), reason, is_too_large)


class Way:
    """The batches of one lane, sent one after the other; the first that fails ends it."""

    def __init__(self, lane: Lane, max_bytes: int, told: Told) -> None:
        self.batches: list[Batch] = []
        self._topic, self._partition = lane
        self._max_bytes = max_bytes
        self._told = told
        self._sent = 0
        self._failure: Failure | None = None

    async def send(self, aio: Aio) -> None:
        """Send all of it; how that ended is told by `failed`."""
        for batch in self.batches:
            size = batch.builder.size()
            try:
                await self._send(aio, batch, size)
            except Exception as error:  # noqa: BLE001  # whatever it is, it was not taken
                reason, is_too_large = self._told(error, self._topic, size)
                self._failure = batch.failure(reason, is_too_large=is_too_large)
                return
            self._sent += 1

    async def _send(self, aio: Aio, batch: Batch, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge
        sent = await aio.send_batch(batch.builder, self._topic, partition=self._partition)
        await sent

    def failed(self, otherwise: str) -> Failure | None:
        """Return the first batch that was not taken, for this reason if there is no better one."""
        if self._failure is None and self._sent < len(self.batches):
            return self.batches[self._sent].failure(otherwise)
        return self._failure


async def packed(aio: Aio, parcels: Sequence[Parcel], max_bytes: int, told: Told) -> list[Way]:
    """Return everything in batches, by lane."""
    ways: dict[Lane, Way] = {}
    for number, parcel in enumerate(parcels, 1):
        way = ways.setdefault(parcel.lane, Way(parcel.lane, max_bytes, told))
        if not way.batches or not way.batches[-1].take(parcel):
            way.batches.append(Batch(aio.create_batch()))
            way.batches[-1].take(parcel)
        if number % RECORDS_AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
    return list(ways.values())
