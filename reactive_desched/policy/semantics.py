"""What two policies have in common that say the same in different words."""

from typing import Final

from pydantic import BaseModel

from reactive_desched.policy.document import MetricsSource
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import Policy, Profile

_COUNTED: Final = ("pod_protections", "evict_", "ignore_")
"""How the fields of the evictor begin that `protections` sums up."""


def meaning(policy: Policy) -> object:
    """Give what a policy does: equal for two that differ in text, place or deprecated forms."""
    return _of_all(policy), [
        (
            profile.name,
            profile.deschedule,
            profile.balance,
            *_filters(profile),
            {name: _arguments(args) for name, args in profile.args.items()},
        )
        for profile in policy.profiles
    ]


def meaning_by_plugin(policy: Policy) -> object:
    """Give what a policy does, whichever profiles its plugins stand in, in whatever order."""
    return _of_all(policy), {
        (point, name): (_arguments(profile.args[name]), *_filters(profile))
        for profile in policy.profiles
        for point, names in (("deschedule", profile.deschedule), ("balance", profile.balance))
        for name in names
    }


def _of_all(policy: Policy) -> object:
    """Give what holds for all profiles."""
    providers = [(each.source, each.prometheus) for each in policy.metrics_providers]
    if policy.metrics_collector_enabled:
        providers.append((MetricsSource.KUBERNETES, None))
    return (
        policy.node_selector,
        policy.limits,
        policy.grace_period_s,
        policy.eviction_failure_event_notification,
        providers,
    )


def _filters(profile: Profile) -> tuple[object, ...]:
    return profile.filter, profile.pre_eviction_filter, _evictor(profile.evictor)


def _evictor(args: DefaultEvictorArgs) -> object:
    kept = {field: value for field, value in args if not field.startswith(_COUNTED)}
    return kept, args.protections, args.protected_storage_classes


def _arguments(args: BaseModel) -> object:
    """Give the arguments of a plugin, a source of metrics by its name however it is asked for."""
    fields = dict(args)
    use = fields.get("metrics_utilization")
    if isinstance(use, BaseModel):
        named = dict(use)
        source = MetricsSource.KUBERNETES if named.pop("metrics_server", False) else ""
        fields["metrics_utilization"] = {**named, "source": named.get("source") or source}
    return type(args), fields
