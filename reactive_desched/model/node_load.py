"""The measured load of nodes, and their classes by thresholds, as koordinator has them.

Amounts are cpu in milli-cores and everything else in whole units; percentages are 64-bit floats,
and the amount that a percentage comes to is cut off, not rounded.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from enum import Enum, auto
from operator import gt, itemgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.consolidation import is_closed_to_others
from reactive_desched.model.koordinator import is_prod
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.resources import MEMORY, PODS, ResourceList
from reactive_desched.model.usage import NodeMetric, NodeUsage
from reactive_desched.model.utilization import Percentages, Thresholds

_ALL: Final = 100.0
_MEANS_NOTHING: Final = 0.0
NO_BOUND: Final = 2**63 - 1
"""The threshold of a resource that a node lacks, as an amount: nothing is above it."""

_NO_ROOM: Final = -1
"""The low threshold of a node that a level is not about, or that is emptied: nothing is within."""


class Level(Enum):
    """The pods whose use is compared: all pods of a node, or its production pods alone."""

    NODE = "node"
    """All that is used on a node."""
    PROD = "prod"
    """What its production pods use."""


class Bounds(Struct, frozen=True):
    """Per cent of each resource up to which a node has room, and above which it is overloaded."""

    low: tuple[float, ...]
    high: tuple[float, ...]


class LoadRule(Struct, frozen=True):
    """The thresholds of one pool of nodes, in the order of `resources`.

    With `deviation` they are distances from the mean of the pool. `selector` says which nodes the
    pool has. With `follows_pods`, as the controller counts, measured pods that have left their node
    since count no longer, and pods that came since count with their requests; and a threshold is
    about the nodes that have some of its resource. Else, as koordinator has it, a node uses 0 % of
    what it lacks.
    """

    resources: tuple[str, ...]
    node: Bounds
    prod: Bounds
    deviation: bool = False
    selector: Selector = EVERYTHING
    follows_pods: bool = True

    @property
    def counted(self) -> tuple[str, ...]:
        """The resources whose use is kept: those of the rule, and the number of pods."""
        return self.resources if PODS in self.resources else (*self.resources, PODS)

    def bounds(self, level: Level) -> Bounds:
        """Return the thresholds of a level."""
        return self.node if level is Level.NODE else self.prod

    def written(self, level: Level) -> Thresholds:
        """Return the thresholds of a level, of those resources that have any."""
        bounds, without = self.bounds(level), _without(deviation=self.deviation)
        pairs = dict(zip(self.resources, zip(bounds.low, bounds.high, strict=True), strict=True))
        written = {r: pair for r, pair in pairs.items() if pair != (without, without)}
        return Thresholds(
            {r: low for r, (low, _) in written.items()},
            {r: high for r, (_, high) in written.items()},
        )

    def is_about(self, level: Level, capacity: ResourceList) -> bool:
        """Say whether a node has some of a resource that has a threshold on a level."""
        limited = self.written(level).low
        return not self.follows_pods or not limited or any(map(capacity.get, limited))

    def means(self, level: Level, means: "Means") -> Percentages:
        """Return the means of a level by resource."""
        values = means.node if level is Level.NODE else means.prod
        return dict(zip(self.resources, values, strict=True))


def make_rule(
    low: Percentages,
    high: Percentages,
    prod_low: Percentages,
    prod_high: Percentages,
    *,
    deviation: bool = False,
    selector: Selector = EVERYTHING,
) -> LoadRule:
    """Build a rule from the thresholds of a policy.

    A resource without a low threshold has no threshold at all, whatever its high one; one without
    a high threshold is overloaded by any use. Memory always counts.
    """
    resources = sorted({*low, *high, *prod_low, *prod_high, MEMORY})
    without = _without(deviation=deviation)
    return LoadRule(
        tuple(resources),
        _filled(low, high, resources, without),
        _filled(prod_low, prod_high, resources, without),
        deviation,
        selector,
    )


def _without(*, deviation: bool) -> float:
    """Return the pair of thresholds of a resource that the policy does not limit."""
    return _MEANS_NOTHING if deviation else _ALL


def _filled(
    low: Percentages, high: Percentages, resources: Iterable[str], without: float
) -> Bounds:
    pairs = [(low[r], high.get(r, 0.0)) if r in low else (without, without) for r in resources]
    return Bounds(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))


Amounts = tuple[int, ...]
"""An amount for each of some resources, in their order."""


class NodeLoad(Struct, frozen=True, gc=False):
    """The use of one node, in all and by its production pods, and its capacity.

    Both uses are amounts of `resources`, those that the rule counts: first come the ones that have
    thresholds in `Ceilings`, in the same order. `pods` is what each measured pod uses, by
    "namespace/name". `sampled_s` is when it was measured, in seconds since the epoch.
    """

    node: Node
    resources: tuple[str, ...]
    usage: Amounts
    prod_usage: Amounts
    sampled_s: float
    pods: Mapping[str, ResourceList] = {}

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def capacity(self) -> ResourceList:
        """Return what the use is a share of."""
        node = self.node
        return node.allocatable if node.load_capacity is None else node.load_capacity

    def amounts(self, level: Level) -> Amounts:
        """Return what is used on a level, in the order of `resources`."""
        return self.usage if level is Level.NODE else self.prod_usage

    def used(self, level: Level) -> ResourceList:
        """Return what is used on a level, by resource."""
        return dict(zip(self.resources, self.amounts(level), strict=True))

    def percent(self, level: Level, resource: str) -> float:
        """Return the use of a resource in per cent, 0 of what the node does not have."""
        capacity = self.capacity.get(resource, 0)
        used = self.used(level).get(resource, 0)
        return float(used) / float(capacity) * _ALL if capacity else 0.0

    def score(self, level: Level, weights: Mapping[str, int]) -> int:
        """Return the weighted use in thousandths, by which nodes are put in order."""
        used, capacity = self.used(level), self.capacity
        total = sum(weights.get(resource, 0) for resource in used)
        if not total:
            return 0
        return (
            sum(
                weights.get(r, 0) * _thousandths(amount, capacity.get(r, 0))
                for r, amount in used.items()
            )
            // total
        )


def _thousandths(amount: int, capacity: int) -> int:
    return min(amount, capacity) * 1000 // capacity if capacity else 0


def measure(rule: LoadRule, node: Node, pods: Collection[Pod], sample: NodeUsage) -> NodeLoad:
    """Return what is used on a node, by a sample and the pods on it now."""
    measured, counted, came, prod = sample.pods, set[str](), list[ResourceList](), []
    for pod in pods:
        key = f"{pod.namespace}/{pod.name}"
        if (used := measured.get(key)) is None:
            used = pod.held if rule.follows_pods else {}
            came.append(used)
        elif key not in counted:
            counted.add(key)
        else:  # of two pods of one name the older is about to go
            came.append(used)
        if is_prod(pod):
            prod.append(used)
    usage = {resource: sample.usage.get(resource, 0) for resource in rule.resources}
    if rule.follows_pods:
        for used in came:
            usage = {r: amount + used.get(r, 0) for r, amount in usage.items()}
        if len(counted) < len(measured):
            for used in map(measured.__getitem__, measured.keys() - counted):
                usage = {r: amount - used.get(r, 0) for r, amount in usage.items()}
    return NodeLoad(
        node,
        rule.counted,
        _with_pods(rule.counted, usage, len(pods)),
        _with_pods(rule.counted, _sums(rule, prod), len(prod)),
        sample.sampled_s,
        measured,
    )


def _with_pods(resources: Iterable[str], used: ResourceList, pods: int) -> Amounts:
    """Return a use in the order of some resources, so many pods among them."""
    return tuple([pods if r == PODS else used.get(r, 0) for r in resources])


def _sums(rule: LoadRule, uses: Collection[ResourceList]) -> dict[str, int]:
    """Return the sum of each resource of a rule, in one pass of C code where all pods have it."""
    try:
        return {resource: sum(map(itemgetter(resource), uses)) for resource in rule.resources}
    except KeyError:
        return {r: sum([used.get(r, 0) for used in uses]) for r in rule.resources}


PodsUse = Callable[[Mapping[str, ResourceList]], Collection[ResourceList]]
"""What picks the use of the pods that are not production pods out of that of all measured pods."""


def other_use(pods: Collection[Pod], sample: NodeUsage) -> PodsUse | None:
    """Return what picks the pods that are not production pods out of a sample of just these pods.

    None where the sample lacks one of the pods, or has another one.
    """
    if len(pods) != len(sample.pods):
        return None
    by_key = {f"{pod.namespace}/{pod.name}": pod for pod in pods}
    if by_key.keys() != sample.pods.keys():
        return None
    others = [key for key, pod in by_key.items() if not is_prod(pod)]
    if not others:
        return _none_of
    return itemgetter(*others) if len(others) > 1 else lambda uses: [uses[key] for key in others]


def _none_of(_: Mapping[str, ResourceList]) -> Collection[ResourceList]:
    return ()


def with_new_sample(
    rule: LoadRule, load: NodeLoad, sample: NodeMetric, pick_others: PodsUse
) -> NodeLoad:
    """Return what `measure` would return for a sample of the same pods as the one before.

    `pick_others` is what `other_use` returned for the sample before; no pod came or left since.
    Production pods use what all pods use, which the sample's reader has summed, less the others.
    """
    resources, measured = load.resources, sample.pods
    if (prod_use := sample.pods_usage) is None:
        prod_use = _sums(rule, measured.values())
    if others := pick_others(measured):
        less = _sums(rule, others)
        prod_use = {resource: prod_use.get(resource, 0) - less[resource] for resource in less}
    pods = resources.index(PODS)
    usage = _with_pods(resources, sample.usage, load.usage[pods])
    prod_usage = _with_pods(resources, prod_use, load.prod_usage[pods])
    return NodeLoad(load.node, resources, usage, prod_usage, sample.sampled_s, measured)


class RunningUse:
    """The use of a node by one sample, while pods come to it and leave it."""

    __slots__ = ("_follows_pods", "_measured", "prod_usage", "usage")

    def __init__(self, rule: LoadRule, measured: NodeLoad) -> None:
        self._follows_pods = rule.follows_pods
        self._measured = measured
        self.usage, self.prod_usage = list(measured.usage), list(measured.prod_usage)

    def count(self, pod: Pod, step: int) -> None:
        """Count a pod that came (1), or one that left (-1)."""
        measured = self._measured
        if (used := measured.pods.get(f"{pod.namespace}/{pod.name}")) is None:
            used = pod.held if self._follows_pods else {}
        counts_as_prod = is_prod(pod)
        for at, resource in enumerate(measured.resources):
            amount = step if resource == PODS else step * used.get(resource, 0)
            if self._follows_pods or resource == PODS:
                self.usage[at] += amount
            if counts_as_prod:
                self.prod_usage[at] += amount

    def load(self) -> NodeLoad:
        """Return what `measure` would return by now."""
        return replace(self._measured, usage=tuple(self.usage), prod_usage=tuple(self.prod_usage))


class LoadClass(Enum):
    """The class of a node in its pool, by its load."""

    HIGH = auto()
    """It is overloaded."""
    PROD_HIGH = auto()
    """It is not overloaded, but its production pods use too much."""
    LOW = auto()
    """It has room."""
    BOTH_LOW = auto()
    """It has room, for production pods as well."""
    PROD_LOW = auto()
    """It has no room but for production pods."""
    BETWEEN = auto()
    """None of these."""


TARGETS: Final = (LoadClass.LOW, LoadClass.BOTH_LOW, LoadClass.PROD_LOW)
"""The classes of nodes that take pods."""


class Ceilings(Struct, frozen=True, gc=False):
    """The thresholds of one node as amounts, in the order of the rule's resources."""

    node_low: Amounts
    node_high: Amounts
    prod_low: Amounts
    prod_high: Amounts

    def low(self, level: Level) -> Amounts:
        """Return the amounts up to which the node has room."""
        return self.node_low if level is Level.NODE else self.prod_low

    def high(self, level: Level) -> Amounts:
        """Return the amounts above which the node is overloaded."""
        return self.node_high if level is Level.NODE else self.prod_high


