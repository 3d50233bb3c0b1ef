"""Exposes the metrics of all collectors; imports the client library at the first scrape."""

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING

from reactive_desched._version import __version__
from reactive_desched.telemetry.metrics import (
    PREFIX,
    Collector,
    ExposedMetric,
    Family,
    Histogram,
    Metric,
    gauge,
)
from reactive_desched.telemetry.sig_compat import UpstreamMetrics

if TYPE_CHECKING:
    import prometheus_client

BUILD = gauge("build_info", "Always 1.", "version", "python")
DRY_RUN = gauge("dry_run", "1 in a dry run, which sends no eviction request; else 0.")


class MetricsRegistry:
    """The collectors of one controller; an object passed in, not a global.

    `upstream` exposes some of the same under the names of the SIG descheduler, with `old_names`
    also under those of its earlier releases.
    """

    def __init__(self, *, dry_run: bool = False, old_names: bool = False) -> None:
        self._dry_run = dry_run
        self.upstream = UpstreamMetrics(old_names=old_names)
        self._collectors: list[Collector] = []
        self._process: prometheus_client.CollectorRegistry | None = None

    def register(self, *collectors: Collector) -> None:
        """Expose what these components count."""
        self._collectors += collectors

    @property
    def is_loaded(self) -> bool:
        """Say whether the client library is imported."""
        return self._process is not None

    def load(self) -> None:
        """Import the client library: some ten milliseconds, in which another thread may run."""
        import prometheus_client.exposition  # noqa: F401 -- what `parts` asks for

        self._process_registry()

    def collect(self) -> Iterator[Metric]:
        """Yield each family once, with the samples of all collectors that have it."""
        samples: dict[Family, dict[tuple[str, ...], float | Histogram]] = {}
        for collector in self._collectors:
            for metric in collector.collect():
                samples.setdefault(metric.family, {}).update(metric.samples)
        yield from (Metric(family, values) for family, values in samples.items())
        yield BUILD.value(1, __version__, platform.python_version())
        yield DRY_RUN.value(self._dry_run)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return everything in the text format the Accept header asks for, and its media type."""
        parts, media_type = self.parts(accept)
        return b"".join(parts), media_type

    def parts(self, accept: str) -> tuple[Iterator[bytes], str]:
        """Return the same in parts, each of one family or of a hundred lines.

        All numbers are of this moment: what is counted between two parts stands in none. So the
        event loop can do other work in between.
        """
        from prometheus_client.exposition import choose_encoder

        try:
            encode, media_type = choose_encoder(accept)
        except (TypeError, ValueError):  # the header names a version that does not exist
            encode, media_type = choose_encoder("")
        openmetrics = "openmetrics" in media_type
        end = b"# EOF\n" if openmetrics else b""
        metrics = [_snapshot(metric) for metric in self.collect()]
        upstream = self.upstream.parts(openmetrics=openmetrics)

        def render() -> Iterator[bytes]:
            yield encode(self._process_registry()).removesuffix(end)
            for metric in metrics:
                yield encode(_Family(metric)).removesuffix(end)
            for part in upstream:
                yield part.encode()
            yield end

        return render(), media_type

    def exposed(self) -> list[ExposedMetric]:
        """Return everything that is exposed, but for old names, as it is at this moment.

        `load` must have been called.
        """
        own = [_exposed(_snapshot(metric)) for metric in self.collect()]
        process = map(_exposed_by_library, self._process_registry().collect())
        return [*process, *own, *self.upstream.exposed()]

    def _process_registry(self) -> "prometheus_client.CollectorRegistry":
        """Return a registry of the client library with the collectors of the process."""
        if self._process is None:
            from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

            self._process = CollectorRegistry(auto_describe=False)
            ProcessCollector(registry=self._process)
            GCCollector(registry=self._process)
        return self._process


class _Family:
    """A family as a registry of the client library."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> "Iterator[prometheus_client.Metric]":
        yield _converted(self._metric)


def _snapshot(metric: Metric) -> Metric:
    """Return a metric that later counting does not change."""
    samples = {
        labels: value.copy() if isinstance(value, Histogram) else value
        for labels, value in metric.samples.items()
    }
    return Metric(metric.family, samples)


def _exposed(metric: Metric) -> ExposedMetric:
    """Return a metric under the name that `_converted` gives it."""
    name, kind, text, labels = metric.family
    whole_name = PREFIX + name + ("_total" if kind == "counter" else "")
    return ExposedMetric(whole_name, kind, text, labels, metric.samples)


def _exposed_by_library(metric: "prometheus_client.Metric") -> ExposedMetric:
    """Return a counter or gauge of the client library; it has no others of a process."""
    samples = [each for each in metric.samples if not each.name.endswith("_created")]
    labels = tuple(samples[0].labels) if samples else ()
    values = {tuple(each.labels.values()): each.value for each in samples}
    name = metric.name + ("_total" if metric.type == "counter" else "")
    return ExposedMetric(name, metric.type, metric.documentation, labels, values)


def _converted(metric: Metric) -> "prometheus_client.Metric":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    name, text, labels = PREFIX + metric.family.name, metric.family.help, metric.family.labels
    if metric.family.kind == "histogram":
        histograms = HistogramMetricFamily(name, text, labels=labels)
        for values, timing in metric.samples.items():
            assert isinstance(timing, Histogram), f"{name} takes histograms"
            histograms.add_metric(values, timing.cumulative(), timing.total_s)
        return histograms
    kind = CounterMetricFamily if metric.family.kind == "counter" else GaugeMetricFamily
    numbers = kind(name, text, labels=labels)
    for values, value in metric.samples.items():
        assert not isinstance(value, Histogram), f"{name} takes numbers"
        numbers.add_metric(values, value)
    return numbers
