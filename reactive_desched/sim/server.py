"""Start the simulated API server, and write how clients reach it."""

import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web

from reactive_desched.sim.faults import FaultPlan
from reactive_desched.sim.http.app import api_application
from reactive_desched.sim.http.custom_metrics import MetricsAdapter
from reactive_desched.sim.http.discovery import Catalogue
from reactive_desched.sim.http.handler_context import HandlerContext, Settings, Usage
from reactive_desched.sim.http.identity import Identities
from reactive_desched.sim.http.ownership.managers import owners_of_controllers
from reactive_desched.sim.http.paging import Pages
from reactive_desched.sim.http.watchers import WatchHub
from reactive_desched.sim.made_up_metrics import KnownMetrics
from reactive_desched.sim.store import Store

__all__ = [
    "FaultPlan",
    "Settings",
    "Usage",
    "kubeconfig",
    "listening_socket",
    "serve",
    "serve_on",
    "url_of",
]

_DEFAULTS = Settings()
_KEEP_ALIVE_S = 3600.0
_SHUTDOWN_S = 1.0
_BACKLOG = 128


@contextmanager
def listening_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on an address, port 0 takes a free one; clients wait until the socket is served.

    Raises OSError when the address is taken or is none of this machine's.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    with socket.create_server(address[:2], family=family, backlog=_BACKLOG) as listener:
        yield listener


def url_of(listener: socket.socket) -> str:
    """Return where clients reach a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def serve(
    store: Store,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    faults: FaultPlan | None = None,
    settings: Settings = _DEFAULTS,
    usage: Usage | None = None,
) -> AsyncIterator[str]:
    """Serve the store over plain HTTP at an address, yielding the URL; see `serve_on`."""
    with listening_socket(host, port) as listener:
        async with serve_on(store, listener, faults=faults, settings=settings, usage=usage):
            yield url_of(listener)


@asynccontextmanager
async def serve_on(
    store: Store,
    listener: socket.socket,
    *,
    faults: FaultPlan | None = None,
    settings: Settings = _DEFAULTS,
    usage: Usage | None = None,
) -> AsyncIterator[None]:
    """Serve the store over plain HTTP on a listening socket, which stays the caller's.

    Leaving ends every open watch first. Without `usage` there are no metrics APIs.
    """
    plan = faults or FaultPlan()
    hub = WatchHub(store, settings.watch_buffer)
    plan.attach(hub.cut_all, store.compact)
    store.name_owners_by(owners_of_controllers(store.clock))
    rng = random.Random(store.rv)  # noqa: S311 -- a simulator on loopback has nothing to guard
    made_up = None if usage is None else KnownMetrics(store)
    adapter = None if made_up is None else MetricsAdapter(store, made_up)
    parts = HandlerContext(
        store,
        hub,
        Pages(store, settings.page_snapshots),
        settings,
        Catalogue(store.kinds, usage is not None, adapter),
        Identities(store, rng.randbytes(32)),
        rng,
        usage,
    )
    runner = web.AppRunner(
        api_application(parts, plan),
        access_log=None,
        handle_signals=False,
        # An idle watch whose client has gone would otherwise wait for its next bookmark.
        handler_cancellation=True,
        keepalive_timeout=_KEEP_ALIVE_S,
        shutdown_timeout=_SHUTDOWN_S,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener.dup()).start()
        yield
    finally:
        hub.stop()
        store.name_owners_by(None)
        if made_up is not None:
            made_up.close()
        await runner.cleanup()


def kubeconfig(url: str, name: str = "sim") -> str:
    """Return a kubeconfig file that points kubectl and every other client at the server.

    Its cluster, context and user have the name, by which several such files can be merged. That no
    certificate is verified is said because some clients refuse plain HTTP else.
    """
    return f"""\
apiVersion: v1
kind: Config
current-context: {name}
clusters:
- name: {name}
  cluster:
    server: {url}
    insecure-skip-tls-verify: true
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
users:
- name: {name}
  user: {{}}
"""
