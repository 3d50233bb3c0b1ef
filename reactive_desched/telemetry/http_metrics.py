"""What is told of the HTTP server: who was not served, and why."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from reactive_desched.telemetry.families import counter

if TYPE_CHECKING:
    from prometheus_client import Metric


class HttpMetricsSource(Protocol):
    """What is read of the server."""

    malformed: int
    crowded_out: int


def http_families(http: HttpMetricsSource) -> "Iterator[Metric]":
    """Yield the families of the server."""
    text = "Requests that could not be read, answered with 400."
    yield counter("http_malformed_requests", text, [], {(): http.malformed})
    text = "Connections closed because there were too many."
    yield counter("http_connections_crowded_out", text, [], {(): http.crowded_out})
