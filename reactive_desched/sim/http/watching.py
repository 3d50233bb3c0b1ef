"""Answers to watch: state if asked for, then every change, until the connection closes."""

import asyncio

from aiohttp import web
from msgspec import Struct

from reactive_desched.sim.http.handler_context import HandlerContext
from reactive_desched.sim.http.options import ListOptions
from reactive_desched.sim.http.reading import wait_for_version
from reactive_desched.sim.http.rendering import Rendering
from reactive_desched.sim.http.target import Target
from reactive_desched.sim.http.watchers import Packet, Watcher, document
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import StatusError

__all__ = ["watch_many"]

_SLICE = 200
_LAST_BOOKMARK_S = 2.0


class _Opening(Struct, frozen=True):
    """The start of a watch: the state to send first, and whether its end is marked."""

    watcher: Watcher
    state: list[Obj]
    marks_end: bool


async def watch_many(
    parts: HandlerContext,
    request: web.Request,
    target: Target,
    options: ListOptions,
    rendering: Rendering,
) -> web.StreamResponse:
    """Serve one watch; versions that cannot be served become an ERROR event, not a status code."""
    response = web.StreamResponse(
        headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
    )
    try:
        opening = await _open(parts, target, options, rendering)
    except StatusError as error:
        await response.prepare(request)
        await response.write(document("ERROR", error.body()))
        return response
    try:
        # The headers go out now: clients count the watch as open from here.
        await response.prepare(request)
        stream = _Stream(parts, response, options, rendering, opening.watcher)
        async with asyncio.timeout_at(stream.deadline):
            await stream.run(opening)
    except (TimeoutError, ConnectionError):
        # The agreed end of every watch, or a client that went away.
        return response
    finally:
        parts.hub.drop(opening.watcher)
    return response


async def _open(
    parts: HandlerContext, target: Target, options: ListOptions, rendering: Rendering
) -> _Opening:
    """Take the state and begin to listen in one step, so that nothing falls between."""
    store, hub, resource = parts.store, parts.hub, target.view.storage
    from_start = options.version in ("", "0")
    wants_state = options.initial_events or (options.initial_events is None and from_start)
    if options.initial_events is not None:
        await wait_for_version(parts, options.rv)
    if wants_state:
        objects = store.list(resource, options.wanted.namespace or None)
        state = [obj for obj in objects if options.wanted.matches(obj)]
        # A present-day server marks the end also for those who did not ask for the mark.
        marks_end = options.bookmarks and parts.settings.watch_list
        watcher = hub.open(resource, options.wanted, rendering, store.rv)
        return _Opening(watcher, state, marks_end)
    start = store.rv if from_start else options.rv
    missed = store.since(resource, start)
    watcher = hub.open(resource, options.wanted, rendering, start)
    for event in missed:
        watcher.replay(Packet(event, store.clock.now()))
    return _Opening(watcher, [], marks_end=False)


class _Stream:
    """The body of one watch response."""

    def __init__(
        self,
        parts: HandlerContext,
        response: web.StreamResponse,
        options: ListOptions,
        rendering: Rendering,
        watcher: Watcher,
    ) -> None:
        self._parts = parts
        self._response = response
        self._bookmarks = options.bookmarks
        self._rendering = rendering
        self._watcher = watcher
        self._loop = asyncio.get_running_loop()
        shortest = parts.settings.shortest_watch_s
        lasts = options.timeout_s or parts.rng.uniform(shortest, 2 * shortest)
        self.deadline = self._loop.time() + lasts

    async def run(self, opening: _Opening) -> None:
        """Send the state, then changes and bookmarks until the watch is closed."""
        await self._send_state(opening)
        bookmark_at = self._next_bookmark()
        while True:
            if self._watcher.pending:
                await self._response.write(self._watcher.take())
                continue
            if self._watcher.closed:
                return
            if self._bookmarks and self._loop.time() >= bookmark_at:
                bookmark_at = self._next_bookmark()
                await self._send_bookmark(self._parts.store.rv, ends_initial=False)
                continue
            await self._pause(bookmark_at if self._bookmarks else self.deadline)

    async def _send_state(self, opening: _Opening) -> None:
        now = self._parts.store.clock.now()
        for first in range(0, len(opening.state), _SLICE):
            part = opening.state[first : first + _SLICE]
            shown = [document("ADDED", self._rendering.one(obj, now)) for obj in part]
            await self._response.write(b"".join(shown))
            await asyncio.sleep(0)
        if opening.marks_end:
            await self._send_bookmark(self._watcher.start, ends_initial=True)

    async def _send_bookmark(self, rv: int, *, ends_initial: bool) -> None:
        # A watch that waits for a future version must not get an earlier one.
        if rv >= self._watcher.start:
            shown = self._rendering.bookmark(rv, ends_initial=ends_initial)
            await self._response.write(document("BOOKMARK", shown))

    def _next_bookmark(self) -> float:
        now = self._loop.time()
        usual, last = now + self._parts.settings.bookmark_every_s, self.deadline - _LAST_BOOKMARK_S
        return last if now < last < usual else usual

    async def _pause(self, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._watcher.wake.wait()
        except TimeoutError:
            return
        self._watcher.wake.clear()
