"""The section `scheduler` of the settings: the configurations of the schedulers that really run.

A KubeSchedulerConfiguration (v1) is read as strictly as a policy. What decides which nodes reject
a pod becomes a `SchedulerProfile`; what tunes the process of the scheduler is read and not used.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, Field, StrictBool, model_validator

from reactive_desched.api.args import (
    FieldError,
    Section,
    file_key,
    fix_to,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import Requirement, label_key_error
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.node_scores import (
    BALANCED_ALLOCATION_WEIGHT,
    DEFAULT_SPREAD,
    INTER_POD_AFFINITY_WEIGHT,
    NODE_AFFINITY_WEIGHT,
    REQUESTED_TO_CAPACITY_RATIO,
    RESOURCES_FIT_WEIGHT,
    SPREADING,
    TAINT_TOLERATION_WEIGHT,
    TOPOLOGY_SPREAD_WEIGHT,
    Allocation,
    ScoreRules,
)
from reactive_desched.model.objects import DEFAULT_SCHEDULER, TopologySpreadConstraint
from reactive_desched.model.scheduler_profile import (
    FILTERS,
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_RESOURCES_FIT,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    SchedulerProfile,
    SchedulerProfiles,
)
from reactive_desched.model.spread import HONOR
from reactive_desched.policy.settings.scheduler_checks import (
    API_VERSION,
    GONE_PLUGINS,
    UNREAD_ARGUMENTS,
    ClientConnectionConfig,
    LeaderElectionConfig,
    Percentage,
    TypedArgs,
    extender_errors,
    model_errors,
    repeated,
)
from reactive_desched.primitives.hints import quote, sole_near_name

KIND: Final = "KubeSchedulerConfiguration"

DEFAULT_POD_INITIAL_BACKOFF_S: Final = 1
DEFAULT_POD_MAX_BACKOFF_S: Final = 10

MAX_CONFIGURATIONS: Final = 20
MAX_PROFILES: Final = 50

_ALL: Final = "*"
_NOT_FILTERS: Final = frozenset(
    {
        "DefaultBinder",
        "DefaultPreemption",
        "GangScheduling",
        "ImageLocality",
        "NodeName",
        "NodeResourcesBalancedAllocation",
        "PrioritySort",
        "SchedulingGates",
    }
)
"""The other plugins of the kube-scheduler, which node fit has no filter of."""

_PLUGINS: Final = FILTERS | _NOT_FILTERS

_BELONG: Final[Mapping[str, frozenset[str]]] = {
    "filter": FILTERS | {"NodeName"},
    "score": frozenset(
        {
            "DynamicResources",
            "ImageLocality",
            "InterPodAffinity",
            "NodeAffinity",
            "NodeResourcesBalancedAllocation",
            "NodeResourcesFit",
            "PodTopologySpread",
            "TaintToleration",
            "VolumeBinding",
        }
    ),
}
"""The kube-scheduler's plugins that filter, and those that score."""

BALANCED_ALLOCATION: Final = "NodeResourcesBalancedAllocation"

SCORE_WEIGHTS: Final[Mapping[str, int]] = {
    BALANCED_ALLOCATION: BALANCED_ALLOCATION_WEIGHT,
    "ImageLocality": 1,
    INTER_POD_AFFINITY: INTER_POD_AFFINITY_WEIGHT,
    NODE_AFFINITY: NODE_AFFINITY_WEIGHT,
    NODE_RESOURCES_FIT: RESOURCES_FIT_WEIGHT,
    POD_TOPOLOGY_SPREAD: TOPOLOGY_SPREAD_WEIGHT,
    TAINT_TOLERATION: TAINT_TOLERATION_WEIGHT,
}
"""The plugins that score nodes by default, each with its weight."""

A = TypeVar("A", bound=BaseModel)


class PluginReference(Section):
    """A plugin that a profile enables or disables."""

    name: Annotated[str, Field(min_length=1)] = Field(
        description="The plugin; `*` in `disabled`: all that are enabled by default."
    )
    weight: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description="Of its score; 0: 1."
    )


class PluginSet(Section):
    """The plugins of one extension point that a profile switches on and off."""

    enabled: tuple[PluginReference, ...] = Field(default=(), description="Plugins to run as well.")
    disabled: tuple[PluginReference, ...] = Field(default=(), description="Plugins not to run.")

    @property
    def added(self) -> frozenset[str]:
        """The names of the plugins to run as well."""
        return frozenset(each.name for each in self.enabled)

    def remove_from(self, names: frozenset[str]) -> frozenset[str]:
        """Return the names without those that are disabled."""
        removed = {each.name for each in self.disabled}
        return frozenset() if _ALL in removed else names - removed


