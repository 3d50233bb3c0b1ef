"""Reads all objects of a resource: in pages, or as the initial events of a watch.

Either way the objects are staged in memory: the store keeps its objects until the new list is
complete, and a list that breaks off changes nothing. What has not changed since is not staged
again: `reuse` returns the object that the store has. Staged objects are in a deque: a list of half
a million is copied whole when it grows, in 2 to 3 ms of the event loop.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

import anyio
from msgspec import Struct

from reactive_desched.errors import Malformed, RequestRejected
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.session import Transport
from reactive_desched.kube.codec import Codec, ListPage, WatchEvent
from reactive_desched.kube.watch.pages import ListedAnew, PageBuffer, PageFetcher
from reactive_desched.kube.watch.resume import StopReason, WatchEnd, end_from_status
from reactive_desched.kube.watch.watcher import WatchEventHandler
from reactive_desched.kube.watch.yielding import Yielder

__all__ = ["Deleted", "InitialList", "ListResult", "ListSettings", "Lister", "list_once"]

T = TypeVar("T")


def _as_it_is(obj: T) -> T:
    return obj


# --- in pages -----------------------------------------------------------------------------------


class ListSettings(Struct, frozen=True, gc=False):
    """The size of a page, and how often its decoding yields to the event loop."""

    page_size: int
    steps_per_slice: int


class ListResult(Struct, Generic[T], gc=False):
    """All objects that the server had at `resource_version`."""

    items: deque[T]
    resource_version: str


class Lister(Generic[T]):
    """Lists one resource; requests the next page before it decodes one.

    It sends no resourceVersion: with any other the server may return an older list than the
    objects we have. An object that cannot be decoded goes to `on_malformed` and is left out.
    """

    def __init__(
        self,
        session: Transport,
        codec: Codec[T],
        on_malformed: Callable[[Malformed], None],
        clock: Clock,
        reuse: Callable[[T], T] = _as_it_is,
        *,
        rng: Random | None = None,
        on_repeat: Callable[[WatchEnd], None] = lambda _: None,
    ) -> None:
        self._codec = codec
        self._on_malformed = on_malformed
        self._clock = clock
        self._reuse = reuse
        rng = rng or Random()  # noqa: S311  jitter is no secret
        self._malformed, self._reported = Counter[str](), Counter[str]()
        self._pages = PageFetcher(session, codec, clock, rng, on_repeat)

    async def list_all(self, settings: ListSettings) -> ListResult[T] | WatchEnd:
        """Read every page, or return why the list broke off."""
        result: ListResult[T] = ListResult(deque(), "")
        buffer = PageBuffer()
        self._malformed, self._reported = Counter[str](), Counter[str]()
        async with anyio.create_task_group() as ahead:
            send, receive = anyio.create_memory_object_stream[ListPage | ListedAnew | WatchEnd](0)
            ahead.start_soon(self._pages.fetch_all, send, settings.page_size, buffer)
            async with receive:
                async for page in receive:
                    if isinstance(page, WatchEnd):
                        return page
                    if isinstance(page, ListedAnew):
                        result = ListResult(deque(), "")
                        self._reported, self._malformed = self._malformed, Counter()
                        continue
                    result.resource_version = result.resource_version or page.resource_version
                    try:
                        await self._decode(page, result.items, settings.steps_per_slice)
                    except Malformed as error:
                        return WatchEnd(StopReason.BROKEN, f"list {self._codec.path}: {error}")
                    buffer.give_back()
        if result.resource_version in ("", "0"):
            return WatchEnd(
                StopReason.BROKEN, f"list {self._codec.path}: it names no resourceVersion"
            )
        return result

    async def _decode(self, page: ListPage, into: deque[T], steps_per_slice: int) -> None:
        yielder, reuse = Yielder(self._clock, steps_per_slice), self._reuse
        for obj in self._codec.decode_page(page):
            if isinstance(obj, Malformed):
                self._report_once(obj)
            else:
                into.append(reuse(obj))
            if yielder.slice_over():
                await yielder.yield_now()

    def _report_once(self, error: Malformed) -> None:
        """Report an object, but not again in a list that was begun again."""
        self._malformed[error.name] += 1
        if self._malformed[error.name] > self._reported[error.name]:
            self._on_malformed(error)


_ONCE = ListSettings(page_size=500, steps_per_slice=50)
_NOT_RETRYABLE = frozenset({StopReason.DENIED, StopReason.REJECTED})


async def list_once(
    session: Transport,
    codec: Codec[T],
    on_malformed: Callable[[Malformed], None],
    *,
    clock: Clock | None = None,
) -> ListResult[T]:
    """List a resource once, for a command that works on a snapshot and ends.

    Raises RequestRejected, with `retryable`, when the list breaks off. An object that cannot be
    decoded goes to `on_malformed` and is left out.
    """
    result = await Lister(session, codec, on_malformed, clock or SystemClock()).list_all(_ONCE)
    if isinstance(result, WatchEnd):
        is_denied = result.reason is StopReason.DENIED and not result.is_web_page
        retryable = result.reason not in _NOT_RETRYABLE
        raise RequestRejected(
            result.message,
            retryable=retryable,
            is_denied=is_denied,
            is_unauthorized=result.reason is StopReason.UNAUTHORIZED,
            is_web_page=result.is_web_page,
            retry_after_s=result.retry_after_s,
        )
    return result


# --- as the initial events of a watch -----------------------------------------------------------


class Deleted(Struct, Generic[T], frozen=True, gc=False):
    """An object that was deleted while the initial events were still coming."""

    obj: T


class InitialList(WatchEventHandler[T]):
    """The staged changes of a streaming list, in order.

    Holds at most the objects of one resource and the changes of one watch's time. A bookmark
    without the annotation that ends the initial events comes from a server that ignores
    `sendInitialEvents`: its events may be incomplete, so they count as rejected.
    """

    def __init__(self, path: str, reuse: Callable[[T], T] = _as_it_is) -> None:
        self.changes: deque[T | Deleted[T]] = deque()
        self.resource_version = ""
        self._path = path
        self._reuse = reuse

    def apply(self, event: WatchEvent[T]) -> WatchEnd | None:
        """Stage one event; the final bookmark returns INITIAL_EVENTS_DONE."""
        if event.object is not None:
            deleted = event.type == "DELETED"
            self.changes.append(Deleted(event.object) if deleted else self._reuse(event.object))
            return None
        if event.type == "ERROR":
            return end_from_status(event.status, f"streaming list {self._path}")
        if event.type == "BOOKMARK":
            return self._finish(event)
        return None

    def _finish(self, event: WatchEvent[T]) -> WatchEnd:
        if not event.initial_events_end or event.resource_version in ("", "0"):
            return WatchEnd(
                StopReason.REJECTED,
                f"streaming list {self._path}: its bookmark does not end the initial events",
            )
        self.resource_version = event.resource_version
        return WatchEnd(StopReason.INITIAL_EVENTS_DONE)
