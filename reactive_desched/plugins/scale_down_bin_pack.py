"""Ranks pods for a scale-down: first those of the nodes that are nearest to being empty.

Names, defaults and steps are those of koordinator's ScaleDownBinPack.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from math import isfinite
from typing import Annotated, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from reactive_desched.api.args import (
    FieldError,
    Int32,
    PluginArgs,
    SelectorObject,
    fix_to,
    raise_field_errors,
)
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.deletion_costs import MAX_COST
from reactive_desched.api.plugin import View
from reactive_desched.api.possible_names import RESOURCE_NAMES, ResourceNames
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import Namespaces, may_leave
from reactive_desched.draining.evacuation_ranks import RankedNode, ranked_pods
from reactive_desched.draining.load_args import PodSelector
from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.hints import did_you_mean, quote, sole_near_name
from reactive_desched.primitives.long_answers import at_once


class BinPackStrategy(StrEnum):
    """Says what is done with the ranks."""

    CALCULATE_ONLY = "CalculateOnly"
    EVICT_DIRECTLY = "EvictDirectly"


class ScaleDownBinPackArgs(PluginArgs):
    """Arguments: the pods that are ranked, what counts, and what is done with the ranks."""

    paused: bool = Field(default=False, description="Do nothing.")
    strategy: str = Field(
        default=BinPackStrategy.CALCULATE_ONLY,
        description="CalculateOnly: the controller writes the ranks to the pods, as "
        "controller.kubernetes.io/pod-deletion-cost. EvictDirectly: a sweep evicts the first ones.",
        json_schema_extra={"enum": list(BinPackStrategy)},
    )
    max_pods_to_evict: Int32 | None = Field(
        default=None, description="With EvictDirectly required: how many pods a sweep evicts."
    )
    node_selector: SelectorObject | None = Field(
        default=None, description="The nodes whose pods are ranked; all when left out."
    )
    pod_selectors: tuple[PodSelector, ...] = Field(
        default=(), description="Only pods that match one of these are ranked; all when left out."
    )
    evictable_namespaces: Namespaces = Field(
        default=Namespaces(),
        description="Namespaces whose pods are ranked; all when left out. Others' pods still count "
        "against their nodes.",
    )
    resources: ResourceNames = Field(
        default=(CPU, MEMORY), description="The resources that count; cpu and memory when empty."
    )
    resource_weights: Annotated[Mapping[str, float], RESOURCE_NAMES] = Field(
        default={},
        description="How much a resource counts, beside those under resources: 1 when left out.",
    )

    @field_validator("strategy")
    @classmethod
    def _validate_strategy(cls, written: str, info: ValidationInfo) -> str:
        raise_field_errors(_unknown_strategy(written), info.context)
        return written or BinPackStrategy.CALCULATE_ONLY

    @field_validator("resource_weights")
    @classmethod
    def _validate_weights(
        cls, written: Mapping[str, float], info: ValidationInfo
    ) -> Mapping[str, float]:
        raise_field_errors(_wrong_weights(written), info.context)
        return written

    @model_validator(mode="after")
    def _validate_most(self) -> Self:
        raise_field_errors(self._missing_most())
        return self

    def warnings(self) -> Iterator[FieldError]:
        """Say what has no effect."""
        if self.evicts:
            message = (
                "the controller, which looks again at each change, would evict so many each time, "
                "and evicts none; `run --once` evicts them"
            )
            hint = "write CalculateOnly, or ConsolidateNodes to have nodes emptied"
            yield FieldError(message, hint, ("strategy",), rule=Rule.NO_EFFECT)
        elif self.max_pods_to_evict is not None:
            message = f"only the strategy {BinPackStrategy.EVICT_DIRECTLY} evicts"
            yield FieldError(message, "remove it", ("maxPodsToEvict",), rule=Rule.NO_EFFECT)

    @property
    def evicts(self) -> bool:
        """Say whether pods are evicted instead of having a cost."""
        return self.strategy == BinPackStrategy.EVICT_DIRECTLY

    @property
    def weights(self) -> Mapping[str, float]:
        """Return how much each resource counts."""
        listed = self.resources or (CPU, MEMORY)
        return {**dict.fromkeys(listed, 1.0), **self.resource_weights}

    def selects(self, node: Node) -> bool:
        """Say whether a node is one of those meant."""
        return self.node_selector is None or self.node_selector.matches(node.labels)

    def covers(self, pod: Pod) -> bool:
        """Say whether the namespaces and selectors choose a pod."""
        return may_leave(pod, self.evictable_namespaces, self.pod_selectors)

    def _missing_most(self) -> Iterator[FieldError]:
        most = self.max_pods_to_evict
        if self.evicts and (most is None or most <= 0):
            message = f"must be above 0 with the strategy {BinPackStrategy.EVICT_DIRECTLY}"
            path = ("maxPodsToEvict",)
            yield FieldError(message, "write how many", path, rule=Rule.OUT_OF_BOUNDS)


class ScaleDownBinPackPlugin(BalancePlugin[str, ScaleDownBinPackArgs]):
    """Ranks pods for a scale-down: first those of the node that is nearest to being empty then.

    A node's score is what the pods that stay request of it, by what those that are ranked request;
    the lowest comes first, and of its pods the largest. With the strategy CalculateOnly nothing is
    evicted: the controller writes the rank of each pod as the annotation
    `controller.kubernetes.io/pod-deletion-cost`, by which Kubernetes chooses the pods to delete
    when a ReplicaSet shrinks, and the highest cost to pods that are selected and may not be
    evicted. It looks every 30 s, and writes what differs, 100 pods each time at most. That takes
    the right to patch pods. Pods of DaemonSets, static pods and those of other namespaces have no
    cost written; koordinator writes the highest one to them. With EvictDirectly a sweep evicts the
    first `maxPodsToEvict` pods; the controller evicts none.
    """

    name = "ScaleDownBinPack"
    reacts_to = (Resynced,)
    asks_node_fit = False

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name none: what it finds is found in a sweep."""
        del change, view
        return ()

    def balance(self, subject: str, view: View) -> Plan:
        """Find nothing: each look would find as many pods again."""
        del subject, view
        yield from ()

    def sweep(self, view: View) -> Plan:
        """Evict the first pods, if the strategy says so, until there are enough."""
        if self.args.paused or not self.args.evicts:
            return
        left = self.args.max_pods_to_evict or 0
        nodes = at_once(self._nodes(view))
        for rank, pod in enumerate(chain.from_iterable(ranked_pods(nodes, self.args.weights))):
            message = f"for a scale-down it is number {rank + 1} of the pods to delete"
            left -= (yield Finding(pod, self.name, message, details={"rank": rank})).pod_leaves
            if not left:
                return

    def deletion_costs(self, view: View) -> Generator[None, None, Sequence[tuple[Pod, int]]]:
        """Return the rank of each pod, and the highest cost of those that may not be evicted."""
        if self.args.paused or self.args.evicts:
            return ()
        nodes = yield from self._nodes(view)
        costs: list[tuple[Pod, int]] = []
        for pods in ranked_pods(nodes, self.args.weights):
            costs += [(pod, rank) for rank, pod in enumerate(pods, start=len(costs))]
            yield
        skipped = (pod for each in nodes if each.eligible for pod in each.skipped)
        return [*costs, *((pod, MAX_COST) for pod in skipped)]

    def describe(self, pod: Pod, view: View) -> str:
        """Say how the pod's node compares."""
        found = view.pods_of(NodeSubject(pod.node))
        if found is None or not self.args.selects(found[0]):
            return f"{pod.node} is none of the nodes whose pods are ranked"
        score = self._node(*found, view).score(self.args.weights)
        return f"what stays on {pod.node} is {score:.2f} times what would be deleted there"

    def _nodes(self, view: View) -> Generator[None, None, list[RankedNode]]:
        """List the nodes meant, each with its pods, one in each step."""
        nodes: list[RankedNode] = []
        for name in view.node_names():
            found = view.pods_of(NodeSubject(name))
            if found is not None and self.args.selects(found[0]):
                nodes.append(self._node(*found, view))
            yield
        return nodes

    def _node(self, node: Node, pods: Iterable[Pod], view: View) -> RankedNode:
        eligible: list[Pod] = []
        skipped: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            if not self.args.covers(pod):
                others.append(pod)
            elif view.evictable(pod):
                eligible.append(pod)
            else:
                (others if drain_leaves(pod) else skipped).append(pod)
        return RankedNode(node, tuple(eligible), tuple(skipped), tuple(others))


def _unknown_strategy(strategy: str) -> Iterator[FieldError]:
    known = tuple(BinPackStrategy)
    if strategy and strategy not in known:
        hint = did_you_mean(strategy, known) or f"write {' or '.join(known)}"
        fix = fix_to(sole_near_name(strategy, known))
        message = f"{quote(strategy)} is not a strategy"
        yield FieldError(message, hint, rule=Rule.UNKNOWN_VALUE, fix=fix)


def _wrong_weights(weights: Mapping[str, float]) -> Iterator[FieldError]:
    for resource, weight in weights.items():
        if weight <= 0 or not isfinite(weight):
            message = f"must be a number above 0, not {weight:g}"
            hint = "to leave a resource out, remove it here and under resources"
            yield FieldError(message, hint, (resource,), rule=Rule.OUT_OF_BOUNDS)
