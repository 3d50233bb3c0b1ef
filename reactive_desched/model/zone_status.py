"""Decides whether a zone is disrupted, by the rules of the node lifecycle controller.

The controller of kube-controller-manager slows the taints of unreachable nodes down, or stops them,
while many nodes of a zone are not Ready: it may be its own view that is broken. The same rules
brake evictions here.
"""

import math
from enum import StrEnum
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import ZONE_LABEL, Node
from reactive_desched.model.volumes import REGION_LABEL

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

    Zones of more than `large_zone_nodes` nodes count as large.
    """

    unhealthy_percent: float = 55.0
    large_zone_nodes: int = 50


class ZoneStatus(Struct, frozen=True, gc=False):
    """The nodes of a zone, those that are Ready and the others, and what follows from them."""

    ready: int
    not_ready: int
    disruption: Disruption
    is_large: bool

    @property
    def nodes(self) -> int:
        """Return how many nodes the zone has."""
        return self.ready + self.not_ready


def zone_status(ready: int, not_ready: int, rule: ZoneRule) -> ZoneStatus:
    """Judge a zone by how many of its nodes are Ready, and how many are not."""
    nodes = ready + not_ready
    disruption = Disruption.NORMAL
    if not_ready and not ready:
        disruption = Disruption.FULL
    elif not_ready > TOLERATED_NOT_READY and 100 * not_ready >= rule.unhealthy_percent * nodes:
        disruption = Disruption.PARTIAL
    return ZoneStatus(ready, not_ready, disruption, nodes > rule.large_zone_nodes)


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
