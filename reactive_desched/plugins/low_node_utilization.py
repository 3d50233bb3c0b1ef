"""A node's pods use more of it than its share, while other nodes have room for some of them."""

from collections.abc import Iterator
from enum import StrEnum
from itertools import chain
from typing import Final

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.plugin import PluginArgs
from reactive_desched.api.scope import ExcludedNamespaces
from reactive_desched.policy.diagnostics import Complaint, quoted, refuse_if_any, under
from reactive_desched.policy.fields import Count, SignedCount
from reactive_desched.policy.hints import did_you_mean
from reactive_desched.policy.percentages import Percentages, below_one, out_of_range

METRIC_RESOURCE: Final = "MetricResource"
"""What thresholds are about where a Prometheus query measures."""


class MetricsSource(StrEnum):
    """Where measured use comes from."""

    KUBERNETES = "KubernetesMetrics"
    PROMETHEUS = "Prometheus"


class PrometheusQuery(PluginArgs):
    """What to ask Prometheus."""

    query: str = Field(
        default="",
        description="A query with one sample per node, between 0 and 1, labelled instance.",
    )


class MetricsUtilization(PluginArgs):
    """Measured use instead of the requests of pods."""

    metrics_server: bool = Field(
        default=False, description="Deprecated: source: KubernetesMetrics."
    )
    source: str = Field(
        default="",
        validate_default=True,
        description="KubernetesMetrics or Prometheus, configured under metricsProviders as well.",
        json_schema_extra={"enum": ["", *MetricsSource]},
    )
    prometheus: PrometheusQuery | None = Field(
        default=None,
        validate_default=True,
        description="What to ask Prometheus; required for that source.",
    )

    @field_validator("source")
    @classmethod
    def _one_source(cls, source: str, info: ValidationInfo) -> str:
        refuse_if_any(_source_complaints(source, info), info.context)
        return source

    @field_validator("prometheus")
    @classmethod
    def _fits_source(
        cls, prometheus: PrometheusQuery | None, info: ValidationInfo
    ) -> PrometheusQuery | None:
        if (source := info.data.get("source")) is not None:
            refuse_if_any(_query_complaints(prometheus, source), info.context)
        return prometheus


class EvictionLimits(PluginArgs):
    """Limits of this plugin alone, beside those of the policy."""

    node: Count | None = Field(
        default=None, description="Evictions per node and cycle (or window); 0 means none."
    )


class LowNodeUtilizationArgs(PluginArgs):
    """When a node counts as used too much or hardly, and how its use is measured."""

    evictable_namespaces: ExcludedNamespaces = Field(
        default=ExcludedNamespaces(), description="Namespaces whose pods stay where they are."
    )
    metrics_utilization: MetricsUtilization | None = Field(
        default=None, description="Measured use; without it the requests of pods count."
    )
    use_deviation_thresholds: bool = Field(
        default=False,
        description="Thresholds are distances from the mean of all nodes: below and above it.",
    )
    thresholds: Percentages = Field(
        default={},
        validate_default=True,
        description="Required. A node that uses at most this much of every resource listed, in per "
        "cent, has room for others' pods.",
    )
    target_thresholds: Percentages = Field(
        default={},
        validate_default=True,
        description="Required. A node that uses more than this of any resource listed, in per "
        "cent, has pods to give away.",
    )
    number_of_nodes: SignedCount = Field(
        default=0, description="Act only when more nodes than this have room."
    )
    eviction_limits: EvictionLimits = Field(
        default=EvictionLimits(), description="Limits of this plugin alone."
    )

    @field_validator("thresholds")
    @classmethod
    def _low(cls, written: Percentages, info: ValidationInfo) -> Percentages:
        refuse_if_any(_threshold_complaints("thresholds", written, info), info.context)
        return written

    @field_validator("target_thresholds")
    @classmethod
    def _high(cls, written: Percentages, info: ValidationInfo) -> Percentages:
        alone = _threshold_complaints("targetThresholds", written, info)
        refuse_if_any(chain(alone, _pair_complaints(written, info)), info.context)
        return written

    def notes(self) -> Iterator[Complaint]:
        """Say what is accepted and probably means something else."""
        yield from under("thresholds", below_one(self.thresholds))
        yield from under("targetThresholds", below_one(self.target_thresholds))


def _source_complaints(source: str, info: ValidationInfo) -> Iterator[Complaint]:
    """Check the source, and that the deprecated switch does not ask for one as well."""
    is_switched = info.data.get("metrics_server")  # None where it is no true or false
    if source and source not in tuple(MetricsSource):
        hint = did_you_mean(source, tuple(MetricsSource))
        yield Complaint(f"unrecognized metrics source {quoted(source)}", hint, forgivable=True)
    elif is_switched and source:
        message = f'it is not allowed to set both "{source}" source and metricsServer'
        is_accepted = source != MetricsSource.KUBERNETES
        yield Complaint(message, "remove metricsServer: it is deprecated", forgivable=is_accepted)
    elif is_switched is False and not source:
        hint = f"write source: {MetricsSource.KUBERNETES} or {MetricsSource.PROMETHEUS}"
        yield Complaint("metrics source is empty", hint, forgivable=True)


def _query_complaints(prometheus: PrometheusQuery | None, source: str) -> Iterator[Complaint]:
    """Check that there is a query exactly where Prometheus is asked."""
    query = prometheus.query if prometheus is not None else ""
    if source == MetricsSource.PROMETHEUS and not query:
        message = f'prometheus query is required when metrics source is set to "{source}"'
        yield Complaint(message, "write prometheus: {query: …} beside source")
    elif source == MetricsSource.KUBERNETES and prometheus is not None:
        message = f'prometheus configuration is not allowed to set when source is set to "{source}"'
        yield Complaint(message, f"remove it, or write source: {MetricsSource.PROMETHEUS}")


def _threshold_complaints(
    field: str, written: Percentages, info: ValidationInfo
) -> Iterator[Complaint]:
    """Check one map by itself, and against what is measured."""
    yield from out_of_range(written, f"{field} config is not valid: ")
    measured = info.data.get("metrics_utilization")
    by_query = measured is not None and measured.source == MetricsSource.PROMETHEUS
    if by_query and written and set(written) != {METRIC_RESOURCE}:
        message = (
            f'{field} are expected to specify a single instance of "{METRIC_RESOURCE}" resource, '
            f"got [{' '.join(sorted(written))}] instead"
        )
        yield Complaint(message, f"a Prometheus query measures one thing: {METRIC_RESOURCE}")


def _pair_complaints(high: Percentages, info: ValidationInfo) -> Iterator[Complaint]:
    """Check the maps against each other, where both say something."""
    low: Percentages = info.data.get("thresholds", {})
    if not (low and high):
        return
    unmatched = [
        *(f"targetThresholds has no {name}" for name in sorted(low.keys() - high.keys())),
        *(f"thresholds has no {name}" for name in sorted(high.keys() - low.keys())),
    ]
    if unmatched:
        message = "thresholds and targetThresholds configured different resources"
        yield Complaint(message, "; ".join(unmatched))
    if info.data.get("use_deviation_thresholds") is False:
        yield from _crossed(low, high)


def _crossed(low: Percentages, high: Percentages) -> Iterator[Complaint]:
    """Refuse a lower threshold above the upper one."""
    for name in sorted(low.keys() & high.keys()):
        if low[name] > high[name]:
            message = f"thresholds' {name} percentage is greater than targetThresholds'"
            hint = f"{low[name]:g} is above {high[name]:g}"
            yield Complaint(message, hint, (name,))
