"""The arguments of LowNodeLoad: thresholds, pools of nodes, and which pods may leave.

Names and defaults are those of koordinator's LowNodeLoadArgs.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Annotated, Final

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    INT64_MAX,
    FieldError,
    NodeBand,
    Percentages,
    PluginArgs,
    Seconds,
    Section,
    SelectorObject,
    file_key,
    fraction_warnings,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.possible_names import RESOURCE_NAMES, PercentByResource
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import LabelledPods, Namespaces, may_leave
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import CPU, MEMORY, PODS
from reactive_desched.model.utilization import ALL

UINT32_MAX: Final = 2**32 - 1

_CEILINGS: Final[Mapping[str, str]] = {
    "low_thresholds": "high_thresholds",
    "prod_high_thresholds": "high_thresholds",
    "prod_low_thresholds": "prod_high_thresholds",
}
RULE_FIELDS: Final = (
    "low_thresholds",
    "high_thresholds",
    "prod_low_thresholds",
    "prod_high_thresholds",
)
_WRITE_BOTH: Final = "write highThresholds and lowThresholds"
THRESHOLD_FIELDS: Final = ("high_thresholds", *_CEILINGS)
_PAIRS: Final = (
    ("low_thresholds", "high_thresholds"),
    ("prod_low_thresholds", "prod_high_thresholds"),
)

ThresholdMaps = Mapping[str, Percentages | None]
"""The four maps, by field."""


class AnomalyCondition(Section):
    """The number of observations after which a node counts as overloaded."""

    timeout_s: Seconds = Field(
        default=60.0,
        description="How long a confirmed overload counts in a sweep; the controller goes on until "
        "it is over.",
    )
    consecutive_abnormalities: int = Field(
        default=5,
        ge=1,
        le=UINT32_MAX,
        description="A node counts as overloaded when it was found so more often than this in "
        "succession.",
    )
    consecutive_normalities: int = Field(
        default=3,
        ge=1,
        le=UINT32_MAX,
        description="It counts as normal again when it was found so more often than this in "
        "succession.",
    )


class PoolAnomalyCondition(Section):
    """The same for one pool of nodes; what is left out is as for all, but for the timeout."""

    timeout_s: Seconds = Field(
        default=60.0,
        description="How long a confirmed overload counts in a sweep; the controller goes on until "
        "it is over.",
    )
    consecutive_abnormalities: int | None = Field(
        default=None, ge=1, le=UINT32_MAX, description="As for all nodes when left out."
    )
    consecutive_normalities: int | None = Field(
        default=None, ge=1, le=UINT32_MAX, description="As for all nodes when left out."
    )


class PodSelector(LabelledPods):
    """Pods that may leave."""

    name: str = Field(default="", description="A name for people.")


class LoadThresholds(PluginArgs):
    """Thresholds: pods leave above the high ones, and move below the low ones; per pool or all."""

    node_selector: SelectorObject | None = Field(
        default=None, description="The nodes meant; all when left out."
    )
    use_deviation_thresholds: bool = Field(
        default=False, description="Thresholds are distances from the mean of the nodes meant."
    )
    high_thresholds: PercentByResource | None = Field(
        default=None,
        description="A node loaded above this with any resource, in per cent, has pods to give "
        "away.",
    )
    low_thresholds: PercentByResource | None = Field(
        default=None,
        description="A node loaded at most this much with every resource, in per cent, has room.",
    )
    prod_high_thresholds: PercentByResource | None = Field(
        default=None, description="As highThresholds, for the load of production pods alone."
    )
    prod_low_thresholds: PercentByResource | None = Field(
        default=None, description="As lowThresholds, for the load of production pods alone."
    )
    resource_weights: Annotated[Mapping[str, int], RESOURCE_NAMES] | None = Field(
        default=None,
        description="How much each resource counts when nodes and pods are put in order; 1 for "
        "those that have thresholds.",
    )

    @field_validator(*THRESHOLD_FIELDS)
    @classmethod
    def _validate_thresholds(
        cls, written: Percentages | None, info: ValidationInfo
    ) -> Percentages | None:
        field = info.field_name or ""
        ceiling = info.data.get(_CEILINGS.get(field, ""))
        crossed = _ceiling_errors(field, written, ceiling)
        raise_field_errors(chain(_negative_errors(written), crossed), info.context)
        return written


class NodePool(LoadThresholds):
    """Other thresholds for some nodes; a map or condition left out is as for all nodes."""

    name: str = Field(default="", description="A name for people.")
    anomaly_condition: PoolAnomalyCondition | None = Field(
        default=None, description="How often an overload must be found; as for all when left out."
    )


class LowNodeLoadArgs(LoadThresholds):
    """Arguments: when a node counts as overloaded by measurement, and which pods may leave it."""

    model_config = ConfigDict(alias_generator=file_key)

    anomaly_condition: AnomalyCondition = Field(
        default=AnomalyCondition(), description="How often an overload must be found."
    )
    paused: bool = Field(default=False, description="Do nothing.")
    dry_run: bool = Field(default=False, description="Decide everything, evict nothing.")
    number_of_nodes: int = Field(
        default=0, ge=0, le=2**31 - 1, description="Act only when more nodes than this have room."
    )
    node_metric_expiration_seconds: int = Field(
        default=180, ge=1, le=INT64_MAX, description="A measurement this old is ignored."
    )
    evictable_namespaces: Namespaces = Field(
        default=Namespaces(),
        description="Namespaces whose pods may leave; all when left out. Others' pods still count "
        "as load.",
    )
    pod_selectors: tuple[PodSelector, ...] = Field(
        default=(), description="Only pods that match one of these may leave; all when left out."
    )
    node_fit: bool = Field(
        default=True, description="Evict only pods that fit on some node with room."
    )
    detector_cache_timeout_s: Seconds = Field(
        default=300.0, description="How long what was found of a node is remembered."
    )
    node_pools: tuple[NodePool, ...] = Field(
        default=(), description="Other thresholds for some nodes."
    )

    @field_validator("node_pools")
    @classmethod
    def _validate_node_pools(
        cls, written: tuple[NodePool, ...], info: ValidationInfo
    ) -> tuple[NodePool, ...]:
        for_all = {field: info.data[field] for field in THRESHOLD_FIELDS if field in info.data}
        raise_field_errors(_pool_ceiling_errors(written, for_all), info.context)
        return written

    def covers(self, pod: Pod) -> bool:
        """Say whether the namespaces and selectors let a pod leave."""
        return may_leave(pod, self.evictable_namespaces, self.pod_selectors)

    def node_bands(self) -> Iterator[NodeBand]:
        """Yield the nodes that are filled, and those that are drained, for each pool."""
        for_all = {field: getattr(self, field) for field in THRESHOLD_FIELDS}
        pools = (
            (self, for_all),
            *((pool, with_defaults(pool, for_all)) for pool in self.node_pools),
        )
        for pool, maps in pools:
            low, high = maps["low_thresholds"] or {}, maps["high_thresholds"] or {}
            if pool.use_deviation_thresholds or self.paused or self.dry_run or not (low and high):
                continue
            drains = {resource: high[resource] for resource in high if resource in low}
            yield NodeBand(fills=low, drains=drains, nodes=pool.node_selector)

    def warnings(self) -> Iterator[FieldError]:
        """Say which thresholds do nothing, and which stop everything."""
        for_all = {field: getattr(self, field) for field in THRESHOLD_FIELDS}
        if not (any(for_all.values()) or self.node_pools):
            yield FieldError(
                "without thresholds nothing is evicted", _WRITE_BOTH, rule=Rule.NEVER_EVICTS
            )
        yield from _weight_warnings(self.resource_weights, for_all)
        yield from _threshold_warnings(for_all, for_all)
        if not self.use_deviation_thresholds:
            yield from _unreachable_warnings(for_all, for_all)
        for index, pool in enumerate(self.node_pools):
            maps, own = with_defaults(pool, for_all), pool.model_fields_set
            found = [
                *_weight_warnings(pool.resource_weights, maps),
                *_threshold_warnings(maps, own),
            ]
            if not pool.use_deviation_thresholds:
                found += _unreachable_warnings(maps, own)
            yield from prefixed("nodePools", prefixed(index, found))


def _negative_errors(written: Percentages | None) -> Iterator[FieldError]:
    """Refuse what is no share of a node; above 100 is allowed."""
    for resource, percent in (written or {}).items():
        if percent < 0:
            message = f"must be at least 0 per cent, not {percent:g}"
            yield FieldError(message, "", (resource,), rule=Rule.THRESHOLD_RANGE)


def _ceiling_errors(
    field: str, written: Percentages | None, ceiling: Percentages | None
) -> Iterator[FieldError]:
    """Refuse a threshold above the one that bounds it."""
    for resource, percent in (written or {}).items():
        if ceiling is not None and resource in ceiling and percent > ceiling[resource]:
            bound = file_key(_CEILINGS[field])
            message = f"must not be above {bound}, which has {ceiling[resource]:g}"
            yield FieldError(
                message,
                f"lower it from {percent:g}",
                (resource,),
                rule=Rule.THRESHOLD_PAIR,
            )


def with_defaults(pool: NodePool, for_all: ThresholdMaps) -> ThresholdMaps:
    """Return a pool's maps, each from above where the pool has none; an empty one is one."""
    own = {field: getattr(pool, field) for field in for_all}
    return {field: for_all[field] if own[field] is None else own[field] for field in for_all}


