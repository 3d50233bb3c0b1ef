"""Which plugins a policy may name, with their arguments: those passed in, and the evictor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from reactive_desched.policy.diagnostics import Diagnostic
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.source_location import SourceLocation
from reactive_desched.primitives.hints import did_you_mean, quote

DEFAULT_EVICTOR: Final = "DefaultEvictor"

EXTENSION_POINTS: Final = (
    "presort",
    "sort",
    "deschedule",
    "balance",
    "filter",
    "preevictionfilter",
)
"""The extension points of a profile, as a policy spells them."""

SUPPORTED_POINTS: Final = ("deschedule", "balance", "filter", "preevictionfilter")
"""Those that have an effect; the others are accepted and not read, as upstream."""

_FILTERS: Final = frozenset(("filter", "preevictionfilter"))


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """What a policy needs to know of a plugin: its arguments, and where it may be enabled.

    A plugin that is not built yet can be configured and checked, but a policy that enables it
    cannot run.
    """

    args: type[BaseModel]
    points: frozenset[str]
    is_implemented: bool = True


Registry = Mapping[str, PluginSpec]


def with_evictor(registry: Registry) -> Registry:
    """Add the evictor, which is in every profile."""
    return {**registry, DEFAULT_EVICTOR: PluginSpec(DefaultEvictorArgs, _FILTERS)}


def extension_points_of(name: str, registry: Registry) -> frozenset[str] | None:
    """Give the extension points of a plugin; None for an unknown one."""
    spec = registry.get(name)
    return None if spec is None else spec.points


def plugin_names(registry: Registry) -> frozenset[str]:
    """Give every plugin name worth offering to someone who mistyped one."""
    return frozenset(registry)


def naming_diagnostic(name: str, at: SourceLocation, registry: Registry) -> Diagnostic | None:
    """Say why a policy cannot name this plugin, or None when it can."""
    if name in registry:
        return None
    hint = (
        did_you_mean(name, plugin_names(registry))
        or "remove it: only what is built in can be named"
    )
    return at.diagnostic(f"there is no plugin {quote(name)}", hint)
