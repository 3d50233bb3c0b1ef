"""What is told of the event stream over HTTP: how many follow it, and what became of others."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from reactive_desched.metric_families import counter, gauge

if TYPE_CHECKING:
    from prometheus_client import Metric


class StreamNumbers(Protocol):
    """What is read of the stream."""

    clients: int
    turned_away: int
    cut: int
    sent: int
    resets: int


def stream_families(stream: StreamNumbers) -> "Iterator[Metric]":
    """Yield the families of the stream."""
    text = "Clients of the event stream at this moment."
    yield gauge("stream_clients", text, [], {(): stream.clients})
    text = "Clients turned away because all places were taken."
    yield counter("stream_turned_away", text, [], {(): stream.turned_away})
    text = "Clients cut because they took nothing for too long."
    yield counter("stream_cut", text, [], {(): stream.cut})
    text = "Events handed to clients; one that goes to two of them counts twice."
    yield counter("stream_sent", text, [], {(): stream.sent})
    text = "Clients told that the place they asked for is gone."
    yield counter("stream_resets", text, [], {(): stream.resets})
