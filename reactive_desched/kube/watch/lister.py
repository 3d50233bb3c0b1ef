"""Read a whole resource page by page, staged in memory, never holding the loop for long."""

from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Raw, Struct

from reactive_desched.errors import ClusterError, Malformed
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.session import Transport
from reactive_desched.kube.codec import Codec, RawListPage
from reactive_desched.kube.watch.watch_end import (
    StopReason,
    WatchEnd,
    end_from_error,
    end_from_response,
)
from reactive_desched.kube.watch.yielding import Yielder, YieldPolicy

__all__ = ["ListResult", "ListSettings", "Lister"]

T = TypeVar("T")


class ListSettings(Struct, frozen=True, gc=False):
    """How many objects to ask for at once, and how to go through them.

    Splitting a page holds the loop for about 5 us per object, so a relist, which happens while
    events must be answered, takes smaller pages than the first list, when nobody waits.
    """

    page_size: int
    yield_policy: YieldPolicy


class ListResult(Struct, Generic[T], gc=False):
    """A whole list, decoded: what the server had at `resource_version`."""

    items: list[T]
    resource_version: str


class Lister(Generic[T]):
    """Lists one resource in the most recent state, one page ahead of what is being decoded.

    No resourceVersion is sent: any other choice may bring an older picture than the one we have.
    What cannot be decoded goes to `malformed` and is left out.
    """

    def __init__(
        self,
        session: Transport,
        codec: Codec[T],
        on_malformed: Callable[[Malformed], None],
        clock: Clock,
    ) -> None:
        self._session = session
        self._codec = codec
        self._on_malformed = on_malformed
        self._clock = clock

    async def list_all(self, settings: ListSettings) -> ListResult[T] | WatchEnd:
        """Read every page, or say why that ended early; nothing is kept of half a list."""
        result: ListResult[T] = ListResult([], "")
        async with anyio.create_task_group() as ahead:
            send, receive = anyio.create_memory_object_stream[RawListPage | WatchEnd](0)
            ahead.start_soon(self._fetch_pages, send, settings.page_size)
            async with receive:
                async for page in receive:
                    if isinstance(page, WatchEnd):
                        return page
                    result.resource_version = result.resource_version or page.resource_version
                    await self._decode(page.items, result.items, settings.yield_policy)
        if result.resource_version in ("", "0"):
            return WatchEnd(
                StopReason.BROKEN, f"list {self._codec.path}: it names no resourceVersion"
            )
        return result

    async def _fetch_pages(
        self, send: MemoryObjectSendStream[RawListPage | WatchEnd], size: int
    ) -> None:
        token = ""
        async with send:
            while True:
                page = await self._fetch_page(token, size)
                await send.send(page)
                if isinstance(page, WatchEnd) or not page.continue_token:
                    return
                token = page.continue_token

    async def _fetch_page(self, token: str, size: int) -> RawListPage | WatchEnd:
        what = f"list {self._codec.path}"
        params = {"limit": str(size)} | ({"continue": token} if token else {})
        try:
            answer = await self._session.request(
                "GET", self._codec.path, params=params, accept=self._codec.accept.list
            )
        except ClusterError as error:
            return end_from_error(error)
        if not answer.ok:
            return end_from_response(answer, what, self._clock.wall())
        await checkpoint()  # joining the body and splitting it are two turns, not one
        try:
            page = self._codec.split_page(answer.body)
        except Malformed as error:
            return WatchEnd(StopReason.BROKEN, f"{what}: {error}")
        if token and page.continue_token == token:
            return WatchEnd(StopReason.BROKEN, f"{what}: the server repeats its continue token")
        return page

    async def _decode(self, raws: list[Raw], into: list[T], yield_policy: YieldPolicy) -> None:
        pace = Yielder(self._clock, yield_policy)
        for raw in raws:
            try:
                into.append(self._codec.decode_object(raw))
            except Malformed as error:
                self._on_malformed(error)
            if pace.slice_over():
                await pace.yield_now()
