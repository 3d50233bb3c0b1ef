"""Clusters that say who they are, and addresses that lead from one of them to another."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
from aiohttp import web

__all__ = ["Address", "NamedCluster", "ProxyAddress"]

CHECK = "GET /api/v1/namespaces"


class NamedCluster:
    """An API server whose kube-system has a uid; `requests` has what came, as METHOD path.

    `status` is that of its answer about itself, and `busy_status`, 429 unless a proxy answers, that
    of the next `busy` answers; with `closes` each connection has one response.
    """

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.status = 200
        self.busy, self.busy_status = 0, 429
        self.closes = False
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0

    @property
    def real_requests(self) -> list[str]:
        """What came but for the question which cluster it is."""
        return [each for each in self.requests if each != CHECK]

    @property
    def checks(self) -> int:
        """How often it was asked which cluster it is."""
        return self.requests.count(CHECK)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["NamedCluster"]:
        """Listen on a free port of 127.0.0.1 until the block ends."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        self.headers.append(dict(request.headers))
        await request.read()
        response: web.StreamResponse
        if request.path == "/api/v1/namespaces":
            response = self._namespaces()
        elif "watch" in request.query:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(b'{"type": "BOOKMARK"}\n')
            await asyncio.sleep(3600)
        else:
            response = web.json_response({}, status=201 if request.method == "POST" else 200)
        if self.closes:
            response.force_close()
        return response

    def _namespaces(self) -> web.Response:
        status = self.busy_status if self.busy else self.status
        self.busy = max(0, self.busy - 1)
        if status != 200:
            body = {"kind": "Status", "code": status, "message": "as scripted"}
            return web.json_response(body, status=status)
        items = [{"metadata": {"name": "kube-system", "uid": self.uid}}] if self.uid else []
        return web.json_response({"kind": "NamespaceList", "items": items})


class Address:
    """A tunnel: each connection leads for its whole life to where it led when it began."""

    def __init__(self, cluster: NamedCluster) -> None:
        self.cluster = cluster
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def lead_to(self, cluster: NamedCluster, *, breaks: bool = True) -> None:
        """Lead new connections elsewhere, and end the others unless `breaks` is False."""
        self.cluster = cluster
        if breaks:
            for writer in self._writers:
                writer.transport.abort()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Address"]:
        """Listen on a free port of 127.0.0.1 until the block ends."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry a connection in a task, which is there as soon as the connection is."""
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # it may not even have begun

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.cluster.port)
        ends = {writer, back}
        self._writers |= ends
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            self._writers -= ends
            back.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()


class ProxyAddress:
    """A reverse proxy: each request leads to where the proxy leads at that moment."""

    def __init__(self, cluster: NamedCluster) -> None:
        self.cluster = cluster
        self.fails = False
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator["ProxyAddress"]:
        """Listen on a free port of 127.0.0.1 until the block ends."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._forward)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        async with aiohttp.ClientSession() as self._http:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.Response:
        if self.fails:
            return web.Response(status=502, text="<html>Bad Gateway</html>")
        url = f"http://127.0.0.1:{self.cluster.port}{request.raw_path}"
        async with self._http.request(request.method, url, data=await request.read()) as reply:
            body = json.dumps(await reply.json()).encode()
            headers = {"Content-Type": "application/json"}
            return web.Response(status=reply.status, body=body, headers=headers)
