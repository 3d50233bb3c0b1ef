"""Selects the resources that a sweep lists from a live cluster: those that its policy reads."""

from collections.abc import Set as AbstractSet

from reactive_desched.fit.upstream import SCHEDULER
from reactive_desched.policy.policy import Policy
from reactive_desched.state.resources import (
    RESOURCES,
    STORAGE_RESOURCES,
    USAGE_RESOURCES,
    WATCHED_KINDS,
)

__all__ = ["needed_resources"]


def needed_resources(
    policy: Policy, node_fit: str, spared: AbstractSet[str] = frozenset()
) -> list[str]:
    """Return the resources that a policy needs with this node fit, but those that are spared."""
    unneeded = {*spared, *(USAGE_RESOURCES - _measurements(policy))}
    if node_fit != SCHEDULER:
        unneeded |= STORAGE_RESOURCES
    return [resource for resource in RESOURCES if resource not in unneeded]


def _measurements(policy: Policy) -> set[str]:
    """Return the resources with measured use that some plugin reads."""
    followed = {
        kind
        for profile in policy.profiles
        for plugin in profile.plugins
        for index in plugin.indexes
        for kind in index.kinds
    }
    return {name for name in USAGE_RESOURCES if WATCHED_KINDS[name].record in followed}
