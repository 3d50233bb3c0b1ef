"""The table of the nodes that a draining plugin moves pods between."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from reactive_desched.api.plugin import View
from reactive_desched.draining.obstacles import Destinations, Obstacles, named
from reactive_desched.draining.room import left_on
from reactive_desched.model.consolidation import is_closed_to_others
from reactive_desched.model.node_table import ClassifiedNode, NodeRole, NodeRows, NodeTable
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import add_resources
from reactive_desched.model.utilization import REQUESTS, NodeUse, capacity_of
from reactive_desched.state.indexes.node_utilization import NodeUtilization
from reactive_desched.text.counts import agree

REQUESTS_OF_PODS: Final = "requests of pods"


def node_table(pool: NodeUtilization, obstacles: Obstacles) -> NodeTable:
    """Return how each eligible node compares now, and what keeps pods from moving."""
    rule = pool.rule
    uses = [use for _, use in sorted(pool.uses().items())]
    return NodeTable(
        counts=REQUESTS_OF_PODS if rule.source == REQUESTS else f"use measured by {rule.source}",
        resources=rule.tracked,
        written=rule.thresholds,
        thresholds=pool.thresholds,
        nodes=NodeRows(uses, lambda use: _classified(use, pool)),
        means=pool.means,
        find_obstacles=lambda: (*_unknown(pool), *blocking(pool), *obstacles.lines()),
        find_node_obstacle=obstacles.of_node,
        counts_requests=rule.source == REQUESTS,
    )


def _classified(use: NodeUse, pool: NodeUtilization) -> ClassifiedNode:
    capacity = {r: capacity_of(use.node, r) for r in pool.rule.tracked}
    return ClassifiedNode(
        name=use.name,
        node_class=use.node_class,
        role=_role(use.name, pool),
        capacity={r: amount for r, amount in capacity.items() if amount is not None},
        used=use.used,
        percent=use.percent,
        sample=use.sample,
        filled_since_s=use.filled_since_s,
    )


def _role(name: str, pool: NodeUtilization) -> NodeRole:
    if name in pool.sources():
        return NodeRole.GIVES
    return NodeRole.TAKES if name in pool.destinations() else NodeRole.NONE


def _unknown(pool: NodeUtilization) -> Iterator[str]:
    if pool.unknown:
        yield (
            f"the use of {named(sorted(pool.unknown))} is unknown: a sweep moves nothing, the"
            " controller only from and to other nodes"
        )


def blocking(pool: NodeUtilization) -> Iterator[str]:
    """Say why nothing moves, whatever the pods are."""
    rule, sources, destinations = pool.rule, len(pool.sources()), len(pool.destinations())
    if not sources:
        nearest = _nearest(pool, is_low=rule.packs)
        yield f"no node gives pods away: that takes one that is {rule.gives}{nearest}"
    if not destinations:
        why = _kept_out(pool) or _nearest(pool, is_low=not rule.packs)
        yield f"no node takes pods: that takes one that is {rule.takes}{why}"
    eligible = len(pool.uses())
    if rule.number_of_nodes >= eligible - 1:
        yield (
            f"numberOfNodes is {rule.number_of_nodes}: nothing can ever move, with {eligible} nodes"
            " ready and selected"
        )
    elif sources and destinations and not pool.can_act:
        yield (
            f"numberOfNodes is {rule.number_of_nodes}: only where more nodes are underutilized does"
            " anything move"
        )
    if pool.can_act and (full := [r for r, amount in _room(pool).items() if amount <= 0]):
        yield f"the nodes that take pods have no {', '.join(full)} left, taken together"


def _nearest(pool: NodeUtilization, *, is_low: bool) -> str:
    """Name the open node that is nearest to what is asked, to be within `low` or above `high`."""
    limits = pool.thresholds.low if is_low or pool.rule.packs else pool.thresholds.high
    beyond: list[tuple[float, str, str]] = []
    for name, use in sorted(pool.uses().items()):
        if limits and use.percent and pool.rule.is_open(use.node):
            resource, percent = use.most_beyond(limits)
            text = f"{resource} {percent:.1f} %, threshold {limits[resource]:g} %"
            beyond.append((percent - limits[resource], name, text))
    if not beyond:
        return ""
    _, name, text = (min if is_low else max)(beyond)
    return f"; {name} comes nearest: {text}"


def _room(pool: NodeUtilization) -> dict[str, int]:
    total: dict[str, int] = {}
    for use in pool.destinations().values():
        add_resources(total, left_on(use, pool.thresholds))
    return total


def _kept_out(pool: NodeUtilization) -> str:
    """Name the nodes that might take pods if they were not cordoned or emptied, or were ready."""
    cordoned: list[str] = []
    emptied: list[str] = []
    for name, use in sorted(pool.uses().items()):
        node = use.node
        is_open = replace(node, unschedulable=False, is_terminating=False, taints=())
        if not pool.rule.is_open(node) and pool.rule.is_destination(is_open, use.node_class):
            (emptied if is_closed_to_others(node) else cordoned).append(name)
    unready = sorted(node.name for node in pool.unready())
    reasons = (
        (cordoned, "cordoned"),
        (emptied, "being deleted or emptied"),
        (unready, "not ready"),
    )
    texts = [
        f"{named(names)} {agree(len(names), 'is', 'are')} {what}"
        for names, what in reasons
        if names
    ]
    return f" ({'; '.join(texts)})" if texts else ""


class PoolDestinations(Destinations):
    """The nodes that take pods by a rule; for the controller each stays within what is allowed."""

    def __init__(self, view: View, pool: NodeUtilization) -> None:
        super().__init__(view, {name: use.node for name, use in pool.destinations().items()})
        self._pool = pool
        self._promised = view.reserved_by_node()

    def short_of(self, name: str, pod: Pod) -> str:
        """Name a resource of which a node would use more than is allowed; a sweep counts none."""
        pool, use = self._pool, self._pool.destinations()[name]
        if pool.rule.as_upstream or (amounts := pool.used_by(pod)) is None:
            return ""
        allowed = pool.thresholds.allowed_on(use.node, use.used)
        used = dict(use.used)
        add_resources(used, pool.came_since(use))
        add_resources(used, self._promised.get(name, {}))
        short = (
            r for r, more in amounts.items() if more and used.get(r, 0) + more > allowed.get(r, 0)
        )
        return next(short, "")
