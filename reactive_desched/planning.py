"""From what people wrote to what is put together: a policy and settings become a plan."""

from collections.abc import Mapping

from reactive_desched.api.plugin import PluginArgs
from reactive_desched.assembly import Plan, ProfilePlan
from reactive_desched.gate.budgets import Rate
from reactive_desched.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from reactive_desched.plugins.node_taints import NodeTaints, NodeTaintsArgs
from reactive_desched.policy.policy import Policy, Profile
from reactive_desched.policy.registry import PluginSpec, Registry
from reactive_desched.policy.settings import Budget, ReactiveSettings
from reactive_desched.react.debounce import Pause
from reactive_desched.react.instances import AnyPlugin

BUILT_IN: Mapping[str, tuple[type[AnyPlugin], type[PluginArgs]]] = {
    NodeTaints.name: (NodeTaints, NodeTaintsArgs),
    NodeAffinity.name: (NodeAffinity, NodeAffinityArgs),
}
"""The plugins that come with us; third-party ones will join through the same door."""


def registry() -> Registry:
    """Tell the policy reader which plugins there are."""
    return {
        name: PluginSpec(args, frozenset({plugin.point}))
        for name, (plugin, args) in BUILT_IN.items()
    }


def plan(policy: Policy, settings: ReactiveSettings, *, dry_run: bool) -> Plan:
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
        dry_run=dry_run,
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
