"""The use of a node in per cent, and its class by thresholds.

The arithmetic is that of the SIG descheduler, to the last bit: percentages are 64-bit floats, and
an amount allowed by a threshold is cut off, not rounded.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import partial
from sys import maxsize
from typing import ClassVar, Final

from msgspec import Struct

from reactive_desched.model.consolidation import is_closed_to_others
from reactive_desched.model.objects import Node
from reactive_desched.model.resources import CPU, MEMORY, PODS, ResourceList
from reactive_desched.model.usage import NodeUsage

METRIC_RESOURCE: Final = "MetricResource"
"""What thresholds are about where a Prometheus query measures; every node has 100 of it."""

REQUESTS: Final = ""
"""The source of use where the requests of pods count."""

Percentages = Mapping[str, float]
"""Per cent by resource."""

ALL: Final = 100.0
"""All of what a node has, in per cent."""


class NodeClass(StrEnum):
    """The class of a node, by its use beside the thresholds."""

    UNDERUTILIZED = "underutilized"
    APPROPRIATELY_UTILIZED = "appropriately utilized"
    OVERUTILIZED = "overutilized"
    UNKNOWN = "unknown"


class Thresholds(Struct, frozen=True):
    """Per cent of each resource below which a node has room, and above which it gives pods away."""

    low: Percentages
    high: Percentages

    def classify(self, used: Percentages) -> NodeClass:
        """Return the class of a node by the resources of which its use is known."""
        if is_within(used, self.low):
            return NodeClass.UNDERUTILIZED
        if not is_within(used, self.high):
            return NodeClass.OVERUTILIZED
        return NodeClass.APPROPRIATELY_UTILIZED

    def around(self, means: Percentages) -> "Thresholds":
        """Return thresholds that lie so far below and above the means, between 0 and 100.

        A resource without a mean has no threshold.
        """
        return Thresholds(
            {r: _clamp(means[r] - below) for r, below in self.low.items() if r in means},
            {r: _clamp(means[r] + above) for r, above in self.high.items() if r in means},
        )

    def allowed(self, resource: str, capacity: int) -> int:
        """Return the amount up to which a node of this capacity is not overutilized."""
        if (percent := self.high.get(resource)) is None:
            return capacity
        return int(percent * 0.01 * capacity)

    def bounds_on(self, node: Node) -> "ClassBounds":
        """Return the thresholds of a node as amounts, by which it has the same class."""
        return ClassBounds(_most_within(self.low, node), _most_within(self.high, node))

    def allowed_on(self, node: Node, resources: Iterable[str]) -> dict[str, int]:
        """Return the amounts up to which a node is not overutilized; 0 of what it lacks."""
        return {
            resource: 0
            if (capacity := capacity_of(node, resource)) is None
            else self.allowed(resource, capacity)
            for resource in resources
        }


class ClassBounds(Struct, frozen=True, gc=False):
    """The largest amounts of one node that are within its low and its high thresholds.

    They give the class that the percentages of the same use give, without dividing.
    """

    low: tuple[tuple[str, int], ...]
    high: tuple[tuple[str, int], ...]

    def classify(self, used: ResourceList) -> NodeClass:
        """Return the class of the node by the amounts used; what is not known counts as unused."""
        for resource, limit in self.low:
            if used.get(resource, 0) > limit:
                break
        else:
            return NodeClass.UNDERUTILIZED
        for resource, limit in self.high:
            if used.get(resource, 0) > limit:
                return NodeClass.OVERUTILIZED
        return NodeClass.APPROPRIATELY_UTILIZED


def _most_within(thresholds: Percentages, node: Node) -> tuple[tuple[str, int], ...]:
    """Return the largest amount within each threshold; what a node has none of is never above."""
    found: list[tuple[str, int]] = []
    for resource, threshold in thresholds.items():
        capacity = capacity_of(node, resource) or 0
        if capacity > 0:
            amounts = range(min(2 * capacity, maxsize))
            percent = partial(_percent, capacity=capacity)
            found.append((resource, bisect_right(amounts, threshold, key=percent) - 1))
    return tuple(found)


def is_within(used: Percentages, thresholds: Percentages) -> bool:
    """Say whether no resource is used above its threshold."""
    for resource, percent in thresholds.items():  # noqa: SIM110 -- twice as fast as any()
        if percent < used.get(resource, 0.0):
            return False
    return True


def percentages(used: ResourceList, node: Node, resources: Iterable[str]) -> dict[str, float]:
    """Return the use of those resources in per cent of which it is known and the node has some."""
    found: dict[str, float] = {}
    for resource in resources:
        if (amount := used.get(resource)) is None:
            continue
        if capacity := node.allocatable.get(resource) or capacity_of(node, resource):
            found[resource] = _percent(amount, capacity)
    return found


def _percent(amount: int, capacity: int) -> float:
    return float(amount) / float(capacity) * ALL


def capacity_of(node: Node, resource: str) -> int | None:
    """Return how much a node has of a resource; None where it does not offer it."""
    return int(ALL) if resource == METRIC_RESOURCE else node.allocatable.get(resource)


Limits = tuple[tuple[str, float], ...]
"""Thresholds in a form that can be hashed: resources and per cent."""


class UtilizationRule(Struct, frozen=True):
    """Decides which nodes of a cluster give pods away, and which take them.

    `low` and `high` are the thresholds; with `deviation` they are distances from the mean of all
    nodes. `source` names the source of use, as `NodeUsage` does. `number_of_nodes` is how many
    underutilized nodes are left alone. A subclass says what the classes mean, and with `gives` and
    `takes` in words, for messages, which nodes give pods away and which take them. `filled_by`
    names the plugin that goes on filling a node until it is at its high thresholds; empty for none.
    With `packs`, the kube-scheduler is taken to prefer nodes that are used much.

    A threshold is about the nodes that have some of its resource, and a node without any resource
    of a threshold neither gives pods nor takes them. With `as_upstream`, as the SIG descheduler
    counts, a node uses 0 % of what it lacks, what an in-place resize adds does not count, no node
    is filled beyond its low thresholds, and one that is being deleted or emptied takes pods.
    """

    gives: ClassVar[str]
    takes: ClassVar[str]
    filled_by: ClassVar[str] = ""
    packs: ClassVar[bool] = False

    low: Limits
    high: Limits = ()
    deviation: bool = False
    source: str = REQUESTS
    number_of_nodes: int = 0
    as_upstream: bool = False

    def is_about(self, node: Node) -> bool:
        """Say whether a node has some of a resource that has a threshold."""
        if self.as_upstream or not self.low:
            return True
        return any(capacity_of(node, resource) for resource, _ in self.low)

    def counted_on(self, node: Node) -> tuple[str, ...]:
        """Return the resources that are counted on a node: those of `tracked` that it has."""
        if self.as_upstream:
            return self.tracked
        return tuple(resource for resource in self.tracked if capacity_of(node, resource))

    def is_open(self, node: Node) -> bool:
        """Say whether pods may be moved to the node: it is neither cordoned nor emptied."""
        return not node.unschedulable and (self.as_upstream or not is_closed_to_others(node))

    def is_source(self, node: Node, node_class: NodeClass) -> bool:
        """Say whether the node gives pods away."""
        raise NotImplementedError

    def is_destination(self, node: Node, node_class: NodeClass) -> bool:
        """Say whether the node takes pods."""
        raise NotImplementedError

    def can_act(self, sources: int, destinations: int) -> bool:
        """Say whether pods may move at all, by the numbers of nodes."""
        raise NotImplementedError

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds as written."""
        return Thresholds(dict(self.low), dict(self.high))

    @property
    def tracked(self) -> tuple[str, ...]:
        """The resources that are counted: those with thresholds, and cpu, memory and pods.

        A query for one figure counts that alone.
        """
        own = [resource for resource, _ in self.low]
        if own == [METRIC_RESOURCE]:
            return (METRIC_RESOURCE,)
        return tuple(dict.fromkeys((*own, CPU, MEMORY, PODS)))


