"""A node's pods use more of it than its share, while other nodes have room for some of them."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import ClassVar

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    Count,
    FieldError,
    NodeBand,
    Percentages,
    PluginArgs,
    SignedCount,
    fix_to,
    fraction_warnings,
    percentage_errors,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.possible_names import PercentByResource
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ExcludedNamespaces
from reactive_desched.api.usage_source import source_names
from reactive_desched.draining.plugin import DrainingPlugin
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.resources import CPU, MEMORY, PODS, ResourceList
from reactive_desched.model.usage import MetricsSourceKind
from reactive_desched.model.utilization import (
    ALL,
    METRIC_RESOURCE,
    REQUESTS,
    NodeClass,
    NodeUse,
    Thresholds,
    UtilizationRule,
    as_limits,
)
from reactive_desched.primitives.hints import did_you_mean, quote, sole_near_name


class PrometheusQuery(PluginArgs):
    """A query for Prometheus."""

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
        json_schema_extra={"enum": ["", *MetricsSourceKind]},
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
    """Arguments: the thresholds of over- and underutilized nodes, and how use is measured."""

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
    thresholds: PercentByResource = Field(
        default={},
        validate_default=True,
        description="Required. A node that uses at most this much of every resource listed, in per "
        "cent, has room for others' pods.",
    )
    target_thresholds: PercentByResource = Field(
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
        raise_field_errors(_threshold_errors(written, info), info.context)
        return written

    @field_validator("target_thresholds")
    @classmethod
    def _validate_target_thresholds(cls, written: Percentages, info: ValidationInfo) -> Percentages:
        alone = _threshold_errors(written, info)
        raise_field_errors(chain(alone, _pair_errors(written, info)), info.context)
        return written

    @property
    def metrics_source(self) -> str:
        """The kind of the source of measured use; empty where the requests of pods count."""
        measured = self.metrics_utilization
        if measured is None:
            return ""
        return MetricsSourceKind.KUBERNETES if measured.metrics_server else measured.source

    @property
    def source(self) -> str:
        """The source of use as samples name it; one without samples where none can be asked."""
        measured = self.metrics_utilization
        if measured is None:
            return REQUESTS
        if (kind := self.metrics_source) and kind != MetricsSourceKind.PROMETHEUS:
            return kind
        query = "" if measured.prometheus is None else measured.prometheus.query
        return f"{kind}/{query}"

    def node_bands(self) -> Iterator[NodeBand]:
        """Yield the nodes that are filled, and those that are drained."""
        if not self.use_deviation_thresholds and self.eviction_limits.node != 0:
            yield NodeBand(fills=self.thresholds, drains=self.target_thresholds)

    def warnings(self) -> Iterator[FieldError]:
        """Say what is accepted and probably means something else."""
        yield from prefixed("thresholds", fraction_warnings(self.thresholds))
        yield from prefixed("targetThresholds", fraction_warnings(self.target_thresholds))
        if self.metrics_source == MetricsSourceKind.KUBERNETES:
            yield from prefixed("thresholds", _unmeasured_warnings(self.thresholds))
            if not self.use_deviation_thresholds:
                yield from prefixed("thresholds", _always_used_warnings(self.thresholds))
        elif self.target_thresholds and min(self.target_thresholds.values()) >= ALL:
            hint = "write less than 100 for one resource at least"
            message = "no node is used above 100 %, so none gives pods away"
            yield FieldError(message, hint, ("targetThresholds",), rule=Rule.NEVER_EVICTS)
        if not self.use_deviation_thresholds and self.thresholds.get(PODS) == 0:
            message = "only a node without a single pod has room, and few are without DaemonSets"
            yield FieldError(message, path=("thresholds", PODS), rule=Rule.NEVER_EVICTS)
        if self.eviction_limits.node == 0:
            message, path = "no pod may leave a node", ("evictionLimits", "node")
            hint = "raise it, or remove it: then there is no limit"
            yield FieldError(message, hint, path, rule=Rule.NEVER_EVICTS)


class SpreadRule(UtilizationRule, frozen=True):
    """Overutilized nodes give pods away; underutilized ones take them, unless cordoned."""

    gives: ClassVar[str] = "overutilized"
    takes: ClassVar[str] = "underutilized and not cordoned"
    filled_by: ClassVar[str] = "LowNodeUtilization"

    def is_source(self, node: Node, node_class: NodeClass) -> bool:
        """Say whether the node gives pods away; a cordoned one does as well."""
        del node
        return node_class is NodeClass.OVERUTILIZED

    def is_destination(self, node: Node, node_class: NodeClass) -> bool:
        """Say whether the node takes pods."""
        return node_class is NodeClass.UNDERUTILIZED and self.is_open(node)

    def can_act(self, sources: int, destinations: int) -> bool:
        """Say whether there is a source, and more destinations than are left alone."""
        return sources > 0 and destinations > self.number_of_nodes


class LowNodeUtilizationPlugin(DrainingPlugin[LowNodeUtilizationArgs]):
    """Pods of nodes that are used too much, while other nodes are hardly used.

    A node is underutilized if it uses no resource above `thresholds`, and overutilized if it uses
    any above `targetThresholds`; cordoned nodes do not count as underutilized. The node that uses
    most gives pods away first, until it uses nothing above its target, and as long as the
    underutilized nodes together have something left of every resource: of those with thresholds up
    to the target, of cpu, memory and pods up to what they have.

    In the controller's judgement a threshold is about the nodes that have some of its resource: a
    node is judged by those thresholds alone, and one that none of them is about neither gives pods
    nor takes them. What its pods request must be so for `guards.standingTimes.nodeUse` before it
    gives pods away. In a sweep a node uses 0 % of what it lacks, as the SIG descheduler has it.
    """

    name = "LowNodeUtilization"
    needs_spreading = True

    def __init__(self, args: LowNodeUtilizationArgs) -> None:
        rule = SpreadRule(
            as_limits(args.thresholds),
            as_limits(args.target_thresholds),
            deviation=args.use_deviation_thresholds,
            source=args.source,
            number_of_nodes=args.number_of_nodes,
        )
        super().__init__(args, rule)

    def order(self, source: NodeUse) -> int:
        """Begin with the node that uses most, by upstream's sum over all units."""
        return -sum(source.used.values())

    def gives_more(self, used: ResourceList, allowed: ResourceList) -> bool:
        """Say whether the node still uses some resource above its target."""
        return any(amount > allowed[resource] for resource, amount in used.items())

    def may_leave(self, pod: Pod) -> bool:
        """Leave pods of excluded namespaces alone; they count as use all the same."""
        return pod.namespace not in self.args.evictable_namespaces.exclude

    @property
    def node_limit(self) -> int | None:
        """The limit asked for; one where single pods cannot be measured, as upstream."""
        limit = self.args.eviction_limits.node
        return 1 if limit is None and self.rule.tracked == (METRIC_RESOURCE,) else limit

    def explain(self, source: NodeUse, thresholds: Thresholds) -> tuple[str, dict[str, int | str]]:
        """Name the resource that is used most beyond its target."""
        target = thresholds.high
        resource, percent = source.most_beyond(target)
        message = (
            f"node {source.name} is overutilized: {source.measured} {percent:.1f} % of its "
            f"{resource}, above its target of {target[resource]:g} %"
        )
        details: dict[str, int | str] = {
            "resource": resource,
            "usedPercent": int(percent),
            "targetPercent": int(target[resource]),
        }
        return message, details