_NO_PLUGINS: Final = PluginSet.model_construct()


class SchedulerPlugins(Section):
    """The plugins of a profile, by extension point.

    Node fit goes by `multiPoint` and `filter`, and which node is taken first by `multiPoint` and
    `score`.
    """

    multi_point: PluginSet = Field(default=_NO_PLUGINS, description="At all extension points.")
    pre_enqueue: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    queue_sort: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    placement_generate: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    placement_score: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    pre_filter: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    filter: PluginSet = Field(default=_NO_PLUGINS, description="The filters.")
    post_filter: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    pre_score: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    score: PluginSet = Field(default=_NO_PLUGINS, description="The scores, with their weights.")
    reserve: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    permit: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    pre_bind: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    bind: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")
    post_bind: PluginSet = Field(default=_NO_PLUGINS, description="Not used.")

    @property
    def filters(self) -> frozenset[str]:
        """The filters that run, as the kube-scheduler merges both extension points."""
        return self._at(self.filter, FILTERS) & FILTERS

    @property
    def score_weights(self) -> Mapping[str, int]:
        """The plugins that score nodes, each with its weight, merged as the kube-scheduler does."""
        written = {
            each.name: each.weight or 1
            for plugins in (self.multi_point, self.score)  # what is written at score counts
            for each in plugins.enabled
        }
        names = self._at(self.score, frozenset(SCORE_WEIGHTS))
        return {name: written.get(name) or SCORE_WEIGHTS.get(name, 1) for name in names}

    def running(self, point: PluginSet, own: str) -> frozenset[str]:
        """Return what may run at a point of which the kube-scheduler has one plugin by default."""
        return self._at(point, frozenset({own})) - (_PLUGINS - {own})

    def _at(self, point: PluginSet, by_default: frozenset[str]) -> frozenset[str]:
        everywhere = self.multi_point.remove_from(by_default) | self.multi_point.added
        return point.remove_from(everywhere) | point.added


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

    node_selector_terms: tuple[SelectorTerm, ...] = Field(description="The terms.")


class PreferredNodeTerm(Section):
    """A term of preferred node affinity."""

    weight: int = Field(default=0, description="What a node that matches gets.")
    preference: SelectorTerm = Field(description="What it must match.")


class AddedAffinity(Section):
    """Node affinity that every pod of the profile has beside its own."""

    required_during_scheduling_ignored_during_execution: RequiredAffinity | None = Field(
        default=None, description="What a node must match."
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodeTerm, ...] = Field(
        default=(), description="Not used."
    )

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
        if selector is not None and not selector.node_selector_terms:
            hint = "write nodeSelectorTerms: [{…}]"
            yield FieldError("has no terms", hint, path, rule=Rule.MISSING_FIELD)
        terms = () if selector is None else selector.node_selector_terms
        yield from _term_errors(terms, (*path, "nodeSelectorTerms"))
        added = self.added_affinity
        liked = added.preferred_during_scheduling_ignored_during_execution if added else ()
        path = ("addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
        yield from _term_errors((_term(each.preference) for each in liked), path)


class ScoredResource(Section):
    """A resource that nodes are scored by."""

    name: Annotated[str, Field(min_length=1)]
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
    """A spread constraint of pods that declare none; which pods it counts follows from the pod."""

    max_skew: Annotated[int, Field(ge=1)]
    topology_key: Annotated[str, Field(min_length=1)]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: int | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
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
            node_affinity_policy=self.node_affinity_policy or HONOR,
            node_taints_policy=self.node_taints_policy or "Ignore",
        )

    @property
    def is_plain(self) -> bool:
        """Say whether nodes count for it as for a constraint that says nothing of them."""
        counts_all = self.node_affinity_policy != "Ignore" and self.node_taints_policy != "Honor"
        return counts_all and not self.match_label_keys


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
        """Return what keeps pods off nodes that declare no constraint."""
        return tuple(each.constraint for each in self.default_constraints if each.is_hard)

    def default_spread(self) -> tuple[tuple[str, int], ...] | None:
        """Return what pods without constraints are spread by; None where we lack a rule of it."""
        if self.defaulting_type == "System":
            return DEFAULT_SPREAD
        if not all(each.is_plain for each in self.default_constraints):
            return None
        soft = (each for each in self.default_constraints if not each.is_hard)
        return tuple((each.topology_key, each.max_skew) for each in soft)

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


_ARGUMENTS: Final[Mapping[str, type[TypedArgs]]] = {
    "NodeAffinity": NodeAffinityConfig,
    "NodeResourcesFit": NodeResourcesFitConfig,
    POD_TOPOLOGY_SPREAD: PodTopologySpreadConfig,
}