def _pool_ceiling_errors(
    pools: tuple[NodePool, ...], for_all: ThresholdMaps
) -> Iterator[FieldError]:
    """Check what pools inherit against what they have themselves."""
    for index, pool in enumerate(pools):
        maps = with_defaults(pool, for_all)
        for field, ceiling in _CEILINGS.items():
            is_mixed = (getattr(pool, field) is None) != (getattr(pool, ceiling) is None)
            if is_mixed and field in maps and ceiling in maps:
                crossed = _ceiling_errors(field, maps[field], maps[ceiling])
                yield from prefixed(index, prefixed(file_key(field), crossed))


def _weight_warnings(
    weights: Mapping[str, int] | None, maps: ThresholdMaps
) -> Iterator[FieldError]:
    """Say which weights count as another, as in koordinator."""
    counting = {CPU, MEMORY, *(maps["low_thresholds"] or {}), *(maps["high_thresholds"] or {})}
    for resource, weight in (weights or {}).items():
        if weight < 1 and resource in counting:
            path = (file_key("resource_weights"), resource)
            yield FieldError(
                "a weight below 1 counts as 1", "write 1 or more", path, rule=Rule.NO_EFFECT
            )


def _threshold_warnings(maps: ThresholdMaps, own: Collection[str]) -> Iterator[FieldError]:
    """Say what the maps in force lack, where one of them is its own."""
    for low, high in _PAIRS:
        lows, highs = maps[low] or {}, maps[high] or {}
        if low not in own and high not in own:
            continue
        for resource in highs.keys() - lows.keys():
            message = f"has no effect: {file_key(low)} has no {resource}"
            yield FieldError(
                message, "add it there", (file_key(high), resource), rule=Rule.NO_EFFECT
            )
        for resource in lows.keys() - highs.keys():
            message = f"{file_key(high)} has no {resource}, which counts as 0"
            hint = "add it there: as it is, nothing is evicted"
            yield FieldError(message, hint, (file_key(low), resource), rule=Rule.NEVER_EVICTS)
    for field in own:
        yield from prefixed(file_key(field), fraction_warnings(maps.get(field)))


