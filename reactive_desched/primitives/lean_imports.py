"""Keeps libraries from importing what is not used here: most of a start is imports."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import cast

__all__ = ["certificates_on_demand", "install_stand_in", "without_package"]


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


@contextmanager
def certificates_on_demand() -> Iterator[None]:
    """Let TLS contexts made meanwhile load the system's authorities when they are first used.

    aiohttp makes two at its import, for connections to which none was given, and loads some 140
    certificates for each: a sixth of the time that importing our libraries takes.
    """
    import ssl

    load = ssl.SSLContext.set_default_verify_paths

    def load_later(context: ssl.SSLContext) -> None:
        def load_first(method: str, *args: object, **options: object) -> object:
            for each in ("wrap_bio", "wrap_socket"):
                vars(context).pop(each, None)  # the class's own again
            load(context)
            return getattr(context, method)(*args, **options)

        for each in ("wrap_bio", "wrap_socket"):
            vars(context)[each] = partial(load_first, each)

    ssl.SSLContext.set_default_verify_paths = load_later  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        ssl.SSLContext.set_default_verify_paths = load  # type: ignore[method-assign]
