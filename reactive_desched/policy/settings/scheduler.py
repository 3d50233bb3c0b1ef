"""The section `scheduler` of the settings: the configurations of the schedulers that really run.

A KubeSchedulerConfiguration (v1) is read as strictly as a policy. What decides which nodes reject
a pod becomes a `SchedulerProfile`; what tunes the process of the scheduler is read and not used.
"""

from collections.abc import Iterator, Mapping
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
from reactive_desched.model.node_scores import (
    BALANCED_ALLOCATION_WEIGHT,
    INTER_POD_AFFINITY_WEIGHT,
    NODE_AFFINITY_WEIGHT,
    RESOURCES_FIT_WEIGHT,
    TAINT_TOLERATION_WEIGHT,
    TOPOLOGY_SPREAD_WEIGHT,
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
from reactive_desched.policy.settings.scheduler_arguments import (
    ARGUMENTS,
    UNREAD_SCORING_ARGUMENTS,
    NodeAffinityConfig,
    NodeResourcesFitConfig,
    PodTopologySpreadConfig,
)
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


class SchedulerPluginConfig(Section):
    """The arguments of one plugin of a profile."""

    name: str = Field(description="The plugin.")
    args: Mapping[str, object] = Field(
        default={},
        description="Its arguments; those of the kube-scheduler's own plugins are read strictly.",
    )

    @model_validator(mode="after")
    def _check_args(self) -> "SchedulerPluginConfig":
        model = ARGUMENTS.get(self.name) or UNREAD_ARGUMENTS.get(self.name)
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
            unread = UNREAD_SCORING_ARGUMENTS.get(each.name, frozenset()) & each.args.keys()
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
