"""The nodes of one pool as a plan of LowNodeLoad sees them, and which count as overloaded."""

from collections.abc import Generator, Iterable, Mapping
from operator import add
from typing import Final

from msgspec import Struct, structs

from reactive_desched.api.plugin import View
from reactive_desched.draining.load_args import (
    RULE_FIELDS,
    THRESHOLD_FIELDS,
    LowNodeLoadArgs,
    NodePool,
    PoolAnomalyCondition,
    ThresholdMaps,
    with_defaults,
)
from reactive_desched.model.anomaly import AnomalyDetectors, AnomalyLimits
from reactive_desched.model.labels import as_selector
from reactive_desched.model.node_load import (
    Level,
    LoadRule,
    make_rule,
)
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import CPU, MEMORY, ResourceList
from reactive_desched.state.indexes.node_loads import (
    LoadedNode,
)

DEFAULT_POOL: Final = "__default_node_pool__"


class LoadView(Struct, frozen=True):
    """The cluster as a plan sees it; `sweep_pass` numbers the passes of a sweep.

    In a sweep all is as koordinator has it. Else the same measurement is never counted twice, the
    use of a node follows the pods that left and came since, what is `reserved` for replacements of
    evicted pods counts as used, and a pod that stays takes no room.
    """

    view: View
    sweep_pass: int | None = None
    reserved: Mapping[str, ResourceList] = {}

    @property
    def is_sweep(self) -> bool:
        """Say whether this is a pass of a sweep."""
        return self.sweep_pass is not None

    def rule(self, pool: "LoadPool") -> LoadRule:
        """Return the rule by which the loads of a pool's nodes are kept."""
        return pool.rule_for_sweeps if self.is_sweep else pool.rule

    def evidence(self, node: LoadedNode) -> float:
        """Return what distinguishes an observation of a node from the one before."""
        return node.load.sampled_s if self.sweep_pass is None else self.sweep_pass

    def with_reserved(self, target: LoadedNode) -> LoadedNode:
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


class LoadPool:
    """Some nodes, the thresholds that hold for them, and which of them are found overloaded."""

    def __init__(self, args: LowNodeLoadArgs, pool: NodePool | None = None) -> None:
        thresholds: ThresholdMaps = {field: getattr(args, field) for field in THRESHOLD_FIELDS}
        if pool is not None:
            thresholds = with_defaults(pool, thresholds)
        low, high, prod_low, prod_high = (thresholds[field] or {} for field in RULE_FIELDS)
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
            selector=as_selector(own.node_selector),
        )
        self.rule_for_sweeps = structs.replace(self.rule, follows_pods=False)
        weights = None if pool is None else pool.resource_weights
        self.weights = _weights(args) if weights is None else weights
        self._condition = _condition(args, pool)
        self._detectors = {
            level: AnomalyDetectors(args.detector_cache_timeout_s) for level in Level
        }
        self._giving: dict[Level, frozenset[str]] = {}

    @property
    def abnormalities(self) -> int:
        """Return how often in succession a node is found overloaded before it counts as that."""
        return 0 if self._condition.is_immediate else self._condition.abnormalities

    def confirmed(
        self, level: Level, nodes: Iterable[LoadedNode], look: LoadView
    ) -> Generator[None, None, list[LoadedNode]]:
        """Return the nodes that were found overloaded often enough; a node in each step.

        The controller goes on with such a node until it is relieved; in a sweep, as by koordinator,
        an overload counts for the condition's timeout.
        """
        detectors, giving = self._detectors[level], self._giving.get(level, frozenset())
        detectors.begin(look.view.now_s)
        found: list[LoadedNode] = []
        for node in nodes:
            name, evidence = node.load.name, look.evidence(node)
            if detectors.observe_abnormal(name, self._condition, evidence) or name in giving:
                found.append(node)
            yield
        if not look.is_sweep:
            self._giving[level] = frozenset(node.load.name for node in found)
        return found

    def relieve(self, level: Level, nodes: Iterable[LoadedNode]) -> None:
        """Begin again to count how often these nodes are found overloaded, if they were."""
        names = [node.load.name for node in nodes]
        for name in names:
            self._detectors[level].relieve(name)
        self._giving[level] = self._giving.get(level, frozenset()).difference(names)

    def observe_normal(self, level: Level, nodes: Iterable[LoadedNode]) -> None:
        """Count what follows a plan: its nodes are taken to be relieved."""
        for node in nodes:
            self._detectors[level].observe_normal(node.load.name)


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
