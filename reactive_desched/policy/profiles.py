"""One profile: which plugins run where; names that are wrong or in the wrong place show here."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace
from pydantic import BaseModel

from reactive_desched.api.args import Fix
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.policy.arguments import ArgumentsReader
from reactive_desched.policy.document import ProfileSection
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin, Profile
from reactive_desched.policy.registry import (
    DEFAULT_EVICTOR,
    EVICT,
    EXTENSION_POINTS,
    MIGRATION_CONTROLLER,
    SUPPORTED_POINTS,
    Registry,
    extension_points_of,
    naming_diagnostic,
    plugin_names,
)
from reactive_desched.policy.yaml.decode import Decoder
from reactive_desched.policy.yaml.diagnostics import DiagnosticList
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name

LocationsByName = Mapping[str, SourceLocation]
_READ_APART: Final = frozenset((MIGRATION_CONTROLLER,))


class ProfileReader:
    """Reads profiles leniently enough to find all that is wrong in one go.

    Of one that names what evicts, MigrationController is read apart: it may also be a filter, and
    has arguments in pluginConfig.
    """

    def __init__(self, registry: Registry, decoder: Decoder, diagnostics: DiagnosticList) -> None:
        self._registry = registry
        self._decoder = decoder
        self._diagnostics = diagnostics

    def read(self, profile: SourceLocation) -> Profile:
        """Read the profile at a place; it is sound only if no problem was added."""
        section = self._decoder.decode(ProfileSection, profile)
        plugins = profile.below("plugins")
        apart = frozenset[str]() if plugins.below(EVICT).is_null else _READ_APART
        enabled = {
            point: self._enabled_plugins(plugins, point, apart) for point in SUPPORTED_POINTS
        }
        meant = self._meant(plugins)
        if not meant:
            self._warn_if_no_plugins(profile, enabled)
        self._warn_if_unread(plugins)
        everywhere = {name: at for named in enabled.values() for name, at in named.items()}
        arguments = ArgumentsReader(
            self._registry, self._decoder, self._diagnostics, everywhere, meant
        )
        args = arguments.read(profile.below("pluginConfig"), apart)
        evictor = args.pop(DEFAULT_EVICTOR, None)
        return Profile(
            name=profile.below("name").text or "",
            deschedule=tuple(enabled["deschedule"]),
            balance=tuple(enabled["balance"]),
            filter=_with_evictor(enabled["filter"]),
            pre_eviction_filter=_with_evictor(enabled["preevictionfilter"]),
            args=MappingProxyType(args),
            evictor=evictor if isinstance(evictor, DefaultEvictorArgs) else DefaultEvictorArgs(),
            node_selector=EVERYTHING if section is None else section.node_selector,
            plugins=tuple(self._plugins((*enabled["deschedule"], *enabled["balance"]), args)),
        )

    def _meant(self, plugins: SourceLocation) -> frozenset[str]:
        """Return the plugins that a misspelt name means, or a value of another shape than a list.

        They are not enabled, which the error about that name or value says already.
        """
        known = plugin_names(self._registry)
        written = (
            text
            for point in SUPPORTED_POINTS
            for at in (plugins.below(point), plugins.below(point, "enabled"))
            for text in (at.text, *(name for name, _ in at.texts()))
            if text is not None and (at.path[-1] != "enabled" or text not in known or at.text)
        )
        return frozenset(filter(None, (nearest_name(text, known) for text in written)))

    def _plugins(self, names: Iterable[str], args: Mapping[str, BaseModel]) -> Iterator[AnyPlugin]:
        """Make the plugins that can run, each with its arguments."""
        for name in names:
            spec = self._registry.get(name)
            if spec is not None and spec.plugin is not None and name in args:
                yield spec.make(args[name])

    def _enabled_plugins(
        self, plugins: SourceLocation, point: str, apart: frozenset[str]
    ) -> LocationsByName:
        """Return the names enabled at a point, in order and each once, after checking them."""
        enabled: dict[str, SourceLocation] = {}
        for name, at in plugins.below(point, "enabled").texts():
            if name in apart and point == "filter":
                continue
            if name in enabled:
                self._diagnostics.warn(
                    at.diagnostic(
                        f"{quote(name)} is enabled twice",
                        "it counts once",
                        rule=Rule.ENABLED_TWICE,
                        fix=Fix(None),
                    )
                )
                continue
            enabled[name] = at
            self._check_name(name, point, at)
        return enabled

    def _check_name(self, name: str, point: str, at: SourceLocation) -> None:
        """Refuse a name that cannot be enabled at this point."""
        points = extension_points_of(name, self._registry)
        if points is not None and point not in points:
            right = " and ".join(f"plugins.{each}" for each in sorted(points))
            message = f"{name} cannot be enabled at {point}"
            self._diagnostics.add(
                at.diagnostic(
                    message,
                    f"it belongs under {right}, not plugins.{point}",
                    rule=Rule.WRONG_EXTENSION_POINT,
                )
            )
        elif (problem := naming_diagnostic(name, at, self._registry)) is not None:
            meant = extension_points_of(sole_near_name(name, self._registry) or "", self._registry)
            if meant and point not in meant:  # else the next check would say so
                right = " and ".join(f"plugins.{each}" for each in sorted(meant))
                problem = replace(problem, hint=f"{problem.hint} it belongs under {right}")
            self._diagnostics.add(problem)

    def _warn_if_no_plugins(
        self, profile: SourceLocation, enabled: Mapping[str, LocationsByName]
    ) -> None:
        """Say that a profile will evict nothing."""
        if not (enabled["deschedule"] or enabled["balance"]):
            hint = "add plugins to plugins.deschedule.enabled or plugins.balance.enabled"
            self._diagnostics.warn(
                profile.diagnostic(
                    "this profile enables no plugin that evicts", hint, rule=Rule.EMPTY_PROFILE
                )
            )

    def _warn_if_unread(self, plugins: SourceLocation) -> None:
        """Say what is accepted and has no effect, as upstream."""
        for point in EXTENSION_POINTS:
            at = plugins.below(point)
            if point not in SUPPORTED_POINTS and any(at.below("enabled").items()):
                self._diagnostics.warn(
                    at.diagnostic(
                        "is accepted and not read", "remove it", rule=Rule.SECTION_NOT_READ
                    )
                )
            if any(at.below("disabled").items()):
                hint = "a plugin that is not enabled is off; DefaultEvictor is always on"
                self._diagnostics.warn(
                    at.below("disabled").diagnostic(
                        "is accepted and not read", hint, rule=Rule.SECTION_NOT_READ
                    )
                )


def _with_evictor(names: Iterable[str]) -> tuple[str, ...]:
    """Put DefaultEvictor first unless it has a place already."""
    listed = tuple(names)
    return listed if DEFAULT_EVICTOR in listed else (DEFAULT_EVICTOR, *listed)
