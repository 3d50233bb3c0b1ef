"""Checks the names in settings against the plugins that there are, and the policy's profiles."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from reactive_desched.api.args import fix_to
from reactive_desched.api.rules import Rule
from reactive_desched.errors import PluginError
from reactive_desched.model.changes import Change
from reactive_desched.model.node_drains import DRAIN_NODES
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.registry import Registry, plugin_names
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.primitives.hints import did_you_mean, sole_near_name

if TYPE_CHECKING:
    from reactive_desched.policy.settings.concerns import Concerns
    from reactive_desched.policy.settings.debounce import DebounceSettings
    from reactive_desched.policy.settings.reactive_settings import ReactiveSettings


def misnamed_plugins(location: SourceLocation, registry: Registry) -> Iterator[Diagnostic]:
    """Name the plugins that do not exist where settings have a plugin's name as a key.

    That is said of settings which are wrong elsewhere, too.
    """
    profiles = location.below("profiles")
    for at in (
        location.below("debounce", "perPlugin"),
        location.below("guards", "ignoredBy"),
        *(profiles.below(name, "plugins") for name in profiles.field_names()),
    ):
        yield from _unknown_plugins(at.field_names(), at, registry)


def unknown_plugins_and_changes(
    settings: "ReactiveSettings", location: SourceLocation, registry: Registry
) -> Iterator[Diagnostic]:
    """Name the changes that matter to no plugin, and the plugins in lists that do not exist."""
    yield from _unknown_changes(settings.debounce, location.below("debounce"), registry)
    for concerns, at in _concerns(settings, location):
        names = {name: place for place, name in enumerate(concerns.plugins)}
        yield from _unknown_plugins(names, at.below("plugins"), registry, names.__getitem__)


def _unknown_changes(
    debounce: "DebounceSettings", at: SourceLocation, registry: Registry
) -> Iterator[Diagnostic]:
    """Name the kinds of change to which no plugin reacts."""
    known = plugin_names(registry)
    by_place = {(): debounce.per_change} | {
        ("perPlugin", name): own.per_change
        for name, own in debounce.per_plugin.items()
        if name in known
    }
    for place, waits in by_place.items():
        if not waits:
            continue
        kinds = _change_kinds(known if not place else {place[1]}, registry)
        for kind in sorted(waits.keys() - kinds):
            message = f"no change of this kind matters to {'this' if place else 'a'} plugin"
            hint = did_you_mean(kind, kinds) or f"there are {', '.join(sorted(kinds))}"
            yield at.below(*place, "perChange", kind).diagnostic(
                message,
                hint,
                rule=Rule.UNKNOWN_VALUE,
                fix=fix_to(sole_near_name(kind, kinds)),
                at_key=True,
            )


def _unknown_plugins(
    names: Iterable[str],
    at: SourceLocation,
    registry: Registry,
    step: Callable[[str], str | int] = str,
) -> Iterator[Diagnostic]:
    """Name the plugins that do not exist among the names in a setting; `step` leads to each."""
    known = plugin_names(registry)
    for name in sorted({*names} - known):
        yield at.below(step(name)).diagnostic(
            "there is no such plugin",
            did_you_mean(name, known),
            rule=Rule.UNKNOWN_PLUGIN,
            fix=fix_to(sole_near_name(name, known)),
        )


def unknown_profiles(
    settings: "ReactiveSettings", location: SourceLocation, policy: Policy
) -> Iterator[Diagnostic]:
    """Name the profiles in settings that the policy does not have."""
    known = {profile.name for profile in policy.profiles}
    at = location.below("evictions", "perProfile")
    places = [(at.below(name), name, True) for name in settings.evictions.per_profile]
    places += [(location.below("profiles", name), name, True) for name in settings.profiles]
    for concerns, at in _concerns(settings, location):
        places += [
            (at.below("profiles", step), name, False) for step, name in enumerate(concerns.profiles)
        ]
    for at, name, is_key in places:
        if name not in known:
            yield at.diagnostic(
                "there is no such profile in the policy",
                did_you_mean(name, known) or f"there are {', '.join(sorted(known))}",
                rule=Rule.UNKNOWN_VALUE,
                fix=fix_to(sole_near_name(name, known)),
                at_key=is_key,
            )


def _concerns(
    settings: "ReactiveSettings", location: SourceLocation
) -> Iterator[tuple["Concerns", SourceLocation]]:
    """Yield what names plugins and profiles whose evictions it is about, with its place."""
    budgets = settings.budgets
    entries: dict[str, Sequence[Concerns]] = {
        "schedules": budgets.schedules,
        "named": budgets.named,
    }
    for section, those in entries.items():
        for index, each in enumerate(those):
            yield each, location.below("budgets", section, index)


def drains_without_plugin(
    settings: "ReactiveSettings", location: SourceLocation, policy: Policy
) -> Iterator[Diagnostic]:
    """Refuse rules for drains where the policy would leave the nodes cordoned and full."""
    if settings.drains and DRAIN_NODES not in policy.plugin_names:
        yield location.below("drains").diagnostic(
            f"no profile of the policy has the plugin {DRAIN_NODES}, which finds the pods",
            f"add {DRAIN_NODES} to plugins.deschedule.enabled of a profile",
            rule=Rule.CONTRADICTING_SETTINGS,
            at_key=True,
        )


def _change_kinds(plugins: Iterable[str], registry: Registry) -> frozenset[str]:
    """Return the names of the kinds of change to which these plugins react.

    One that cannot be loaded reacts to none; a policy that names it is refused for that.
    """
    kinds = set[type[Change]]()
    for name in plugins:
        with suppress(PluginError):
            kinds.update(() if (found := registry[name].plugin) is None else found.reacts_to)
    return frozenset(kind.published_as or kind.__name__ for kind in kinds)
