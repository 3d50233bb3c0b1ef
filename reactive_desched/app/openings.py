"""Opens the edges of a controller: the API server's session, Events, reflectors, event stream."""

import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final

import anyio

from reactive_desched.app.options import Dependencies
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.journal.clocks import utc_now
from reactive_desched.journal.journal import Journal
from reactive_desched.kube.client.cluster_guard import ClusterGuard
from reactive_desched.kube.client.config import limits_of, rate_of
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.kube.client.session import Session, Transport, open_session
from reactive_desched.kube.codec import make_codecs
from reactive_desched.kube.watch.late_watches import LateWatches
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.resume import ServerProbe
from reactive_desched.model.observer import Observer
from reactive_desched.policy.settings.recording import StreamSettings
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.telemetry.logs import DebugLogger
from reactive_desched.web.event_stream import EventStream, StreamLimits

AnyReflector = Reflector[Any]  # every resource has its own objects

EVENT_FLUSH_TIMEOUT_S: Final = 2.0
"""How long Kubernetes Events may take to be written after the last eviction."""


def open_api_session(deps: Dependencies) -> AbstractAsyncContextManager[Session]:
    """Open the session with the API server."""
    client = deps.configuration.settings.client
    return open_session(
        deps.kube,
        limits=limits_of(client),
        rate_limit=rate_of(client),
        cluster=ClusterGuard(),
        on_credentials=partial(_log_credentials, deps),
    )


def _log_credentials(deps: Dependencies, problem: str | None) -> None:
    if problem is None:
        deps.log.info("credentials are renewed again")
    else:
        deps.log.warning("credentials are not renewed", message=problem)


def build_reflectors(
    session: Transport,
    pipeline: Pipeline,
    interned: InternTables,
    probe: ServerProbe,
    late_watches: LateWatches,
    observer: Observer,
) -> Mapping[str, AnyReflector]:
    """Build the list-watch loop of every watched kind; each feeds the kind's event handler."""
    epoch = pipeline.controller.readiness.epoch
    codecs = make_codecs(interned, pipeline.controller.state, observer.on_unread)
    return {
        resource: Reflector(
            session,
            codec,
            pipeline.event_handlers[resource],
            probe=probe,
            epoch=epoch,
            late_watches=late_watches,
        )
        for resource, codec in codecs.items()
        if resource in pipeline.event_handlers
    }


@asynccontextmanager
async def run_event_recorder(
    session: Session, log: DebugLogger, flush_timeout_s: float
) -> AsyncIterator[EventRecorder]:
    """Write Kubernetes Events while the block lasts, and for at most so long after it."""
    events = EventRecorder(session, socket.gethostname(), log.debug)
    async with background_task(events.run):
        try:
            yield events
        finally:
            with anyio.move_on_after(flush_timeout_s, shield=True):
                await events.drained()


def build_event_stream(deps: Dependencies) -> EventStream | None:
    """Build the HTTP stream of events, if the settings ask for one."""
    settings = deps.configuration.settings
    config = settings.sinks.stream
    if config is None:
        if not settings.server.ui:
            return None
        config = StreamSettings()  # the live page shows events as they happen
    limits = StreamLimits(config.max_clients, config.heartbeat_s, config.stalled_after_s)
    return EventStream(limits, utc_now, deps.log)


@asynccontextmanager
async def streamed(journal: Journal, stream: EventStream | None) -> AsyncIterator[None]:
    """Stream the journal's records; after the block write the last checkpoint, and send it."""
    async with nullcontext() if stream is None else stream.following(journal.tail):
        try:
            yield
        finally:
            await journal.finish()
            if stream is not None:
                await stream.finish()


@asynccontextmanager
async def background_task(task: Callable[[], Coroutine[Any, Any, object]]) -> AsyncIterator[None]:
    """Run a task beside the block, and cancel it at the end."""
    async with anyio.create_task_group() as group:
        group.start_soon(task)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
