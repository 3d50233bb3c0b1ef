"""A node is measured to be loaded more than it should be, while others have room.

Names, defaults and steps are those of koordinator's LowNodeLoad.
"""

from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from operator import add, sub
from typing import Final

from msgspec import Struct, structs
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    INT64_MAX,
    FieldError,
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
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.index import Cluster, Index
from reactive_desched.api.plugin import View
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import Namespaces
from reactive_desched.draining.load_tables import load_tables
from reactive_desched.draining.plugin import pauses_between
from reactive_desched.model.anomaly import AnomalyDetectors, AnomalyLimits
from reactive_desched.model.changes import Change, PodEvictabilityChanged, Resynced
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.koordinator import eviction_order, is_prod
from reactive_desched.model.labels import EVERYTHING, LabelSelector, Requirement, Selector
from reactive_desched.model.node_load import (
    TARGETS,
    Level,
    LoadClass,
    LoadRule,
    exceeds,
    make_rule,
    used_amounts,
)
from reactive_desched.model.node_table import NodeTable
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import CPU, MEMORY, PODS, ResourceList
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.model.utilization import ALL
from reactive_desched.state.indexes.node_loads import (
    SOURCES,
    NodeLoadChanged,
    NodeLoads,
    PoolStandings,
    Standing,
)

UINT32_MAX: Final = 2**32 - 1

_CEILINGS: Final[Mapping[str, str]] = {
    "low_thresholds": "high_thresholds",
    "prod_high_thresholds": "high_thresholds",
    "prod_low_thresholds": "prod_high_thresholds",
}
_RULE_FIELDS: Final = (
    "low_thresholds",
    "high_thresholds",
    "prod_low_thresholds",
    "prod_high_thresholds",
)
_WRITE_BOTH: Final = "write highThresholds and lowThresholds"
_THRESHOLD_FIELDS: Final = ("high_thresholds", *_CEILINGS)
_PAIRS: Final = (
    ("low_thresholds", "high_thresholds"),
    ("prod_low_thresholds", "prod_high_thresholds"),
)

ThresholdMaps = Mapping[str, Percentages | None]
"""The four maps, by field."""


class AnomalyCondition(Section):
    """How often a node must be found overloaded before it is believed."""

    timeout_s: Seconds = Field(default=60.0, description="How long an overload is believed.")
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

    timeout_s: Seconds = Field(default=60.0, description="How long an overload is believed.")
    consecutive_abnormalities: int | None = Field(
        default=None, ge=1, le=UINT32_MAX, description="As for all nodes when left out."
    )
    consecutive_normalities: int | None = Field(
        default=None, ge=1, le=UINT32_MAX, description="As for all nodes when left out."
    )


class PodSelector(PluginArgs):
    """Pods that may leave."""

    name: str = Field(default="", description="A name for people.")
    selector: SelectorObject | None = Field(
        default=None, description="The labels of a pod must match."
    )


class LoadThresholds(PluginArgs):
    """How much load is too much and how little is room; per pool of nodes, or for all."""

    node_selector: SelectorObject | None = Field(
        default=None, description="The nodes meant; all when left out."
    )
    use_deviation_thresholds: bool = Field(
        default=False, description="Thresholds are distances from the mean of the nodes meant."
    )
    high_thresholds: Percentages | None = Field(
        default=None,
        description="A node loaded above this with any resource, in per cent, has pods to give "
        "away.",
    )
    low_thresholds: Percentages | None = Field(
        default=None,
        description="A node loaded at most this much with every resource, in per cent, has room.",
    )
    prod_high_thresholds: Percentages | None = Field(
        default=None, description="As highThresholds, for the load of production pods alone."
    )
    prod_low_thresholds: Percentages | None = Field(
        default=None, description="As lowThresholds, for the load of production pods alone."
    )
    resource_weights: Mapping[str, int] | None = Field(
        default=None,
        description="How much each resource counts when nodes and pods are put in order; 1 for "
        "those that have thresholds.",
    )

    @field_validator(*_THRESHOLD_FIELDS)
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
    """When a node counts as overloaded by measurement, and which of its pods may leave."""

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
        default=180, ge=1, le=INT64_MAX, description="A measurement this old is not believed."
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
        for_all = {field: info.data[field] for field in _THRESHOLD_FIELDS if field in info.data}
        raise_field_errors(_pool_ceiling_errors(written, for_all), info.context)
        return written

    def covers(self, pod: Pod) -> bool:
        """Say whether the namespaces and selectors let a pod leave."""
        namespaces = self.evictable_namespaces
        if namespaces.include and pod.namespace not in namespaces.include:
            return False
        if pod.namespace in namespaces.exclude:
            return False
        selectors = [each.selector for each in self.pod_selectors if each.selector is not None]
        return not selectors or any(each.matches(pod.labels) for each in selectors)

    def warnings(self) -> Iterator[FieldError]:
        """Say which thresholds do nothing, and which stop everything."""
        for_all = {field: getattr(self, field) for field in _THRESHOLD_FIELDS}
        if not (any(for_all.values()) or self.node_pools):
            yield FieldError(
                "without thresholds nothing is evicted", _WRITE_BOTH, rule=Rule.NEVER_EVICTS
            )
        yield from _threshold_warnings(for_all, for_all)
        if not self.use_deviation_thresholds:
            yield from _unreachable_warnings(for_all, for_all)
        for index, pool in enumerate(self.node_pools):
            maps, own = _with_defaults(pool, for_all), pool.model_fields_set
            found = [*_threshold_warnings(maps, own)]
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


