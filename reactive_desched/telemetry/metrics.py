"""Metric families: declared as constants beside the code that counts, collected at a scrape.

A component that counts has plain integers, `Family` constants in its module, and a method
`collect` that pairs the two; `MetricsRegistry.register` takes the component. Adding to an integer
takes 0.1 us, a counter of the client library 0.3-1.0 us. Everything belongs to the event loop's
thread. Label values come from our own code and from the policy, which bounds their number; where
they are names of the cluster's objects, the component that counts bounds them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

PREFIX = "reactive_desched_"

BUCKET_BOUNDS_S = (
    *(10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6),
    *(1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Upper bounds of buckets, from one pod evaluated inline to one deferred by a window."""


class Histogram:
    """Durations in seconds, counted in buckets; `bounds` are their upper bounds, in order."""

    __slots__ = ("bounds", "counts", "total_s")

    def __init__(self, bounds: Sequence[float] = BUCKET_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_s += seconds

    def copy(self) -> "Histogram":
        """Return the histogram of this moment."""
        made = Histogram(self.bounds)
        made.counts, made.total_s = self.counts.copy(), self.total_s
        return made

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, number of durations up to it) pairs, as Prometheus expects them."""
        bounds = (*(repr(bound) for bound in self.bounds), "+Inf")
        sums, so_far = [], 0
        for bound, count in zip(bounds, self.counts, strict=True):
            so_far += count
            sums.append((bound, float(so_far)))
        return sums


class Family(NamedTuple):
    """A metric family of Prometheus; `kind` is counter, gauge or histogram."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]

    def value(self, value: "float | Histogram", *labels: str) -> "Metric":
        """Return the family with one sample."""
        return Metric(self, {labels: value})

    def by_label(self, values: Mapping[str, float]) -> "Metric":
        """Return a family of one label with one sample for each value of it."""
        return Metric(self, {(label,): value for label, value in values.items()})

    def by_labels(self, values: Mapping[tuple[str, ...], float]) -> "Metric":
        """Return the family with one sample for each combination of label values."""
        return Metric(self, values)


class Metric(NamedTuple):
    """A family with its samples at the moment of a scrape, by their label values."""

    family: Family
    samples: Mapping[tuple[str, ...], float | Histogram]


class ExposedMetric(NamedTuple):
    """A metric as it is exposed: by its whole name, with its samples by their label values."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    samples: Mapping[tuple[str, ...], float | Histogram]


class Collector(Protocol):
    """A component that counts."""

    def collect(self) -> Iterable[Metric]:
        """Yield its metrics; called at each scrape, so it only reads."""
        ...


def counter(name: str, text: str, *labels: str) -> Family:
    """Declare a number that only grows; Prometheus adds `_total` to its name."""
    return Family(name, "counter", text, labels)


def gauge(name: str, text: str, *labels: str) -> Family:
    """Declare a number that is read at the moment of a scrape."""
    return Family(name, "gauge", text, labels)


def histogram(name: str, text: str) -> Family:
    """Declare durations in seconds, counted in a `Histogram`."""
    return Family(name, "histogram", text, ())
