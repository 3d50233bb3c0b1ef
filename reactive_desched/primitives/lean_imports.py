"""Keeps imports from loading and making what is not used here: most of a start is imports."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import cast

__all__ = [
    "certificates_on_demand",
    "install_stand_in",
    "patterns_on_demand",
    "without_package",
]


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


class _PatternOnDemand:
    """A regular expression that is compiled when one of its methods or attributes is asked for."""

    def __init__(self, compile_now: Callable[[], re.Pattern[str]]) -> None:
        self._compile_now = compile_now

    @property  # type: ignore[misc]  # what `isinstance` goes by, in `re` itself, too
    def __class__(self) -> type[re.Pattern[str]]:  # type: ignore[override]
        return re.Pattern

    def __getattr__(self, name: str) -> object:
        pattern = self._compile_now()
        members = (each for each in dir(pattern) if not each.startswith("__"))
        vars(self).update((each, getattr(pattern, each)) for each in members)  # found at once now
        return getattr(pattern, name)


@contextmanager
def patterns_on_demand() -> Iterator[None]:
    """Let `re.compile` return meanwhile what is compiled, or refused, when it is first used.

    Of some ninety expressions that the modules of a command compile at their import, a quarter is
    used; compiling the others is a twentieth of the start of `plan`.
    """
    compile_now = re.compile

    def compile_later(pattern: str, flags: int = 0) -> object:
        return _PatternOnDemand(partial(compile_now, pattern, flags))

    re.compile = compile_later  # type: ignore[assignment]
    try:
        yield
    finally:
        re.compile = compile_now


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