def _unmeasured_warnings(thresholds: Percentages) -> Iterator[FieldError]:
    """Warn of resources that the metrics API does not have: no node's use is known then."""
    for resource in thresholds:
        if resource not in (CPU, MEMORY, PODS):
            message = f"the metrics API measures cpu and memory, no {resource}: nothing is evicted"
            yield FieldError(
                message, "remove it, or let requests count", (resource,), rule=Rule.NEVER_EVICTS
            )


def _always_used_warnings(thresholds: Percentages) -> Iterator[FieldError]:
    """Warn of a measured use that no node is within: the system itself uses some."""
    for resource in (CPU, MEMORY):
        if thresholds.get(resource) == 0:
            message = f"no node has room: each uses some {resource} for itself"
            yield FieldError(message, "raise it", (resource,), rule=Rule.NEVER_EVICTS)


def _source_errors(source: str, info: ValidationInfo) -> Iterator[FieldError]:
    """Check the source, and that the deprecated switch does not ask for one as well."""
    is_switched = info.data.get("metrics_server")  # None where it is no true or false
    names: Sequence[str] = tuple(MetricsSourceKind)
    if source and source not in names and source not in (names := source_names()):
        hint = did_you_mean(source, names)
        yield FieldError(
            f"{quote(source)} is not a source of metrics",
            hint,
            lenient_ok=True,
            rule=Rule.METRICS_SOURCE,
            fix=fix_to(sole_near_name(source, names)),
        )
    elif is_switched and source:
        message = "only one of source and metricsServer can count"
        is_accepted = source != MetricsSourceKind.KUBERNETES
        yield FieldError(
            message,
            "remove metricsServer: it is deprecated",
            lenient_ok=is_accepted,
            rule=Rule.DEPRECATED_BESIDE_NEW,
        )
    elif is_switched is False and not source:
        hint = f"write source: {MetricsSourceKind.KUBERNETES} or {MetricsSourceKind.PROMETHEUS}"
        yield FieldError("is required", hint, lenient_ok=True, rule=Rule.METRICS_SOURCE)


