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
    ScoreRules,
)
from reactive_desched.model.objects import DEFAULT_SCHEDULER, TopologySpreadConstraint
from reactive_desched.model.scheduler_profile import (
    DYNAMIC_RESOURCES,
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
    BalancedAllocationConfig,
    InterPodAffinityConfig,
    NodeAffinityConfig,
    NodeResourcesFitConfig,
    PodTopologySpreadConfig,
)
from reactive_desched.policy.settings.scheduler_checks import (
    API_VERSION,
    GONE_PLUGINS,
    LARGEST,
    UNREAD_ARGUMENTS,
    ClientConnectionConfig,
    LeaderElectionConfig,
    Percentage,
    TypedArgs,
    as_go_reads,
    extender_errors,
    model_errors,
    repeated,
)
from reactive_desched.policy.settings.scheduler_plugins import (
    ALL,
    BALANCED_ALLOCATION,
    IMAGE_LOCALITY,
    PLUGINS,
    PLUGINS_OF,
    SchedulerPlugins,
)
from reactive_desched.primitives.hints import quote, sole_near_name

KIND: Final = "KubeSchedulerConfiguration"

DEFAULT_POD_INITIAL_BACKOFF_S: Final = 1
DEFAULT_POD_MAX_BACKOFF_S: Final = 10

MAX_CONFIGURATIONS: Final = 20
MAX_PROFILES: Final = 50

A = TypeVar("A", bound=BaseModel)


