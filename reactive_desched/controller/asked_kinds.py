"""Names the kinds that are watched, and which required ones enabled plugins read.

Without the other required ones evictions go on.
"""

from collections.abc import Iterator
from typing import Final

from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.policy import Policy, Profile
from reactive_desched.policy.protections import Protection
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.state.resources import (
    DEVICE_RESOURCES,
    MIGRATION_RESOURCES,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    PRIORITY_CLASSES,
    PVCS,
    RESERVATION_RESOURCES,
    RESOURCES_TO_SYNC,
    WATCHED_KINDS,
)

NOT_ASKED: Final = "nothing that is enabled reads it"
"""What it costs to go without a kind that no enabled plugin, filter, guard or node fit reads."""

ALWAYS_ASKED: Final = (PODS, NODES, PDBS)
"""What every decision reads."""

_BY_NODE_FIT: Final = (NAMESPACES, PVCS)
"""What node fit reads of required kinds in its scheduler mode: for pod affinity, and volumes."""

_REQUIRED: Final = frozenset(name for name, kind in WATCHED_KINDS.items() if not kind.optional)


def resources_to_sync(config: Configuration) -> tuple[str, ...]:
    """Return the resources whose first list a start waits for."""
    found = [*RESOURCES_TO_SYNC]
    if (migration := config.controller.migration) is not None:
        found += MIGRATION_RESOURCES
        found += RESERVATION_RESOURCES if migration.scheduler_names else ()
    if config.controller_schedulers.watches_devices:
        found += DEVICE_RESOURCES
    return tuple(found)


def asked_kinds(config: Configuration) -> frozenset[str]:
    """Return the resources that plugins, filters, guards and node fit of the controller read."""
    settings = config.controller
    plugins = config.policy.plugin_names
    asked = set(kinds_of_policy(config.policy, fits_as_scheduler=True))
    if any(settings.guards.holds(GuardName.DO_NOT_EVICT, name) for name in plugins):
        asked.add(NAMESPACES)
    if "namespace" in settings.proposals.annotations_of:
        asked.add(NAMESPACES)
    if settings.migration is not None:
        asked.update(_BY_NODE_FIT)
    return frozenset(asked)


def unasked_in_sweep(policy: Policy, *, fits_as_scheduler: bool) -> frozenset[str]:
    """Return the required resources without which a sweep by this policy decides the same."""
    asked = set(kinds_of_policy(policy, fits_as_scheduler=fits_as_scheduler))
    return _REQUIRED - asked


def unasked_kinds(config: Configuration) -> frozenset[str]:
    """Return the required resources without which the controller decides the same."""
    return _REQUIRED - asked_kinds(config)


def effect_without(resource: str) -> str:
    """Say what it costs to go without a resource that may not be listed."""
    return WATCHED_KINDS[resource].if_forbidden or NOT_ASKED


def kinds_of_policy(policy: Policy, *, fits_as_scheduler: bool) -> Iterator[str]:
    """Yield the resources that a policy's plugins and filters read, and node fit for them."""
    yield from ALWAYS_ASKED
    for profile in policy.profiles:
        yield from _by_filters(profile)
        indexes = (index for plugin in profile.plugins for index, _ in plugin.required_indexes)
        followed = {kind for index in indexes for kind in index.kinds}
        yield from (name for name, kind in WATCHED_KINDS.items() if kind.record in followed)
        asks_fit = profile.evictor.node_fit or any(p.asks_node_fit for p in profile.plugins)
        if fits_as_scheduler and asks_fit:
            yield from _BY_NODE_FIT


def _by_filters(profile: Profile) -> Iterator[str]:
    args = profile.evictor
    selector = args.namespace_label_selector
    if selector is not None and not selector.is_empty:
        yield NAMESPACES
    if args.priority_threshold.name is not None:
        yield PRIORITY_CLASSES
    if Protection.PVC in args.protections and args.protected_storage_classes:
        yield PVCS
