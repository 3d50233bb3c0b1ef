"""A small API server over real HTTP that keeps the rules of list and watch, and breaks on demand.

It serves one resource. Whatever a test wants to go wrong is either scripted for the next request
(`answer_next`) or done to the watches that are open (`cut_watches`, `replay_event`, ...).
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any, Literal

from aiohttp import web
from msgspec import Struct, field

from tests.support.manual_clock import ManualClock

__all__ = [
    "ReceivedRequest",
    "ScriptedApi",
    "ScriptedReply",
    "bookmark_line",
    "error_line",
    "failing",
    "status",
]

_SHORT_S = 5
_SHORT_WATCH_RATIO = 0.1  # of the time that it asks for
_END_MARK = {"k8s.io/initial-events-end": "true"}


class ReceivedRequest(Struct, frozen=True):
    """One request that came in; `kind` is list, watch, catch-up or the method of anything else.

    A catch-up is a watch of a second.
    """

    kind: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes


class ScriptedReply(Struct, frozen=True):
    """One scripted reply; `after_body` is what happens to the connection then."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    after_body: Literal["end", "cut", "hang"] = "end"


class _Cut(Struct, frozen=True):
    after: bytes = b""


class ScriptedApi:
    """The server; `objects` is the truth, `requests` what it was asked, over `connections`.

    By `clock` it ends short watches, after as long as they ask for; without one it does after a
    tenth of that.
    """

    def __init__(self, path: str) -> None:
        self.url = ""
        self.path = path
        self.objects: dict[str, str] = {}
        self.requests: list[ReceivedRequest] = []
        self.connections: dict[asyncio.Transport, None] = {}
        self.streaming = False
        self.version = 100
        self._oldest = 100
        self._history: list[tuple[int, str, str, str]] = []
        self.before_answering: Callable[[], Awaitable[None]] | None = None
        self.clock: ManualClock | None = None
        self._scripted: dict[str, deque[ScriptedReply | None]] = {}
        self._watches: set[asyncio.Queue[bytes | _Cut | None]] = set()
        self._pages: dict[str, list[tuple[str, str]]] = {}
        self._closing = asyncio.Event()
        self.answers_seconds_at_once = True
        """Whether a watch of a second, as a check of silent ones is, ends when it begins."""

    @asynccontextmanager
    async def serving(self, tls: SSLContext | None = None) -> AsyncIterator["ScriptedApi"]:
        """Listen on a free port of 127.0.0.1 until the block ends."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"{'https' if tls else 'http'}://{host}:{port}"
        try:
            yield self
        finally:
            self._closing.set()
            self.end_watches()
            await runner.cleanup()

    # --- the truth ---

    def put(self, name: str, value: str) -> None:
        """Create or change an object."""
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = value
        self._record_event(kind, name, value)

    def delete(self, name: str) -> None:
        """Delete an object, if it is there."""
        if (value := self.objects.pop(name, None)) is not None:
            self._record_event("DELETED", name, value)

    def compact(self) -> None:
        """Forget the history: whoever asks for an older version is told that it is gone."""
        self.version += 1
        self._oldest = self.version
        self._history.clear()

    def delete_silently(self, name: str) -> None:
        """Delete an object so that no watch is told: only a new list can show it."""
        self.objects.pop(name, None)
        self.version += 1

    def restore(self, version: int, **objects: str) -> None:
        """Go back to an older state, as from a backup; watches are not told."""
        self.version, self.objects = version - 1, objects
        self.compact()

    # --- what is done to open watches ---

    def bookmark(self, version: int | None = None) -> None:
        """Tell every watch that nothing of interest happened up to now."""
        self._broadcast(bookmark_line(version or self.version))

    def send_raw(self, line: bytes) -> None:
        """Send raw bytes to every watch."""
        self._broadcast(line)

    def replay_event(self, which: int) -> None:
        """Send an event of the past once more, as a confused server would; -1 is the last."""
        if len(self._history) >= -which:
            self._broadcast(_event_line(*self._history[which]))

    def end_watches(self) -> None:
        """End every watch the regular way."""
        self._broadcast(None)

    def cut_watches(self, after: bytes = b"") -> None:
        """Break every watch's connection, possibly in the middle of a line."""
        self._broadcast(_Cut(after))

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    # --- what is scripted ---

    def answer_next(self, kind: str, *replies: ScriptedReply | None) -> None:
        """Answer the next requests of this kind in this way; None stands for the truth."""
        self._scripted.setdefault(kind, deque()).extend(replies)

    def clear_script(self) -> None:
        """Forget every scripted reply: from now on all goes well."""
        self._scripted.clear()

    def count(self, kind: str) -> int:
        """How many requests of this kind have come."""
        return sum(asked.kind == kind for asked in self.requests)

    # --- serving ---

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        kind = self._kind(request)
        assert request.transport is not None, "a request that comes in has a connection"
        self.connections[request.transport] = None
        body = await request.read()
        query = dict(request.query)
        self.requests.append(
            ReceivedRequest(kind, request.path, query, request.headers.copy(), body)
        )
        if self.before_answering is not None:
            await self.before_answering()
        scripted = self._scripted.get(kind)
        if scripted and (reply := scripted.popleft()) is not None:
            return await self._send_scripted(request, reply)
        if kind == "list":
            return self._list(query)
        if kind == "watch":
            return await self._watch(request, query)
        if kind == "catch-up":
            lines = self._backlog(query)
            return web.Response(body=b"".join(filter(None, lines)), content_type="application/json")
        return web.json_response(status("NotFound", 404, "no such thing"), status=404)

    def _kind(self, request: web.Request) -> str:
        if request.path != self.path or request.method != "GET":
            return request.method
        if request.query.get("watch") != "true":
            return "list"
        is_second = request.query.get("timeoutSeconds") == "1"
        return "catch-up" if is_second and self.answers_seconds_at_once else "watch"

    async def _send_scripted(
        self, request: web.Request, reply: ScriptedReply
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        if reply.after_body == "end":
            response.content_length = len(reply.body)
        await response.prepare(request)
        await response.write(reply.body)
        if reply.after_body == "hang":
            await self._closing.wait()
        elif reply.after_body == "cut":
            _abort(request)
        return response

    def _list(self, query: dict[str, str]) -> web.Response:
        token = query.get("continue", "")
        rest = self._pages[token] if token else list(self.objects.items())
        version = token.split(":")[0] if token else str(self.version)
        size = int(query.get("limit", "0")) or len(rest) or 1
        page, rest = rest[:size], rest[size:]
        after = ""
        if rest:
            after = f"{version}:{len(rest)}"
            self._pages[after] = rest
        items = [_object(name, value, version) for name, value in page]
        return web.json_response(
            {"metadata": {"resourceVersion": version, "continue": after}, "items": items}
        )

    async def _watch(self, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
        if "sendInitialEvents" in query and not self.streaming:
            return web.json_response(status("Invalid", 422, "forbidden"), status=422)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        queue: asyncio.Queue[bytes | _Cut | None] = asyncio.Queue()
        ending = asyncio.ensure_future(self._end_in_time(query, queue))
        for line in self._backlog(query):
            queue.put_nowait(line)
        self._watches.add(queue)
        try:
            await self._pump(request, response, queue)
        finally:
            self._watches.discard(queue)
            ending.cancel()
        return response

    async def _end_in_time(
        self, query: dict[str, str], queue: asyncio.Queue[bytes | _Cut | None]
    ) -> None:
        if (timeout_s := int(query.get("timeoutSeconds", "300"))) > _SHORT_S:
            return
        if self.clock is not None:
            await self.clock.sleep(timeout_s)
        else:
            await asyncio.sleep(timeout_s * _SHORT_WATCH_RATIO)
        queue.put_nowait(None)

    def _backlog(self, query: dict[str, str]) -> list[bytes | None]:
        if "sendInitialEvents" in query:
            now = self.version
            lines = [_event_line(now, "ADDED", n, v) for n, v in self.objects.items()]
            return [*lines, bookmark_line(now, _END_MARK)]
        since = int(query["resourceVersion"])
        if since < self._oldest:
            return [error_line(410, "Expired", f"too old resource version: {since}"), None]
        return [_event_line(*event) for event in self._history if event[0] > since]

    async def _pump(
        self,
        request: web.Request,
        response: web.StreamResponse,
        queue: asyncio.Queue[bytes | _Cut | None],
    ) -> None:
        while (position := await queue.get()) is not None:
            if isinstance(position, _Cut):
                if position.after:
                    await response.write(position.after)
                _abort(request)
                return
            await response.write(position)
        await response.write_eof()

    def _record_event(self, kind: str, name: str, value: str) -> None:
        self.version += 1
        event = (self.version, kind, name, value)
        self._history.append(event)
        self._broadcast(_event_line(*event))

    def _broadcast(self, item: bytes | _Cut | None) -> None:
        for queue in self._watches:
            queue.put_nowait(item)


def status(reason: str, code: int, message: str, **details: object) -> dict[str, Any]:
    """Make the API's error object."""  # Any: JSON
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return body | {"reason": reason, "code": code, "message": message, "details": details}


def failing(code: int, reason: str = "", **headers: str) -> ScriptedReply:
    """Make a reply that brings the API's error object."""
    body = json.dumps(status(reason, code, "as scripted")).encode()
    return ScriptedReply(code, body, {"Content-Type": "application/json", **headers})


def error_line(code: int, reason: str, message: str, **details: object) -> bytes:
    """Make an ERROR event."""
    return _line("ERROR", status(reason, code, message, **details))


def bookmark_line(version: int | str, annotations: dict[str, str] | None = None) -> bytes:
    """Make a BOOKMARK event."""
    meta = {"resourceVersion": str(version), "annotations": annotations or {}}
    return _line("BOOKMARK", {"metadata": meta})


def _event_line(version: int, kind: str, name: str, value: str) -> bytes:
    return _line(kind, _object(name, value, str(version)))


def _object(name: str, value: str, version: str) -> dict[str, object]:
    return {"metadata": {"name": name, "resourceVersion": version}, "value": value}


def _line(kind: str, what: object) -> bytes:
    return json.dumps({"type": kind, "object": what}).encode() + b"\n"


def _abort(request: web.Request) -> None:
    assert request.transport is not None, "a request being answered has a connection"
    request.transport.abort()
