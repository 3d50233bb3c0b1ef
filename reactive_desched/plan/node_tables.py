"""Builds the tables of nodes, from the tables of plugins and the decisions of a sweep."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.api.index import NodeInfo
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.fit.upstream import SCHEDULER, NodeFit, UpstreamNodeFit
from reactive_desched.gate.controller_rules import controller_rules
from reactive_desched.gate.evictor import DefaultEvictor
from reactive_desched.gate.filters import UPSTREAM_RULES
from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.node_table import ClassifiedNode, NodeRole, NodeTable
from reactive_desched.model.plugin_faults import PluginFault, ask_plugin, plugin_fault
from reactive_desched.model.resources import PODS, ResourceList, format_quantity
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.model.usage import NodeMetric, NodeUsage
from reactive_desched.model.utilization import NodeClass, Thresholds, capacity_of
from reactive_desched.plan.evaluation import PlanResult
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.report import DecisionCounts, PlannedDecision
from reactive_desched.plan.rule_table import (
    ClassCounts,
    NodeRow,
    ResourceRow,
    RuleTable,
    RuleTables,
    SampleRef,
    ThresholdPair,
)
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import Policy
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.text.counts import format_count
from reactive_desched.usage.metrics_api import KUBERNETES_METRICS

__all__ = ["rule_tables"]

_ALL = 100.0
MAX_REASONS: Final = 3
"""So many reasons are named for which gates hold all pods that a plugin would move."""


def rule_tables(
    policy: Policy,
    snapshot: Snapshot,
    now_s: float,
    mode: PlanMode,
    node_fit: str,
    result: PlanResult,
    schedulers: SchedulerProfiles = DEFAULT_PROFILES,
) -> RuleTables:
    """Return the tables of all plugins that have some, for the cluster before anything moved.

    `now_s` is in seconds since the epoch. The result is that of a preview over the same.
    """
    plugins = (plugin for profile in policy.profiles for plugin in profile.plugins)
    if not any(isinstance(each, BalancePlugin) for each in plugins):
        return RuleTables()
    state = snapshot.build_state(policy.node_selector)
    for moved in result.moved_before:
        state.upsert(moved)
    view = ClusterView(state, lambda: now_s)
    fit: NodeFit = (
        SchedulerNodeFit(view, lambda: now_s, schedulers)
        if node_fit == SCHEDULER
        else UpstreamNodeFit(view)
    )
    builder = _Builder(state, now_s, mode, result.decisions)
    tables: list[RuleTable] = []
    faults: list[PluginFault] = []
    views = _profile_views(policy, state, view, fit, mode)
    for profile, profile_view in zip(policy.profiles, views, strict=True):
        for plugin in profile.plugins:
            if isinstance(plugin, BalancePlugin):
                found = _tables(profile.name, plugin, profile_view, mode, builder)
                if isinstance(found, PluginFault):
                    faults.append(found)
                else:
                    tables += found
    return RuleTables(tuple(tables), tuple(faults))


def _tables(
    profile: str,
    plugin: BalancePlugin[Any, Any],  # of any subjects and arguments
    view: ProfileView,
    mode: PlanMode,
    builder: "_Builder",
) -> list[RuleTable] | PluginFault:
    """Return the tables of a plugin, or its fault."""
    ask = plugin.node_tables if mode is PlanMode.RUN else plugin.sweep_node_tables

    def build() -> list[RuleTable] | PluginFault:
        return [builder.build(profile, plugin.name, table) for table in ask(view)]

    def failed(error: BaseException) -> PluginFault:
        return plugin_fault(profile, plugin.name, "its tables of nodes", error)

    return ask_plugin(build, otherwise=failed)


def _profile_views(
    policy: Policy, state: ClusterState, view: ClusterView, fit: NodeFit, mode: PlanMode
) -> Iterator[ProfileView]:
    """Yield the cluster as the plugins of each profile see it when nothing is evicted yet."""
    no_evictions = InFlightEvictions(EvictionLedger(view), lambda: 0.0)
    rules = controller_rules(lambda _: ()) if mode is PlanMode.RUN else UPSTREAM_RULES
    for profile in policy.profiles:
        evictor = DefaultEvictor(profile.evictor, view, fit, rules, profile.node_selector)
        yield ProfileView(state, lambda: view.now_s, evictor, fit, no_evictions)


MovesByNode = Mapping[tuple[str, str], Mapping[str, Counter[str]]]
"""How often each action was decided, by profile and plugin, and by node."""


def _count_moves(decisions: Iterable[PlannedDecision]) -> MovesByNode:
    counted: defaultdict[tuple[str, str], dict[str, Counter[str]]] = defaultdict(dict)
    for each in decisions:
        by_node = counted[each.profile, each.plugin]
        by_node.setdefault(each.node, Counter())[each.action] += 1
    return counted


class _Builder:
    """Puts a plugin's table beside the requests and the measured use of every node."""

    def __init__(
        self,
        state: ClusterState,
        now_s: float,
        mode: PlanMode,
        decisions: Sequence[PlannedDecision],
    ) -> None:
        self._now_s = now_s
        self._mode = mode
        self._decisions = decisions
        self._moves = _count_moves(decisions)
        self._infos = sorted(
            (info for info in state.node_infos() if info.node is not None),
            key=lambda info: info.name,
        )
        self._samples = {each.node: each for each in _samples(state)}

    def build(self, profile: str, plugin: str, table: NodeTable) -> RuleTable:
        """Return a table with a row for each node of the cluster."""
        classified = {node.name: node for node in table.nodes}
        of_plugin = self._moves.get((profile, plugin), {})
        moves = {name: counts for name, counts in of_plugin.items() if name in classified}
        rows = tuple(
            self._row(info, classified.get(info.name), table, moves.get(info.name, Counter()))
            for info in self._infos
        )
        return RuleTable(
            profile=profile,
            plugin=plugin,
            pool=table.pool or None,
            counts=table.counts,
            written=_pairs(table.written),
            means=table.means,
            in_force=_pairs(table.thresholds),
            obstacles=(*table.obstacles, *self._blocked(profile, plugin, classified)),
            classes=_count_classes(rows),
            moves=_counts(sum(moves.values(), Counter())),
            nodes=rows,
        )

    def _blocked(self, profile: str, plugin: str, nodes: Collection[str]) -> Iterator[str]:
        """Say by what findings are blocked, if all of them are."""
        found = [
            each
            for each in self._decisions
            if (each.profile, each.plugin) == (profile, plugin) and each.node in nodes
        ]
        if any(each.action == "Evict" for each in found):
            return
        messages = {each.reason: each.rejections[0].message for each in found if each.rejections}
        counts = Counter(each.reason for each in found)
        for reason, count in counts.most_common(MAX_REASONS):
            pods = format_count(count, "pod", "is", "are")
            yield f"{pods} held by a gate ({reason}): {messages.get(reason, '')}"

    def _row(
        self, info: NodeInfo, node: ClassifiedNode | None, table: NodeTable, moves: Counter[str]
    ) -> NodeRow:
        sample = node.sample if node is not None and node.sample else self._samples.get(info.name)
        requested = info.held if self._mode is PlanMode.RUN else info.requested
        resources = {r: _resource_row(r, info, requested, node, sample) for r in table.resources}
        return NodeRow(
            name=info.name,
            node_class=None if node is None else str(node.node_class),
            class_by_use=_class_by_use(resources, table) if node is not None else None,
            role=None if node is None or node.role is NodeRole.NONE else str(node.role),
            remark=_remark(info, node, table),
            resources=resources,
            sample=self._sample_ref(sample),
            moves=_counts(moves),
        )

    def _sample_ref(self, sample: NodeUsage | None) -> SampleRef | None:
        if sample is None:
            return None
        return SampleRef(sample.source, round(max(0.0, self._now_s - sample.sampled_s), 3))


