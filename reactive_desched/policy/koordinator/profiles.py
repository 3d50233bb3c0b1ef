"""Converts a profile of koordinator: its plugins after its defaults, and its evictor."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.api.rules import Rule
from reactive_desched.policy.koordinator.migration_controller import MigrationControllerArgs
from reactive_desched.policy.registry import DEFAULT_EVICTOR, MIGRATION_CONTROLLER
from reactive_desched.policy.yaml.diagnostics import DiagnosticList
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.primitives.hints import quote

DEFAULT_PROFILE: Final = "koord-descheduler"
RUNNING_POINTS: Final = ("deschedule", "balance")
_POINTS: Final = (*RUNNING_POINTS, "evict", "filter")
_ALL: Final = "*"


class KoordinatorsProfile(Struct, frozen=True):
    """One profile; `args` are those of MigrationController, where that evicts.

    `enabled` has the plugins to run by extension point, each with its place; `configs` the entries
    of pluginConfig by the plugin's name.
    """

    at: SourceLocation
    name: str
    enabled: dict[str, dict[str, SourceLocation]]
    configs: dict[str, SourceLocation]
    args: MigrationControllerArgs | None

    @property
    def args_at(self) -> SourceLocation:
        """Return where the arguments of MigrationController are, or would be."""
        entry = self.configs.get(MIGRATION_CONTROLLER)
        return self.at.below("pluginConfig") if entry is None else entry.below("args")


def enabled_plugins(
    profile: SourceLocation, diagnostics: DiagnosticList
) -> dict[str, dict[str, SourceLocation]]:
    """Return what is enabled at each point, koordinator's defaults included.

    A default is dropped by its name or by * in `disabled`; that drops nothing that the profile
    enables itself.
    """
    found = {point: _enabled_at(profile.below("plugins", point)) for point in _POINTS}
    for point in found:
        at = profile.below("plugins", point, "enabled")
        names = [name for name, _ in _names(at)]
        for twice in sorted({name for name in names if names.count(name) > 1}):
            diagnostics.add(
                at.diagnostic(
                    f"{quote(twice)} is enabled twice", "keep one", rule=Rule.ENABLED_TWICE
                )
            )
    _check_evictor(profile, found, diagnostics)
    return found


def _enabled_at(at: SourceLocation) -> dict[str, SourceLocation]:
    """Merge what a point enables with its default, which keeps its place."""
    written = dict(_names(at.below("enabled")))
    disabled = {name for name, _ in _names(at.below("disabled"))}
    is_default = at.path[-1] in ("evict", "filter") and not disabled & {_ALL, MIGRATION_CONTROLLER}
    return ({MIGRATION_CONTROLLER: at} if is_default else {}) | written


def _names(at: SourceLocation) -> Iterator[tuple[str, SourceLocation]]:
    """Yield the names in a list of plugins, each with its place."""
    for item in at.items():
        if (name := item.below("name").text) is not None:
            yield name, item.below("name")


def _check_evictor(
    profile: SourceLocation,
    found: dict[str, dict[str, SourceLocation]],
    diagnostics: DiagnosticList,
) -> None:
    """Refuse no evictor and two, as koordinator does, and two sets of protections."""
    evictors, at = found["evict"], profile.below("plugins", "evict")
    write = f"write evict: {_only(MIGRATION_CONTROLLER)}"
    if len(evictors) != 1:
        message = f"{len(evictors)} plugins evict here" if evictors else "no plugin evicts here"
        diagnostics.add(
            at.diagnostic(f"{message}: there must be one", write, rule=Rule.EXCLUSIVE_FIELDS)
        )
        return
    ((name, place),) = evictors.items()
    if name not in (MIGRATION_CONTROLLER, DEFAULT_EVICTOR):
        diagnostics.add(
            place.diagnostic(f"{quote(name)} does not evict", write, rule=Rule.UNKNOWN_PLUGIN)
        )
        return
    others = [each for each in found["filter"] if each != name]
    if others:
        message = f"{others[0]} protects pods, and {name} evicts them"
        hint = f"here one plugin does both: write filter: {_only(name)}"
        where = found["filter"][others[0]]
        diagnostics.add(where.diagnostic(message, hint, rule=Rule.KOORDINATOR_ONLY))


def _only(name: str) -> str:
    """Write a point at which one plugin is enabled, and no default."""
    return f'{{disabled: [{{name: "{_ALL}"}}], enabled: [{{name: {name}}}]}}'


def configured_plugins(
    profile: SourceLocation, diagnostics: DiagnosticList
) -> dict[str, SourceLocation]:
    """Return the entries of pluginConfig by name; koordinator takes one for each name."""
    found: dict[str, SourceLocation] = {}
    for entry in profile.below("pluginConfig").items():
        if (name := entry.below("name").text) is None:
            continue
        if name in found:
            diagnostics.add(
                entry.diagnostic(
                    f"{quote(name)} is configured already", "keep one", rule=Rule.CONFIGURED_TWICE
                )
            )
        found.setdefault(name, entry)
        _check_identity(name, entry.below("args"), diagnostics)
    return found


def _check_identity(name: str, args: SourceLocation, diagnostics: DiagnosticList) -> None:
    """Refuse arguments that say they are another plugin's."""
    kind = args.below("kind")
    if kind.text not in (None, f"{name}Args"):
        diagnostics.add(
            kind.diagnostic(
                f"{quote(kind.text or '')} is not the kind of the arguments of {name}",
                f"write kind: {name}Args",
                rule=Rule.UNKNOWN_KIND,
            )
        )


def check_names(profiles: Sequence[SourceLocation], diagnostics: DiagnosticList) -> None:
    """Refuse two profiles of one name, and several without; a single one needs none."""
    seen: set[str] = set()
    for profile in profiles if len(profiles) > 1 else ():
        at = profile.below("name")
        name = at.text or ""
        if not name:
            hint = "with several profiles each needs a name"
            diagnostics.add(at.diagnostic("is required", hint, rule=Rule.MISSING_FIELD))
        elif name in seen:
            message = f"a profile named {quote(name)} is there already"
            diagnostics.add(at.diagnostic(message, "write another", rule=Rule.PROFILE_NAME_TWICE))
        seen.add(name)


def check_one_controller(
    moving: Sequence[KoordinatorsProfile], diagnostics: DiagnosticList
) -> None:
    """Refuse two profiles that move pods in different ways: limits are of the cluster here."""
    for each in moving[1:]:
        if each.args != moving[0].args:
            message = f"another {MIGRATION_CONTROLLER} than that of {moving[0].name}"
            hint = "write the same arguments, or a file for each"
            diagnostics.add(each.args_at.diagnostic(message, hint, rule=Rule.KOORDINATOR_ONLY))