def _unreachable_warnings(maps: ThresholdMaps, own: Collection[str]) -> Iterator[FieldError]:
    """Say which thresholds no measured node meets, unless those of production pods count.

    A node on which no production pod runs uses nothing for these, so 0 says something there; so it
    does of other resources than a node uses by itself.
    """
    lows, highs = maps["low_thresholds"] or {}, maps["high_thresholds"] or {}
    if maps["prod_low_thresholds"] or maps["prod_high_thresholds"]:
        return
    if "low_thresholds" in own:
        for resource in (each for each in (CPU, MEMORY, PODS) if lows.get(each) == 0):
            message = (
                "only a node without a single pod has room, and few are without DaemonSets"
                if resource == PODS
                else f"no node has room: each uses some {resource} for itself"
            )
            path = (file_key("low_thresholds"), resource)
            yield FieldError(message, "raise it", path, rule=Rule.NEVER_EVICTS)
    counting = [percent for resource, percent in highs.items() if resource in lows]
    if "high_thresholds" in own and counting and min(counting) >= ALL:
        message = "a node uses hardly ever more than all that pods may request of it"
        hint = "write less than 100 for one resource at least"
        field = file_key("high_thresholds")
        yield FieldError(message, hint, (field,), rule=Rule.NEVER_EVICTS)
