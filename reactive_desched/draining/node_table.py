"""The table of the nodes that a draining plugin moves pods between."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.draining.room import left_on
from reactive_desched.model.node_table import ClassifiedNode, NodeRole, NodeRows, NodeTable
from reactive_desched.model.resources import add_resources
from reactive_desched.model.utilization import REQUESTS, NodeUse, capacity_of
from reactive_desched.state.indexes.node_utilization import NodeUtilization

REQUESTS_OF_PODS: Final = "requests of pods"
_MAX_NAMED: Final = 3


def node_table(pool: NodeUtilization) -> NodeTable:
    """Return how each eligible node stands now, and why no pod moves, if none can."""
    rule = pool.rule
    uses = [use for _, use in sorted(pool.uses().items())]
    return NodeTable(
        counts=REQUESTS_OF_PODS if rule.source == REQUESTS else f"use measured by {rule.source}",
        resources=rule.tracked,
        written=rule.thresholds,
        thresholds=pool.thresholds,
        nodes=NodeRows(uses, lambda use: _classified(use, pool)),
        means=pool.means,
        obstacles=tuple(_obstacles(pool)),
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
    )


def _role(name: str, pool: NodeUtilization) -> NodeRole:
    if name in pool.sources():
        return NodeRole.GIVES
    return NodeRole.TAKES if name in pool.destinations() else NodeRole.NONE


def _obstacles(pool: NodeUtilization) -> Iterator[str]:
    """Say why a sweep moves nothing, whatever the pods are."""
    rule, sources, destinations = pool.rule, len(pool.sources()), len(pool.destinations())
    if pool.unknown:
        yield (
            f"the use of {_named(sorted(pool.unknown))} is unknown: a sweep moves nothing, the"
            " controller only from and to other nodes"
        )
    if not sources:
        yield f"no node gives pods away: that takes one that is {rule.gives}"
    if not destinations:
        yield f"no node takes pods: that takes one that is {rule.takes}"
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


def _room(pool: NodeUtilization) -> dict[str, int]:
    total: dict[str, int] = {}
    for use in pool.destinations().values():
        add_resources(total, left_on(use, pool.thresholds))
    return total


def _named(nodes: list[str]) -> str:
    more = len(nodes) - _MAX_NAMED
    return ", ".join(nodes[:_MAX_NAMED]) + (f" and {more} more nodes" if more > 0 else "")
