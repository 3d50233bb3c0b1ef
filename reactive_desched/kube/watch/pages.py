"""Requests the pages of a list in turn, each again on its own where a request fails.

A list of 20,000 pods has 40 pages: begun anew for each of them that is throttled, it would never
end where an API server answers one request in twenty with 429.
"""

from collections.abc import Callable
from random import Random
from typing import Generic, TypeGuard, TypeVar

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Struct

from reactive_desched.errors import Malformed, RateLimited, Unreachable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.responses import WEB_PAGE, is_web_page
from reactive_desched.kube.client.session import CONTINUE, Transport
from reactive_desched.kube.codec import Codec, ListPage
from reactive_desched.kube.watch.resume import (
    BackoffConfig,
    ExponentialBackoff,
    StopReason,
    WatchEnd,
    end_from_error,
    end_from_response,
)

__all__ = ["LISTED_ANEW", "ListedAnew", "PageBuffer", "PageFetcher"]

T = TypeVar("T")

MAX_TRIES = 10
"""So often one page is requested; the last failure ends the list."""

MAX_PAGES = 100_000
"""A list of more pages ends as failed, as does one that repeats a continue token."""

LONGEST_RETRY_AFTER_S = 60.0
"""A page waits no longer for its server: its continue token expires after five minutes."""

_BACKOFF = BackoffConfig(initial_s=0.2, longest_s=4.0)
_SHRINK, _SHRINK_AFTER = 4, 2
_TRY_AFTER, _TRY_LAST = 4, 32
_REPEATED = frozenset(
    {
        StopReason.BROKEN,
        StopReason.THROTTLED,
        StopReason.UNREACHABLE,
        StopReason.UNAUTHORIZED,  # the credentials expired in the middle of the list
    }
)


_TOKEN_IS_BAD = frozenset({StopReason.GONE, StopReason.REJECTED})
"""How a page ends whose continue token has expired, or is one of another server."""


class ListedAnew(Struct, frozen=True, gc=False):
    """The pages up to here do not count: the list begins again, in one page."""


LISTED_ANEW = ListedAnew()


class PageBuffer:
    """The memory that the pages of a list take in turn.

    A page is read from its connection when the one before is decoded, not while it is: reading and
    decoding in turns would empty the processor's caches for one another.
    """

    def __init__(self) -> None:
        self._content = bytearray()
        self._decoded = anyio.Event()
        self._decoded.set()

    async def take(self) -> bytearray:
        """Return the buffer once no page is in it."""
        await self._decoded.wait()
        self._decoded = anyio.Event()
        self._content = _reusable(self._content)
        return self._content

    def give_back(self) -> None:
        """Let the next page take the buffer: the one in it is decoded."""
        self._decoded.set()


