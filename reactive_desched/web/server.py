"""The HTTP server: small, and never in the way of an eviction."""

from collections.abc import AsyncIterator, Awaitable, Callable
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, nullcontext

from aiohttp import web

from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.web import schemas
from reactive_desched.web.connections import Connections, HttpConnection, add_security_headers
from reactive_desched.web.event_stream import EventStream
from reactive_desched.web.health import Health, ProbeReport
from reactive_desched.web.listen_socket import ListenSocket, bound
from reactive_desched.web.operator import MAX_BODY_BYTES, Operator, order_paths

MAX_CONNECTIONS, MAX_PROBE_CONNECTIONS = 128, 16
"""Connections to the main address, besides event streams, and to the address of the probes."""

SHUTDOWN_S = 0.4
"""A request under way has this long to end, and again as long to be cancelled."""

_READ_METHODS = ("GET", "HEAD")
_NO_OPERATOR = Operator()
_PROBES_INDEX = """reactive-desched

/livez      does the process make progress?    add ?verbose for every check
/healthz    the same as /livez
/readyz     could it evict now?                add ?verbose for every check
"""
_INDEX = f"""{_PROBES_INDEX}\
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
    operator: Operator = _NO_OPERATOR,
) -> AsyncIterator[str]:
    """Serve health and what else is given while the block runs; yield the URL.

    The address is free again after the block, which ends within a second.
    """
    app = application(health, metrics, events, operator)
    streams = frozenset() if events is None else events.clients.connections
    limit = MAX_CONNECTIONS + (0 if events is None else events.clients.limit)
    async with _serve_app(listen_socket, app, limit, streams) as (url, connections):
        if metrics is not None:
            metrics.register(connections, *(() if events is None else (events.clients,)))
        async with nullcontext() if events is None else events.open():
            try:
                yield url
            finally:
                listen_socket.close()
                if events is not None:
                    events.close()


@asynccontextmanager
async def serve_probes_at(listen_socket: ListenSocket | None, health: Health) -> AsyncIterator[str]:
    """Serve only health while the block runs, where probes have an address; yield the URL or "".

    Nothing that happens on the other address keeps a probe from its answer.
    """
    if listen_socket is None:
        yield ""
        return
    app = _application(_PROBES_INDEX)
    _add_probes(app, health)
    async with _serve_app(listen_socket, app, MAX_PROBE_CONNECTIONS) as (url, _):
        yield url


@asynccontextmanager
async def _serve_app(
    listen_socket: ListenSocket,
    app: web.Application,
    limit: int,
    streams: AbstractSet[object] = frozenset(),
) -> AsyncIterator[tuple[str, Connections]]:
    runner = web.AppRunner(
        app,
        shutdown_timeout=SHUTDOWN_S,
        handler_cancellation=True,  # a stream's client that disconnects frees its slot
    )
    await runner.setup()
    assert runner.server is not None, "setup made it"
    connections = Connections(runner.server, limit, streams)
    try:
        yield await listen_socket.serve(connections.new), connections
    finally:
        listen_socket.close()
        await runner.cleanup()


def application(
    health: Health,
    metrics: MetricsRegistry | None,
    events: EventStream | None = None,
    operator: Operator = _NO_OPERATOR,
) -> web.Application:
    """Return the routes."""
    text = _INDEX + (_INDEX_METRICS if metrics else "") + (_INDEX_EVENTS if events else "")

    app = _application(text + operator.index, order_paths(operator.orders))
    operator.add_routes(app.router)
    _add_probes(app, health)
    schemas.add_routes(app.router, schemas.read_schemas())
    if metrics is not None:
        app.router.add_get("/metrics", _metrics_handler(metrics))
    app.router.add_get("/events", _no_events if events is None else events.handle)
    return app


def _application(index_text: str, writable: AbstractSet[str] = frozenset()) -> web.Application:
    async def index(_: web.Request) -> web.Response:
        return web.Response(text=index_text)

    @web.middleware
    async def reject_writes(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in _READ_METHODS and request.path not in writable:
            raise web.HTTPMethodNotAllowed(request.method, _READ_METHODS)
        return await handler(request)

    app = web.Application(
        middlewares=[_mark_request_started, reject_writes],
        client_max_size=MAX_BODY_BYTES if writable else 1,
    )
    app.on_response_prepare.append(_add_security_headers)
    app.router.add_get("/", index)
    return app


def _add_probes(app: web.Application, health: Health) -> None:
    async def livez(request: web.Request) -> web.Response:
        return _probe_response(request, health.livez())

    async def readyz(request: web.Request) -> web.Response:
        return _probe_response(request, health.readyz())

    app.router.add_get("/livez", livez)
    app.router.add_get("/healthz", livez)  # the path of the SIG descheduler's probes
    app.router.add_get("/readyz", readyz)


async def _no_events(_: web.Request) -> web.Response:
    """Explain how to switch the stream on: any client of this address could read every event."""
    return web.Response(
        status=404,
        text="there is no stream of events: write `sinks: {stream: {}}` into the settings\n",
    )


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


async def _add_security_headers(_: web.Request, response: web.StreamResponse) -> None:
    add_security_headers(response)
