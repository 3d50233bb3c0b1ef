"""Counts the Ready nodes of each zone, and names the zones that are disrupted."""

from collections.abc import Hashable, Iterable
from typing import ClassVar, Final

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import Node
from reactive_desched.model.wakes import ChangeTypes, WakeOn
from reactive_desched.model.zone_status import (
    EXCLUDE_DISRUPTION_LABEL,
    Disruption,
    ZoneRule,
    ZoneStatus,
    zone_key,
    zone_status,
)


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
    everywhere: its first report changes nothing then. `disrupted` are the zones that are not
    normal, by their keys.
    """

    announces = (ZoneDisruptionChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        assert isinstance(args, ZoneRule), "a ZoneRule decides when a zone is disrupted"
        self._rule = args
        self._counts: dict[str, tuple[int, int]] = {}
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
        """Follow a node that appeared, disappeared, became Ready or ceased to be."""
        before = None if old is None else _counted_as(old.node)
        after = None if new is None else _counted_as(new.node)
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

    def _add(self, node: Node, step: int) -> str | None:
        """Count a node, or stop counting it; return its zone if that made a difference to it."""
        if (counted := _counted_as(node)) is None:
            return None
        zone, is_ready = counted
        ready, not_ready = self._counts.get(zone, (0, 0))
        ready, not_ready = ready + step * is_ready, not_ready + step * (not is_ready)
        if ready or not_ready:
            self._counts[zone] = ready, not_ready
        else:
            del self._counts[zone]
        return zone if self._judge(zone, zone_status(ready, not_ready, self._rule)) else None

    def _judge(self, zone: str, status: ZoneStatus) -> bool:
        """Keep a zone's status; say whether that changes what the zone brake does."""
        before = self.disrupted.pop(zone, None)
        if status.disruption is not Disruption.NORMAL:
            self.disrupted[zone] = status
        self._full += (status.disruption is Disruption.FULL) - (
            before is not None and before.disruption is Disruption.FULL
        )
        return _effect(before) != _effect(self.disrupted.get(zone))


def _counted_as(node: Node) -> tuple[str, bool] | None:
    """Return the zone and the readiness of a node that counts."""
    if EXCLUDE_DISRUPTION_LABEL in node.labels:
        return None
    return zone_key(node), node.is_ready


def _effect(status: ZoneStatus | None) -> tuple[Disruption, bool] | None:
    return None if status is None else (status.disruption, status.is_large)
