"""A pod is on a node of an expensive level, and nodes of a cheaper level have room for it.

Names, defaults and steps are those of koordinator's CustomPriority.
"""

from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    FieldError,
    PluginArgs,
    SelectorObject,
    fix_to,
    fraction_warnings,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.index import Index
from reactive_desched.api.plugin import View
from reactive_desched.api.possible_names import PercentByResource
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import Namespaces, may_leave
from reactive_desched.draining.landing import recheck_of_reserved, waits_or_leaves
from reactive_desched.draining.level_drains import LevelDrain, LevelDrains, RoomLeft
from reactive_desched.draining.load_args import PodSelector
from reactive_desched.model.changes import (
    PLACE_CHANGES,
    Change,
    PodBound,
    PodChange,
    PodEvictabilityChanged,
    PodLabelsChanged,
    PodSpecChanged,
    Resynced,
)
from reactive_desched.model.consolidation import ALL_NODES
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding, MoveSet, RequeueAfter, YieldPoint, with_pauses
from reactive_desched.model.labels import as_selector
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.hints import did_you_mean, quote, sole_near_name
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.indexes.node_levels import LevelRule, NodeLevelChanged, NodeLevels
from reactive_desched.text.counts import format_count

MAX_MISSES: Final = 5
"""A sweep looks no further at a node after so many pods in a row that fit nowhere cheaper."""

MIN_LEVELS: Final = 2

_WAKES_BEST_EFFORT: Final = (
    *(Resynced, NodeLevelChanged),
    *(PodBound, PodSpecChanged, PodLabelsChanged, PodEvictabilityChanged),
)
"""What changes a finding of BestEffort: whether a pod fits elsewhere is left to node fit."""


class PriorityMode(StrEnum):
    """Says how pods leave a node."""

    BEST_EFFORT = "BestEffort"
    DRAIN_NODE = "DrainNode"


class NodeLevel(PluginArgs):
    """A level: nodes of which pods leave for those of later levels."""

    name: str = Field(default="", description="Required. A name for people, another for each.")
    node_selector: SelectorObject | None = Field(
        default=None,
        description="Required. Its nodes, unless an earlier level has them.",
    )
    keep_threshold: PercentByResource | None = Field(
        default=None, description="Read and not used, as in koordinator."
    )
    reject_threshold: PercentByResource | None = Field(
        default=None, description="Read and not used, as in koordinator."
    )

    def warnings(self) -> Iterator[FieldError]:
        """Say which fields have no effect."""
        for key, written in (
            ("keepThreshold", self.keep_threshold),
            ("rejectThreshold", self.reject_threshold),
        ):
            if written is not None:
                yield FieldError(
                    "koordinator reads it and does not use it, so no pod stays or moves for it",
                    "remove it; node fit and moves.maxMoving in the settings keep nodes from "
                    "filling up",
                    (key,),
                    rule=Rule.NO_EFFECT,
                    at_key=True,
                )


