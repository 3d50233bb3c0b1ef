"""The arguments of the kube-scheduler's plugins that node fit follows, in its filters and scores.

They stand in a profile of a KubeSchedulerConfiguration (v1), and are read as strictly as by it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from reactive_desched.api.args import FieldError, Section, raise_field_errors
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import Requirement, label_key_error
from reactive_desched.model.node_affinity import (
    NAME_FIELD,
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
)
from reactive_desched.model.node_scores import (
    DEFAULT_SCORES,
    REQUESTED_TO_CAPACITY_RATIO,
    SCORED_RESOURCES,
    SPREADING,
    Allocation,
)
from reactive_desched.model.objects import TopologySpreadConstraint
from reactive_desched.model.scheduler_profile import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_RESOURCES_FIT,
    POD_TOPOLOGY_SPREAD,
)
from reactive_desched.model.spread import HONOR, IGNORE
from reactive_desched.policy.settings.scheduler_checks import (
    LARGEST,
    Percentage,
    TypedArgs,
    repeated,
)
from reactive_desched.policy.settings.scheduler_plugins import BALANCED_ALLOCATION
from reactive_desched.primitives.hints import quote


class SelectorRequirement(Section):
    """A requirement of a node selector."""

    key: str = Field(description="The label, or the field metadata.name.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(
        description="How the values are compared."
    )
    values: tuple[str, ...] = Field(default=(), description="What it is compared with.")


class SelectorTerm(Section):
    """A term of a node selector: all of it must hold."""

    match_expressions: tuple[SelectorRequirement, ...] = Field(default=(), description="Labels.")
    match_fields: tuple[SelectorRequirement, ...] = Field(default=(), description="Fields.")


class RequiredAffinity(Section):
    """A node selector: one of its terms must hold."""

    node_selector_terms: tuple[SelectorTerm, ...] = Field(
        default=(), description="The terms; without any no node matches."
    )


class PreferredNodeTerm(Section):
    """A term of preferred node affinity."""

    weight: int = Field(default=0, description="What a node that matches gets.")
    preference: SelectorTerm = Field(
        default=SelectorTerm(), description="What it must match; without any part no node does."
    )


class AddedAffinity(Section):
    """Node affinity that every pod of the profile has beside its own."""

    required_during_scheduling_ignored_during_execution: RequiredAffinity | None = Field(
        default=None, description="What a node must match."
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodeTerm, ...] = Field(
        default=(), description="What it is liked for."
    )

    @property
    def preferred(self) -> tuple[PreferredTerm, ...]:
        """The terms that a node is liked for, each with its weight."""
        written = self.preferred_during_scheduling_ignored_during_execution
        return tuple(PreferredTerm(each.weight, _term(each.preference)) for each in written)

    def selector(self) -> NodeSelector | None:
        """Return what a node must match; None for any."""
        required = self.required_during_scheduling_ignored_during_execution
        return None if required is None else NodeSelector(tuple(_terms(required)))


class NodeAffinityConfig(TypedArgs):
    """The arguments of NodeAffinity."""

    added_affinity: AddedAffinity | None = None

    @model_validator(mode="after")
    def _check(self) -> "NodeAffinityConfig":
        raise_field_errors(self._errors())
        return self

    def _errors(self) -> Iterator[FieldError]:
        selector = None if self.added_affinity is None else self.added_affinity.selector()
        path = ("addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        terms = () if selector is None else selector.node_selector_terms
        yield from _term_errors(terms, (*path, "nodeSelectorTerms"))
        added = self.added_affinity
        liked = added.preferred_during_scheduling_ignored_during_execution if added else ()
        path = ("addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
        counted = (each.preference if each.weight else SelectorTerm() for each in liked)
        yield from _term_errors(map(_term, counted), path)


class ScoredResource(Section):
    """A resource that nodes are scored by."""

    name: str = ""
    weight: Annotated[int, Field(ge=0, le=100)] = 0

    @property
    def weighted(self) -> tuple[str, int]:
        """The resource with its weight; the kube-scheduler takes 0 for 1."""
        return self.name, self.weight or 1


class ShapePoint(Section):
    """A point of the line by which RequestedToCapacityRatio scores nodes."""

    utilization: Annotated[int, Field(ge=0, le=100)] = 0
    score: Annotated[int, Field(ge=0, le=10)] = 0


class RequestedToCapacityRatio(Section):
    """The line from utilization, in percent, to scores of 0 to 10."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(Section):
    """The `scoringStrategy` of NodeResourcesFit."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    resources: tuple[ScoredResource, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    @model_validator(mode="after")
    def _check(self) -> "ScoringStrategy":
        raise_field_errors(self._errors())
        return self

    @property
    def allocation(self) -> Allocation:
        """The strategy as node fit has it; without resources it is about cpu and memory."""
        resources = tuple(each.weighted for each in self.resources) or SPREADING.resources
        return Allocation(
            self.type,
            resources,
            tuple((point.utilization, 10 * point.score) for point in self._shape),
        )

    @property
    def _shape(self) -> tuple[ShapePoint, ...]:
        ratio = self.requested_to_capacity_ratio
        return ratio.shape if ratio is not None and self.type == REQUESTED_TO_CAPACITY_RATIO else ()

    def _errors(self) -> Iterator[FieldError]:
        shape = self._shape
        path = ("requestedToCapacityRatio", "shape")
        is_ratio = self.type == REQUESTED_TO_CAPACITY_RATIO
        if self.requested_to_capacity_ratio is not None and not is_ratio:
            message = f"does not belong to {self.type}"
            hint = f"remove it, or write type: {REQUESTED_TO_CAPACITY_RATIO}"
            yield FieldError(message, hint, path[:1], rule=Rule.CONTRADICTING_SETTINGS)
        if is_ratio and not shape:
            hint = "write shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]"
            yield FieldError("has no points", hint, path, rule=Rule.MISSING_FIELD)
        for number, (one, two) in enumerate(pairwise(shape), start=1):
            if two.utilization <= one.utilization:
                yield FieldError(
                    f"{two.utilization} does not follow {one.utilization}",
                    "write the points by rising utilization",
                    (*path, number, "utilization"),
                    rule=Rule.CONTRADICTING_SETTINGS,
                )


class NodeResourcesFitConfig(TypedArgs):
    """The arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = None

    @model_validator(mode="after")
    def _check(self) -> "NodeResourcesFitConfig":
        raise_field_errors(self._errors())
        return self

    @property
    def allocation(self) -> Allocation:
        """The scores that its strategy gives."""
        return SPREADING if self.scoring_strategy is None else self.scoring_strategy.allocation

    def _errors(self) -> Iterator[FieldError]:
        for number, name in enumerate(self.ignored_resources):
            if error := label_key_error(name):
                yield FieldError(error, "", ("ignoredResources", number), rule=Rule.NOT_A_NAME)
        for number, group in enumerate(self.ignored_resource_groups):
            if "/" not in group and (error := label_key_error(group)):
                yield FieldError(error, "", ("ignoredResourceGroups", number), rule=Rule.NOT_A_NAME)
            if "/" in group:
                hint = f"write {group.partition('/')[0]}"
                yield FieldError(
                    f"{quote(group)} is a resource, and no group of resources",
                    hint,
                    ("ignoredResourceGroups", number),
                    rule=Rule.NOT_A_NAME,
                )


