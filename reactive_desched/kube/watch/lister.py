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
from reactive_desched.kube.decode.codec import Codec, Page
from reactive_desched.kube.watch.watch_end import End, Ending, of_answer, of_error
from reactive_desched.kube.watch.yielding import Gait, Pace

__all__ = ["Lister", "PageSizes", "Staged"]

T = TypeVar("T")


class PageSizes(Struct, frozen=True, gc=False):
    """How many objects to ask for at once, and how to go through them.

    Splitting a page holds the loop for about 5 us per object, so a relist, which happens while
    events must be answered, takes smaller pages than the first list, when nobody waits.
    """

    page: int
    gait: Gait


class Staged(Struct, Generic[T], gc=False):
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
        malformed: Callable[[Malformed], None],
        clock: Clock,
    ) -> None:
        self._session = session
        self._codec = codec
        self._malformed = malformed
        self._clock = clock

    async def stage(self, sizes: PageSizes) -> Staged[T] | Ending:
        """Read every page, or say why that ended early; nothing is kept of half a list."""
        staged: Staged[T] = Staged([], "")
        async with anyio.create_task_group() as ahead:
            send, receive = anyio.create_memory_object_stream[Page | Ending](0)
            ahead.start_soon(self._fetch, send, sizes.page)
            async with receive:
                async for page in receive:
                    if isinstance(page, Ending):
                        return page
                    staged.resource_version = staged.resource_version or page.resource_version
                    await self._decode(page.items, staged.items, sizes.gait)
        if staged.resource_version in ("", "0"):
            return Ending(End.BROKEN, f"list {self._codec.path}: it names no resourceVersion")
        return staged

    async def _fetch(self, send: MemoryObjectSendStream[Page | Ending], size: int) -> None:
        token = ""
        async with send:
            while True:
                page = await self._page(token, size)
                await send.send(page)
                if isinstance(page, Ending) or not page.continue_token:
                    return
                token = page.continue_token

    async def _page(self, token: str, size: int) -> Page | Ending:
        what = f"list {self._codec.path}"
        params = {"limit": str(size)} | ({"continue": token} if token else {})
        try:
            answer = await self._session.request(
                "GET", self._codec.path, params=params, accept=self._codec.forms.listed
            )
        except ClusterError as error:
            return of_error(error)
        if not answer.ok:
            return of_answer(answer, what, self._clock.wall())
        await checkpoint()  # joining the body and splitting it are two turns, not one
        try:
            page = self._codec.page(answer.body)
        except Malformed as error:
            return Ending(End.BROKEN, f"{what}: {error}")
        if token and page.continue_token == token:
            return Ending(End.BROKEN, f"{what}: the server repeats its continue token")
        return page

    async def _decode(self, raws: list[Raw], into: list[T], gait: Gait) -> None:
        pace = Pace(self._clock, gait)
        for raw in raws:
            try:
                into.append(self._codec.item(raw))
            except Malformed as error:
                self._malformed(error)
            if pace.spent():
                await pace.give_way()
