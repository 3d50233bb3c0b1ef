"""The tables of the nodes of a pool whose load koordinator's agents measure."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from reactive_desched.model.node_load import (
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
GIVING: Final = {Level.NODE: LoadClass.HIGH, Level.PROD: LoadClass.PROD_HIGH}
TAKING: Final = {
    Level.NODE: (LoadClass.LOW, LoadClass.BOTH_LOW),
    Level.PROD: (LoadClass.PROD_LOW, LoadClass.BOTH_LOW),
}


def load_tables(
    pool: str,
    rule: LoadRule,
    loads: NodeLoads,
    classes: PoolClasses,
    find_obstacles: Callable[[Level], Iterable[str]],
    find_node_obstacle: Callable[[Level, str], str],
) -> Iterator[tuple[Level, NodeTable]]:
    """Yield a table for the use of all pods and one for production pods, where each has thresholds.

    A node that is in none of the `classes` is unknown.
    """
    by_name = {each.load.name: each for each in classes.of(*LoadClass)}
    for level in Level:
        written, means = rule.written(level), classes.means
        if not written.low:
            continue
        rows = [
            (name, loaded)
            for name in sorted(loads.selected)
            for loaded in [by_name.get(name)]
            if loaded is None or rule.is_about(level, loaded.load.capacity)
        ]
        yield (
            level,
            NodeTable(
                counts=_COUNTS[level],
                resources=rule.resources,
                written=written,
                thresholds=written if means is None else written.around(rule.means(level, means)),
                nodes=NodeRows(rows, partial(_classified, rule=rule, level=level)),
                means=None if means is None else rule.means(level, means),
                pool=pool,
                find_obstacles=partial(find_obstacles, level),
                find_node_obstacle=partial(find_node_obstacle, level),
            ),
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
        filled_since_s=loaded.filled_since_s,
    )


def _class(loaded: LoadedNode, rule: LoadRule, level: Level) -> NodeClass:
    used = used_amounts(rule, loaded.load, level)
    if not exceeds(used, loaded.limits.low(level)):
        return NodeClass.UNDERUTILIZED
    if exceeds(used, loaded.limits.high(level)):
        return NodeClass.OVERUTILIZED
    return NodeClass.APPROPRIATELY_UTILIZED


def _role(load_class: LoadClass, level: Level) -> NodeRole:
    if load_class is GIVING[level]:
        return NodeRole.GIVES
    return NodeRole.TAKES if load_class in TAKING[level] else NodeRole.NONE