class DefaultConstraint(Section):
    """A spread constraint of pods that declare none; which pods it counts follows from the pod.

    So `matchLabelKeys` change nothing, as in the kube-scheduler, for which every policy of nodes
    that it does not know is `Ignore`.
    """

    max_skew: Annotated[int, Field(ge=1, le=LARGEST)]
    topology_key: Annotated[str, Field(min_length=1)]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: Annotated[int, Field(le=LARGEST)] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()

    @property
    def is_hard(self) -> bool:
        """Say whether it rejects nodes."""
        return self.when_unsatisfiable == "DoNotSchedule"

    @property
    def constraint(self) -> TopologySpreadConstraint:
        """The constraint as node fit has it, without a selector."""
        return TopologySpreadConstraint(
            self.max_skew,
            self.topology_key,
            self.when_unsatisfiable,
            min_domains=self.min_domains,
            node_affinity_policy=_policy(self.node_affinity_policy, HONOR),
            node_taints_policy=_policy(self.node_taints_policy, IGNORE),
        )


class PodTopologySpreadConfig(TypedArgs):
    """The arguments of PodTopologySpread."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"

    @model_validator(mode="after")
    def _check(self) -> "PodTopologySpreadConfig":
        raise_field_errors(self._errors())
        return self

    @property
    def hard_constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        """Return what keeps pods that declare no constraint off nodes."""
        return tuple(each.constraint for each in self.default_constraints if each.is_hard)

    @property
    def is_list(self) -> bool:
        """Say whether the constraints take the place of the kube-scheduler's own."""
        return self.defaulting_type == "List"

    @property
    def default_spread(self) -> tuple[TopologySpreadConstraint, ...]:
        """The soft constraints of pods that declare none."""
        if not self.is_list:
            return DEFAULT_SCORES.default_spread
        return tuple(each.constraint for each in self.default_constraints if not each.is_hard)

    def _errors(self) -> Iterator[FieldError]:
        if self.default_constraints and self.defaulting_type == "System":
            yield FieldError(
                "has constraints, and defaultingType is System",
                "write defaultingType: List",
                ("defaultConstraints",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        names = (
            f"{each.topology_key}, {each.when_unsatisfiable}" for each in self.default_constraints
        )
        yield from repeated(names, ("defaultConstraints",))
        for number, each in enumerate(self.default_constraints):
            if error := label_key_error(each.topology_key):
                path = ("defaultConstraints", number, "topologyKey")
                yield FieldError(error, "", path, rule=Rule.NOT_A_NAME)


class InterPodAffinityConfig(TypedArgs):
    """The arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Percentage = DEFAULT_SCORES.hard_pod_affinity
    ignore_preferred_terms_of_existing_pods: bool = False


class BalancedResource(Section):
    """A resource of NodeResourcesBalancedAllocation; its weight is 1."""

    name: str = ""
    weight: Literal[0, 1] = 1


class BalancedAllocationConfig(TypedArgs):
    """The arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[BalancedResource, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> "BalancedAllocationConfig":
        names = [each.name for each in self.resources]
        raise_field_errors(repeated(names, ("resources",), "name"))
        return self

    @property
    def balanced(self) -> tuple[str, ...]:
        """The resources that are weighed against each other; none written, cpu and memory."""
        return tuple(each.name for each in self.resources) or SCORED_RESOURCES


ARGUMENTS: Final[Mapping[str, type[TypedArgs]]] = {
    INTER_POD_AFFINITY: InterPodAffinityConfig,
    NODE_AFFINITY: NodeAffinityConfig,
    NODE_RESOURCES_FIT: NodeResourcesFitConfig,
    BALANCED_ALLOCATION: BalancedAllocationConfig,
    POD_TOPOLOGY_SPREAD: PodTopologySpreadConfig,
}


def _policy(written: str | None, default: str) -> str:
    if written is None:
        return default
    return HONOR if written == HONOR else IGNORE


def _terms(required: RequiredAffinity) -> Iterator[NodeSelectorTerm]:
    yield from map(_term, required.node_selector_terms)


def _term(written: SelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(map(_requirement, written.match_expressions)),
        tuple(map(_field_requirement, written.match_fields)),
    )


def _field_requirement(written: SelectorRequirement) -> Requirement:
    """Return a requirement of a field; nodes have none but their name, and of others nothing."""
    one = len(written.values) == 1 and written.operator in ("In", "NotIn")
    if written.key == NAME_FIELD or not one:
        return _requirement(written)
    holds = (written.values == ("",)) == (written.operator == "In")
    return Requirement(NAME_FIELD, "NotIn" if holds else "In", ("",))


def _term_errors(terms: Iterable[NodeSelectorTerm], path: tuple[str, ...]) -> Iterator[FieldError]:
    for number, term in enumerate(terms):
        if not term.usable and (term.match_expressions or term.match_fields):
            yield FieldError(
                "is no term that the API server takes",
                "In and NotIn need values, Exists and DoesNotExist have none, Gt and Lt have "
                "one number; a field is metadata.name, with one value",
                (*path, number),
                rule=Rule.LABEL_SELECTOR,
            )
        for each in (*term.match_expressions, *term.match_fields):
            if error := label_key_error(each.key):
                yield FieldError(error, "", (*path, number), rule=Rule.LABEL_SELECTOR)


def _requirement(written: SelectorRequirement) -> Requirement:
    return Requirement(written.key, written.operator, written.values)
