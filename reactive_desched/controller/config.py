"""From what people wrote to what is put together: a policy and settings become a plan."""

from collections.abc import Iterable, Mapping

from reactive_desched.api.plugin import PluginArgs
from reactive_desched.controller.controller import Plan, ProfilePlan
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.gate.rate_limits import Rate
from reactive_desched.plugins.duplicates import DuplicatesArgs
from reactive_desched.plugins.failed_pods import FailedPods, FailedPodsArgs
from reactive_desched.plugins.high_node_utilization import HighNodeUtilizationArgs
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinity,
    InterPodAntiAffinityArgs,
)
from reactive_desched.plugins.low_node_load import LowNodeLoadArgs
from reactive_desched.plugins.low_node_utilization import LowNodeUtilizationArgs
from reactive_desched.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from reactive_desched.plugins.node_taints import NodeTaints, NodeTaintsArgs
from reactive_desched.plugins.pod_life_time import PodLifeTime, PodLifeTimeArgs
from reactive_desched.plugins.too_many_restarts import TooManyRestarts, TooManyRestartsArgs
from reactive_desched.plugins.topology_spread import TopologySpreadArgs
from reactive_desched.policy.load import Configuration, load
from reactive_desched.policy.policy import Policy, Profile
from reactive_desched.policy.registry import PluginSpec, Registry
from reactive_desched.policy.runnable import require_runnable
from reactive_desched.policy.settings import Budget, ReactiveSettings
from reactive_desched.primitives.debounce import Pause

BUILT_IN: Mapping[str, tuple[type[AnyPlugin], type[PluginArgs]]] = {
    NodeTaints.name: (NodeTaints, NodeTaintsArgs),
    NodeAffinity.name: (NodeAffinity, NodeAffinityArgs),
    PodLifeTime.name: (PodLifeTime, PodLifeTimeArgs),
    FailedPods.name: (FailedPods, FailedPodsArgs),
    TooManyRestarts.name: (TooManyRestarts, TooManyRestartsArgs),
    InterPodAntiAffinity.name: (InterPodAntiAffinity, InterPodAntiAffinityArgs),
}
"""The plugins that come with us; third-party ones will join through the same door."""


TO_COME: Mapping[str, type[PluginArgs]] = {
    "RemoveDuplicates": DuplicatesArgs,
    "RemovePodsViolatingTopologySpreadConstraint": TopologySpreadArgs,
    "LowNodeUtilization": LowNodeUtilizationArgs,
    "HighNodeUtilization": HighNodeUtilizationArgs,
    "LowNodeLoad": LowNodeLoadArgs,
}
"""Balance plugins that a policy can configure and have checked before they are built."""


def registry() -> Registry:
    """Tell the policy reader which plugins there are, and which are still to come."""
    built = {
        name: PluginSpec(args, frozenset({plugin.point}))
        for name, (plugin, args) in BUILT_IN.items()
    }
    coming = {
        name: PluginSpec(args, frozenset({"balance"}), is_built=False)
        for name, args in TO_COME.items()
    }
    return {**coming, **built}


def read_runnable(files: Iterable[str], *, lenient: bool) -> Configuration:
    """Read files of policy and settings, and see that all they enable can run.

    Raises PolicyErrors.
    """
    configuration = load(files, registry(), lenient=lenient)
    require_runnable(configuration.unbuilt)
    return configuration


def plan(policy: Policy, settings: ReactiveSettings) -> Plan:
    """Turn a checked policy and settings into a plan."""
    budgets = settings.budgets
    return Plan(
        profiles=tuple(map(_profile, policy.profiles)),
        selects=policy.node_selector,
        rates={
            "cluster": _rate(budgets.cluster),
            "node": _rate(budgets.node),
            "namespace": _rate(budgets.namespace),
        },
        limits={
            "cluster": policy.limits.total,
            "node": policy.limits.per_node,
            "namespace": policy.limits.per_namespace,
        },
        pause=lambda plugin: Pause(*settings.debounce.waits(plugin)),
        backoff_first_s=settings.evictions.retry.initial_s,
        backoff_longest_s=settings.evictions.retry.max_s,
        at_once=settings.evictions.max_in_flight,
        grace_period_s=policy.grace_period_s,
        node_fit=settings.node_fit,
    )


def _profile(profile: Profile) -> ProfilePlan:
    names = (*profile.deschedule, *profile.balance)
    return ProfilePlan(
        profile.name, tuple(_plugin(profile, name) for name in names), profile.evictor
    )


def _plugin(profile: Profile, name: str) -> AnyPlugin:
    plugin, _ = BUILT_IN[name]
    made: AnyPlugin = plugin(profile.args[name])
    return made


def _rate(budget: Budget | None) -> Rate | None:
    return None if budget is None else Rate(budget.per_second, budget.burst)