_UNREAD_SCORING_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = {
    "InterPodAffinity": frozenset({"hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"}),
    "NodeResourcesBalancedAllocation": frozenset({"resources"}),
}
"""The arguments that change the scores of nodes and are not read."""


class SchedulerPluginConfig(Section):
    """The arguments of one plugin of a profile."""

    name: str = Field(description="The plugin.")
    args: Mapping[str, object] = Field(
        default={},
        description="Its arguments; those of the kube-scheduler's own plugins are read strictly.",
    )

    @model_validator(mode="after")
    def _check_args(self) -> "SchedulerPluginConfig":
        model = _ARGUMENTS.get(self.name) or UNREAD_ARGUMENTS.get(self.name)
        if model is not None:
            raise_field_errors(prefixed("args", self._errors(model)))
        return self

    def _errors(self, model: type[TypedArgs]) -> Iterator[FieldError]:
        yield from model_errors(model, self.args)
        kind, own = self.args.get("kind", ""), f"{self.name}Args"
        if kind not in ("", own):
            message = f"{quote(str(kind))} are no arguments of {self.name}"
            yield FieldError(message, f"write {own}", ("kind",), rule=Rule.WRONG_TYPE)


class SchedulerProfileSettings(Section):
    """A profile of a kube-scheduler."""

    scheduler_name: Annotated[str, Field(min_length=1)] = Field(
        default=DEFAULT_SCHEDULER,
        description="The `schedulerName` of the pods it is for; required beside other profiles.",
    )
    percentage_of_nodes_to_score: Percentage | None = Field(default=None, description="Not used.")
    plugins: SchedulerPlugins = Field(
        default=SchedulerPlugins.model_construct(), description="Plugins switched on and off."
    )
    plugin_config: tuple[SchedulerPluginConfig, ...] = Field(
        default=(), description="Arguments of the plugins."
    )

    @model_validator(mode="after")
    def _check_names(self) -> "SchedulerProfileSettings":
        raise_field_errors(
            (
                *self._misspelt(),
                *self._gone(),
                *self._misplaced(),
                *self._lacking(),
                *self._configured_twice(),
            )
        )
        return self

    def profile(self, *, has_extenders: bool) -> SchedulerProfile:
        """Return what node fit is built from."""
        affinity = self._args(NodeAffinityConfig, "NodeAffinity")
        resources = self._args(NodeResourcesFitConfig, "NodeResourcesFit")
        added = affinity.added_affinity
        unknown = tuple(self._unknown_scores(affinity, has_extenders=has_extenders))
        return SchedulerProfile(
            self.scheduler_name,
            self.plugins.filters,
            None if added is None else added.selector(),
            frozenset(resources.ignored_resources),
            frozenset(resources.ignored_resource_groups),
            tuple(self._not_known(has_extenders=has_extenders)),
            None if unknown else self._scores(resources),
            self._hard_constraints(),
            unknown,
        )

    def _hard_constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        return self._spread_args().hard_constraints

    def _spread_args(self) -> PodTopologySpreadConfig:
        return self._args(PodTopologySpreadConfig, POD_TOPOLOGY_SPREAD)

    def _unknown_scores(
        self, affinity: NodeAffinityConfig, *, has_extenders: bool
    ) -> Iterator[str]:
        """Yield what decides which node is taken first, and node fit has no rule of."""
        added, pre_score = affinity.added_affinity, self.plugins.pre_score
        if has_extenders:
            yield "extenders"
        if self._spread_args().default_spread() is None:
            yield "node policies or matchLabelKeys in defaultConstraints"
        if foreign := sorted(self.plugins.score_weights.keys() - _PLUGINS):
            yield f"plugins {', '.join(foreign)}"
        if pre_score.enabled or pre_score.disabled:
            yield "plugins.preScore"
        if added is not None and added.preferred_during_scheduling_ignored_during_execution:
            yield "preferred addedAffinity"
        for each in self.plugin_config:
            unread = _UNREAD_SCORING_ARGUMENTS.get(each.name, frozenset()) & each.args.keys()
            yield from (f"{each.name}.{argument}" for argument in sorted(unread))

    def _scores(self, resources: NodeResourcesFitConfig) -> ScoreRules:
        weights = self.plugins.score_weights
        spread = self._spread_args().default_spread()
        return ScoreRules(
            resources.allocation,
            weights.get(NODE_RESOURCES_FIT, 0),
            weights.get(BALANCED_ALLOCATION, 0),
            weights.get(TAINT_TOLERATION, 0),
            weights.get(NODE_AFFINITY, 0),
            weights.get(INTER_POD_AFFINITY, 0),
            weights.get(POD_TOPOLOGY_SPREAD, 0),
            spread or (),
        )

    def _not_known(self, *, has_extenders: bool) -> Iterator[str]:
        """Yield what may reject nodes, and node fit has no rule of."""
        if has_extenders:
            yield "extenders"
        if any(each.match_label_keys for each in self._spread_args().default_constraints):
            yield "matchLabelKeys in defaultConstraints"
        if self._hard_constraints():
            yield "default constraints of Services' pods"
        added = self.plugins.multi_point.added | self.plugins.filter.added
        if foreign := sorted(added - _PLUGINS):
            yield f"plugins {', '.join(foreign)}"

    def _args(self, model: type[A], name: str) -> A:
        written = next((each.args for each in self.plugin_config if each.name == name), {})
        return model.model_validate(written)

    def _misspelt(self) -> Iterator[FieldError]:
        """Yield the names that are nearly those of the kube-scheduler's plugins.

        Others may be plugins that a scheduler was built with.
        """
        for point, plugins in self.plugins:
            for which in ("enabled", "disabled"):
                for number, each in enumerate(getattr(plugins, which)):
                    if (
                        each.name in _PLUGINS
                        or (near := sole_near_name(each.name, _PLUGINS)) is None
                    ):
                        continue
                    yield FieldError(
                        f"{quote(each.name)} is no plugin",
                        f"write {near}",
                        ("plugins", file_key(point), which, number, "name"),
                        rule=Rule.UNKNOWN_PLUGIN,
                        fix=fix_to(near),
                    )

    def _misplaced(self) -> Iterator[FieldError]:
        """Yield what is enabled twice, and plugins of the kube-scheduler at a wrong point."""
        for point, plugins in self.plugins:
            path = ("plugins", file_key(point), "enabled")
            yield from repeated((each.name for each in plugins.enabled), path, "name")
            for number, each in enumerate(plugins.enabled):
                if each.name in _PLUGINS - _BELONG.get(point, _PLUGINS):
                    message = f"{each.name} is no plugin of {file_key(point)}"
                    hint = "remove it, or enable it at multiPoint"
                    yield FieldError(
                        message, hint, (*path, number, "name"), rule=Rule.WRONG_EXTENSION_POINT
                    )

    def _lacking(self) -> Iterator[FieldError]:
        """Yield the extension points that need a plugin and have none."""
        for key, point, own in (
            ("queueSort", self.plugins.queue_sort, "PrioritySort"),
            ("bind", self.plugins.bind, "DefaultBinder"),
        ):
            if not self.plugins.running(point, own):
                message = "every plugin is switched off, and the scheduler needs one"
                hint = f"enable {own}"
                yield FieldError(message, hint, ("plugins", key), rule=Rule.MISSING_FIELD)

    def _gone(self) -> Iterator[FieldError]:
        """Yield the plugins that are enabled or configured, and v1 has no more."""
        enabled = (
            (("plugins", file_key(point), "enabled", number, "name"), each.name)
            for point, plugins in self.plugins
            for number, each in enumerate(plugins.enabled)
        )
        configured = (
            (("pluginConfig", number, "name"), each.name)
            for number, each in enumerate(self.plugin_config)
        )
        for path, name in (*enabled, *configured):
            if name in GONE_PLUGINS:
                message, hint = f"{name} is no plugin of v1", "write NodeVolumeLimits"
                yield FieldError(message, hint, path, rule=Rule.UNKNOWN_PLUGIN)

    def _configured_twice(self) -> Iterator[FieldError]:
        names = [each.name for each in self.plugin_config]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield FieldError(
                    f"{quote(name)} is configured already",
                    "keep one of the entries",
                    ("pluginConfig", number, "name"),
                    rule=Rule.CONFIGURED_TWICE,
                )


