"""Sends metrics and log lines to collectors of OpenTelemetry, where the settings name some."""

import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from reactive_desched.app.options import Dependencies
from reactive_desched.journal.cluster import UNNAMED, ClusterIdentity
from reactive_desched.policy.settings.otlp import TelemetrySettings

if TYPE_CHECKING:  # loaded where the settings name a collector
    from reactive_desched.sinks.otlp.exporters import Content, Export, Origin


class Telemetry:
    """The signals that are sent; none where the settings name no collector."""

    def __init__(self, origin: "Origin | None" = None, *exports: "Export") -> None:
        self._origin = origin
        self._exports = exports

    def set_cluster(self, cluster: ClusterIdentity) -> None:
        """Name the cluster in what is sent from now on, as the source of events has it."""
        if self._origin is not None:
            self._origin.identify(cluster.name or UNNAMED)

    def errors(self) -> Iterator[tuple[str, str]]:
        """Yield each signal that does not reach its collector, with the reason."""
        for export in self._exports:
            if export.error:
                yield f"telemetry.{export.signal}", export.error


@asynccontextmanager
async def open_telemetry(deps: Dependencies) -> AsyncIterator[Telemetry]:
    """Send while the block lasts, and what is left for a moment after it."""
    settings = deps.configuration.settings.telemetry
    if settings.metrics is None and settings.logs is None:
        yield Telemetry()
        return
    from reactive_desched.sinks.otlp.exporters import Origin, running

    origin = Origin(socket.gethostname())
    exports = [*_exports(deps, settings, origin)]
    deps.metrics.register(*(export for export, _ in exports))
    async with running(*exports):
        yield Telemetry(origin, *(export for export, _ in exports))


def _exports(
    deps: Dependencies, settings: TelemetrySettings, origin: "Origin"
) -> "Iterator[tuple[Export, Content]]":
    """Yield each signal with its content."""
    from reactive_desched.sinks.otlp.collector import open_collector
    from reactive_desched.sinks.otlp.exporters import Export, LinesContent, MetricsContent

    if settings.logs is not None and deps.lines is not None:
        lines = LinesContent(settings.logs, deps.lines, origin)
        deps.metrics.register(lines)
        yield Export(settings.logs, open_collector(settings.logs, time.time), deps.log), lines
    if settings.metrics is not None:
        metrics = MetricsContent(settings.metrics, deps.metrics, origin)
        yield (
            Export(settings.metrics, open_collector(settings.metrics, time.time), deps.log),
            metrics,
        )
