"""Lists the plugins that a policy may name, with their arguments, and the evictor."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import NoneType
from typing import Any, Final

from msgspec import Struct
from pydantic import BaseModel

from reactive_desched.api.args import fix_to
from reactive_desched.api.balance_plugin import BalancePlugin, SweepFilters
from reactive_desched.api.index import Index
from reactive_desched.api.plugin import Plugin
from reactive_desched.api.rules import Rule
from reactive_desched.errors import PluginError, ReactiveDeschedError
from reactive_desched.model.plugin_faults import describe_error
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.primitives.foreign_code import calls_foreign_code, is_fault
from reactive_desched.primitives.hints import did_you_mean, quote, sole_near_name
from reactive_desched.primitives.timers import DebounceConfig

DEFAULT_EVICTOR: Final = "DefaultEvictor"
MIGRATION_CONTROLLER: Final = "MigrationController"
"""koordinator's plugin that moves pods by migration jobs; a profile may name it at `EVICT`."""

EVICT: Final = "evict"
"""The extension point of what evicts, which koordinator's profiles have."""

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


PACKAGE_REMEDY: Final = (
    "upgrade that package, or uninstall it and take the plugin out of the policy"
)
"""What to do about a plugin whose own code is wrong."""


_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "judges_completed_pods": (bool,),
    "asks_node_fit": (bool,),
    "splits_nodes": (bool,),
    "least_debounce": (DebounceConfig, NoneType),
}
_FIELDS_OF_PLANS: Final[Mapping[str, tuple[type, ...]]] = {
    "needs_spreading": (bool,),
    "sweep_filters": (SweepFilters,),
}
"""What the controller and a sweep rely on of a plugin's fields."""


class PluginSpec(Struct, frozen=True):
    """A plugin for the policy reader: its arguments, extension points, and class.

    `origin` is the plugin with what offers it, for messages.
    """

    args: type[BaseModel]
    points: frozenset[str]
    plugin: type[Plugin[Any, Any]] | None = None  # of every subject and argument type
    origin: str = ""

    @calls_foreign_code
    def make(self, args: BaseModel) -> Plugin[Any, Any]:
        """Return the plugin with these arguments; raises PluginError for whatever it raises."""
        assert self.plugin is not None, "a plugin that is implemented has a class"
        with blamed(self.origin, "cannot be made with its arguments"):
            made = self.plugin(args)
            wrong = _error_of_instance(made)
        if wrong:
            raise PluginError(f"{self.origin} is wrong: {wrong}; {PACKAGE_REMEDY}")
        return made


@contextmanager
def blamed(origin: str, what: str) -> Iterator[None]:
    """Turn whatever the code of a plugin raises in the block into a PluginError."""
    try:
        yield
    except ReactiveDeschedError:
        raise
    except BaseException as error:
        if not is_fault(error):
            raise
        cause = describe_error(error)
        raise PluginError(f"{origin} {what}: {cause}; {PACKAGE_REMEDY}") from error


Registry = Mapping[str, PluginSpec]
"""Plugins by name; a lookup may import the plugin, so only what a policy names is looked up."""


def _error_of_instance(plugin: Plugin[Any, Any]) -> str:
    """Say what of a plugin's answers about itself is no answer; empty where all are."""
    indexes: Iterable[object] = plugin.required_indexes
    for each in indexes:
        if not (isinstance(each, tuple) and len(each) == len(("index", "arguments"))):
            return f"required_indexes has {each!r}, which is no pair of an index and its arguments"
        kind, args = each
        if not (isinstance(kind, type) and issubclass(kind, Index)):
            return f"required_indexes has {kind!r}, which is no subclass of Index"
        hash(args)
    sources: Iterable[object] = plugin.usage_sources
    for source in sources:
        if not isinstance(source, str):
            return f"usage_sources has {source!r}, which is no text"
    for condition in plugin.sick_conditions:
        if not _is_condition(condition):
            return f"sick_conditions has {condition!r}, which is no pair of a type and a status"
    kinds = {**_FIELDS, **_FIELDS_OF_PLANS} if isinstance(plugin, BalancePlugin) else _FIELDS
    for name, expected in kinds.items():
        if not isinstance(found := getattr(plugin, name), expected):
            return f"{name} is {found!r}, which is no {expected[0].__name__}"
    return _error_of_resources(plugin) if isinstance(plugin, BalancePlugin) else ""


def _error_of_resources(plugin: BalancePlugin[Any, Any]) -> str:
    for each in plugin.packed_resources:
        if not isinstance(each, str):
            return f"packed_resources has {each!r}, which is no text"
    return ""


def _is_condition(found: object) -> bool:
    return (
        isinstance(found, tuple)
        and len(found) == len(("type", "status"))
        and all(isinstance(each, str) for each in found)
    )


class _WithEvictor(Mapping[str, PluginSpec]):
    """A registry and DefaultEvictor."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._evictor = PluginSpec(DefaultEvictorArgs, _FILTERS, origin=DEFAULT_EVICTOR)

    def __getitem__(self, name: str) -> PluginSpec:
        return self._evictor if name == DEFAULT_EVICTOR else self._registry[name]

    def __contains__(self, name: object) -> bool:
        return name == DEFAULT_EVICTOR or name in self._registry

    def __iter__(self) -> Iterator[str]:
        yield from self._registry
        yield DEFAULT_EVICTOR

    def __len__(self) -> int:
        return len(self._registry) + 1


def with_evictor(registry: Registry) -> Registry:
    """Add DefaultEvictor, which is in every profile."""
    return _WithEvictor(registry)


def extension_points_of(name: str, registry: Registry) -> frozenset[str] | None:
    """Return the extension points of a plugin; None for an unknown one."""
    spec = registry.get(name)
    return None if spec is None else spec.points


def plugin_names(registry: Registry) -> frozenset[str]:
    """Return the plugin names to suggest for a misspelled one."""
    return frozenset(registry)


def naming_diagnostic(name: str, at: SourceLocation, registry: Registry) -> Diagnostic | None:
    """Say why a policy cannot name this plugin, or None when it can."""
    if name in registry:
        return None
    hint = (
        did_you_mean(name, plugin_names(registry))
        or "remove it, or install the package that offers it"
    )
    return at.diagnostic(
        f"there is no plugin {quote(name)}",
        hint,
        rule=Rule.UNKNOWN_PLUGIN,
        fix=fix_to(sole_near_name(name, plugin_names(registry))),
    )