class NodeUse(Struct, frozen=True, gc=False):
    """The use of one node, in amounts and per cent, and its class.

    `percent` has the resources with thresholds. Where no use is known both are empty. `sample` is
    what a source of metrics measured. `filled_since_s` is when the first of the pods came that the
    rule's plugin moved to the node, if it takes pods (seconds since the epoch).
    """

    node: Node
    used: ResourceList = {}
    percent: Percentages = {}
    node_class: NodeClass = NodeClass.UNKNOWN
    sample: NodeUsage | None = None
    filled_since_s: float | None = None

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def measured(self) -> str:
        """Return what the use is made of, for messages."""
        return "the requests of its pods come to" if self.sample is None else "it uses"

    def most_beyond(self, limits: Percentages) -> tuple[str, float]:
        """Return the resource that exceeds its limit most, or stays below it least, and its use.

        Limits and use are per cent; where no use is known all resources count as unused.
        """
        known = [resource for resource in limits if resource in self.percent]
        resource = max(known or limits, key=lambda each: self.percent.get(each, 0.0) - limits[each])
        return resource, self.percent.get(resource, 0.0)


def as_limits(percent: Percentages) -> Limits:
    """Return thresholds in a form that can be hashed."""
    return tuple(sorted(percent.items()))


def _clamp(percent: float) -> float:
    return min(ALL, max(0.0, percent))
