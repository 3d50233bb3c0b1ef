"""A policy as it was read: checked, in order, ready for the controller."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct
from pydantic import BaseModel

from reactive_desched.api.plugin import Plugin
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.node_conditions import Condition
from reactive_desched.model.usage import MetricsSourceKind
from reactive_desched.policy.document import MetricsProvider
from reactive_desched.policy.evictor import DefaultEvictorArgs

WINDOW_S: Final = 300.0
"""The SIG descheduler's default interval: what its limits per cycle come to."""

AnyPlugin = Plugin[Any, Any]  # plugins of every subject and argument type stand side by side


@dataclass(frozen=True, slots=True)
class Profile:
    """A set of plugins with their arguments; DefaultEvictor is in both filter lists.

    The lists are in order, each name once. `args` has the arguments of every plugin enabled at
    `deschedule` or `balance`, or at a filter point beside DefaultEvictor. `plugins` are those of
    `deschedule` and then `balance`, ready to run. `node_selector` says on which nodes pods are
    evicted.
    """

    name: str
    deschedule: tuple[str, ...] = ()
    balance: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    pre_eviction_filter: tuple[str, ...] = ()
    args: Mapping[str, BaseModel] = field(default_factory=dict)
    evictor: DefaultEvictorArgs = field(default_factory=DefaultEvictorArgs)
    node_selector: Selector = EVERYTHING
    plugins: tuple[AnyPlugin, ...] = field(default=(), compare=False)


class PolicyEvictionLimits(Struct, frozen=True):
    """The most evictions per cycle (or window); None means no limit, 0 means none at all."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None

    def by_scope(self) -> Mapping[str, int | None]:
        """Return the limits by the scopes that the gate counts in."""
        return {"cluster": self.total, "node": self.per_node, "namespace": self.per_namespace}


class Policy(Struct, frozen=True):
    """A whole policy; `revision` identifies the text it was read from."""

    profiles: tuple[Profile, ...]
    revision: str = ""
    source: str = ""
    node_selector: Selector = EVERYTHING
    limits: PolicyEvictionLimits = PolicyEvictionLimits()
    grace_period_s: int | None = None
    eviction_failure_event_notification: bool = False
    metrics_collector_enabled: bool = False
    metrics_providers: tuple[MetricsProvider, ...] = ()

    @property
    def plugin_names(self) -> frozenset[str]:
        """The plugins that some profile enables."""
        return frozenset(plugin.name for profile in self.profiles for plugin in profile.plugins)

    @property
    def balancing_plugins(self) -> frozenset[str]:
        """The plugins that some profile enables to balance the cluster, where nothing is wrong."""
        return frozenset(name for profile in self.profiles for name in profile.balance)

    @property
    def sick_conditions(self) -> frozenset[Condition]:
        """The conditions of nodes that some plugin takes as a reason to evict."""
        plugins = (plugin for profile in self.profiles for plugin in profile.plugins)
        return frozenset(each for plugin in plugins for each in plugin.sick_conditions)

    @property
    def metrics_sources(self) -> frozenset[str]:
        """The kinds of sources of measured use that the policy provides."""
        switched = {MetricsSourceKind.KUBERNETES} if self.metrics_collector_enabled else set()
        return frozenset({*switched, *(provider.source for provider in self.metrics_providers)})


SWEEP_NODE_FIT: Final = "upstream"
"""Whose rules a sweep checks nodes by where no settings say it: the default of `nodeFit`."""
