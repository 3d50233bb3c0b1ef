"""From what people wrote to what is put together: a policy and settings become a plan."""

from collections.abc import Iterable, Mapping

from reactive_desched.api.args import PluginArgs
from reactive_desched.controller.controller import ControllerConfig, ProfileConfig
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.plugins.duplicates import DuplicatesArgs
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.plugins.high_node_utilization import HighNodeUtilizationArgs
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.plugins.low_node_load import LowNodeLoadArgs
from reactive_desched.plugins.low_node_utilization import LowNodeUtilizationArgs
from reactive_desched.plugins.node_affinity import NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.pod_life_time import PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.plugins.too_many_restarts import TooManyRestartsArgs, TooManyRestartsPlugin
from reactive_desched.plugins.topology_spread import TopologySpreadArgs
from reactive_desched.policy.load import Configuration, load_files
from reactive_desched.policy.policy import Policy, Profile
from reactive_desched.policy.registry import PluginSpec, Registry
from reactive_desched.policy.runnable import require_runnable
from reactive_desched.policy.settings import RateLimitSettings, ReactiveSettings
from reactive_desched.primitives.debounce import DebounceConfig

BUILT_IN_PLUGINS: Mapping[str, tuple[type[AnyPlugin], type[PluginArgs]]] = {
    NodeTaintsPlugin.name: (NodeTaintsPlugin, NodeTaintsArgs),
    NodeAffinityPlugin.name: (NodeAffinityPlugin, NodeAffinityArgs),
    PodLifeTimePlugin.name: (PodLifeTimePlugin, PodLifeTimeArgs),
    FailedPodsPlugin.name: (FailedPodsPlugin, FailedPodsArgs),
    TooManyRestartsPlugin.name: (TooManyRestartsPlugin, TooManyRestartsArgs),
    InterPodAntiAffinityPlugin.name: (InterPodAntiAffinityPlugin, InterPodAntiAffinityArgs),
}
"""The plugins that come with us; third-party ones will join through the same door."""


PLANNED_PLUGINS: Mapping[str, type[PluginArgs]] = {
    "RemoveDuplicates": DuplicatesArgs,
    "RemovePodsViolatingTopologySpreadConstraint": TopologySpreadArgs,
    "LowNodeUtilization": LowNodeUtilizationArgs,
    "HighNodeUtilization": HighNodeUtilizationArgs,
    "LowNodeLoad": LowNodeLoadArgs,
}
"""Balance plugins that a policy can configure and have checked before they are built."""


def plugin_registry() -> Registry:
    """Tell the policy reader which plugins there are, and which are still to come."""
    built = {
        name: PluginSpec(args, frozenset({plugin.extension_point}))
        for name, (plugin, args) in BUILT_IN_PLUGINS.items()
    }
    planned = {
        name: PluginSpec(args, frozenset({"balance"}), is_implemented=False)
        for name, args in PLANNED_PLUGINS.items()
    }
    return {**planned, **built}


def read_runnable(files: Iterable[str], *, lenient: bool) -> Configuration:
    """Read files of policy and settings, and see that all they enable can run.

    Raises PolicyErrors.
    """
    configuration = load_files(files, plugin_registry(), lenient=lenient)
    require_runnable(configuration.unimplemented)
    return configuration


def build_config(policy: Policy, settings: ReactiveSettings) -> ControllerConfig:
    """Turn a checked policy and settings into a plan."""
    budgets = settings.budgets
    return ControllerConfig(
        profiles=tuple(map(_profile, policy.profiles)),
        node_selector=policy.node_selector,
        eviction_rates={
            "cluster": _rate_of(budgets.cluster),
            "node": _rate_of(budgets.node),
            "namespace": _rate_of(budgets.namespace),
        },
        eviction_limits={
            "cluster": policy.limits.total,
            "node": policy.limits.per_node,
            "namespace": policy.limits.per_namespace,
        },
        debounce_for=lambda plugin: DebounceConfig(*settings.debounce.delays_for(plugin)),
        backoff_first_s=settings.evictions.retry.initial_s,
        backoff_longest_s=settings.evictions.retry.max_s,
        max_concurrent=settings.evictions.max_in_flight,
        grace_period_s=policy.grace_period_s,
        node_fit=settings.node_fit,
    )


def _profile(profile: Profile) -> ProfileConfig:
    names = (*profile.deschedule, *profile.balance)
    return ProfileConfig(
        profile.name, tuple(_plugin(profile, name) for name in names), profile.evictor
    )


def _plugin(profile: Profile, name: str) -> AnyPlugin:
    plugin, _ = BUILT_IN_PLUGINS[name]
    made: AnyPlugin = plugin(profile.args[name])
    return made


def _rate_of(budget: RateLimitSettings | None) -> TokenRate | None:
    return None if budget is None else TokenRate(budget.per_second, budget.burst)
