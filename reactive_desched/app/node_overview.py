"""`/debug/nodes`: every node with its use and class, for a page that shows all of them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

import anyio
import anyio.lowlevel
from msgspec import Struct

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.api.index import NodeInfo
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.model.node_table import ClassifiedNode
from reactive_desched.model.plugin_faults import ask_plugin
from reactive_desched.model.resources import CPU, MEMORY, PODS
from reactive_desched.model.usage import NodeMetric, NodeUsage
from reactive_desched.primitives.hints import refuse_filters

NODES_PER_SLICE: Final = 100
"""So many nodes are described before the event loop may have its turn."""


class NodeOverview(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One node: shares of its allocatable in per cent, and how many of its pods wait or move.

    `nodeClass` is the class by the first plugin that has one; empty without such a plugin.
    """

    name: str
    zone: str
    ready: bool
    eligible: bool
    pods: int
    requested: Mapping[str, float]
    used: Mapping[str, float] = {}
    cordoned: bool = False
    taints: tuple[str, ...] = ()
    node_class: str = ""
    waiting: int = 0
    moving: int = 0


class NodeOverviews(Struct, frozen=True, rename="camel"):
    """The nodes by name; `classedBy` names the plugin whose classes they have."""

    classed_by: str
    nodes: tuple[NodeOverview, ...]


async def overview(controller: Controller, query: Mapping[str, str]) -> NodeOverviews:
    """Return every node; raises ConfigError for a query that is not empty."""
    refuse_filters(query)
    plugin, classes = await _classes(controller)
    waiting: Counter[str] = Counter()
    for number, each in enumerate(controller.evaluator.queue.pending(), 1):
        if not (each.decision.keeps or each.decision.pod_leaves):
            waiting[each.decision.finding.pod.node] += 1
        if number % NODES_PER_SLICE == 0:
            await anyio.lowlevel.checkpoint()
    moving = Counter(move.origin.node for move in controller.ledger)
    used = {each.node: each for each in _samples(controller)}
    found: list[NodeOverview] = []
    infos = sorted(controller.view.node_infos(), key=lambda info: info.name)
    for number, info in enumerate(infos, 1):
        if info.node is not None:
            found.append(_overview(controller, info, classes, used, (waiting, moving)))
        if number % NODES_PER_SLICE == 0:
            await anyio.lowlevel.checkpoint()
    return NodeOverviews(plugin, tuple(found))


def _overview(
    controller: Controller,
    info: NodeInfo,
    classes: Mapping[str, str],
    used: Mapping[str, NodeUsage],
    counts: tuple[Counter[str], Counter[str]],
) -> NodeOverview:
    node = info.node
    assert node is not None, "the caller has checked it"
    requested = {**info.held, PODS: len(info.active)}
    sample = used.get(info.name)
    return NodeOverview(
        name=info.name,
        zone=controller.view.zone(info.name),
        ready=node.is_ready,
        eligible=info.eligible,
        pods=len(info.active),
        requested=_percent(requested, node.allocatable),
        used={} if sample is None else _percent(sample.usage, node.allocatable),
        cordoned=node.unschedulable,
        taints=tuple(map(str, node.taints)),
        node_class=classes.get(info.name, ""),
        waiting=counts[0][info.name],
        moving=counts[1][info.name],
    )


def _percent(amounts: Mapping[str, int], of: Mapping[str, int]) -> dict[str, float]:
    return {
        resource: round(100 * amounts.get(resource, 0) / whole, 1)
        for resource in (CPU, MEMORY, PODS)
        if (whole := of.get(resource)) and resource in amounts
    }


async def _classes(controller: Controller) -> tuple[str, Mapping[str, str]]:
    """Return the classes of the nodes by the first plugin that has some, and the plugin's name."""
    for instance in controller.evaluator.instances:
        plugin = instance.plugin
        if not isinstance(plugin, BalancePlugin):
            continue
        with controller.state.questioned():
            if (rows := ask_plugin(partial(_rows_of, plugin, instance), _nothing)) is None:
                continue
        classes: dict[str, str] = {}
        while True:
            with controller.state.questioned():
                if not (found := ask_plugin(partial(_next_classes, rows), _nothing)):
                    break
            classes.update(found)
            await anyio.lowlevel.checkpoint()
        return plugin.name, classes
    return "", {}


def _rows_of(
    plugin: BalancePlugin[Any, Any],  # of any subjects and arguments
    instance: PluginInstance,
) -> Iterator[ClassifiedNode] | None:
    """Return the rows of a plugin's first table, if it has one."""
    table = next(iter(plugin.node_tables(instance.view)), None)
    return None if table is None else iter(table.nodes)


def _next_classes(rows: Iterator[ClassifiedNode]) -> list[tuple[str, str]]:
    """Return the names and classes of some more nodes; none at the end."""
    return [(each.name, str(each.node_class)) for each in islice(rows, NODES_PER_SLICE)]


def _nothing(_: BaseException) -> None:
    """Stand for what a plugin does not say: the overview does without."""


def _samples(controller: Controller) -> Iterator[NodeUsage]:
    yield from controller.state.store(NodeMetric)
    yield from controller.state.store(NodeUsage)
