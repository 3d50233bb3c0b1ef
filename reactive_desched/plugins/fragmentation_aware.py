"""A node's pods request much of one resource and little of another, which nothing else can use.

Names, defaults and steps are those of koordinator's FragmentationAware.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from math import sqrt
from typing import Final

from msgspec import Struct
from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    FieldError,
    PluginArgs,
    SelectorObject,
    camel_case,
    raise_field_errors,
)
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.plugin import View
from reactive_desched.api.possible_names import ResourceNames
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import LabelledPods, Namespaces, may_leave
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeChange,
    NodeLabelsChanged,
    PodBound,
    PodChange,
    PodEvictabilityChanged,
    PodGone,
    PodLabelsChanged,
    PodSpecChanged,
    PodTerminating,
    Resynced,
)
from reactive_desched.model.findings import Finding, with_pauses
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.resources import CPU, MEMORY, PODS, ResourceList, add_resources
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.model.utilization import ALL
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.long_answers import at_once

MAX_DEVIATION: Final = 0.5
"""The largest standard deviation of shares: half of them 0, and the others 1."""

PODS_PER_STEP: Final = 25
"""After so many pods that are looked at closely other tasks of the event loop run."""

_ONE_AT_A_TIME: Final = 1
"""How many pods may leave a node in a window of the limits: each changes what the next would do."""


class FragmentationAwareArgs(PluginArgs):
    """Arguments: when a node counts as fragmented, and which pods may leave it."""

    paused: bool = Field(default=False, description="Do nothing.")
    dry_run: bool = Field(default=False, description="Decide everything, evict nothing.")
    node_selector: SelectorObject | None = Field(
        default=None, description="The nodes that pods leave, and move to; all when left out."
    )
    evictable_namespaces: Namespaces = Field(
        default=Namespaces(),
        description="Namespaces whose pods may leave; all when left out. Others' pods still count.",
    )
    pod_selectors: tuple[LabelledPods, ...] = Field(
        default=(), description="Only pods that match one of these may leave; all when left out."
    )
    node_fit: bool = Field(default=True, description="Evict only pods that fit on another node.")
    resources: ResourceNames = Field(
        default=(CPU, MEMORY),
        description="The resources whose requested shares of a node are compared; cpu and memory "
        "when empty.",
    )
    imbalance_threshold: float = Field(
        default=0.15,
        ge=0,
        description="A node is fragmented when the standard deviation of the shares that are "
        "requested is above this; a share is between 0 and 1.",
    )
    min_improvement_threshold: float = Field(
        default=0.02,
        ge=0,
        description="A pod leaves only if the standard deviation falls by more than this.",
    )

    @field_validator("resources")
    @classmethod
    def _validate_resources(cls, written: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        raise_field_errors(_twice(written), info.context)
        return written or (CPU, MEMORY)

    def warnings(self) -> Iterator[FieldError]:
        """Say what keeps every pod where it is."""
        if len(self.resources) == 1:
            message = "the share of one resource alone deviates from nothing, so no pod moves"
            yield FieldError(message, "add another", ("resources",), rule=Rule.NEVER_EVICTS)
        for field in ("imbalance_threshold", "min_improvement_threshold"):
            if (value := getattr(self, field)) >= MAX_DEVIATION:
                message = (
                    "nothing is above it: the standard deviation of shares between 0 and 1 is at "
                    f"most {MAX_DEVIATION:g}"
                )
                is_percent = 1 <= value < MAX_DEVIATION * ALL
                default = type(self).model_fields[field].default
                hint = (
                    f"write {value / ALL:g} for {value:g} %"
                    if is_percent
                    else f"it is {default:g} when left out"
                )
                yield FieldError(message, hint, (camel_case(field),), rule=Rule.NEVER_EVICTS)

    def covers(self, pod: Pod) -> bool:
        """Say whether the namespaces and selectors let a pod leave."""
        return may_leave(pod, self.evictable_namespaces, self.pod_selectors)

    def selects(self, node: Node) -> bool:
        """Say whether a node is one of those meant."""
        return self.node_selector is None or self.node_selector.matches(node.labels)


class Shares(Struct, frozen=True, gc=False):
    """Holds what is requested of a node beside what it has of each resource that it offers."""

    requested: ResourceList
    capacity: tuple[tuple[str, int], ...]

    def deviation(self, without: ResourceList | None = None) -> float:
        """Return the population standard deviation of the shares, as if one pod were gone."""
        gone = without or {}
        shares = [
            (self.requested.get(resource, 0) - gone.get(resource, 0)) / amount
            for resource, amount in self.capacity
        ]
        if not shares:
            return 0.0
        mean = sum(shares) / len(shares)
        return sqrt(sum((share - mean) * (share - mean) for share in shares) / len(shares))


class Candidate(Struct, frozen=True, gc=False):
    """Names a pod, and how much the shares of its node deviate with it and without it."""

    pod: Pod
    before: float
    after: float

    @property
    def gain(self) -> float:
        """The fall of the deviation."""
        return self.before - self.after


class FragmentationAwarePlugin(BalancePlugin[str, FragmentationAwareArgs]):
    """A pod of each node of whose resources very different shares are requested.

    What is left of a node with no memory and much cpu is of no use to most pods. The pod leaves
    without which the shares are closest to each other, one pod of a node within the window of the
    limits (one in each pass of a sweep). It must be able to go to another of the nodes meant.
    """

    name = "FragmentationAware"
    reacts_to = (
        Resynced,
        NodeAdded,
        NodeLabelsChanged,
        NodeCapacityIncreased,
        NodeCapacityDecreased,
        PodBound,
        PodGone,
        PodTerminating,
        PodSpecChanged,
        PodLabelsChanged,
        PodEvictabilityChanged,
    )

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name the node of the change, whose pods are weighed together; else every node."""
        match change:
            case NodeChange(node=node):
                return (node,)
            case PodChange(pod=pod):
                return (pod.node,)
            case _:
                return view.node_names()

    def balance(self, subject: str, view: View) -> Plan:
        """Offer the pods that make the shares more equal, the best first, until one leaves.

        Whether a pod fits elsewhere is left to node fit, which looks again when that changes. What
        leaves already does not count.
        """
        candidates = self._candidates(subject, view, lambda pod: not view.is_leaving(pod))
        found = yield from with_pauses(candidates, PODS_PER_STEP)
        selected = self.args.node_selector is not None
        targets = self._names(view) if found and selected else None
        for each in found:
            if (yield self._finding(each, targets)).pod_leaves:
                return

    def still_found(self, finding: Finding, subject: str, view: View) -> Finding | None:
        """Return the finding while the shares are more equal without the pod, as far as they may.

        Other pods that leave do not count.
        """
        uid = finding.pod.uid
        found = self._candidates(
            subject, view, lambda pod: pod.uid == uid or not view.is_leaving(pod)
        )
        return finding if any(each.pod.uid == uid for each in at_once(found)) else None

    def sweep(self, view: View) -> Plan:
        """Evict the best pod that fits elsewhere from every node, as koordinator does."""
        names = self._names(view)
        for subject in list(self.subjects(Resynced(), view)):
            for each in at_once(self._candidates(subject, view, lambda _: True)):
                if not self.args.node_fit or view.find_node_among(each.pod, names) is not None:
                    yield self._finding(each, names)
                    break

    def describe(self, pod: Pod, view: View) -> str:
        """Say how much the shares of the pod's node deviate, and how much without the pod."""
        node_and_pods = view.pods_of(NodeSubject(pod.node))
        if node_and_pods is None or not self.args.selects(node_and_pods[0]):
            return ""
        node, pods = node_and_pods
        shares = self._shares(node, pods)
        before, after = shares.deviation(), shares.deviation(_held(pod))
        return (
            f"the requested shares of {node.name} deviate by {before:.4f}, and by {after:.4f} "
            f"without the pod; imbalanceThreshold is {self.args.imbalance_threshold:g}"
        )

    def _candidates(
        self, subject: str, view: View, counts: Callable[[Pod], bool]
    ) -> Generator[None, None, list[Candidate]]:
        """Return the pods whose leaving helps enough, the best first; none of an even node.

        It looks closely at one pod in each step.
        """
        node_and_pods = None if self._is_off else view.pods_of(NodeSubject(subject))
        if node_and_pods is None or not self.args.selects(node_and_pods[0]):
            return []
        node, pods = node_and_pods[0], [pod for pod in node_and_pods[1] if counts(pod)]
        shares = self._shares(node, pods)
        before = shares.deviation()
        if before <= self.args.imbalance_threshold:
            return []
        weighed: list[Candidate] = []
        for pod in pods:
            if self.args.covers(pod) and view.evictable(pod):
                weighed.append(Candidate(pod, before, shares.deviation(_held(pod))))
            yield
        least = self.args.min_improvement_threshold
        return sorted((each for each in weighed if each.gain > least), key=_rank)

    @property
    def _is_off(self) -> bool:
        """Say whether nothing is to be found: a dry run would evict none of it."""
        return self.args.paused or self.args.dry_run

    def _shares(self, node: Node, pods: Iterable[Pod]) -> Shares:
        """Sum what the pods request of what the node has; what it has nothing of is left out."""
        requested: dict[str, int] = {}
        for pod in pods:
            add_resources(requested, _held(pod))
        capacity = tuple(
            (resource, amount)
            for resource in self.args.resources
            if (amount := node.allocatable.get(resource, 0)) > 0
        )
        return Shares(requested, capacity)

    def _names(self, view: View) -> frozenset[str]:
        """Name the nodes meant."""
        return frozenset(node.name for node in view.nodes() if self.args.selects(node))

    def _finding(self, candidate: Candidate, targets: frozenset[str] | None) -> Finding:
        node, resources = candidate.pod.node, self.args.resources
        message = (
            f"the requested shares of {' and '.join(resources)} of {node} deviate by "
            f"{candidate.before:.4f}, and by {candidate.after:.4f} without the pod, which is "
            f"{candidate.gain:.4f} less"
        )
        return Finding(
            candidate.pod,
            self.name,
            message,
            needs_fit=self.args.node_fit,
            targets=targets,
            node_limit=_ONE_AT_A_TIME,
            relieves_node=True,
        )


def _held(pod: Pod) -> ResourceList:
    """Return what a pod requests, itself as one of the pods included."""
    return {**pod.spec.requests, PODS: 1}


def _rank(candidate: Candidate) -> tuple[float, str, str]:
    """Order candidates: what gains most comes first."""
    return -candidate.gain, candidate.pod.namespace, candidate.pod.name


def _twice(resources: Sequence[str]) -> Iterator[FieldError]:
    """Refuse a resource that is named twice, as its share would count twice."""
    for index, resource in enumerate(resources):
        if resource in resources[:index]:
            message = f"{quote(resource)} is there already"
            yield FieldError(message, "keep one", (index,), rule=Rule.DUPLICATE_ITEM)
