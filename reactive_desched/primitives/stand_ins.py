"""Modules that stand in for others in an import, or keep a package out of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import cast

__all__ = ["install_stand_in", "without_package"]


def install_stand_in(name: str, **members: object) -> None:
    """Let an import of a module give its `members`; asked for more, load and ask the real one.

    `importlib.util.LazyLoader` loads at the import statement, which reads `__spec__`.
    """
    stand_in = ModuleType(name)

    def load(attribute: str) -> object:
        if attribute.startswith("__"):  # what looks through `sys.modules` asks for these
            raise AttributeError(attribute)
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(import_module(name), attribute)

    vars(stand_in).update(members, __getattr__=load)
    sys.modules[name] = stand_in


@contextmanager
def without_package(name: str) -> Iterator[None]:
    """Let imports of a package fail meanwhile, as if it were not installed."""
    loaded = sys.modules.get(name)
    modules = cast("dict[str, ModuleType | None]", sys.modules)  # None: an import of it fails
    modules[name] = None
    try:
        yield
    finally:
        del sys.modules[name]
        if loaded is not None:
            sys.modules[name] = loaded
