"""The HTTP server: read-only, small, and never in the way of an eviction."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from aiohttp import web

from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.web import schemas
from reactive_desched.web.connection import HttpConnection, add_security_headers
from reactive_desched.web.connections import MAX_CONNECTIONS, ConnectionLimiter
from reactive_desched.web.event_stream import EventStream
from reactive_desched.web.health import Health, ProbeReport
from reactive_desched.web.listen_socket import ListenSocket, bound

SHUTDOWN_S = 0.4
"""A request under way has this long to end, and again as long to be cancelled."""

_READ_METHODS = ("GET", "HEAD")
_INDEX = """reactive-desched

/livez      is the process getting anywhere?   add ?verbose for every check
/healthz    the same as /livez
/readyz     could it evict now?                add ?verbose for every check
/schemas/   what the data of each event holds
"""
_INDEX_METRICS = "/metrics    numbers for Prometheus\n"
_INDEX_EVENTS = (
    "/events     what is recorded, as it happens   add ?from=oldest for everything there is\n"
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(
    listen: ListenAddress,
    health: Health,
    metrics: MetricsRegistry | None,
    events: EventStream | None = None,
) -> AsyncIterator[str]:
    """Take the address and serve there while the block runs; yield the URL.

    Raises ConfigError when the address cannot be had.
    """
    async with bound(listen) as address, serve_at(address, health, metrics, events) as url:
        yield url


@asynccontextmanager
async def serve_at(
    listen_socket: ListenSocket,
    health: Health,
    metrics: MetricsRegistry | None,
    events: EventStream | None = None,
) -> AsyncIterator[str]:
    """Serve health and, if given, metrics and events while the block runs; yield the URL.

    The address is let go at the end, which comes within a second.
    """
    runner = web.AppRunner(
        application(health, metrics, events),
        shutdown_timeout=SHUTDOWN_S,
        handler_cancellation=True,  # a client of the stream that goes away gives its place back
    )
    await runner.setup()
    assert runner.server is not None, "setup made it"
    connections = _connection_limiter(runner.server, events)
    if metrics is not None:
        metrics.register(connections, *(() if events is None else (events.clients,)))
    try:
        url = await listen_socket.serve(connections.new_protocol)
        async with _open_events(events):
            yield url
    finally:
        listen_socket.close()
        connections.close()
        if events is not None:
            events.close()
        await runner.cleanup()


def application(
    health: Health, metrics: MetricsRegistry | None, events: EventStream | None = None
) -> web.Application:
    """Return the routes."""
    text = _INDEX + (_INDEX_METRICS if metrics else "") + (_INDEX_EVENTS if events else "")

    async def index(_: web.Request) -> web.Response:
        return web.Response(text=text)

    async def livez(request: web.Request) -> web.Response:
        return _probe_response(request, health.livez())

    async def readyz(request: web.Request) -> web.Response:
        return _probe_response(request, health.readyz())

    app = web.Application(middlewares=[_mark_request_started, _reject_writes], client_max_size=1)
    app.on_response_prepare.append(_add_security_headers)
    app.router.add_get("/", index)
    app.router.add_get("/livez", livez)
    app.router.add_get("/healthz", livez)  # where the SIG descheduler's probes ask
    app.router.add_get("/readyz", readyz)
    schemas.add_routes(app.router, schemas.read_schemas())
    if metrics is not None:
        app.router.add_get("/metrics", _metrics_handler(metrics))
    app.router.add_get("/events", _no_events if events is None else events.handle)
    return app


async def _no_events(_: web.Request) -> web.Response:
    """Say how to have a stream; whoever may read this address may read every event."""
    return web.Response(
        status=404,
        text="there is no stream of events: write `sinks: {stream: {}}` into the settings\n",
    )


def _connection_limiter(server: web.Server, events: EventStream | None) -> ConnectionLimiter:
    """Let so many in that a crowd finds every free place of the stream; the rest are told."""
    loop = asyncio.get_running_loop()
    if events is None:
        return ConnectionLimiter(server, loop, MAX_CONNECTIONS)
    clients = events.clients
    return ConnectionLimiter(server, loop, MAX_CONNECTIONS + clients.limit, clients.connections)


def _open_events(events: EventStream | None) -> AbstractAsyncContextManager[None]:
    return nullcontext() if events is None else events.open()


def _metrics_handler(metrics: MetricsRegistry) -> Handler:
    async def scrape(request: web.Request) -> web.Response:
        body, media_type = metrics.exposition(",".join(request.headers.getall("Accept", [])))
        return web.Response(body=body, headers={"Content-Type": media_type})

    return scrape


def _probe_response(request: web.Request, report: ProbeReport) -> web.Response:
    text = report.text(verbose="verbose" in request.query)
    return web.Response(status=200 if report.ok else 503, text=text)


@web.middleware
async def _mark_request_started(request: web.Request, handler: Handler) -> web.StreamResponse:
    assert isinstance(request.protocol, HttpConnection), "nothing else lets requests in"
    request.protocol.mark_request_started()
    return await handler(request)


@web.middleware
async def _reject_writes(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.method not in _READ_METHODS:
        raise web.HTTPMethodNotAllowed(request.method, _READ_METHODS)
    return await handler(request)


async def _add_security_headers(_: web.Request, response: web.StreamResponse) -> None:
    add_security_headers(response)
