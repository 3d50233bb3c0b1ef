"""The nodes of a cluster as one rule of a plugin sees them; docs/reference/nodes.md shows it."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from reactive_desched.model.plugin_faults import PluginFault

__all__ = [
    "ClassCounts",
    "DecisionCounts",
    "NodeRow",
    "ReportPart",
    "ResourceRow",
    "RuleTable",
    "SampleRef",
    "ThresholdPair",
]


class ReportPart(Struct, frozen=True, gc=False, rename="camel"):
    """Base of all: camel case in JSON and YAML."""


class DecisionCounts(ReportPart, frozen=True, gc=False):
    """The numbers of findings by their decision."""

    evict: int = 0
    refuse: int = 0
    defer: int = 0


class SampleRef(ReportPart, frozen=True, gc=False):
    """The measurement behind `used`: which source made it, and how many seconds ago."""

    source: str
    age_seconds: float


class ThresholdPair(ReportPart, frozen=True, gc=False):
    """The two thresholds of one resource, in per cent; null where there is none."""

    low: float | None
    high: float | None


class ResourceRow(ReportPart, frozen=True, gc=False):
    """One resource of one node; amounts are quantities as Kubernetes writes them.

    `requested` is what the pods request, `used` what was measured, null where it is unknown; their
    percentages are of `allocatable`. `counted` and `counted_percent` are what the rule compares
    with its thresholds.
    """

    allocatable: str | None
    requested: str | None
    requested_percent: float | None
    used: str | None
    used_percent: float | None
    counted: str | None
    counted_percent: float | None


class NodeRow(ReportPart, frozen=True, gc=False):
    """One node: `class` and `role` are null where the rule is not about it, as `remark` says.

    `class_by_use` is the class that measured use would give where requests count, null where it is
    unknown.
    `moves` counts the decisions of this plugin on its pods.
    """

    name: str
    node_class: str | None = msgspec.field(name="class")
    class_by_use: str | None
    role: str | None
    remark: str | None
    resources: Mapping[str, ResourceRow]
    sample: SampleRef | None
    moves: DecisionCounts


class ClassCounts(ReportPart, frozen=True, gc=False):
    """The numbers of nodes by class; `left_out` are those that the rule does not concern."""

    underutilized: int
    appropriately_utilized: int
    overutilized: int
    unknown: int
    left_out: int


class RuleTable(ReportPart, frozen=True, gc=False):
    """The nodes as one rule of a plugin sees them.

    `pool` is null where a plugin has no pools. `counts` says what is compared with the thresholds.
    `written` are the thresholds of the policy, distances from `means` where those are not null;
    `in_force` are those that hold. `obstacles` say what keeps pods from moving.
    """

    profile: str
    plugin: str
    pool: str | None
    counts: str
    written: Mapping[str, ThresholdPair]
    means: Mapping[str, float] | None
    in_force: Mapping[str, ThresholdPair]
    obstacles: tuple[str, ...]
    classes: ClassCounts
    moves: DecisionCounts
    nodes: tuple[NodeRow, ...]


class RuleTables(Struct, frozen=True):
    """The tables of the plugins that compare nodes, and the faults of those that failed in it."""

    tables: tuple[RuleTable, ...] = ()
    faults: tuple[PluginFault, ...] = ()
