"""A node's pods use more of it than its share, while other nodes have room for some of them."""

from collections.abc import Iterator
from enum import StrEnum
from itertools import chain
from typing import Final

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    Count,
    FieldError,
    Percentages,
    PluginArgs,
    SignedCount,
    fraction_warnings,
    percentage_errors,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.scope import ExcludedNamespaces
from reactive_desched.primitives.hints import did_you_mean, quote

METRIC_RESOURCE: Final = "MetricResource"
"""What thresholds are about where a Prometheus query measures."""


class UtilizationSource(StrEnum):
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
        json_schema_extra={"enum": ["", *UtilizationSource]},
    )
    prometheus: PrometheusQuery | None = Field(
        default=None,
        validate_default=True,
        description="What to ask Prometheus; required for that source.",
    )

    @field_validator("source")
    @classmethod
    def _validate_source(cls, source: str, info: ValidationInfo) -> str:
        raise_field_errors(_source_errors(source, info), info.context)
        return source

    @field_validator("prometheus")
    @classmethod
    def _validate_prometheus(
        cls, prometheus: PrometheusQuery | None, info: ValidationInfo
    ) -> PrometheusQuery | None:
        if (source := info.data.get("source")) is not None:
            raise_field_errors(_query_errors(prometheus, source), info.context)
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
    def _validate_thresholds(cls, written: Percentages, info: ValidationInfo) -> Percentages:
        raise_field_errors(_threshold_errors("thresholds", written, info), info.context)
        return written

    @field_validator("target_thresholds")
    @classmethod
    def _validate_target_thresholds(cls, written: Percentages, info: ValidationInfo) -> Percentages:
        alone = _threshold_errors("targetThresholds", written, info)
        raise_field_errors(chain(alone, _pair_errors(written, info)), info.context)
        return written

    def warnings(self) -> Iterator[FieldError]:
        """Say what is accepted and probably means something else."""
        yield from prefixed("thresholds", fraction_warnings(self.thresholds))
        yield from prefixed("targetThresholds", fraction_warnings(self.target_thresholds))


def _source_errors(source: str, info: ValidationInfo) -> Iterator[FieldError]:
    """Check the source, and that the deprecated switch does not ask for one as well."""
    is_switched = info.data.get("metrics_server")  # None where it is no true or false
    if source and source not in tuple(UtilizationSource):
        hint = did_you_mean(source, tuple(UtilizationSource))
        yield FieldError(f"unrecognized metrics source {quote(source)}", hint, lenient_ok=True)
    elif is_switched and source:
        message = f'it is not allowed to set both "{source}" source and metricsServer'
        is_accepted = source != UtilizationSource.KUBERNETES
        yield FieldError(message, "remove metricsServer: it is deprecated", lenient_ok=is_accepted)
    elif is_switched is False and not source:
        hint = f"write source: {UtilizationSource.KUBERNETES} or {UtilizationSource.PROMETHEUS}"
        yield FieldError("metrics source is empty", hint, lenient_ok=True)


def _query_errors(prometheus: PrometheusQuery | None, source: str) -> Iterator[FieldError]:
    """Check that there is a query exactly where Prometheus is asked."""
    query = prometheus.query if prometheus is not None else ""
    if source == UtilizationSource.PROMETHEUS and not query:
        message = f'prometheus query is required when metrics source is set to "{source}"'
        yield FieldError(message, "write prometheus: {query: …} beside source")
    elif source == UtilizationSource.KUBERNETES and prometheus is not None:
        message = f'prometheus configuration is not allowed to set when source is set to "{source}"'
        yield FieldError(message, f"remove it, or write source: {UtilizationSource.PROMETHEUS}")


def _threshold_errors(
    field: str, written: Percentages, info: ValidationInfo
) -> Iterator[FieldError]:
    """Check one map by itself, and against what is measured."""
    yield from percentage_errors(written, f"{field} config is not valid: ")
    measured = info.data.get("metrics_utilization")
    by_query = measured is not None and measured.source == UtilizationSource.PROMETHEUS
    if by_query and written and set(written) != {METRIC_RESOURCE}:
        message = (
            f'{field} are expected to specify a single instance of "{METRIC_RESOURCE}" resource, '
            f"got [{' '.join(sorted(written))}] instead"
        )
        yield FieldError(message, f"a Prometheus query measures one resource: {METRIC_RESOURCE}")


def _pair_errors(high: Percentages, info: ValidationInfo) -> Iterator[FieldError]:
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
        yield FieldError(message, "; ".join(unmatched))
    if info.data.get("use_deviation_thresholds") is False:
        yield from _crossed_errors(low, high)


def _crossed_errors(low: Percentages, high: Percentages) -> Iterator[FieldError]:
    """Refuse a lower threshold above the upper one."""
    for name in sorted(low.keys() & high.keys()):
        if low[name] > high[name]:
            message = f"thresholds' {name} percentage is greater than targetThresholds'"
            hint = f"{low[name]:g} is above {high[name]:g}"
            yield FieldError(message, hint, (name,))
