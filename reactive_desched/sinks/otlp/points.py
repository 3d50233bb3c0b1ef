"""Turns metrics into the requests that export them, a portion at a time.

Numbers are cumulative, as those of /metrics: what a collector misses stands in the next request.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from anyio.lowlevel import checkpoint
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    Gauge,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Histogram as Timings
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reactive_desched.sinks.otlp.messages import SCOPE, attributes
from reactive_desched.telemetry.metrics import ExposedMetric, Histogram

MAX_POINTS: Final = 2_000
"""So many series are in one request: at most some 1 MiB, while collectors take 4 MiB over gRPC."""

POINTS_AT_ONCE: Final = 40
"""So many are written in one turn of the event loop: half a millisecond."""

Samples = Mapping[tuple[str, ...], float | Histogram]


async def requests(
    metrics: Iterable[ExposedMetric], source: Resource, began_ns: int, now_ns: int
) -> AsyncIterator[bytes]:
    """Yield the requests that export the metrics; their counters began at `began_ns`."""
    message, scope, count = *_empty(source), 0
    for metric in metrics:
        samples = iter(metric.samples.items())
        while portion := dict(islice(samples, POINTS_AT_ONCE)):
            scope.metrics.append(_message(metric, portion, began_ns, now_ns))
            count += len(portion)
            await checkpoint()
            if count >= MAX_POINTS:
                yield message.SerializeToString()
                message, scope, count = *_empty(source), 0
    if count:
        yield message.SerializeToString()


def _empty(source: Resource) -> tuple[ExportMetricsServiceRequest, ScopeMetrics]:
    """Return a request, and the place in it where metrics are added: to copy them would last."""
    message = ExportMetricsServiceRequest(
        resource_metrics=[
            ResourceMetrics(resource=source, scope_metrics=[ScopeMetrics(scope=SCOPE)])
        ]
    )
    return message, message.resource_metrics[0].scope_metrics[0]


def _message(metric: ExposedMetric, samples: Samples, began_ns: int, now_ns: int) -> Metric:
    """Return a metric with some of its samples."""
    match metric.kind:
        case "histogram":
            timings = Timings(
                data_points=_timings(metric, samples, began_ns, now_ns),
                aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE,
            )
            return Metric(name=metric.name, description=metric.help, histogram=timings)
        case "counter":
            counted = Sum(
                data_points=_numbers(metric, samples, began_ns, now_ns),
                aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE,
                is_monotonic=True,
            )
            return Metric(name=metric.name, description=metric.help, sum=counted)
    # A gauge began at no time: one that has such a time is taken for a counter.
    current = Gauge(data_points=_numbers(metric, samples, 0, now_ns))
    return Metric(name=metric.name, description=metric.help, gauge=current)


def _numbers(
    metric: ExposedMetric, samples: Samples, began_ns: int, now_ns: int
) -> Iterator[NumberDataPoint]:
    for values, number in samples.items():
        assert not isinstance(number, Histogram), f"{metric.name} takes numbers"
        yield NumberDataPoint(
            attributes=_labels(metric, values),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            as_double=number,
        )


def _timings(
    metric: ExposedMetric, samples: Samples, began_ns: int, now_ns: int
) -> Iterator[HistogramDataPoint]:
    for values, timing in samples.items():
        assert isinstance(timing, Histogram), f"{metric.name} takes histograms"
        yield HistogramDataPoint(
            attributes=_labels(metric, values),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            count=sum(timing.counts),
            sum=timing.total_s,
            bucket_counts=timing.counts,
            explicit_bounds=timing.bounds,
        )


def _labels(metric: ExposedMetric, values: tuple[str, ...]) -> list[KeyValue]:
    return attributes(dict(zip(metric.labels, values, strict=True)))