class SchedulerPluginConfig(Section):
    """The arguments of one plugin of a profile."""

    name: str = Field(default="", description="The plugin.")
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
    plugin_config: tuple[SchedulerPluginConfig | None, ...] = Field(
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
        added = self._args(NodeAffinityConfig, NODE_AFFINITY).added_affinity
        resources = self._args(NodeResourcesFitConfig, NODE_RESOURCES_FIT)
        unknown = tuple(self._unknown_scores(has_extenders=has_extenders))
        return SchedulerProfile(
            self.scheduler_name,
            self.plugins.filters,
            None if added is None else added.selector(),
            frozenset(resources.ignored_resources),
            frozenset(resources.ignored_resource_groups),
            tuple(self._not_known(has_extenders=has_extenders)),
            None if unknown else self._scores(),
            self._hard_constraints(),
            unknown,
        )

    @property
    def _configs(self) -> Iterator[SchedulerPluginConfig]:
        """The arguments of plugins; Go reads a null as an empty item."""
        return (each or SchedulerPluginConfig.model_construct() for each in self.plugin_config)

    def _hard_constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        return self._spread_args().hard_constraints

    def _spread_args(self) -> PodTopologySpreadConfig:
        return self._args(PodTopologySpreadConfig, POD_TOPOLOGY_SPREAD)

    def _unknown_scores(self, *, has_extenders: bool) -> Iterator[str]:
        """Yield what decides which node is taken first, and node fit has no rule of."""
        if has_extenders:
            yield "extenders"
        if foreign := sorted(self.plugins.score_weights.keys() - PLUGINS):
            yield f"plugins {', '.join(foreign)}"
        if unprepared := sorted(self.plugins.unprepared_scores):
            yield f"{', '.join(unprepared)} without preScore"

    def _scores(self) -> ScoreRules:
        weights, spread = self.plugins.score_weights, self._spread_args()
        added = self._args(NodeAffinityConfig, NODE_AFFINITY).added_affinity
        near = self._args(InterPodAffinityConfig, INTER_POD_AFFINITY)
        return ScoreRules(
            self._args(NodeResourcesFitConfig, NODE_RESOURCES_FIT).allocation,
            weights.get(NODE_RESOURCES_FIT, 0),
            weights.get(BALANCED_ALLOCATION, 0),
            weights.get(TAINT_TOLERATION, 0),
            weights.get(NODE_AFFINITY, 0),
            weights.get(INTER_POD_AFFINITY, 0),
            weights.get(POD_TOPOLOGY_SPREAD, 0),
            weights.get(DYNAMIC_RESOURCES, 0),
            weights.get(IMAGE_LOCALITY, 0),
            self._args(BalancedAllocationConfig, BALANCED_ALLOCATION).balanced,
            () if added is None else added.preferred,
            near.hard_pod_affinity_weight,
            near.ignore_preferred_terms_of_existing_pods,
            spread.default_spread,
            spread_needs_labels=spread.is_list,
        )

    def _not_known(self, *, has_extenders: bool) -> Iterator[str]:
        """Yield what may reject nodes, and node fit has no rule of."""
        if has_extenders:
            yield "extenders"
        if unprepared := sorted(self.plugins.unprepared_filters):
            yield f"{', '.join(unprepared)} without preFilter"
        if self._hard_constraints():
            yield "default constraints of Services' pods"
        added = self.plugins.multi_point.added | self.plugins.filter.added
        if foreign := sorted(added - PLUGINS):
            yield f"plugins {', '.join(foreign)}"

    def _args(self, model: type[A], name: str) -> A:
        written = next((each.args for each in self._configs if each.name == name), {})
        return model.model_validate(as_go_reads(model, written))

    def _misspelt(self) -> Iterator[FieldError]:
        """Yield the names that are nearly those of the kube-scheduler's plugins.

        Others may be plugins that a scheduler was built with.
        """
        for point, plugins in self.plugins:
            for which in ("enabled", "disabled"):
                for number, each in enumerate(getattr(plugins, which)):
                    if each.name in PLUGINS or (near := sole_near_name(each.name, PLUGINS)) is None:
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
                if each.name == ALL:
                    message, hint = "* stands for all plugins in disabled alone", "name each plugin"
                    yield FieldError(
                        message, hint, (*path, number, "name"), rule=Rule.UNKNOWN_PLUGIN
                    )
                if each.name in PLUGINS - PLUGINS_OF.get(point, PLUGINS):
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
            for number, each in enumerate(self._configs)
        )
        for path, name in (*enabled, *configured):
            if name in GONE_PLUGINS:
                message, hint = f"{name} is no plugin of v1", "write NodeVolumeLimits"
                yield FieldError(message, hint, path, rule=Rule.UNKNOWN_PLUGIN)

    def _configured_twice(self) -> Iterator[FieldError]:
        names = [each.name for each in self._configs]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield FieldError(
                    f"{quote(name)} is configured already",
                    "keep one of the entries",
                    ("pluginConfig", number, "name"),
                    rule=Rule.CONFIGURED_TWICE,
                )


class ConfigMapKey(Section):
    """A key of a ConfigMap, which the API server has."""

    namespace: Annotated[str, Field(min_length=1)] = Field(description="Its namespace.")
    name: Annotated[str, Field(min_length=1)] = Field(description="The ConfigMap.")
    key: Annotated[str, Field(min_length=1)] = Field(description="The key below `data`.")

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name} key {self.key}"


