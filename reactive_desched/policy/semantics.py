"""Reduces a policy to its meaning, so that two spellings of one policy compare equal."""

from typing import Final

from pydantic import BaseModel

from reactive_desched.model.usage import MetricsSourceKind
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import Policy, Profile

_COUNTED: Final = ("pod_protections", "evict_", "ignore_")
"""How the fields of the evictor begin that `protections` sums up."""


def policy_semantics(policy: Policy) -> object:
    """Return what a policy does: equal for two that differ in text, place or deprecated forms."""
    return _shared_semantics(policy), [
        (
            profile.name,
            profile.deschedule,
            profile.balance,
            *_filter_semantics(profile),
            {name: _args_semantics(args) for name, args in profile.args.items()},
        )
        for profile in policy.profiles
    ]


def policy_semantics_by_plugin(policy: Policy) -> object:
    """Return what a policy does, whichever profiles its plugins stand in, in whatever order."""
    return _shared_semantics(policy), {
        (point, name): (_args_semantics(profile.args[name]), *_filter_semantics(profile))
        for profile in policy.profiles
        for point, names in (("deschedule", profile.deschedule), ("balance", profile.balance))
        for name in names
    }


def _shared_semantics(policy: Policy) -> object:
    """Return what holds for all profiles."""
    providers = [(each.source, each.prometheus) for each in policy.metrics_providers]
    if policy.metrics_collector_enabled:
        providers.append((MetricsSourceKind.KUBERNETES, None))
    return (
        policy.node_selector,
        policy.limits,
        policy.grace_period_s,
        policy.eviction_failure_event_notification,
        providers,
    )


def _filter_semantics(profile: Profile) -> tuple[object, ...]:
    return profile.filter, profile.pre_eviction_filter, _evictor_semantics(profile.evictor)


def _evictor_semantics(args: DefaultEvictorArgs) -> object:
    kept = {field: value for field, value in args if not field.startswith(_COUNTED)}
    return kept, args.protections, args.protected_storage_classes


def _args_semantics(args: BaseModel) -> object:
    """Return the arguments of a plugin, a source of metrics by its name however it is asked for."""
    fields = dict(args)
    use = fields.get("metrics_utilization")
    if isinstance(use, BaseModel):
        named = dict(use)
        source = MetricsSourceKind.KUBERNETES if named.pop("metrics_server", False) else ""
        fields["metrics_utilization"] = {**named, "source": named.get("source") or source}
    return type(args), fields