class SchedulerConfiguration(Section):
    """A KubeSchedulerConfiguration, as the kube-scheduler takes it with `--config`."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] = Field(
        default=API_VERSION, description=f"Always {API_VERSION}."
    )
    kind: Literal["KubeSchedulerConfiguration"] = Field(default=KIND, description=f"Always {KIND}.")
    profiles: Annotated[tuple[SchedulerProfileSettings, ...], Field(max_length=MAX_PROFILES)] = (
        Field(
            default=(SchedulerProfileSettings.model_construct(),),
            description="Its profiles; none, one with the default plugins.",
        )
    )
    extenders: tuple[Mapping[str, object], ...] = Field(
        default=(),
        description="Programs that the scheduler asks as well; what they answer is not known here.",
    )
    parallelism: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Not used.")
    leader_election: object = Field(default=None, description="Not used.")
    client_connection: object = Field(default=None, description="Not used.")
    enable_profiling: StrictBool | None = Field(default=None, description="Not used.")
    enable_contention_profiling: StrictBool | None = Field(default=None, description="Not used.")
    percentage_of_nodes_to_score: Percentage | None = Field(default=None, description="Not used.")
    pod_initial_backoff_seconds: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Not used."
    )
    pod_max_backoff_seconds: int | None = Field(default=None, description="Not used.")
    delay_cache_until_active: bool | None = Field(default=None, description="Not used.")

    @model_validator(mode="after")
    def _check(self) -> "SchedulerConfiguration":
        parts = (
            ("leaderElection", LeaderElectionConfig, self.leader_election),
            ("clientConnection", ClientConnectionConfig, self.client_connection),
        )
        errors = [
            each
            for key, model, written in parts
            if isinstance(written, Mapping)
            for each in prefixed(key, model_errors(model, written))
        ]
        raise_field_errors((*errors, *extender_errors(self.extenders), *self._errors()))
        return self

    def _errors(self) -> Iterator[FieldError]:
        first = DEFAULT_POD_INITIAL_BACKOFF_S
        if self.pod_initial_backoff_seconds is not None:
            first = self.pod_initial_backoff_seconds
        most = self.pod_max_backoff_seconds
        if (DEFAULT_POD_MAX_BACKOFF_S if most is None else most) < first:
            key = "podInitialBackoffSeconds" if most is None else "podMaxBackoffSeconds"
            message = f"podMaxBackoffSeconds is below podInitialBackoffSeconds, {first}"
            hint = f"write {first} or more for podMaxBackoffSeconds"
            yield FieldError(message, hint, (key,), rule=Rule.CONTRADICTING_SETTINGS)
        for number, each in enumerate(self.profiles):
            if len(self.profiles) > 1 and "scheduler_name" not in each.model_fields_set:
                hint = "write schedulerName: only a single profile has one by default"
                path = ("profiles", number)
                message = "has no schedulerName"
                yield FieldError(message, hint, path, rule=Rule.MISSING_FIELD)
            if each.plugins.queue_sort != self.profiles[0].plugins.queue_sort:
                yield FieldError(
                    "differs from that of the first profile",
                    "write the same for all: the scheduler has one queue",
                    ("profiles", number, "plugins", "queueSort"),
                    rule=Rule.CONTRADICTING_SETTINGS,
                )


class SchedulerSettings(Section):
    """The schedulers that place the cluster's pods: node fit goes by their profiles."""

    config: Annotated[tuple[SchedulerConfiguration, ...], Field(max_length=MAX_CONFIGURATIONS)] = (
        Field(
            default=(),
            description="The KubeSchedulerConfiguration of each scheduler of the cluster; none: "
            "the default plugins, for the pods of every scheduler.",
        )
    )
    unknown_scheduler: Literal["assume", "hold"] = Field(
        default="assume",
        description="Pods whose `schedulerName` has no profile: `assume` judges them by the "
        "default plugins, `hold` finds no node that fits them. With no `config`, "
        f"`{DEFAULT_SCHEDULER}` has one.",
    )

    @model_validator(mode="after")
    def _check_scheduler_names(self) -> "SchedulerSettings":
        raise_field_errors(self._same_names())
        return self

    def profiles(self) -> SchedulerProfiles:
        """Return what node fit is built from."""
        found = [
            each.profile(has_extenders=bool(config.extenders))
            for config in self.config
            for each in config.profiles or (SchedulerProfileSettings(),)
        ]
        return SchedulerProfiles(
            {each.name: each for each in found}, self.unknown_scheduler == "hold"
        )

    def _same_names(self) -> Iterator[FieldError]:
        seen: set[str] = set()
        for number, config in enumerate(self.config):
            for place, profile in enumerate(config.profiles):
                if profile.scheduler_name in seen:
                    yield FieldError(
                        f"{quote(profile.scheduler_name)} has a profile already",
                        "give each profile a schedulerName of its own",
                        ("config", number, "profiles", place, "schedulerName"),
                        rule=Rule.CONTRADICTING_SETTINGS,
                    )
                seen.add(profile.scheduler_name)


def _terms(required: RequiredAffinity) -> Iterator[NodeSelectorTerm]:
    yield from map(_term, required.node_selector_terms)


def _term(written: SelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(map(_requirement, written.match_expressions)),
        tuple(map(_requirement, written.match_fields)),
    )


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