def _query_errors(prometheus: PrometheusQuery | None, source: str) -> Iterator[FieldError]:
    """Check that there is a query exactly where Prometheus is asked."""
    query = prometheus.query if prometheus is not None else ""
    if source == MetricsSourceKind.PROMETHEUS and not query:
        message = f"a query is required for source {source}"
        yield FieldError(
            message, "write prometheus: {query: …} beside source", rule=Rule.PROMETHEUS
        )
    elif source and source != MetricsSourceKind.PROMETHEUS and prometheus is not None:
        message = f"is not for source {source}"
        yield FieldError(
            message,
            f"remove it, or write source: {MetricsSourceKind.PROMETHEUS}",
            rule=Rule.PROMETHEUS,
        )


def _threshold_errors(written: Percentages, info: ValidationInfo) -> Iterator[FieldError]:
    """Check one map by itself, and against what is measured."""
    yield from percentage_errors(written)
    measured = info.data.get("metrics_utilization")
    by_query = measured is not None and measured.source == MetricsSourceKind.PROMETHEUS
    if by_query and written and set(written) != {METRIC_RESOURCE}:
        message = f"must have {METRIC_RESOURCE} alone, not {', '.join(sorted(written))}"
        yield FieldError(
            message,
            f"a Prometheus query measures one resource: {METRIC_RESOURCE}",
            rule=Rule.METRICS_SOURCE,
        )


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
        message = "thresholds and targetThresholds must have the same resources"
        yield FieldError(message, "; ".join(unmatched), rule=Rule.THRESHOLD_PAIR)
    if info.data.get("use_deviation_thresholds") is False:
        yield from _crossed_errors(low, high)


def _crossed_errors(low: Percentages, high: Percentages) -> Iterator[FieldError]:
    """Refuse a lower threshold above the upper one."""
    for name in sorted(low.keys() & high.keys()):
        if low[name] > high[name]:
            message = f"must not be below thresholds.{name}, which is {low[name]:g}"
            hint = f"raise it from {high[name]:g}, or lower thresholds.{name}"
            yield FieldError(message, hint, (name,), rule=Rule.THRESHOLD_PAIR)