class Means(Struct, frozen=True):
    """The mean use of the nodes of a pool in per cent, in the order of its rule's resources."""

    node: tuple[float, ...]
    prod: tuple[float, ...]


def mean_use(rule: LoadRule, loads: Iterable[NodeLoad]) -> Generator[None, None, Means]:
    """Return the mean share of each resource over the nodes that have some; a node in each step.

    As koordinator has it, all nodes count, and one that lacks the resource uses 0 % of it.
    """
    shares: dict[tuple[Level, str], list[float]] = {
        (level, resource): [] for level in Level for resource in rule.resources
    }
    for load in loads:
        for (level, resource), found in shares.items():
            if load.capacity.get(resource) or not rule.follows_pods:
                found.append(load.percent(level, resource))
        yield

    def means(level: Level) -> tuple[float, ...]:
        of = [shares[level, resource] for resource in rule.resources]
        return tuple(sum(found) / len(found) if found else 0.0 for found in of)

    return Means(means(Level.NODE), means(Level.PROD))


def ceilings(rule: LoadRule, load: NodeLoad, means: Means | None) -> Ceilings:
    """Return a node's thresholds; `means` are those of its pool where the rule needs them."""
    capacity = [load.capacity.get(resource, 0) for resource in rule.resources]
    if means is None:
        found = Ceilings(
            _amounts(rule.node.low, capacity),
            _amounts(rule.node.high, capacity),
            _amounts(rule.prod.low, capacity),
            _amounts(rule.prod.high, capacity),
        )
    else:
        found = Ceilings(
            *_amounts_around(rule.node, means.node, capacity),
            *_amounts_around(rule.prod, means.prod, capacity),
        )
    if not rule.follows_pods:
        return found
    if not all(capacity):
        found = _of_what_there_is(rule, load, found)
    return _without_room(found) if is_closed_to_others(load.node) else found