class CustomPriorityArgs(PluginArgs):
    """Arguments: the levels of nodes, which pods may leave, and whether whole nodes are drained."""

    paused: bool = Field(default=False, description="Do nothing.")
    dry_run: bool = Field(default=False, description="Decide everything, evict nothing.")
    evictable_namespaces: Namespaces = Field(
        default=Namespaces(), description="Namespaces whose pods may leave; all when left out."
    )
    node_selector: SelectorObject | None = Field(
        default=None, description="The nodes that pods leave, and move to; all when left out."
    )
    pod_selectors: tuple[PodSelector, ...] = Field(
        default=(), description="Only pods that match one of these may leave; all when left out."
    )
    node_fit: bool = Field(
        default=True, description="Evict only pods that fit on a node of a later level."
    )
    eviction_order: tuple[NodeLevel, ...] = Field(
        description="Required. Two levels of nodes at least, the most expensive first: pods leave "
        "a level for any of those after it.",
    )
    mode: str = Field(
        default=PriorityMode.BEST_EFFORT,
        description="BestEffort: each pod that fits leaves. DrainNode: pods leave a node only if "
        "all of them that may leave have a place, beside each other.",
        json_schema_extra={"enum": list(PriorityMode)},
    )
    auto_cordon: bool = Field(
        default=False,
        description="With DrainNode: only nodes that can be emptied are drained, and a node gets "
        "the taint reactive-desched/consolidating before its first pod leaves, instead of a "
        "cordon.",
    )

    @field_validator("eviction_order")
    @classmethod
    def _validate_levels(
        cls, written: tuple[NodeLevel, ...], info: ValidationInfo
    ) -> tuple[NodeLevel, ...]:
        raise_field_errors(_wrong_levels(written), info.context)
        return written

    @field_validator("mode")
    @classmethod
    def _validate_mode(cls, written: str, info: ValidationInfo) -> str:
        raise_field_errors(_unknown_mode(written), info.context)
        return written or PriorityMode.BEST_EFFORT

    def warnings(self) -> Iterator[FieldError]:
        """Warn of arguments that are valid and probably a mistake."""
        for index, level in enumerate(self.eviction_order):
            for key, written in (
                ("keepThreshold", level.keep_threshold),
                ("rejectThreshold", level.reject_threshold),
            ):
                path = prefixed(key, fraction_warnings(written))
                yield from prefixed("evictionOrder", prefixed(index, path))
            selector, is_last = level.node_selector, index == len(self.eviction_order) - 1
            if selector is not None and selector.is_empty and not is_last:
                yield FieldError(
                    "selects every node, so no later level has any",
                    "name the labels of the nodes of this level",
                    ("evictionOrder", index, "nodeSelector"),
                    rule=Rule.NEVER_EVICTS,
                )
        if self.auto_cordon and not self.drains:
            message = "only the mode DrainNode closes nodes"
            hint = f"write mode: {PriorityMode.DRAIN_NODE}, or remove it"
            yield FieldError(message, hint, ("autoCordon",), rule=Rule.NO_EFFECT)

    def covers(self, pod: Pod) -> bool:
        """Say whether the namespaces and selectors let a pod leave."""
        return may_leave(pod, self.evictable_namespaces, self.pod_selectors)

    @property
    def drains(self) -> bool:
        """Say whether whole nodes are drained."""
        return self.mode == PriorityMode.DRAIN_NODE

    @property
    def is_off(self) -> bool:
        """Say whether nothing is to be found: a dry run would evict none of it."""
        return self.paused or self.dry_run


