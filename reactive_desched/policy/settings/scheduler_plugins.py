"""The plugins that a profile of a kube-scheduler switches on and off, by extension point.

They are merged as the kube-scheduler 1.36 merges them with its default plugins.
"""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from reactive_desched.api.args import Section
from reactive_desched.model.node_scores import (
    BALANCED_ALLOCATION_WEIGHT,
    DYNAMIC_RESOURCES_WEIGHT,
    IMAGE_LOCALITY_WEIGHT,
    INTER_POD_AFFINITY_WEIGHT,
    NODE_AFFINITY_WEIGHT,
    RESOURCES_FIT_WEIGHT,
    TAINT_TOLERATION_WEIGHT,
    TOPOLOGY_SPREAD_WEIGHT,
)
from reactive_desched.model.scheduler_profile import (
    DYNAMIC_RESOURCES,
    FILTERS,
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_DECLARED_FEATURES,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_VOLUME_LIMITS,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    VOLUME_BINDING,
    VOLUME_RESTRICTIONS,
    VOLUME_ZONE,
)

BALANCED_ALLOCATION: Final = "NodeResourcesBalancedAllocation"
IMAGE_LOCALITY: Final = "ImageLocality"

ALL: Final = "*"
"""Disables all plugins that are enabled by default."""

_NOT_FILTERS: Final = frozenset(
    {
        "DefaultBinder",
        "DefaultPreemption",
        "GangScheduling",
        IMAGE_LOCALITY,
        "NodeName",
        BALANCED_ALLOCATION,
        "PrioritySort",
        "SchedulingGates",
    }
)
"""The other plugins of the kube-scheduler, which node fit has no filter of."""

PLUGINS: Final = FILTERS | _NOT_FILTERS

SCORE_WEIGHTS: Final[Mapping[str, int]] = {
    BALANCED_ALLOCATION: BALANCED_ALLOCATION_WEIGHT,
    DYNAMIC_RESOURCES: DYNAMIC_RESOURCES_WEIGHT,
    IMAGE_LOCALITY: IMAGE_LOCALITY_WEIGHT,
    INTER_POD_AFFINITY: INTER_POD_AFFINITY_WEIGHT,
    NODE_AFFINITY: NODE_AFFINITY_WEIGHT,
    NODE_RESOURCES_FIT: RESOURCES_FIT_WEIGHT,
    POD_TOPOLOGY_SPREAD: TOPOLOGY_SPREAD_WEIGHT,
    TAINT_TOLERATION: TAINT_TOLERATION_WEIGHT,
}
"""The plugins that score nodes by default, each with its weight."""

PREPARED_FILTERS: Final = frozenset(
    {
        DYNAMIC_RESOURCES,
        INTER_POD_AFFINITY,
        NODE_DECLARED_FEATURES,
        NODE_PORTS,
        NODE_RESOURCES_FIT,
        POD_TOPOLOGY_SPREAD,
        VOLUME_BINDING,
        VOLUME_RESTRICTIONS,
    }
)
_PREPARED_SCORES: Final = frozenset({INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD, TAINT_TOLERATION})

PLUGINS_OF: Final[Mapping[str, frozenset[str]]] = {
    "pre_enqueue": frozenset(
        {"DefaultPreemption", DYNAMIC_RESOURCES, "GangScheduling", "SchedulingGates"}
    ),
    "queue_sort": frozenset({"PrioritySort"}),
    "placement_generate": frozenset(),
    "placement_score": frozenset({NODE_RESOURCES_FIT}),
    "pre_filter": PREPARED_FILTERS | {NODE_AFFINITY, NODE_VOLUME_LIMITS, VOLUME_ZONE},
    "filter": FILTERS | {"NodeName"},
    "post_filter": frozenset({"DefaultPreemption", DYNAMIC_RESOURCES}),
    "pre_score": frozenset(SCORE_WEIGHTS) - {IMAGE_LOCALITY, DYNAMIC_RESOURCES} | {VOLUME_BINDING},
    "score": frozenset(SCORE_WEIGHTS) | {VOLUME_BINDING},
    "reserve": frozenset({DYNAMIC_RESOURCES, VOLUME_BINDING}),
    "permit": frozenset({"GangScheduling"}),
    "pre_bind": frozenset({DYNAMIC_RESOURCES, VOLUME_BINDING}),
    "bind": frozenset({"DefaultBinder"}),
    "post_bind": frozenset(),
}
"""The plugins of the kube-scheduler that may be enabled at each extension point."""


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
        return frozenset() if ALL in removed else names - removed


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

    @property
    def unprepared_filters(self) -> frozenset[str]:
        """The filters that run without what they prepare first, so that they fail on every node."""
        prepared = self._at(self.pre_filter, FILTERS | {"NodeName"})
        return (self.filters & PREPARED_FILTERS) - prepared

    @property
    def unprepared_scores(self) -> frozenset[str]:
        """The scores that run without what they prepare first, so that they fail on every node."""
        prepared = self._at(self.pre_score, frozenset(SCORE_WEIGHTS))
        return _PREPARED_SCORES.intersection(self.score_weights) - prepared

    def running(self, point: PluginSet, own: str) -> frozenset[str]:
        """Return what may run at a point of which the kube-scheduler has one plugin by default."""
        return self._at(point, frozenset({own})) - (PLUGINS - {own})

    def _at(self, point: PluginSet, by_default: frozenset[str]) -> frozenset[str]:
        everywhere = self.multi_point.remove_from(by_default) | self.multi_point.added
        return point.remove_from(everywhere) | point.added