def _samples(state: ClusterState) -> Iterator[NodeUsage]:
    """Yield the samples there are of cpu and memory; what metrics-server measured comes last."""
    yield from (each for each in state.store(NodeMetric) if isfinite(each.sampled_s))
    yield from (each for each in state.store(NodeUsage) if each.source == KUBERNETES_METRICS)


def _remark(info: NodeInfo, node: ClassifiedNode | None, table: NodeTable) -> str | None:
    """Say why the rule is not about a node, or does not give it pods, or goes on doing so."""
    assert info.node is not None, "of the nodes there are"
    if not info.node.is_ready:
        return "not ready"
    if not info.eligible:
        return "not selected by the policy's nodeSelector"
    if node is None:
        if not any(capacity_of(info.node, resource) for resource in table.written.low):
            return f"has no {', '.join(table.written.low)}"
        return f"not in pool {table.pool}" if table.pool else "left out"
    return "cordoned" if info.node.unschedulable else node.remark or None


def _resource_row(
    resource: str,
    info: NodeInfo,
    held: ResourceList,
    node: ClassifiedNode | None,
    sample: NodeUsage | None,
) -> ResourceRow:
    assert info.node is not None, "of the nodes there are"
    allocatable = info.node.allocatable.get(resource)
    used = None if sample is None else sample.usage.get(resource)
    requested = held.get(resource, 0)
    capacity = allocatable if node is None else node.capacity.get(resource)
    counted = None if node is None else node.used.get(resource)
    percent = None if node is None else node.percent.get(resource)
    return ResourceRow(
        allocatable=_quantity(resource, allocatable),
        requested=None if allocatable is None else _quantity(resource, requested),
        requested_percent=_percent(requested, allocatable),
        used=_quantity(resource, used if resource != PODS else len(info.active)),
        used_percent=_percent(used if resource != PODS else len(info.active), allocatable),
        counted=_quantity(resource, counted),
        counted_percent=_percent(counted, capacity) if percent is None else round(percent, 3),
    )