class CustomPriorityPlugin(BalancePlugin[str, CustomPriorityArgs]):
    """Pods of nodes of an expensive level that fit on nodes of a cheaper one.

    `evictionOrder` lists the levels, the most expensive first; a node is of the first level that
    selects it, and one that none selects neither gives pods nor takes them. The pods that request
    least leave first. In the mode BestEffort each pod leaves that fits; it waits while the
    kube-scheduler would put its replacement on a node of no cheaper level (the guard
    `ScoredElsewhere`). In the mode DrainNode pods leave a node only if there is a place for all of
    them that may leave; the controller asks all of the kube-scheduler's filters for that, beside
    the moves that are planned before, whatever `nodeFit` says. With `autoCordon` a node is emptied
    as a whole or not at all, as by ConsolidateNodes: it gets the taint
    `reactive-desched/consolidating` with the effect PreferNoSchedule, which is taken off where its
    pods do not leave. koordinator cordons it, and leaves it so. A sweep writes no taint, so it
    finds nothing then.
    """

    name = "CustomPriority"
    least_debounce = DebounceConfig(quiet_s=5.0, max_wait_s=60.0)
    indexes = (NodeLevels,)
    reacts_to = (*_WAKES_BEST_EFFORT, *PLACE_CHANGES)

    def __init__(self, args: CustomPriorityArgs) -> None:
        super().__init__(args)
        selectors = (as_selector(each.node_selector) for each in args.eviction_order)
        self._rule = LevelRule(tuple(selectors), as_selector(args.node_selector))

    @property
    def required_indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The nodes of each level."""
        return ((NodeLevels, self._rule),)

    @property
    def closes_nodes(self) -> bool:
        """Say whether nodes get the taint before their pods leave."""
        return self.args.drains and self.args.auto_cordon

    def matters(self, change: Change) -> bool:
        """Leave to node fit what can only make a pod fit elsewhere, where each leaves alone."""
        return self.args.drains or isinstance(change, _WAKES_BEST_EFFORT)

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name the node of a pod; all nodes of levels where these change, or nodes are drained."""
        if self.args.drains:
            return (ALL_NODES,)
        if isinstance(change, PodChange):
            return (change.pod.node,)
        levels = self._levels(view)
        names = [name for at in range(levels.count) for name in levels.names(at)]
        return [*names, change.node] if isinstance(change, NodeLevelChanged) else names

    def balance(self, subject: str, view: View) -> Plan:
        """Find the pods of a node that may leave it, or those of all nodes that can be drained."""
        if self.args.is_off:
            return
        if self.args.drains:
            yield from self._drain(view)
            return
        levels = self._levels(view)
        level = levels.level_of(subject)
        if level is None or not (targets := levels.below(level)):
            return
        for pod in self._pods_on(subject, view):
            yield self._finding(pod, level, targets)

    def still_found(self, finding: Finding, subject: str, view: View) -> Finding | None:
        """Return the finding while the pod's node is of its level, and there are cheaper ones."""
        del subject
        levels, level = self._levels(view), finding.place_rank
        is_of_level = level is not None and levels.level_of(finding.pod.node) == level
        return finding if level is not None and is_of_level and levels.below(level) else None

    def sweep(self, view: View) -> Plan:
        """Go through the levels, and evict from each node as koordinator does."""
        levels = self._levels(view)
        if self.args.is_off or self.closes_nodes:
            return
        for level in range(levels.count - 1):
            if not (targets := levels.below(level)):
                return
            later = range(level + 1, levels.count)
            names = [name for at in later for name in levels.names(at)]
            room = RoomLeft(view, iter(names)) if self.args.drains else None
            for node in list(levels.names(level)):
                if room is None:
                    yield from self._sweep_pods(node, level, targets, view)
                else:
                    yield from self._sweep_node(node, level, targets, room, view)

    def describe(self, pod: Pod, view: View) -> str:
        """Say of which level the pod's node is, and how many nodes are of cheaper ones."""
        levels = self._levels(view)
        if (level := levels.level_of(pod.node)) is None:
            return f"{pod.node} is of no level of evictionOrder"
        cheaper = format_count(len(levels.below(level)), "node")
        text = f"{pod.node} is of the level {self._name_of(level)}, and {cheaper} of cheaper ones"
        if self.args.drains and levels.below(level):
            text += "; its pods have no places there beside each other, or one of them stays"
        return text

    def _levels(self, view: View) -> NodeLevels:
        return view.index(NodeLevels, self._rule)

    def _name_of(self, level: int) -> str:
        return self.args.eviction_order[level].name

    def _pods_on(self, node: str, view: View) -> list[Pod]:
        """List the pods that may leave a node, the one that requests least first."""
        node_and_pods = view.pods_of(NodeSubject(node))
        pods = () if node_and_pods is None else node_and_pods[1]
        found = [pod for pod in pods if self.args.covers(pod) and view.evictable(pod)]
        return sorted(found, key=_size)

    def _drain(self, view: View) -> Plan:
        """Find the pods of the nodes that can be drained, one node after the other."""
        trial = yield from with_pauses(view.try_moves(), every=1)
        drains = LevelDrains(
            view,
            self._levels(view),
            trial,
            self.args.covers,
            _size,
            empties=self.closes_nodes,
        )
        yield from recheck_of_reserved(view)
        for drain in (yield from with_pauses(drains.plan(), every=1)):
            if (yield from self._drain_node(drain)) == "cluster":
                return

    def _drain_node(
        self, drain: LevelDrain
    ) -> Generator[Finding | RequeueAfter | YieldPoint, Decision, str]:
        """Find the pods of a node; return the scope whose limit ended it.

        Nothing more is found once something keeps a pod, unless a set has begun.
        """
        pods = tuple(pod.uid for pod, _ in drain.places)
        moved = MoveSet(drain.node, pods) if self.closes_nodes else None
        for pod, place in drain.places:
            decision = yield self._finding(pod, drain.level, drain.targets, place, moved)
            if decision.scope_exhausted == "cluster":
                return decision.scope_exhausted
            if not drain.has_begun and not waits_or_leaves(decision):
                return ""
        return ""

    def _sweep_pods(self, node: str, level: int, targets: frozenset[str], view: View) -> Plan:
        found: list[Pod] = []
        misses = 0
        for pod in self._pods_on(node, view):
            if self.args.node_fit and view.find_node_among(pod, targets) is None:
                misses += 1
                if misses == MAX_MISSES:
                    break
            else:
                misses = 0
                found.append(pod)
        for pod in found:
            yield self._finding(pod, level, targets)

    def _sweep_node(
        self, node: str, level: int, targets: frozenset[str], room: RoomLeft, view: View
    ) -> Plan:
        pods = self._pods_on(node, view)

        def fits(pod: Pod, name: str) -> bool:
            return not self.args.node_fit or view.find_node_among(pod, (name,)) is not None

        if not room.take(pods, fits):
            return
        for pod in pods:
            if not (yield self._finding(pod, level, targets)).pod_leaves:
                return

    def _finding(
        self,
        pod: Pod,
        level: int,
        targets: frozenset[str],
        place: str = "",
        moved: MoveSet | None = None,
    ) -> Finding:
        name = self._name_of(level)
        message = f"{pod.node} is of the level {name}, and cheaper nodes may take the pod"
        details: dict[str, int | str] = {"level": name, "cheaperNodes": len(targets)}
        if self.args.drains:
            message = f"{pod.node} is of the level {name}, and cheaper nodes have room for its pods"
        if place:
            details["place"] = place
        return Finding(
            pod,
            self.name,
            message,
            needs_fit=self.args.node_fit,
            targets=targets,
            relieves_node=self.args.drains,
            details=details,
            by_score=True,
            place_rank=level,
            move_set=moved,
        )


