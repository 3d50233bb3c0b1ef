"""Describes the class of each node by its use, as a table for people."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Generic, TypeVar, overload

from msgspec import Struct

from reactive_desched.model.resources import ResourceList
from reactive_desched.model.usage import NodeUsage
from reactive_desched.model.utilization import NodeClass, Percentages, Thresholds
from reactive_desched.text.times import format_time_of_day


class NodeRole(StrEnum):
    """The role of a node for a plugin: it gives pods, takes them, or neither."""

    GIVES = "gives pods"
    TAKES = "takes pods"
    NONE = "none"


class ClassifiedNode(Struct, frozen=True, gc=False):
    """One node beside the thresholds of a rule.

    `used` and `percent` are what the rule compares, as amounts and per cent of `capacity`: empty
    where it is unknown. `sample` is the measurement they are made of, if they are. Where the plugin
    fills the node, `filled_since_s` is when its first pod came, in seconds since the epoch.
    """

    name: str
    node_class: NodeClass
    role: NodeRole
    capacity: ResourceList
    used: ResourceList
    percent: Percentages
    sample: NodeUsage | None = None
    filled_since_s: float | None = None

    @property
    def remark(self) -> str:
        """Return why it takes pods though its class hardly has room; empty where that is not so."""
        if self.filled_since_s is None:
            return ""
        return f"filled until its target since {format_time_of_day(self.filled_since_s)}"


_NodeT = TypeVar("_NodeT")


class NodeRows(Sequence[ClassifiedNode], Generic[_NodeT]):
    """Rows that are made when they are read: a table of 5,000 nodes costs nothing to return."""

    def __init__(
        self, nodes: Sequence[_NodeT], classify: Callable[[_NodeT], ClassifiedNode]
    ) -> None:
        self._nodes = nodes
        self._classify = classify

    def __len__(self) -> int:
        """Return how many nodes there are."""
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> ClassifiedNode: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ClassifiedNode]: ...

    def __getitem__(self, index: int | slice) -> ClassifiedNode | Sequence[ClassifiedNode]:
        """Make a row, or the rows of a slice when they are read."""
        if isinstance(index, slice):
            return NodeRows(self._nodes[index], self._classify)
        return self._classify(self._nodes[index])


class NodeTable(Struct, frozen=True):
    """The nodes that one rule is about, by name, and why it moves nothing, if it does not.

    `pool` names the nodes where a plugin has several pools. `counts` says what is compared with
    the thresholds. `written` are the thresholds of the policy, distances from `means` if there
    are any; `thresholds` are those in force, in per cent. `resources` are all that the rule counts,
    those with thresholds first. `find_obstacles` looks for what keeps pods from moving,
    `find_node_obstacle` for why a node that takes pods takes none.
    """

    counts: str
    resources: Sequence[str]
    written: Thresholds
    thresholds: Thresholds
    nodes: Sequence[ClassifiedNode]
    means: Percentages | None = None
    pool: str = ""
    find_obstacles: Callable[[], Iterable[str]] = tuple
    find_node_obstacle: Callable[[str], str] = lambda _: ""
    counts_requests: bool = False

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Return what keeps pods from moving, looked for when it is asked for."""
        return tuple(self.find_obstacles())

    def describe_with_obstacle(self, node: str) -> str:
        """Say how a node compares, and why it takes no pods although it is one that does."""
        return "; ".join(filter(None, (self.describe(node), self.find_node_obstacle(node))))

    def describe(self, node: str) -> str:
        """Say on one line how a node compares with the thresholds; empty for one not in it."""
        row = next((each for each in self.nodes if each.name == node), None)
        if row is None:
            return ""
        pool = f" in pool {self.pool}" if self.pool else ""
        if row.node_class is NodeClass.UNKNOWN:
            return f"the use of {node}{pool} is unknown"
        texts = ", ".join(
            f"{resource} {percent:.1f} % ({self._range(resource)})"
            for resource, percent in row.percent.items()
        )
        remark = f"; it is {row.remark}" if row.remark else ""
        return f"{node}{pool} is {row.node_class} by {self.counts}: {texts}{remark}"

    def _range(self, resource: str) -> str:
        low, high = self.thresholds.low.get(resource), self.thresholds.high.get(resource)
        parts = [
            *([] if low is None else [f"low up to {low:g} %"]),
            *([] if high is None else [f"high above {high:g} %"]),
        ]
        return ", ".join(parts) or "no threshold"
