"""A node's pods request so little that they could move together and leave it empty."""

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import ClassVar, Final

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    FieldError,
    NodeBand,
    Percentages,
    PluginArgs,
    SignedCount,
    fraction_warnings,
    percentage_errors,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.possible_names import PercentByResource
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ExcludedNamespaces
from reactive_desched.draining.obstacles import Kept
from reactive_desched.draining.plugin import DrainingPlugin
from reactive_desched.model.node_scores import SCORED_RESOURCES
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.resources import PODS, ResourceList, is_extended
from reactive_desched.model.utilization import (
    ALL,
    NodeClass,
    NodeUse,
    Thresholds,
    UtilizationRule,
    as_limits,
)
from reactive_desched.primitives.hints import quote


class EvictionMode(StrEnum):
    """A narrower choice of the pods that may leave."""

    ONLY_THRESHOLDING_RESOURCES = "OnlyThresholdingResources"


STRICT: Final = EvictionMode.ONLY_THRESHOLDING_RESOURCES


class HighNodeUtilizationArgs(PluginArgs):
    """Arguments: when a node counts as underutilized, and which of its pods may leave."""

    evictable_namespaces: ExcludedNamespaces = Field(
        default=ExcludedNamespaces(), description="Namespaces whose pods stay where they are."
    )
    thresholds: PercentByResource = Field(
        default={},
        validate_default=True,
        description="Required. A node that uses at most this much of every resource listed, in per "
        "cent, is emptied.",
    )
    eviction_modes: tuple[str, ...] = Field(
        default=(),
        description="OnlyThresholdingResources: only pods that request a resource listed under "
        "thresholds may leave.",
        json_schema_extra={"items": {"type": "string", "enum": list(EvictionMode)}},
    )
    number_of_nodes: SignedCount = Field(
        default=0, description="Act only when more nodes than this are hardly used."
    )

    @field_validator("thresholds")
    @classmethod
    def _validate_thresholds(cls, written: Percentages, info: ValidationInfo) -> Percentages:
        raise_field_errors(percentage_errors(written), info.context)
        return written

    @field_validator("eviction_modes")
    @classmethod
    def _validate_eviction_modes(
        cls, written: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        raise_field_errors(_unknown_modes(written), info.context)
        return written

    def warnings(self) -> Iterator[FieldError]:
        """Warn of arguments that are valid and probably a mistake."""
        yield from prefixed("thresholds", fraction_warnings(self.thresholds))
        if self.thresholds and min(self.thresholds.values()) >= ALL:
            message = "no node requests above 100 %, so there is none to pack onto"
            yield FieldError(
                message,
                "write less than 100 for one resource at least",
                ("thresholds",),
                rule=Rule.NEVER_EVICTS,
            )
        if self.thresholds.get(PODS) == 0:
            message = "only nodes without a single pod are emptied, so none moves"
            yield FieldError(message, "raise it", ("thresholds", PODS), rule=Rule.NEVER_EVICTS)
        if self.is_strict and set(self.thresholds) == {PODS}:
            message = "no container requests pods, so no pod may leave"
            hint = f"list another resource under thresholds, or remove {STRICT}"
            yield FieldError(message, hint, ("evictionModes",), rule=Rule.NEVER_EVICTS)
        limited = [resource for resource in self.thresholds if resource != PODS]
        if limited and all(map(is_extended, limited)) and not self.is_strict:
            message = (
                f"pods that request no {' and no '.join(sorted(limited))} leave the nodes as well"
            )
            hint = f"add evictionModes: [{STRICT}], or a threshold for cpu or memory"
            path = ("thresholds",)
            yield FieldError(message, hint, path, rule=Rule.UNRELATED_PODS, at_key=True)

    def node_bands(self) -> Iterator[NodeBand]:
        """Yield the nodes that are emptied."""
        if self.thresholds and min(self.thresholds.values()) < ALL:
            yield NodeBand(packs=True, empties=self.thresholds)

    @property
    def is_strict(self) -> bool:
        """Say whether only pods may leave that request a resource listed under thresholds."""
        return STRICT in self.eviction_modes


class PackRule(UtilizationRule, frozen=True):
    """Underutilized nodes, cordoned ones too, give pods away; all others take them."""

    gives: ClassVar[str] = "underutilized"
    takes: ClassVar[str] = "used more than that, and not cordoned"
    packs: ClassVar[bool] = True

    def is_source(self, node: Node, node_class: NodeClass) -> bool:
        """Say whether the node gives pods away."""
        del node
        return node_class is NodeClass.UNDERUTILIZED

    def is_destination(self, node: Node, node_class: NodeClass) -> bool:
        """Say whether the node takes pods, which a cordoned one does not."""
        used_well = node_class in (NodeClass.APPROPRIATELY_UTILIZED, NodeClass.OVERUTILIZED)
        return used_well and self.is_open(node)

    def can_act(self, sources: int, destinations: int) -> bool:
        """Say whether there is a destination, and more sources than are left alone."""
        return destinations > 0 and sources > self.number_of_nodes


class HighNodeUtilizationPlugin(DrainingPlugin[HighNodeUtilizationArgs]):
    """Pods of nodes that are hardly used, so that these can be emptied and removed.

    A node is underutilized if its pods request at most `thresholds` of each resource. The node
    that is used least gives its pods away first, all of them, as long as the other nodes, cordoned
    ones excepted, together have something left of every resource. The kube-scheduler must be set
    to pack nodes (MostAllocated), or the pods come back. Before Kubernetes 1.36 so do pods that
    request cpu and no memory, unless MostAllocated weighs more than NodeResourcesBalancedAllocation
    there.

    In the controller's judgement a threshold is about the nodes that have some of its resource: a
    node is judged by those thresholds alone, and one that none of them is about neither gives pods
    nor takes them. What its pods request must be so for `guards.standingTimes.nodeUse` before it
    gives pods away, and so long must a node have pods that had none before. In a sweep a node uses
    0 % of what it lacks, as the SIG descheduler has it.
    """

    name = "HighNodeUtilization"

    def __init__(self, args: HighNodeUtilizationArgs) -> None:
        rule = PackRule(as_limits(args.thresholds), number_of_nodes=args.number_of_nodes)
        super().__init__(args, rule)

    @property
    def packed_resources(self) -> Collection[str]:
        """The resources of the thresholds; by the number of pods no scheduler packs."""
        return [name for name in self.args.thresholds if name != PODS] or SCORED_RESOURCES

    def order(self, source: NodeUse) -> int:
        """Begin with the node that uses least, by upstream's sum over all units."""
        return sum(source.used.values())

    def gives_more(self, used: ResourceList, allowed: ResourceList) -> bool:
        """Return True: a node is emptied, as far as the others have room."""
        del used, allowed
        return True

    def may_leave(self, pod: Pod) -> bool:
        """Leave pods of excluded namespaces alone; in the strict mode those of other resources."""
        if pod.namespace in self.args.evictable_namespaces.exclude:
            return False
        if not self.args.is_strict:
            return True
        return any(map(pod.spec.is_requested_by_container, self.args.thresholds))

    def kept_by_arguments(self, pod: Pod) -> Kept:
        """Name the mode, too, in which pods stay that request nothing of the thresholds."""
        if pod.namespace in self.args.evictable_namespaces.exclude:
            return super().kept_by_arguments(pod)
        asked = " or ".join(self.args.thresholds)
        return Kept(f"without {asked}", f"by evictionModes it stays, as it requests no {asked}")

    @property
    def may_stay(self) -> Collection[str]:
        """Pods that every node has: one without others is as empty as it can be."""
        return ("DaemonSetPods", "MirrorPods", "StaticPods")

    def explain(self, source: NodeUse, thresholds: Thresholds) -> tuple[str, dict[str, int | str]]:
        """Name the resource that is used most, beside its threshold."""
        low = thresholds.low
        resource, percent = source.most_beyond(low)
        message = (
            f"node {source.name} is underutilized: {source.measured} {percent:.1f} % of its "
            f"{resource}, and thresholds allows {low[resource]:g} %"
        )
        details: dict[str, int | str] = {
            "resource": resource,
            "usedPercent": int(percent),
            "thresholdPercent": int(low[resource]),
        }
        return message, details


def _unknown_modes(modes: tuple[str, ...]) -> Iterator[FieldError]:
    """Return an error for each unknown eviction mode."""
    for index, mode in enumerate(modes):
        if mode not in tuple(EvictionMode):
            hint = f"the only one is {EvictionMode.ONLY_THRESHOLDING_RESOURCES}"
            yield FieldError(
                f"{quote(mode)} is not an eviction mode", hint, (index,), rule=Rule.UNKNOWN_VALUE
            )
