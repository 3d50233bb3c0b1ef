"""Finds the entry points of installed packages.

`importlib.metadata` finds the same ones. Its import is a tenth of the start of a short command, so
it is asked only where packages can be installed otherwise than into folders. Paths are texts here:
a `Path` for each of a hundred packages takes milliseconds.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, reduce
from importlib import import_module
from importlib.machinery import PathFinder
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

__all__ = ["EntryPoint", "entry_points"]

_METADATA_FILES: Final = {"dist-info": "METADATA", "egg-info": "PKG-INFO"}
"""The file with a package's name and version, by the ending of its folder."""

_ENDINGS: Final = tuple(f".{each}" for each in _METADATA_FILES)


class EntryPoint(Struct, frozen=True):
    """An object that a package offers under a name; `value` is `module:attribute`.

    `source` is the file with the package's name and version, or both as a text; empty if unknown.
    """

    name: str
    value: str
    source: str = ""

    def load(self) -> Any:  # whatever the package offers
        """Import the module and return the object; raises whatever that raises."""
        module, _, attributes = self.value.partition("[")[0].partition(":")
        names = filter(None, attributes.strip().split("."))
        return reduce(getattr, names, import_module(module.strip()))

    @property
    def package(self) -> str:
        """The name and version of the package; `an unnamed package` where it says none."""
        with suppress(OSError, KeyError), Path(self.source).open(encoding="utf-8") as file:
            lines = takewhile(str.strip, file)  # an empty line ends the fields
            fields = dict(line.strip().partition(": ")[::2] for line in lines)
            return f"{fields['Name']} {fields['Version']}"
        return self.source or "an unnamed package"


def entry_points(group: str) -> list[EntryPoint]:
    """Return what installed packages offer in a group; the first of a name on the path counts.

    Each path is read once: what is installed later is found by the next process, as modules that
    are imported stay what they are.
    """
    if _all_in_folders():
        return list(_find_in_folders(group, tuple(map(os.path.abspath, sys.path))))
    from importlib import metadata

    return [
        EntryPoint(
            each.name, each.value, f"{dist.name} {dist.version}" if (dist := each.dist) else ""
        )
        for each in metadata.entry_points(group=group)
    ]


def _all_in_folders() -> bool:
    """Say whether no package is in an archive, or found by another finder than Python's own."""
    finders = (each for each in sys.meta_path if each is not PathFinder)
    return not (
        any(hasattr(each, "find_distributions") for each in finders)
        or any(path.endswith(".egg") or Path(path).is_file() for path in sys.path)
    )


@lru_cache(maxsize=8)
def _find_in_folders(group: str, folders: Sequence[str]) -> Sequence[EntryPoint]:
    seen, found = set[str](), list[EntryPoint]()
    for folder in folders:
        for info in _metadata_folders(folder):
            package = info.rpartition(".")[0].partition("-")[0].lower().replace(".", "_")
            if package not in seen:
                seen.add(package)
                found.extend(_read(f"{folder}/{info}", group))
    return tuple(found)


def _metadata_folders(folder: str) -> Sequence[str]:
    """Name the folders with a package's metadata; none where there is nothing to be read."""
    try:
        with os.scandir(folder) as entries:
            return [each.name for each in entries if each.name.endswith(_ENDINGS)]
    except OSError:
        return ()


def _read(info: str, group: str) -> Iterator[EntryPoint]:
    """Read a package's groups: a line with the name in brackets, then lines `name = value`."""
    try:
        with open(f"{info}/entry_points.txt", "rb") as file:  # noqa: PTH123 -- see above
            offered = file.read()
    except OSError:  # most packages offer nothing
        return
    if group.encode() not in offered:
        return
    current, source = "", f"{info}/{_METADATA_FILES[info.rpartition('.')[2]]}"
    for line in map(str.strip, offered.decode().splitlines()):
        if line.startswith("[") and line.endswith("]"):
            current = line.strip("[]")
        elif current == group and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip(), source)
