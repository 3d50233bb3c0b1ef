"""The tables of the nodes of a pool whose load koordinator's agents measure."""

from collections.abc import Iterator
from functools import partial

from reactive_desched.model.node_load import (
    TARGETS,
    Level,
    LoadClass,
    LoadRule,
    exceeds,
    used_amounts,
)
from reactive_desched.model.node_table import ClassifiedNode, NodeRole, NodeRows, NodeTable
from reactive_desched.model.utilization import NodeClass
from reactive_desched.state.indexes.node_loads import LoadedNode, NodeLoads, PoolClasses

_COUNTS = {
    Level.NODE: "use measured by koordinator's agents",
    Level.PROD: "use of production pods, measured by koordinator's agents",
}
_GIVING = {Level.NODE: LoadClass.HIGH, Level.PROD: LoadClass.PROD_HIGH}
_TAKING = {
    Level.NODE: (LoadClass.LOW, LoadClass.BOTH_LOW),
    Level.PROD: (LoadClass.PROD_LOW, LoadClass.BOTH_LOW),
}


def load_tables(
    pool: str, rule: LoadRule, loads: NodeLoads, fresh_after_s: float, number_of_nodes: int
) -> Iterator[NodeTable]:
    """Yield a table for the use of all pods and one for production pods, where each has thresholds.

    A node measured at `fresh_after_s` or before, in seconds since the epoch, is unknown.
    """
    classes = loads.classes(fresh_after_s)
    by_name = {each.load.name: each for each in classes.of(*LoadClass)}
    for level in Level:
        written = rule.written(level)
        if not written.low:
            continue
        means = classes.means
        yield NodeTable(
            counts=_COUNTS[level],
            resources=rule.resources,
            written=written,
            thresholds=written if means is None else written.around(rule.means(level, means)),
            nodes=NodeRows(
                [
                    (name, loaded)
                    for name in sorted(loads.selected)
                    for loaded in [by_name.get(name)]
                    if loaded is None or rule.is_about(level, loaded.load.capacity)
                ],
                partial(_classified, rule=rule, level=level),
            ),
            means=None if means is None else rule.means(level, means),
            pool=pool,
            obstacles=tuple(_obstacles(classes, number_of_nodes)),
        )


def _classified(row: tuple[str, LoadedNode | None], rule: LoadRule, level: Level) -> ClassifiedNode:
    name, loaded = row
    if loaded is None:
        return ClassifiedNode(name, NodeClass.UNKNOWN, NodeRole.NONE, {}, {}, {})
    load = loaded.load
    return ClassifiedNode(
        name=name,
        node_class=_class(loaded, rule, level),
        role=_role(loaded.load_class, level),
        capacity=load.capacity,
        used=load.used(level),
        percent={r: load.percent(level, r) for r in rule.resources if load.capacity.get(r)},
    )


def _class(loaded: LoadedNode, rule: LoadRule, level: Level) -> NodeClass:
    used = used_amounts(rule, loaded.load, level)
    if not exceeds(used, loaded.limits.low(level)):
        return NodeClass.UNDERUTILIZED
    if exceeds(used, loaded.limits.high(level)):
        return NodeClass.OVERUTILIZED
    return NodeClass.APPROPRIATELY_UTILIZED


def _role(load_class: LoadClass, level: Level) -> NodeRole:
    if load_class is _GIVING[level]:
        return NodeRole.GIVES
    return NodeRole.TAKES if load_class in _TAKING[level] else NodeRole.NONE


def _obstacles(classes: PoolClasses, number_of_nodes: int) -> Iterator[str]:
    """Say why nothing moves in the pool, whatever the pods are."""
    with_room = len(classes.of(*TARGETS))
    measured = sum(map(len, classes.by_class.values()))
    if measured < classes.selected:
        count = classes.selected - measured
        yield f"{count} of {classes.selected} nodes have no recent measurement: they are left out"
    if not classes.of(*_GIVING.values()):
        yield "no node gives pods away: that takes one that is overutilized"
    if not with_room:
        yield "no node takes pods: that takes one that is underutilized and not cordoned"
    elif with_room <= number_of_nodes:
        yield f"numberOfNodes is {number_of_nodes}: no more nodes than that have room"
    elif with_room >= classes.selected:
        yield "every node of the pool has room"