class _PageSize:
    """The number of objects in a page, fewer where large responses break off or are late.

    A quarter after two such responses in a row, and twice as many after the next page that came.
    The size that broke off is tried again after four pages, after eight, 16 and 32 where it breaks
    off each time, and at once where it came: a proxy that cuts at random does not make pages small.
    """

    def __init__(self) -> None:
        self._most: int | None = None
        self._too_large = 0
        self._try_after = _TRY_AFTER
        self._partial = self._complete = 0

    def at_most(self, size: int) -> int:
        """Return the size to request instead of this one."""
        return size if self._most is None else min(size, self._most)

    def note_partial(self, size: int) -> None:
        """Count a response that broke off or was late, of a page that would have this size."""
        self._partial += 1
        if self._partial % _SHRINK_AFTER:
            return
        broken = self.at_most(size)
        is_again = broken == self._too_large
        self._try_after = min(2 * self._try_after, _TRY_LAST) if is_again else _TRY_AFTER
        self._too_large, self._complete = broken, 0
        self._most = max(1, broken // _SHRINK)

    def note_complete(self) -> None:
        """Count a page that came."""
        self._partial = 0
        if self._most is None:
            return
        self._complete += 1
        is_small = self._most * _SHRINK <= self._too_large
        has_come = self._most >= self._too_large
        if is_small or has_come or self._complete >= self._try_after:
            self._most, self._complete = 2 * self._most, 0


class PageFetcher(Generic[T]):
    """Fetches the pages of one resource.

    A page that fails, is throttled or breaks off is requested again, up to MAX_TRIES times in all;
    the first one only where its response breaks off, as the caller waits for a server that is not
    there. Where responses break off or are late, pages get smaller. `on_repeat` is called with each
    failure that leads to another request.

    When a continue token has expired, or is refused, all objects are listed in one page, as
    client-go does of the first: the token that the server offers for an inconsistent rest is no
    base for a watch. That happens once in a list: a second such token ends it.
    """

    def __init__(
        self,
        session: Transport,
        codec: Codec[T],
        clock: Clock,
        rng: Random,
        on_repeat: Callable[[WatchEnd], None],
    ) -> None:
        self._session = session
        self._codec = codec
        self._clock = clock
        self._rng = rng
        self._on_repeat = on_repeat
        self._size = _PageSize()
        self._followed: set[str] = set()

    async def fetch_all(
        self,
        send: MemoryObjectSendStream[ListPage | ListedAnew | WatchEnd],
        size: int,
        buffer: PageBuffer,
    ) -> None:
        """Send the pages in turn, and an end where the list breaks off."""
        token, is_anew = "", False
        self._followed.clear()
        async with send:
            while True:
                page = await self._fetch(token, size, buffer)
                if _is_token_bad(page, token) and not is_anew:
                    self._on_repeat(page)
                    await send.send(LISTED_ANEW)
                    self._followed.clear()
                    token, is_anew = "", True
                    page = await self._fetch(token, None, buffer)
                await send.send(page)
                if isinstance(page, WatchEnd) or not page.continue_token:
                    return
                token = page.continue_token
                self._followed.add(token)

    async def _fetch(self, token: str, size: int | None, buffer: PageBuffer) -> ListPage | WatchEnd:
        """Fetch one page; without a size the whole list."""
        backoff = ExponentialBackoff(self._rng, _BACKOFF)
        for left in reversed(range(MAX_TRIES)):
            page = await self._request(token, size and self._size.at_most(size), buffer)
            if not isinstance(page, WatchEnd):
                self._size.note_complete()
                break
            if size is not None and (page.is_partial or page.is_late):
                self._size.note_partial(size)
            wait_s = max(backoff.next_wait_s(self._clock.now()), page.retry_after_s or 0.0)
            if not left or wait_s > LONGEST_RETRY_AFTER_S or not _is_repeated(page, token, size):
                break
            self._on_repeat(page)
            await self._clock.sleep(wait_s)
        return page

    async def _request(
        self, token: str, size: int | None, buffer: PageBuffer
    ) -> ListPage | WatchEnd:
        call, is_taken = f"list {self._codec.path}", False
        params = ({"limit": str(size)} if size else {}) | ({CONTINUE: token} if token else {})

        async def into() -> bytearray:
            nonlocal is_taken
            content = await buffer.take()
            is_taken = True
            return content

        page: ListPage | WatchEnd
        try:
            response = await self._session.request(
                "GET", self._codec.path, params=params, into=into
            )
        except (Unreachable, RateLimited) as error:
            page = end_from_error(error)
        else:
            if response.ok:
                await checkpoint()  # splitting a page that is not plain takes a slice of its own
                page = self._read(response.body, call)
            else:
                page = end_from_response(response, call, self._clock.wall())
        if is_taken and isinstance(page, WatchEnd):
            buffer.give_back()
        return page

    def _read(self, body: bytes | bytearray, call: str) -> ListPage | WatchEnd:
        try:
            page = self._codec.read_page(body)
        except Malformed as error:
            is_page = is_web_page(body)
            message = f"{call}: {WEB_PAGE if is_page else error}"
            return WatchEnd(StopReason.BROKEN, message, is_web_page=is_page, is_partial=not is_page)
        if page.continue_token in self._followed:
            return WatchEnd(StopReason.FAILED, f"{call}: the server repeats its continue token")
        if page.continue_token and len(self._followed) >= MAX_PAGES:
            return WatchEnd(StopReason.FAILED, f"{call}: it does not end after {MAX_PAGES} pages")
        return page


def _is_token_bad(page: ListPage | WatchEnd, token: str) -> TypeGuard[WatchEnd]:
    return isinstance(page, WatchEnd) and page.reason in _TOKEN_IS_BAD and bool(token)


def _is_repeated(ending: WatchEnd, token: str, size: int | None) -> bool:
    if ending.reason not in _REPEATED:
        return False
    if size is None:  # of the whole list, one that broke off is too large
        return not (ending.is_partial or ending.is_late)
    return bool(token) or ending.is_partial


def _reusable(buffer: bytearray) -> bytearray:
    """Return a buffer to be written to: another one if something refers to this one's content."""
    try:
        buffer.append(0)  # a buffer that something refers to cannot change its size
    except BufferError:
        return bytearray()
    return buffer
