"""Leads each request to the handler of its path.

aiohttp's own applications and routers take as long to import as all of this server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_exceptions import HTTPExpectationFailed, HTTPMethodNotAllowed, HTTPNotFound
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from reactive_desched.web.connections import HttpConnection

Handler = Callable[[BaseRequest], Awaitable[StreamResponse]]

READ_METHODS: Final = ("GET", "HEAD")


class Access(Protocol):
    """Decides whether a request is answered."""

    async def check(self, request: BaseRequest) -> None:
        """Return for a request that may be answered; raises an HTTPException for another."""
        ...


class Router:
    """The handlers of a server, by method and path.

    Only paths with a handler for POST may be written to; a request with a body elsewhere, or one
    longer than `max_body_bytes`, is rejected. `access` decides who is answered.
    """

    def __init__(self, max_body_bytes: int, access: Access) -> None:
        self._max_body_bytes = max_body_bytes
        self._access = access
        self._public: set[str] = set()
        self._readable: dict[str, Handler] = {}
        self._writable: dict[str, Handler] = {}
        self._folders: dict[str, Handler] = {}

    def add_get(self, path: str, handler: Handler) -> None:
        """Answer GET and HEAD of this path."""
        self._readable[path] = handler

    def add_post(self, path: str, handler: Handler) -> None:
        """Answer POST to this path."""
        self._writable[path] = handler

    def open_to_all(self, *paths: str) -> None:
        """Answer requests for these paths without asking `access`."""
        self._public.update(paths)

    def add_folder(self, path: str, handler: Handler) -> None:
        """Answer GET and HEAD of every path directly below this one, which ends in a slash."""
        self._folders[path] = handler

    async def handle(self, request: BaseRequest) -> StreamResponse:
        """Answer a request; raises aiohttp's HTTPException for one that is rejected."""
        assert isinstance(request.protocol, HttpConnection), "nothing else lets requests in"
        request.protocol.mark_request_started()
        handler = self._handler(request)
        if request.path not in self._public:
            await self._access.check(request)
        if expectation := request.headers.get("Expect"):
            await _meet(expectation, request)
        return await handler(request)

    def make_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> BaseRequest:
        """Return a request that aiohttp's server has read."""
        limit = self._max_body_bytes
        loop = task.get_loop()
        return BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=limit)

    def _handler(self, request: BaseRequest) -> Handler:
        path, method = request.path, request.method
        handlers: Mapping[str, Handler] = self._readable
        if method not in READ_METHODS:
            handlers = self._writable if method == "POST" else {}
        if (handler := handlers.get(path)) is not None:
            return handler
        if path in self._writable:
            raise HTTPMethodNotAllowed(method, ("POST",))
        if method not in READ_METHODS:
            raise HTTPMethodNotAllowed(method, READ_METHODS)
        folder, _, name = path.rpartition("/")
        if name and (handler := self._folders.get(f"{folder}/")) is not None:
            return handler
        raise HTTPNotFound


async def _meet(expectation: str, request: BaseRequest) -> None:
    """Ask for the body of a client that waits to be asked; there is no other expectation."""
    if expectation.lower() != "100-continue":
        raise HTTPExpectationFailed
    if request.transport is not None:  # it is no part of the answer, which `request.writer` counts
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
