"""Counts the Ready and the sick nodes of each zone, and decides which zones are disrupted.

That goes by the rules of the node lifecycle controller. The controller of kube-controller-manager
slows the taints of unreachable nodes down, or stops them, while many nodes of a zone are not Ready:
it may be its own view that is broken. The same rules brake evictions here.
"""

import math
from collections.abc import Hashable, Iterable
from enum import StrEnum
from typing import ClassVar, Final

from msgspec import Struct

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import Change
from reactive_desched.model.node_conditions import Condition
from reactive_desched.model.objects import ZONE_LABEL, Node
from reactive_desched.model.volumes import REGION_LABEL
from reactive_desched.model.wakes import ChangeTypes, WakeOn

EXCLUDE_DISRUPTION_LABEL: Final = "node.kubernetes.io/exclude-disruption"
"""A node with this label does not count."""

TOLERATED_NOT_READY: Final = 2
"""So few nodes that are not Ready never make a partial disruption, however small the zone is."""


class Disruption(StrEnum):
    """The state of a zone, as the node lifecycle controller names it."""

    NORMAL = "normal"
    PARTIAL = "partial"
    FULL = "full"


class ZoneRule(Struct, frozen=True, gc=False):
    """From which share of nodes that are not Ready on a zone is partially disrupted.

    Zones of more than `large_zone_nodes` nodes count as large. A node with one of the `sick`
    conditions, which the policy names as a reason to evict, counts as one that is not Ready.
    """

    unhealthy_percent: float = 55.0
    large_zone_nodes: int = 50
    sick: frozenset[Condition] = frozenset()

    def counts_as_ready(self, node: Node) -> bool:
        """Say whether a node counts as Ready."""
        return node.is_ready and self.sick.isdisjoint(node.conditions)


class ZoneStatus(Struct, frozen=True, gc=False):
    """The nodes of a zone, those that count as Ready and the others, and what follows from them.

    `sick` of the others are Ready.
    """

    ready: int
    not_ready: int
    disruption: Disruption
    is_large: bool
    sick: int = 0

    @property
    def nodes(self) -> int:
        """Return how many nodes the zone has."""
        return self.ready + self.not_ready


def zone_status(ready: int, not_ready: int, rule: ZoneRule, sick: int = 0) -> ZoneStatus:
    """Judge a zone by how many of its nodes are Ready, and how many are not or are sick.

    A zone of one or two nodes that are all sick is no sign that what reports it is wrong.
    """
    nodes = ready + not_ready
    disruption = Disruption.NORMAL
    if not_ready and not ready and (sick < not_ready or sick > TOLERATED_NOT_READY):
        disruption = Disruption.FULL
    elif not_ready > TOLERATED_NOT_READY and 100 * not_ready >= rule.unhealthy_percent * nodes:
        disruption = Disruption.PARTIAL
    return ZoneStatus(ready, not_ready, disruption, nodes > rule.large_zone_nodes, sick)


def ready_until_released(status: ZoneStatus, rule: ZoneRule) -> int:
    """Return how many more nodes of a disrupted zone must be Ready until it gives pods again.

    A large zone gives some while it is disrupted in part.
    """
    if status.is_large:
        return 1
    may_fail = math.ceil(rule.unhealthy_percent * status.nodes / 100) - 1
    return max(1, status.not_ready - max(TOLERATED_NOT_READY, may_fail))


def zone_key(node: Node) -> str:
    """Return REGION/ZONE of a node, ZONE where it has no region; empty where it has neither."""
    region, zone = node.labels.get(REGION_LABEL, ""), node.labels.get(ZONE_LABEL, "")
    return f"{region}/{zone}" if region else zone


class ZoneDisruptionChanged(Change, frozen=True, gc=False):
    """The disruption of a zone changed, or a disrupted zone became large or small."""

    zone: str


class WakeOnZone(WakeOn, frozen=True, gc=False):
    """The disruption of a zone changed."""

    changes: ClassVar[ChangeTypes] = (ZoneDisruptionChanged,)
    words = "another share of Ready nodes in zone {zone}"
    zone: str


class ZoneHealth(Index):
    """The status of each zone by a ZoneRule, kept from node to node.

    Every node counts, whatever the policy selects, but for those labelled
    `node.kubernetes.io/exclude-disruption`. A node without a Ready condition counts as Ready, as
    everywhere: its first report changes nothing then. One with a condition that the rule names as
    sick counts as one that is not Ready, from the first report of it on. `disrupted` are the
    zones that are not normal, by their keys.
    """

    announces = (ZoneDisruptionChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        assert isinstance(args, ZoneRule), "a ZoneRule decides when a zone is disrupted"
        self._rule = args
        self._counts: dict[str, tuple[int, int, int]] = {}
        self.disrupted: Final[dict[str, ZoneStatus]] = {}
        self._full = 0
        for node in cluster.store(Node):
            self._add(node, 1)

    @property
    def are_all_lost(self) -> bool:
        """Say whether there are nodes, and none in any zone is Ready."""
        return 0 < len(self._counts) == self._full

    @property
    def zones(self) -> int:
        """Return how many zones there are."""
        return len(self._counts)

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterable[Change]:
        """Follow a node that appeared, disappeared, or counts as Ready now or no longer."""
        before = None if old is None else self._counted_as(old.node)
        after = None if new is None else self._counted_as(new.node)
        if before == after:
            return ()
        changes: dict[str, None] = {}
        for node, step in ((old, -1), (new, 1)):
            if node is not None and (zone := self._add(node.node, step)) is not None:
                changes[zone] = None
        return [ZoneDisruptionChanged(zone) for zone in changes]

    def answers(self) -> object:
        """Return the nodes of each zone, and which zones are disrupted."""
        return dict(self._counts), dict(self.disrupted), self.are_all_lost

    def _counted_as(self, node: Node) -> tuple[str, bool, bool] | None:
        """Return the zone of a node that counts, whether it counts as Ready, and is sick."""
        if EXCLUDE_DISRUPTION_LABEL in node.labels:
            return None
        counts_as_ready = self._rule.counts_as_ready(node)
        return zone_key(node), counts_as_ready, node.is_ready and not counts_as_ready

    def _add(self, node: Node, step: int) -> str | None:
        """Count a node, or stop counting it; return its zone if that made a difference to it."""
        if (counted := self._counted_as(node)) is None:
            return None
        zone, is_ready, is_sick = counted
        ready, not_ready, sick = self._counts.get(zone, (0, 0, 0))
        ready, not_ready = ready + step * is_ready, not_ready + step * (not is_ready)
        sick += step * is_sick
        if ready or not_ready:
            self._counts[zone] = ready, not_ready, sick
        else:
            del self._counts[zone]
        return zone if self._judge(zone, zone_status(ready, not_ready, self._rule, sick)) else None

    def _judge(self, zone: str, status: ZoneStatus) -> bool:
        """Keep a zone's status; say whether that changes what the zone brake does."""
        before = self.disrupted.pop(zone, None)
        if status.disruption is not Disruption.NORMAL:
            self.disrupted[zone] = status
        self._full += (status.disruption is Disruption.FULL) - (
            before is not None and before.disruption is Disruption.FULL
        )
        return _effect(before) != _effect(self.disrupted.get(zone))


def _effect(status: ZoneStatus | None) -> tuple[Disruption, bool] | None:
    return None if status is None else (status.disruption, status.is_large)