class SchedulerConfiguration(Section):
    """A KubeSchedulerConfiguration, as the kube-scheduler takes it with `--config`.

    With `file` or `configMap` it stands elsewhere, and nothing is written beside that.
    """

    file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="The configuration is in this file; a relative path begins at the folder of "
        "these settings.",
    )
    config_map: ConfigMapKey | None = Field(
        default=None,
        description="The configuration is in this ConfigMap. Until it has been read no node fits "
        "the pods of a scheduler that has no profile here.",
    )

    api_version: Literal["kubescheduler.config.k8s.io/v1"] = Field(
        default=API_VERSION, description=f"Always {API_VERSION}."
    )
    kind: Literal["KubeSchedulerConfiguration"] = Field(default=KIND, description=f"Always {KIND}.")
    profiles: Annotated[
        tuple[SchedulerProfileSettings | None, ...], Field(max_length=MAX_PROFILES)
    ] = Field(
        default=(SchedulerProfileSettings.model_construct(),),
        description="Its profiles; none, one with the default plugins.",
    )
    extenders: tuple[Mapping[str, object] | None, ...] = Field(
        default=(),
        description="Programs that the scheduler asks as well; what they answer is not known here.",
    )
    parallelism: Annotated[int, Field(ge=1, le=LARGEST)] | None = Field(
        default=None, description="Not used."
    )
    leader_election: Mapping[str, object] | None = Field(default=None, description="Not used.")
    client_connection: Mapping[str, object] | None = Field(default=None, description="Not used.")
    enable_profiling: StrictBool | None = Field(default=None, description="Not used.")
    enable_contention_profiling: StrictBool | None = Field(default=None, description="Not used.")
    percentage_of_nodes_to_score: Percentage | None = Field(default=None, description="Not used.")
    pod_initial_backoff_seconds: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Not used."
    )
    pod_max_backoff_seconds: int | None = Field(default=None, description="Not used.")
    delay_cache_until_active: StrictBool | None = Field(default=None, description="Not used.")

    @property
    def all_profiles(self) -> tuple[SchedulerProfileSettings, ...]:
        """The profiles; Go reads a null as an empty item."""
        return tuple(each or SchedulerProfileSettings.model_construct() for each in self.profiles)

    @property
    def is_elsewhere(self) -> bool:
        """Say whether the configuration itself is in a file or a ConfigMap."""
        return self.file is not None or self.config_map is not None

    @model_validator(mode="after")
    def _check_place(self) -> "SchedulerConfiguration":
        places = sorted(map(file_key, self.model_fields_set & {"file", "config_map"}))
        if len(self.model_fields_set) > 1 and self.is_elsewhere:
            message = "stands for a whole configuration, and alone"
            hint = "keep one, or write the configuration here alone"
            at = (places[-1],)
            raise_field_errors([FieldError(message, hint, at, rule=Rule.EXCLUSIVE_FIELDS)])
        return self

    @model_validator(mode="after")
    def _check(self) -> "SchedulerConfiguration":
        parts = (
            ("leaderElection", LeaderElectionConfig, self.leader_election),
            ("clientConnection", ClientConnectionConfig, self.client_connection),
        )
        errors = [
            each
            for key, model, written in parts
            if written is not None
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
        profiles = self.all_profiles
        for number, each in enumerate(profiles):
            if len(self.profiles) > 1 and "scheduler_name" not in each.model_fields_set:
                hint = "write schedulerName: only a single profile has one by default"
                path = ("profiles", number)
                message = "has no schedulerName"
                yield FieldError(message, hint, path, rule=Rule.MISSING_FIELD)
            if each.plugins.queue_sort != profiles[0].plugins.queue_sort:
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
            description="The KubeSchedulerConfiguration of each scheduler of the cluster, or where "
            "it stands; none: the default plugins, for the pods of every scheduler.",
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
        raise_field_errors(self.same_names())
        return self

    def profiles(self) -> SchedulerProfiles:
        """Return what node fit is built from."""
        found = [
            each.profile(has_extenders=bool(config.extenders))
            for config in self.config
            if not config.is_elsewhere
            for each in config.all_profiles or (SchedulerProfileSettings(),)
        ]
        unread = [str(each.config_map or each.file) for each in self.config if each.is_elsewhere]
        return SchedulerProfiles(
            {each.name: each for each in found},
            self.unknown_scheduler == "hold",
            unread=", ".join(unread),
        )

    def same_names(self) -> Iterator[FieldError]:
        """Yield the profiles of a scheduler that has one already."""
        seen: set[str] = set()
        for number, config in enumerate(self.config):
            for place, profile in enumerate(() if config.is_elsewhere else config.all_profiles):
                if profile.scheduler_name in seen:
                    yield FieldError(
                        f"{quote(profile.scheduler_name)} has a profile already",
                        "give each profile a schedulerName of its own",
                        ("config", number, "profiles", place, "schedulerName"),
                        rule=Rule.CONTRADICTING_SETTINGS,
                    )
                seen.add(profile.scheduler_name)
