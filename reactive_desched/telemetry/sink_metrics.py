"""What is told of those who follow the journal: how much they have, and how far behind they are."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from reactive_desched.telemetry.families import counter, gauge

if TYPE_CHECKING:
    from prometheus_client import Metric

_LABELS = ["sink"]


class SinkMetricsSource(Protocol):
    """What is read of one sink's relay; `trouble` is empty while nothing is wrong."""

    delivered: int
    retries: int
    dead_letters: int
    lost: int

    @property
    def lag_records(self) -> int:
        """How many records it does not have yet."""
        ...

    @property
    def lag_s(self) -> float:
        """How long ago the oldest of them was recorded."""
        ...

    @property
    def error(self) -> str:
        """What keeps it from getting them."""
        ...


def sink_families(sinks: Mapping[str, SinkMetricsSource]) -> "Iterator[Metric]":
    """Yield the families of all sinks, by their names."""

    def each(read: Callable[[SinkMetricsSource], float]) -> dict[tuple[str, ...], float]:
        return {(name,): read(sink) for name, sink in sinks.items()}

    text = "Records safely delivered; one that is sent again counts again."
    yield counter("sink_delivered", text, _LABELS, each(lambda one: one.delivered))
    text = "Deliveries that failed and were tried again."
    yield counter("sink_retries", text, _LABELS, each(lambda one: one.retries))
    text = "Records that the sink will never take, kept in its dead-letter file."
    yield counter("sink_dead_letters", text, _LABELS, each(lambda one: one.dead_letters))
    text = "Records removed from the journal before the sink had them."
    yield counter("sink_lost", text, _LABELS, each(lambda one: one.lost))
    text = "Durable records that the sink does not have yet."
    yield gauge("sink_lag_records", text, _LABELS, each(lambda one: one.lag_records))
    text = "Age of the oldest record that the sink does not have yet; 0 when it has all."
    yield gauge("sink_lag_seconds", text, _LABELS, each(lambda one: one.lag_s))
    text = "1 while the sink takes what it is given."
    yield gauge("sink_up", text, _LABELS, each(lambda one: not one.error))