def _size(pod: Pod) -> tuple[int, int, str, str]:
    """Order pods: what requests least comes first."""
    asked = pod.spec.requests
    return asked.get(CPU, 0), asked.get(MEMORY, 0), pod.namespace, pod.name


def _wrong_levels(levels: Sequence[NodeLevel]) -> Iterator[FieldError]:
    if len(levels) < MIN_LEVELS:
        message = "there must be two levels at least, as pods move from one to a later one"
        hint = "write each with a name and a nodeSelector, the most expensive first"
        yield FieldError(message, hint, rule=Rule.NO_CRITERION)
    names = [each.name for each in levels]
    for index, each in enumerate(levels):
        if not each.name:
            hint = "write a name for people, such as on-demand"
            yield FieldError("is required", hint, (index, "name"), rule=Rule.MISSING_FIELD)
        elif each.name in names[:index]:
            message = f"a level named {quote(each.name)} is there already"
            path = (index, "name")
            yield FieldError(message, "write another", path, rule=Rule.DUPLICATE_ITEM)
        if each.node_selector is None:
            hint = "write the labels of its nodes below matchLabels"
            path = (index, "nodeSelector")
            yield FieldError("is required", hint, path, rule=Rule.MISSING_FIELD)


def _unknown_mode(mode: str) -> Iterator[FieldError]:
    if mode and mode not in tuple(PriorityMode):
        hint = did_you_mean(mode, tuple(PriorityMode)) or f"write {' or '.join(PriorityMode)}"
        fix = fix_to(sole_near_name(mode, tuple(PriorityMode)))
        yield FieldError(f"{quote(mode)} is not a mode", hint, rule=Rule.UNKNOWN_VALUE, fix=fix)