def _without_room(limits: Ceilings) -> Ceilings:
    """Return the thresholds of a node that takes no pods: deleted, emptied or kept empty."""
    nothing = (_NO_ROOM,) * len(limits.node_low)
    return Ceilings(nothing, limits.node_high, nothing, limits.prod_high)


def _of_what_there_is(rule: LoadRule, load: NodeLoad, limits: Ceilings) -> Ceilings:
    """Take the thresholds of what a node lacks away, and of a level that is not about it, all."""
    has = [bool(load.capacity.get(resource)) for resource in rule.resources]
    about_node, about_prod = (rule.is_about(level, load.capacity) for level in Level)

    def bound(amounts: Amounts, without: int, *, holds: bool = True) -> Amounts:
        pairs = zip(amounts, has, strict=True)
        return tuple(amount if holds and there else without for amount, there in pairs)

    return Ceilings(
        bound(limits.node_low, NO_BOUND if about_node else _NO_ROOM, holds=about_node),
        bound(limits.node_high, NO_BOUND, holds=about_node),
        bound(limits.prod_low, NO_BOUND if about_prod else _NO_ROOM, holds=about_prod),
        bound(limits.prod_high, NO_BOUND, holds=about_prod),
    )


def _amounts(percents: Iterable[float], capacity: Iterable[int]) -> Amounts:
    return tuple(int(p * 0.01 * amount) for p, amount in zip(percents, capacity, strict=True))