def _with_defaults(pool: NodePool, for_all: ThresholdMaps) -> ThresholdMaps:
    """Return a pool's maps, each from above where the pool has none; an empty one is one."""
    own = {field: getattr(pool, field) for field in for_all}
    return {field: for_all[field] if own[field] is None else own[field] for field in for_all}


def _pool_ceiling_errors(
    pools: tuple[NodePool, ...], for_all: ThresholdMaps
) -> Iterator[FieldError]:
    """Check what pools inherit against what they have themselves."""
    for index, pool in enumerate(pools):
        maps = _with_defaults(pool, for_all)
        for field, ceiling in _CEILINGS.items():
            is_mixed = (getattr(pool, field) is None) != (getattr(pool, ceiling) is None)
            if is_mixed and field in maps and ceiling in maps:
                crossed = _ceiling_errors(field, maps[field], maps[ceiling])
                yield from prefixed(index, prefixed(file_key(field), crossed))


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


DEFAULT_POOL: Final = "__default_node_pool__"

EVERY_POOL: Final = "every pool"
"""The one subject: a node that one pool has handled is left out by the next."""


RESERVED_RECHECK_S: Final = 60.0
"""When a plan is made anew for which room was reserved: that it expires is no change."""


class LowNodeLoadPlugin(BalancePlugin[str, LowNodeLoadArgs]):
    """Nodes of a pool on which more is used than should be, while other nodes of it have room.

    Pools are balanced one after the other: the default one, then those under nodePools. In each,
    pods leave overloaded nodes for nodes with room, and then production pods leave nodes where
    these use too much for nodes with room for them. A node is believed to be overloaded when it was
    found so often enough (`anomalyCondition`): once per measurement, in a sweep once per pass.
    Nodes without a recent measurement neither give nor take pods.
    """

    name = "LowNodeLoad"
    indexes = (NodeLoads,)
    reacts_to = (Resynced, NodeLoadChanged, PodEvictabilityChanged)

    def __init__(self, args: LowNodeLoadArgs) -> None:
        super().__init__(args)
        self._pools = (_Pool(args), *(_Pool(args, pool) for pool in args.node_pools))
        self._passes = count(1)

    @property
    def required_indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The loads of each pool's nodes."""
        return ((NodeLoads, pool.rule) for pool in self._pools)

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name the one subject, unless only a pod may leave that is on no overloaded node."""
        if isinstance(change, PodEvictabilityChanged):
            loads = (view.index(NodeLoads, pool.rule) for pool in self._pools)
            if not any(each.is_source(change.pod.node) for each in loads):
                return ()
        return (EVERY_POOL,)

    def balance(self, subject: str, view: View) -> Plan:
        """Plan every pool by what was measured, and by the pods that left and came since."""
        del subject
        yield from self._balance_pools(_Look(view, reserved=view.reserved_by_node()))

    def sweep(self, view: View) -> Plan:
        """Plan as koordinator does: every pass is an observation, and only measured use counts."""
        yield from self._balance_pools(_Look(view, next(self._passes)))

    def describe(self, pod: Pod, view: View) -> str:
        """Say how the pod's node stands in each pool that it is in, and what keeps pods there."""
        fresh_after_s, texts = view.now_s - self.args.node_metric_expiration_seconds, []
        for pool in self._pools:
            loads = view.index(NodeLoads, pool.rule)
            rows = load_tables(
                pool.name, pool.rule, loads, fresh_after_s, self.args.number_of_nodes
            )
            for table in rows:
                if text := table.describe(pod.node):
                    texts += [text, *self._obstacles(pool), *table.obstacles]
        return "; ".join(dict.fromkeys(texts)) or f"node {pod.node} is in no pool"

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether the pod's node was measured to be loaded too much, for pods like it."""
        fresh_after_s = now_s - self.args.node_metric_expiration_seconds
        overloaded = SOURCES if is_prod(pod) else (LoadClass.HIGH,)
        return any(
            pod.node == each.load.name
            for pool in self._pools
            for each in cluster.index(NodeLoads, pool.rule).standings(fresh_after_s).of(*overloaded)
        )

    def node_tables(self, cluster: Cluster, now_s: float) -> Iterator[NodeTable]:
        """Yield up to two tables for each pool, by measured use alone as in a sweep."""
        fresh_after_s = now_s - self.args.node_metric_expiration_seconds
        for pool in self._pools:
            rule = pool.rule_for_sweeps
            loads = cluster.index(NodeLoads, rule)
            tables = load_tables(pool.name, rule, loads, fresh_after_s, self.args.number_of_nodes)
            for table in tables:
                yield structs.replace(table, obstacles=(*self._obstacles(pool), *table.obstacles))

    def _obstacles(self, pool: "_Pool") -> Iterator[str]:
        """Say what in the arguments keeps pods from moving, or until when."""
        if self.args.paused:
            yield "paused: the plugin does nothing"
        if self.args.dry_run:
            yield "dryRun: the plugin evicts nothing"
        if pool.abnormalities:
            yield (
                "an overutilized node gives pods once it was found so more than"
                f" {pool.abnormalities} times in succession;"
                f" --passes {pool.abnormalities + 1} looks so often"
            )

    def _balance_pools(self, look: "_Look") -> Plan:
        if self.args.paused:
            return
        fresh_after_s = look.view.now_s - self.args.node_metric_expiration_seconds
        handled: set[str] = set()
        for pool in self._pools:
            loads = look.view.index(NodeLoads, look.rule(pool))
            yield from pauses_between(loads.catch_up())
            left_out = () if pool.takes_every_node else tuple(handled)
            standings = loads.standings(fresh_after_s, left_out)
            if standings.of(*SOURCES) or pool.rule.deviation:
                yield from _until_too_old(loads, fresh_after_s)
            handled.update((yield from self._balance_pool(pool, standings, look)))

    def _balance_pool(
        self, pool: "_Pool", standings: PoolStandings, look: "_Look"
    ) -> Generator[Finding | RequeueAfter | YieldPoint, Decision, Sequence[str]]:
        """Plan one pool; return the overloaded nodes that it has dealt with."""
        high, prod_high = map(standings.of, SOURCES)
        sources = pool.believed(Level.NODE, high, look)
        prod_sources = pool.believed(Level.PROD, prod_high, look)
        low, both_low, prod_low = map(standings.of, TARGETS)
        with_room = len(low) + len(both_low) + len(prod_low)
        if not (with_room and (sources or prod_sources)):
            return ()
        pool.relieve(Level.NODE, [*low, *both_low])
        pool.relieve(Level.PROD, prod_low)
        if not self.args.number_of_nodes < with_room < standings.selected:
            return ()
        low, both_low, prod_low = (
            [look.with_reserved(node) for node in nodes] for nodes in (low, both_low, prod_low)
        )
        rule, running = pool.rule, _Running(self.args, pool, look)
        room = _room(rule, Level.NODE, [*low, *both_low])
        room_of_both = _room(rule, Level.NODE, both_low)
        yield from _Move(running, Level.NODE, [*low, *both_low], room).plan(sources)
        # What production pods find on the nodes with room for all is what the others left of it.
        shared = map(min, _room(rule, Level.PROD, both_low), room_of_both, room)
        prod_room = list(map(add, _room(rule, Level.PROD, prod_low), shared))
        move = _Move(running, Level.PROD, [*prod_low, *both_low], prod_room)
        yield from move.plan(prod_sources)
        pool.observe_normal(Level.NODE, sources)
        pool.observe_normal(Level.PROD, prod_sources)
        if look.reserved:
            yield RequeueAfter(RESERVED_RECHECK_S)
        return [each.load.name for each in high]


