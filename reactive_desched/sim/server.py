"""Start the simulated API server, and tell clients how to reach it."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from reactive_desched.sim.faults import FaultPlan
from reactive_desched.sim.http.app import api_application
from reactive_desched.sim.http.discovery import Catalogue
from reactive_desched.sim.http.identity import Identities
from reactive_desched.sim.http.paging import Pages
from reactive_desched.sim.http.parts import Parts, Usage
from reactive_desched.sim.http.settings import Settings
from reactive_desched.sim.http.watchers import WatchHub
from reactive_desched.sim.store import Store

__all__ = ["FaultPlan", "Settings", "Usage", "kubeconfig", "serve"]

_DEFAULTS = Settings()
_KEEP_ALIVE_S = 3600.0
_SHUTDOWN_S = 1.0


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
    """Serve the store over plain HTTP, yielding the URL; port 0 takes a free one.

    Leaving ends every open watch first. Without `usage` there is no metrics API.
    """
    plan = faults or FaultPlan()
    hub = WatchHub(store, settings.watch_buffer)
    plan.attach(hub.cut_all, store.compact)
    rng = random.Random(store.rv)  # noqa: S311 -- a simulator on loopback has nothing to guard
    parts = Parts(
        store,
        hub,
        Pages(store, settings.page_snapshots),
        settings,
        Catalogue(metrics=usage is not None),
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
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound_host, bound_port = runner.addresses[0][:2]
        shown = f"[{bound_host}]" if ":" in bound_host else bound_host
        yield f"http://{shown}:{bound_port}"
    finally:
        hub.stop()
        await runner.cleanup()


def kubeconfig(url: str) -> str:
    """Return a kubeconfig file that points kubectl and every other client at the server."""
    return f"""\
apiVersion: v1
kind: Config
current-context: sim
clusters:
- name: sim
  cluster:
    server: {url}
contexts:
- name: sim
  context:
    cluster: sim
    user: sim
users:
- name: sim
  user: {{}}
"""
