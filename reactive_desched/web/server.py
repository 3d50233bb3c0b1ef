"""The HTTP server: small, and never in the way of an eviction."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Final

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from aiohttp.web_server import Server
from anyio import to_thread
from anyio.lowlevel import checkpoint
from msgspec import Struct

from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.web import schemas
from reactive_desched.web.access import PodAccess, TokenAccess
from reactive_desched.web.connections import Connections
from reactive_desched.web.event_stream import EventStream
from reactive_desched.web.health import Health, ProbeReport
from reactive_desched.web.in_parts import send_in_parts
from reactive_desched.web.listen_socket import ListenSocket, bound
from reactive_desched.web.operator import MAX_BODY_BYTES, Operator
from reactive_desched.web.router import Access, Handler, Router

MAX_CONNECTIONS, MAX_PROBE_CONNECTIONS = 128, 16
"""Connections to the main address, besides event streams, and to the address of the probes."""

SHUTDOWN_S = 0.4
"""A request under way has this long to end, and again as long to be cancelled."""

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


class Served(Struct, frozen=True):
    """The content of an address besides the probes; `events` without a stream names its setting."""

    health: Health
    metrics: MetricsRegistry | None = None
    events: EventStream | None = None
    operator: Operator = Operator()
    live_page: bool = False


class Security(Struct, frozen=True):
    """The access rules and the certificate; without `tls` it is plain HTTP."""

    access: Access = PodAccess()
    tls: SSLContext | None = None


_OPEN: Final = Security()


@asynccontextmanager
async def serve(listen: ListenAddress, served: Served) -> AsyncIterator[str]:
    """Take the address and serve there while the block runs; yield the URL.

    Raises ConfigError when the address is in use or not one of this machine.
    """
    async with bound(listen) as address, serve_at(address, served) as url:
        yield url


@asynccontextmanager
async def serve_at(
    listen_socket: ListenSocket, served: Served, security: Security = _OPEN
) -> AsyncIterator[str]:
    """Serve while the block runs; yield the URL.

    The address is free again after the block, which ends within a second.
    """
    router, events = _router(served, security.access), served.events
    streams = frozenset() if events is None else events.clients.connections
    limit = MAX_CONNECTIONS + (0 if events is None else events.clients.limit)
    async with _serve_routes(listen_socket, router, limit, streams, security.tls) as (
        url,
        connections,
    ):
        if served.metrics is not None:
            served.metrics.register(connections, *(() if events is None else (events.clients,)))
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
    router = Router(1, PodAccess())
    _add_index(router, _PROBES_INDEX)
    _add_probes(router, health)
    async with _serve_routes(listen_socket, router, MAX_PROBE_CONNECTIONS) as (url, _):
        yield url


@asynccontextmanager
async def _serve_routes(
    listen_socket: ListenSocket,
    router: Router,
    limit: int,
    streams: AbstractSet[object] = frozenset(),
    tls: SSLContext | None = None,
) -> AsyncIterator[tuple[str, Connections]]:
    server = Server(
        router.handle,
        request_factory=router.make_request,
        handler_cancellation=True,  # a stream's client that disconnects frees its slot
    )
    connections = Connections(server, limit, streams)
    try:
        yield await listen_socket.serve(connections.new, tls), connections
    finally:
        listen_socket.close()
        await asyncio.sleep(0)  # what was read already is answered
        server.pre_shutdown()
        await server.shutdown(SHUTDOWN_S)


def _router(served: Served, access: Access) -> Router:
    """Return the handlers of everything that is served."""
    operator, events = served.operator, served.events
    router = Router(MAX_BODY_BYTES, access)
    text = _INDEX + (_INDEX_METRICS if served.metrics else "") + (_INDEX_EVENTS if events else "")
    index = _add_index(router, text + operator.index)
    if served.live_page:
        from reactive_desched.web.live_page import add_routes  # read from disk where it is served

        add_routes(router, index)
    if isinstance(access, TokenAccess):
        access.add_routes(router)
    operator.add_routes(router)
    _add_probes(router, served.health)
    schemas.add_routes(router)
    if served.metrics is not None:
        router.add_get("/metrics", _metrics_handler(served.metrics))
    router.add_get("/events", _no_events if events is None else events.handle)
    return router


def _add_index(router: Router, text: str) -> Handler:
    async def index(_: BaseRequest) -> Response:
        return Response(text=text)

    router.add_get("/", index)
    router.open_to_all("/")
    return index


def _add_probes(router: Router, health: Health) -> None:
    async def livez(request: BaseRequest) -> Response:
        return _probe_response(request, health.livez())

    async def readyz(request: BaseRequest) -> Response:
        return _probe_response(request, health.readyz())

    router.add_get("/livez", livez)
    router.add_get("/healthz", livez)  # the path of the SIG descheduler's probes
    router.add_get("/readyz", readyz)
    router.open_to_all("/livez", "/healthz", "/readyz")


async def _no_events(_: BaseRequest) -> Response:
    """Explain how to switch the stream on: any client of this address could read every event."""
    return Response(
        status=404,
        text="there is no stream of events: write `sinks: {stream: {}}` into the settings\n",
    )


def _metrics_handler(metrics: MetricsRegistry) -> Handler:
    async def scrape(request: BaseRequest) -> StreamResponse:
        if not metrics.is_loaded:
            await to_thread.run_sync(metrics.load)
        parts, media_type = metrics.parts(",".join(request.headers.getall("Accept", [])))
        await checkpoint()
        return await send_in_parts(request, parts, {"Content-Type": media_type})

    return scrape


def _probe_response(request: BaseRequest, report: ProbeReport) -> Response:
    text = report.text(verbose="verbose" in request.query)
    return Response(status=200 if report.ok else 503, text=text)