def _amounts_around(
    bounds: Bounds, means: Iterable[float], capacity: Sequence[int]
) -> tuple[Amounts, Amounts]:
    """Return the amounts so far below and above the means; a distance of 0 below is no bound."""
    low, high = [], []
    for below, above, mean, amount in zip(bounds.low, bounds.high, means, capacity, strict=True):
        is_bound = below != _MEANS_NOTHING
        low.append(int(_clamp(mean - below) * 0.01 * amount) if is_bound else amount)
        high.append(int(_clamp(mean + above) * 0.01 * amount) if is_bound else amount)
    return tuple(low), tuple(high)


def _clamp(percent: float) -> float:
    return min(_ALL, max(0.0, percent))


def used_amounts(rule: LoadRule, load: NodeLoad, level: Level) -> Amounts:
    """Return what is used on a level, of those resources alone that have thresholds."""
    return load.amounts(level)[: len(rule.resources)]


def exceeds(used: Iterable[int], allowed: Iterable[int]) -> bool:
    """Say whether any amount is above what is allowed."""
    return True in map(gt, used, allowed)


def may_be_source(running: RunningUse, limits: Ceilings) -> bool:
    """Say whether a node may be overloaded by now, or its production pods use too much."""
    return exceeds(running.usage, limits.node_high) or exceeds(running.prod_usage, limits.prod_high)


def classify(load: NodeLoad, limits: Ceilings) -> LoadClass:
    """Return what a node is to its pool; a cordoned one never takes pods."""
    used, prod_used = load.usage, load.prod_usage
    takes_pods = not load.node.unschedulable
    has_room = takes_pods and not exceeds(used, limits.node_low)
    if not has_room and exceeds(used, limits.node_high):
        return LoadClass.HIGH
    if exceeds(prod_used, limits.prod_high):
        return LoadClass.PROD_HIGH
    has_prod_room = takes_pods and not exceeds(prod_used, limits.prod_low)
    if has_room:
        return LoadClass.BOTH_LOW if has_prod_room else LoadClass.LOW
    return LoadClass.PROD_LOW if has_prod_room else LoadClass.BETWEEN
