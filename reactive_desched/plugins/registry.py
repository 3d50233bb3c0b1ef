"""Finds plugins by the entry points of installed packages; the built-in ones come the same way.

A package offers a plugin with one line of its pyproject.toml; the name is the plugin's `name`:

    [project.entry-points."reactive_desched.plugins"]
    RemovePodsFromOldNodes = "old_nodes:OldNodes"

The module of a plugin is imported when a policy names the plugin.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Final, get_args

from reactive_desched.api.args import PluginArgs
from reactive_desched.api.index import Index
from reactive_desched.api.installed import installed_in, package_of
from reactive_desched.api.plugin import Plugin
from reactive_desched.errors import PluginError
from reactive_desched.model.changes import Change
from reactive_desched.policy.registry import PACKAGE_REMEDY, PluginSpec, blamed
from reactive_desched.primitives.foreign_code import calls_foreign_code

GROUP: Final = "reactive_desched.plugins"
_POINTS: Final = ("deschedule", "balance")
_BUILT_IN: Final = f"{__package__}."


class InstalledPlugins(Mapping[str, PluginSpec]):
    """The plugins that a policy may name. Asking for a broken one raises PluginError."""

    def __init__(self, found: Iterable[EntryPoint]) -> None:
        self._entries: dict[str, list[EntryPoint]] = {}
        for entry in found:
            self._entries.setdefault(entry.name, []).append(entry)
        self._specs: dict[str, PluginSpec] = {}

    def __getitem__(self, name: str) -> PluginSpec:
        entries = self._entries[name]
        if name not in self._specs:
            self._specs[name] = _load(name, entries)
        return self._specs[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def built_in(self) -> Iterator[str]:
        """Name the plugins that are part of this package and can run."""
        for name, entries in self._entries.items():
            if any(entry.value.startswith(_BUILT_IN) for entry in entries):
                yield name


def plugin_registry() -> InstalledPlugins:
    """Return the plugins of all installed packages; raises PluginError if not even ours are."""
    plugins = InstalledPlugins(installed_in(GROUP))
    if next(plugins.built_in(), None) is None:
        raise PluginError(
            "the plugins of reactive-desched are not installed: its package metadata is missing or "
            "older than its code; install it again, for example with `make install` or pip"
        )
    return plugins


@calls_foreign_code
def _load(name: str, entries: list[EntryPoint]) -> PluginSpec:
    if len(entries) > 1:
        raise PluginError(_clash(name, entries))
    [entry] = entries
    origin = f"the plugin {name} ({entry.value}) of {package_of(entry)}"
    with blamed(origin, "cannot be loaded"):
        plugin = entry.load()
        wrong = _contract_error(name, plugin)
    if wrong is not None:
        raise PluginError(f"{origin} is not a plugin: {wrong}; {PACKAGE_REMEDY}")
    points = frozenset({plugin.extension_point})
    return PluginSpec(_args_type(plugin), points, plugin=plugin, origin=origin)


def _contract_error(name: str, plugin: object) -> str | None:
    """Say what keeps an object from being the plugin of this name."""
    if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
        return f"{plugin!r} is not a subclass of reactive_desched.api.Plugin"
    if missing := sorted(plugin.__abstractmethods__):
        return f"{plugin.__name__} does not define {', '.join(missing)}"
    if (own := getattr(plugin, "name", None)) != name:
        return f"{plugin.__name__}.name is {own!r}, but its entry point is called {name!r}"
    lacks = [member for member in ("extension_point", "reacts_to") if not hasattr(plugin, member)]
    if lacks:
        return f"{plugin.__name__} does not define {', '.join(lacks)}"
    if (point := plugin.extension_point) not in _POINTS:
        return f"{plugin.__name__}.extension_point is {point!r}; it is one of {', '.join(_POINTS)}"
    for member, base in (("reacts_to", Change), ("indexes", Index)):
        if not _is_tuple_of(base, getattr(plugin, member)):
            return f"{plugin.__name__}.{member} is no tuple of subclasses of {base.__name__}"
    return None


def _is_tuple_of(base: type, found: object) -> bool:
    return isinstance(found, tuple) and all(
        isinstance(each, type) and issubclass(each, base) for each in found
    )


def _args_type(plugin: type[Plugin[object, PluginArgs]]) -> type[PluginArgs]:
    """Return the arguments in `class X(Plugin[Subject, Args])`, PluginArgs where it names none."""
    for base in plugin.__mro__:
        for generic in getattr(base, "__orig_bases__", ()):
            for parameter in get_args(generic):
                if isinstance(parameter, type) and issubclass(parameter, PluginArgs):
                    return parameter
    return PluginArgs


def _clash(name: str, entries: list[EntryPoint]) -> str:
    packages = sorted({package_of(entry) for entry in entries})
    return (
        f"the plugin {name} is offered by {' and by '.join(packages)}; uninstall one of them, or "
        "rename the plugin in its package"
    )
