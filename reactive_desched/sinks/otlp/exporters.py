"""Sends metrics and log lines to a collector while a process runs, and what is left at its end.

Neither holds the event loop, for a request is written a portion at a time, nor the end of the
process, for longer than FLUSH_TIMEOUT_S.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio import to_thread

from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.policy.settings.otlp import OtlpEndpoint, OtlpMetricsSettings
from reactive_desched.sinks.otlp.collector import (
    MISSING_PACKAGE,
    PARTLY_TAKEN,
    TAKEN,
    OtlpCollector,
)
from reactive_desched.sinks.sink_runner import RetryBackoff
from reactive_desched.telemetry.line_queue import LineQueue, lines_are_not_queued
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge
from reactive_desched.telemetry.registry import MetricsRegistry

if TYPE_CHECKING:
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

FLUSH_TIMEOUT_S: Final = 2.0
"""At the end the rest is sent for so long; not at all where the collector took nothing before."""

LINES_EVERY_S: Final = 1.0
MAX_LINES_AT_ONCE: Final = 256
"""So many lines are in one request; more follow at once."""

SENT: Final = counter(
    "telemetry_requests",
    "Requests with metrics or log lines to a collector, by the signal and whether it took them.",
    "signal",
    "result",
)
DROPPED: Final = counter(
    "telemetry_dropped_lines",
    "Log lines that no collector has: too many waited, or it refused them; standard error has"
    " them all.",
)
REJECTED: Final = counter(
    "telemetry_rejected",
    "Points of metrics and log lines that a collector dropped of requests that it took.",
    "signal",
)
UP: Final = gauge(
    "telemetry_up", "1 while a collector takes this signal; 0 until it has taken some.", "signal"
)


Send = Callable[[bytes], Awaitable[bool]]
"""Sends a request, and says whether it was taken; raises SinkUnavailable."""


class Origin:
    """The process that a signal comes from, and its cluster, once that is identified."""

    def __init__(self, instance: str, cluster: str = "") -> None:
        self.instance = instance
        self.cluster = cluster

    def identify(self, cluster: str) -> None:
        """Name the cluster from now on."""
        self.cluster = cluster


class Content(Protocol):
    """The part that is sent again and again; `every_s` is the pause in between."""

    @property
    def every_s(self) -> float:
        """Return the pause between two times."""
        ...

    async def send_all(self, send: Send) -> None:
        """Send what there is now; raises SinkUnavailable, and what was not sent comes again."""
        ...


class Export:
    """Sends the requests of one signal, and counts and logs how that goes."""

    def __init__(
        self,
        endpoint: OtlpEndpoint,
        collector: OtlpCollector,
        log: Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.signal = endpoint.signal
        self.is_up = False
        self.counts = {"sent": 0, "failed": 0, "refused": 0}
        self.rejected = 0
        self._log = log
        self._warned_of = TAKEN
        self._collector = collector
        self._backoff = RetryBackoff(f"telemetry.{self.signal}", Random(), clock, log)  # noqa: S311 -- pauses, no secrets

    @property
    def error(self) -> str:
        """Return why the signal does not reach the collector; empty where nothing keeps it."""
        return self._backoff.current_error

    async def send(self, request: bytes) -> bool:
        """Send a request; say whether it was taken. Raises SinkUnavailable."""
        try:
            answer = await self._collector.send(request)
        except SinkUnavailable:
            self.counts["failed"] += 1
            self.is_up = False
            raise
        except EventRejected as error:
            self.counts["refused"] += 1
            self.is_up = False
            await self.wait(error)
            return False
        self.counts["sent"] += 1
        self.is_up = True
        self._backoff.recovered()
        self.rejected += answer.dropped
        if answer and answer != self._warned_of:
            self._warned_of = answer  # the same again is counted alone
            dropped = {"signal": self.signal, "dropped": answer.dropped, "answer": answer.message}
            self._log.warning(PARTLY_TAKEN, **dropped)
        return True

    async def wait(self, error: SinkUnavailable | EventRejected) -> None:
        """Log an error when that is due, and wait before the next request."""
        await self._backoff.wait(str(error), getattr(error, "retry_after_s", None))

    async def run(self, content: Content) -> None:
        """Send until it is cancelled; then once more, where the collector took the last one."""
        with lines_are_not_queued():
            try:
                await self._repeat(content)
            finally:
                with anyio.move_on_after(FLUSH_TIMEOUT_S, shield=True):
                    await self._flush(content)
                with anyio.move_on_after(FLUSH_TIMEOUT_S, shield=True):
                    await self._collector.close()

    async def _flush(self, content: Content) -> None:
        if self.error:
            return
        with suppress(SinkUnavailable):
            await content.send_all(self.send)

    async def _repeat(self, content: Content) -> None:
        pause_s = content.every_s
        while True:
            await anyio.sleep(pause_s)
            pause_s = content.every_s
            try:
                await content.send_all(self.send)
            except SinkUnavailable as error:
                await self.wait(error)
                pause_s = 0.0

    def collect(self) -> Iterator[Metric]:
        """Yield what became of the requests."""
        yield SENT.by_labels({(self.signal, result): n for result, n in self.counts.items()})
        yield REJECTED.by_label({self.signal: self.rejected})
        yield UP.by_label({self.signal: self.is_up})


@asynccontextmanager
async def running(*exports: tuple[Export, Content]) -> AsyncIterator[None]:
    """Send while the block lasts; after it what is left is sent, of all at the same time."""
    async with anyio.create_task_group() as tasks:
        for export, content in exports:
            tasks.start_soon(export.run, content)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


class MetricsContent:
    """The metrics of a registry; those of a request that failed stand in the next one."""

    def __init__(
        self,
        settings: OtlpMetricsSettings,
        registry: MetricsRegistry,
        origin: Origin,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.every_s = settings.interval_s
        self._settings = settings
        self._registry = registry
        self._origin = origin
        self._wall_ns = wall_ns
        self._began_ns = wall_ns()

    async def send_all(self, send: Send) -> None:
        """Send every metric of this moment."""
        source = await _source(self._settings, self._origin)
        if not self._registry.is_loaded:
            await to_thread.run_sync(self._registry.load)
        from reactive_desched.sinks.otlp.points import requests

        metrics = self._registry.exposed()
        async for request in requests(metrics, source, self._began_ns, self._wall_ns()):
            await send(request)


class LinesContent:
    """The lines of a queue, in their order; each is sent until it is taken or refused."""

    every_s = LINES_EVERY_S

    def __init__(
        self,
        settings: OtlpEndpoint,
        queue: LineQueue,
        origin: Origin,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._origin = origin
        self._wall_ns = wall_ns
        self._batch: Sequence[Mapping[str, Any]] = ()  # whatever was logged
        self._refused = 0

    async def send_all(self, send: Send) -> None:
        """Send every line that waits by now, but not those about what is sent."""
        left = len(self._batch) + len(self._queue)
        while left > 0:
            source = await _source(self._settings, self._origin)
            from reactive_desched.sinks.otlp.lines import request

            self._batch = self._batch or self._queue.take(min(left, MAX_LINES_AT_ONCE))
            if not await send(await request(self._batch, source, self._wall_ns())):
                self._refused += len(self._batch)
            left -= len(self._batch)
            self._batch = ()

    def collect(self) -> Iterator[Metric]:
        """Yield how many lines no collector has."""
        yield DROPPED.value(self._queue.dropped + self._refused)


async def _source(endpoint: OtlpEndpoint, origin: Origin) -> "Resource":
    """Return what a signal comes from, in the messages of a package that is an extra.

    They are imported by another thread, for that takes a tenth of a second.
    """
    try:
        await to_thread.run_sync(_load_messages)
    except ModuleNotFoundError as error:
        raise SinkUnavailable(f"telemetry.{endpoint.signal}{MISSING_PACKAGE}") from error
    from reactive_desched.sinks.otlp.messages import resource

    return resource(endpoint, origin.instance, origin.cluster)


def _load_messages() -> None:
    for name in ("messages", "lines", "points"):
        import_module(f"reactive_desched.sinks.otlp.{name}")
