"""Finds installed packages by their entry points, and imports one when its name is used."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, PackageMetadata, entry_points
from pathlib import Path
from typing import Any

from reactive_desched.errors import PluginError
from reactive_desched.primitives.foreign_code import calls_foreign_code, is_fault

_OWN_PACKAGE = __package__.partition(".")[0]


class Offers:
    """The objects that packages offer in a group of entry points; `what` is one, in messages.

    Nothing is imported before `load` asks for a name.
    """

    def __init__(self, group: str, what: str, found: Iterable[EntryPoint] | None = None) -> None:
        self._what = what
        self._entries: dict[str, list[EntryPoint]] = {}
        for entry in installed_in(group) if found is None else found:
            self._entries.setdefault(entry.name, []).append(entry)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def built_in(self) -> Iterator[str]:
        """Name what is part of this package."""
        return (name for name in self if all(map(_is_ours, self._entries[name])))

    def describe(self, name: str) -> str:
        """Return the object with its package, for messages."""
        entry = self._entries[name][0]
        return f"the {self._what} {name} ({entry.value}) of {package_of(entry)}"

    @calls_foreign_code
    def load(self, name: str) -> Any:  # whatever the package offers
        """Import the object; raises PluginError where that fails or two packages offer one."""
        entries = self._entries.get(name, [])
        if not entries:
            raise PluginError(
                f"no installed package offers the {self._what} {name}; where it is one of "
                "reactive-desched, its metadata is older than its code: install it again"
            )
        if len(entries) > 1:
            packages = " and by ".join(sorted({package_of(entry) for entry in entries}))
            raise PluginError(
                f"the {self._what} {name} is offered by {packages}; uninstall one of them, or "
                f"rename the {self._what} in its package"
            )
        try:
            return entries[0].load()
        except BaseException as error:  # whatever the code of another package raises
            if not is_fault(error):
                raise
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise self.error(name, f"cannot be loaded: {reason}") from error

    def error(self, name: str, wrong: str) -> PluginError:
        """Return what to raise of an object that cannot be used; it names the remedy."""
        remedy = (
            f"upgrade that package, or uninstall it and take the {self._what} out of the settings"
        )
        return PluginError(f"{self.describe(name)} {wrong}; {remedy}")


def installed_in(group: str) -> EntryPoints:
    """Return what installed packages offer in a group of entry points.

    They are read again when a folder on the path has changed since.
    """
    return _read_packages(group, tuple((folder, _changed_ns(folder)) for folder in sys.path))


@lru_cache(maxsize=16)
def _read_packages(group: str, _folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    return entry_points(group=group)


def _changed_ns(folder: str) -> int:
    with suppress(OSError):
        return Path(folder).stat().st_mtime_ns
    return 0


def _is_ours(entry: EntryPoint) -> bool:
    return entry.value.startswith(f"{_OWN_PACKAGE}.")


def package_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that offers an entry point."""
    return _named(entry.dist) if entry.dist else "an unnamed package"


@lru_cache(maxsize=64)
def _named(distribution: Distribution) -> str:
    said: PackageMetadata | None = distribution.metadata
    if said is not None and "Name" in said and "Version" in said:
        return f"{said['Name']} {said['Version']}"
    return "an unnamed package"
