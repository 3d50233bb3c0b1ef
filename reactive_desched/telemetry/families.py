"""How metrics are made at a scrape; the client library is imported only then."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reactive_desched.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client import Metric

PREFIX = "reactive_desched_"


def counter(
    name: str, help_text: str, labels: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> "Metric":
    """Return a family of counters by the values of their labels."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(PREFIX + name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def gauge(
    name: str, help_text: str, labels: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> "Metric":
    """Return a family of gauges by the values of their labels."""
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(PREFIX + name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def histogram(name: str, help_text: str, durations: Histogram) -> "Metric":
    """Return a histogram without labels."""
    from prometheus_client.core import HistogramMetricFamily

    return HistogramMetricFamily(
        PREFIX + name, help_text, buckets=durations.cumulative(), sum_value=durations.total_s
    )