class _Look(Struct, frozen=True):
    """The cluster as it is looked at; `sweep_pass` numbers the passes of a sweep.

    In a sweep all is as koordinator has it. Else the same measurement is never counted twice, the
    use of a node follows the pods that left and came since, what is `reserved` for replacements of
    evicted pods counts as used, and a pod that stays takes no room.
    """

    view: View
    sweep_pass: int | None = None
    reserved: Mapping[str, ResourceList] = {}

    @property
    def is_sweep(self) -> bool:
        """Whether this is a pass of a sweep."""
        return self.sweep_pass is not None

    def rule(self, pool: "_Pool") -> LoadRule:
        """Return the rule by which the loads of a pool's nodes are kept."""
        return pool.rule_for_sweeps if self.is_sweep else pool.rule

    def evidence(self, node: Standing) -> float:
        """Return what distinguishes an observation of a node from the one before."""
        return node.load.sampled_s if self.sweep_pass is None else self.sweep_pass

    def with_reserved(self, target: Standing) -> Standing:
        """Add to the use of a node with room what replacements are expected to use of it."""
        if (reserved := self.reserved.get(target.load.name)) is None:
            return target
        load = target.load
        more = [reserved.get(resource, 0) for resource in load.resources]
        usage, prod_usage = (tuple(map(add, load.amounts(level), more)) for level in Level)
        load = structs.replace(load, usage=usage, prod_usage=prod_usage)
        return structs.replace(target, load=load)

    def leaving(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods that leave, and so no longer count."""
        is_leaving = self.view.is_leaving
        return [] if self.is_sweep else [pod for pod in pods if is_leaving(pod)]


class _Pool:
    """Some nodes, the thresholds that hold for them, and which of them are found overloaded."""

    def __init__(self, args: LowNodeLoadArgs, pool: NodePool | None = None) -> None:
        thresholds: ThresholdMaps = {field: getattr(args, field) for field in _THRESHOLD_FIELDS}
        if pool is not None:
            thresholds = _with_defaults(pool, thresholds)
        low, high, prod_low, prod_high = (thresholds[field] or {} for field in _RULE_FIELDS)
        own = args if pool is None else pool
        self.name = DEFAULT_POOL if pool is None else pool.name
        self.takes_every_node = own.node_selector is None
        self.high = {Level.NODE: high, Level.PROD: prod_high}
        self.rule = make_rule(
            low,
            high,
            prod_low,
            prod_high,
            deviation=own.use_deviation_thresholds,
            selector=_as_selector(own.node_selector),
        )
        self.rule_for_sweeps = structs.replace(self.rule, follows_pods=False)
        weights = None if pool is None else pool.resource_weights
        self.weights = _weights(args) if weights is None else weights
        self._condition = _condition(args, pool)
        self._detectors = {
            level: AnomalyDetectors(args.detector_cache_timeout_s) for level in Level
        }

    @property
    def abnormalities(self) -> int:
        """How often a node may be found overloaded in succession and still not be believed."""
        return 0 if self._condition.is_immediate else self._condition.abnormalities

    def believed(self, level: Level, nodes: Iterable[Standing], look: _Look) -> list[Standing]:
        """Return the nodes that were found overloaded often enough."""
        detectors = self._detectors[level]
        detectors.begin(look.view.now_s)
        return [
            node
            for node in nodes
            if detectors.observe_abnormal(node.load.name, self._condition, look.evidence(node))
        ]

    def relieve(self, level: Level, nodes: Iterable[Standing]) -> None:
        """Begin anew to count how often these nodes are found overloaded, if they were."""
        for node in nodes:
            self._detectors[level].relieve(node.load.name)

    def observe_normal(self, level: Level, nodes: Iterable[Standing]) -> None:
        """Count what follows a plan: its nodes are taken to be relieved."""
        for node in nodes:
            self._detectors[level].observe_normal(node.load.name)


class _Running:
    """What is used on each node while a plan goes on: less where pods left, more where they fit.

    `may_go_on` says whether some limit may still allow an eviction.
    """

    def __init__(self, args: LowNodeLoadArgs, pool: _Pool, look: _Look) -> None:
        self.args = args
        self.pool = pool
        self.look = look
        self.may_go_on = True
        self._used: dict[tuple[Level, str], list[int]] = {}

    def stop_at(self, exhausted: str) -> None:
        """Go on with other nodes where the limit of one is used up; else with none."""
        self.may_go_on = exhausted == "node"

    def used(self, level: Level, node: Standing) -> list[int]:
        """Return a node's use by now, for changing."""
        key = level, node.load.name
        if (found := self._used.get(key)) is None:
            found = [*used_amounts(self.pool.rule, node.load, level)]
            self._used[key] = found
        return found


class _Move:
    """Moves pods from the overloaded nodes of a level to nodes with room, while there is any."""

    def __init__(
        self, running: _Running, level: Level, targets: Sequence[Standing], room: list[int]
    ) -> None:
        self._running = running
        self._args = running.args
        self._pool = running.pool
        self._view = running.look.view
        self._resources = running.pool.rule.resources
        self._level = level
        self._targets = {target.load.name: target for target in targets}
        self._target_names = frozenset(self._targets)
        self._room = room

    def plan(self, sources: Iterable[Standing]) -> Plan:
        """Plan the sources in turn, the most loaded first."""
        weights, level = self._pool.weights, self._level
        if self._targets:
            for source in sorted(sources, key=lambda each: -each.load.score(level, weights)):
                if self._running.may_go_on:
                    yield from self._relieve(source)

    def _relieve(self, source: Standing) -> Plan:
        """Let pods leave a node until it is not overloaded, or a resource has no room left."""
        used, needs_place = self._running.used(self._level, source), self._needs_place_when_leaving
        for pod in self._candidates(source):
            if not exceeds(used, source.limits.high(self._level)):
                self._pool.relieve(self._level, [source])
                return
            if min(self._room) <= 0:
                return
            if not self._view.evictable(pod):
                continue
            place = self._find_place(pod, source) if needs_place else None
            if needs_place and place is None:
                continue
            decision = None if self._args.dry_run else (yield self._finding(pod, source))
            if decision is None or decision.pod_leaves:
                self._subtract(pod, source)
                if place is not None:
                    self._add_to(place, pod, source)
            elif decision.scope_exhausted in ("cluster", "node"):
                self._running.stop_at(decision.scope_exhausted)
                return

    @property
    def _needs_place_when_leaving(self) -> bool:
        """Whether a pod is given a place when it is its turn, and keeps it only if it leaves.

        In a sweep all that may leave are given one first, in the order of their names.
        """
        return self._args.node_fit and not self._running.look.is_sweep

    def _candidates(self, source: Standing) -> list[Pod]:
        """Return the pods of a node that may leave, those first that should leave first.

        Those that are leaving already are taken out of the node's use first.
        """
        found = self._view.pods_of(NodeSubject(source.load.name))
        pods = {
            pod.uid: pod
            for pod in (() if found is None else found[1])
            if self._level is Level.NODE or is_prod(pod)
        }
        for pod in self._running.look.leaving(pods.values()):
            self._subtract(pods.pop(pod.uid), source)
        candidates = [
            pod for pod in pods.values() if self._args.covers(pod) and self._view.evictable(pod)
        ]
        if self._args.node_fit and not self._needs_place_when_leaving:
            candidates = [pod for pod in candidates if self._is_placed(pod, source)]
        return sorted(candidates, key=partial(self._order, source, self._excess(source)))

    def _is_placed(self, pod: Pod, source: Standing) -> bool:
        """Find a place for a pod and keep it for the rest of the plan, if there is one."""
        if (place := self._find_place(pod, source)) is not None:
            self._add_to(place, pod, source)
        return place is not None

    def _find_place(self, pod: Pod, source: Standing) -> Standing | None:
        """Return a target that fits the pod and is not overloaded with it, as it was measured."""
        if str(pod) not in source.load.pods:
            return None
        more, level = self._use_of(pod, source), self._level
        with_room = [
            name
            for name, target in self._targets.items()
            if not exceeds(
                map(add, self._running.used(level, target), more), target.limits.high(level)
            )
        ]
        name = self._view.find_node_among(pod, with_room) if with_room else None
        return None if name is None else self._targets[name]

    def _use_of(self, pod: Pod, source: Standing) -> list[int]:
        measured = source.load.pods[str(pod)]
        return [measured.get(resource, 0) for resource in self._resources]

    def _add_to(self, target: Standing, pod: Pod, source: Standing) -> None:
        _add(self._running.used(self._level, target), self._use_of(pod, source))

    def _subtract(self, pod: Pod, source: Standing) -> None:
        """Take a pod out of its node's use, and what it used out of the room; all if measured."""
        if (measured := source.load.pods.get(str(pod))) is None:
            return
        less = [-1 if r == PODS else -measured.get(r, 0) for r in self._resources]
        _add(self._room, less)
        _add(self._running.used(Level.NODE, source), less)
        if self._level is Level.PROD:
            _add(self._running.used(Level.PROD, source), less)

    def _excess(self, source: Standing) -> dict[str, int]:
        """Return by how much a node's use is above its thresholds, of resources where it is."""
        used, limits = self._running.used(self._level, source), source.limits.high(self._level)
        pairs = zip(self._resources, map(sub, used, limits), strict=True)
        return {resource: amount for resource, amount in pairs if amount > 0}

    def _order(self, source: Standing, excess: ResourceList, pod: Pod) -> tuple[object, ...]:
        """Return the key by which the pods of a node leave.

        By what koordinator's labels and annotations say; then those whose use comes closest to what
        is used too much, those that were not measured last; then the youngest.
        """
        measured = source.load.pods.get(str(pod))
        relief = 0.0 if measured is None else _relief(measured, excess, self._pool.weights)
        by_use = measured is None, -relief
        return *eviction_order(pod), *by_use, -pod.created_s, pod.namespace, pod.name

    def _finding(self, pod: Pod, source: Standing) -> Finding:
        level, load, high = self._level, source.load, self._pool.high[self._level]
        used, parts = dict(zip(self._resources, self._running.used(level, source), strict=True)), []
        for resource in self._excess(source):
            capacity = load.capacity.get(resource, 0)
            percent = 100 * used[resource] / capacity if capacity else 0.0
            threshold = high.get(resource, 0.0)
            parts.append(
                f"{level.value} {resource} usage({percent:.2f}%)>threshold({threshold:.2f}%)"
            )
        return Finding(
            pod,
            LowNodeLoadPlugin.name,
            f"node is overutilized, {', '.join(parts)}",
            needs_fit=self._args.node_fit,
            targets=self._target_names,
            relieves_node=True,
            details={"nodePool": self._pool.name, "level": level.value},
        )


def _until_too_old(loads: NodeLoads, fresh_after_s: float) -> Iterator[RequeueAfter]:
    """Ask to look again when a measurement is too old: it moves the mean, and ends findings."""
    if (oldest_s := loads.oldest_sample_s(fresh_after_s)) is not None:
        yield RequeueAfter(oldest_s - fresh_after_s)


def _room(rule: LoadRule, level: Level, nodes: Iterable[Standing]) -> list[int]:
    """Return what nodes can take of each resource until they are overloaded."""
    room = [0] * len(rule.resources)
    for node in nodes:
        _add(room, map(sub, node.limits.high(level), used_amounts(rule, node.load, level)))
    return room


def _add(amounts: list[int], more: Iterable[int]) -> None:
    amounts[:] = map(add, amounts, more)


def _relief(used: ResourceList, excess: ResourceList, weights: Mapping[str, int]) -> float:
    """Say how well a pod's use fits what is used too much: 2 if it is just that, less if more."""
    score, total = 0.0, 0
    for resource, amount in used.items():
        if resource in excess:
            share = amount / excess[resource]
            weight = weights.get(resource, 0)
            score += weight * (share if share < 1 else 1 + 1 / share)
            total += weight
    return score / total if total else 0.0


def _weights(args: LowNodeLoadArgs) -> dict[str, int]:
    """Return how much each resource counts: 1 unless written, and at least 1 of what has limits."""
    written = args.resource_weights or {}
    with_thresholds = {*(args.low_thresholds or {}), *(args.high_thresholds or {}), CPU, MEMORY}
    return {**written, **{r: w if (w := written.get(r, 1)) > 0 else 1 for r in with_thresholds}}


def _condition(args: LowNodeLoadArgs, pool: NodePool | None) -> AnomalyLimits:
    """Return a pool's condition; what it leaves out is as for all, but for the timeout."""
    for_all = args.anomaly_condition
    own = None if pool is None else pool.anomaly_condition
    if own is None:
        own = PoolAnomalyCondition(timeout_s=for_all.timeout_s)
    return AnomalyLimits(
        own.consecutive_abnormalities or for_all.consecutive_abnormalities,
        own.consecutive_normalities or for_all.consecutive_normalities,
        own.timeout_s,
    )


def _as_selector(written: LabelSelector | None) -> Selector:
    if written is None:
        return EVERYTHING
    labels = (Requirement(key, "In", (value,)) for key, value in written.match_labels.items())
    return Selector((*labels, *written.match_expressions))