def _class_by_use(resources: Mapping[str, ResourceRow], table: NodeTable) -> str | None:
    """Return the class by measured use, where requests count and all of the use is known.

    There is none beside means of requests: measured use has other means.
    """
    if not table.counts_requests or table.means is not None:
        return None
    thresholds = table.thresholds
    used = {r: resources[r].used_percent for r in (*thresholds.low, *thresholds.high)}
    known = {r: percent for r, percent in used.items() if percent is not None}
    return str(thresholds.classify(known)) if len(known) == len(used) else None


def _quantity(resource: str, amount: int | None) -> str | None:
    return None if amount is None else format_quantity(resource, amount)


def _percent(amount: int | None, capacity: int | None) -> float | None:
    return None if amount is None or not capacity else round(amount / capacity * _ALL, 3)


def _pairs(thresholds: Thresholds) -> dict[str, ThresholdPair]:
    resources = dict.fromkeys((*thresholds.low, *thresholds.high))
    return {r: ThresholdPair(thresholds.low.get(r), thresholds.high.get(r)) for r in resources}


def _counts(actions: Counter[str]) -> DecisionCounts:
    return DecisionCounts(actions["Evict"], actions["Refuse"], actions["Defer"])


def _count_classes(rows: Iterable[NodeRow]) -> ClassCounts:
    counted = Counter(row.node_class for row in rows)
    return ClassCounts(
        underutilized=counted[NodeClass.UNDERUTILIZED],
        appropriately_utilized=counted[NodeClass.APPROPRIATELY_UTILIZED],
        overutilized=counted[NodeClass.OVERUTILIZED],
        unknown=counted[NodeClass.UNKNOWN],
        left_out=counted[None],
    )
