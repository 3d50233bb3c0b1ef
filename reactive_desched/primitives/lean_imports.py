"""Keeps imports from loading and making what is not used here: most of a start is imports."""

import dataclasses
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from reprlib import recursive_repr
from types import ModuleType
from typing import Any, cast

__all__ = [
    "certificates_on_demand",
    "import_pydantic",
    "install_stand_in",
    "lean_policy_imports",
    "patterns_on_demand",
    "shared_dataclass_methods",
    "unchecked_typed_dicts",
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


class _UncheckedDict(dict[str, object]):
    """Stands for `TypedDict` as a base; it takes and forgets what a class says of its items."""

    def __init_subclass__(cls, **said: object) -> None:
        super().__init_subclass__()


@contextmanager
def unchecked_typed_dicts() -> Iterator[None]:
    """Let a `TypedDict` that is defined meanwhile be a dict whose annotations are not looked at.

    pydantic's core defines eighty with seven hundred items, whose annotations are texts: each is
    compiled to see whether it may be a type, a twentieth of the start of `plan`.
    """
    import typing_extensions

    checked, extended = typing.TypedDict, typing_extensions.TypedDict
    typing.TypedDict = typing_extensions.TypedDict = _UncheckedDict  # type: ignore[assignment]
    try:
        yield
    finally:
        typing.TypedDict, typing_extensions.TypedDict = checked, extended


@contextmanager
def shared_dataclass_methods() -> Iterator[None]:
    """Let dataclasses defined meanwhile get `__repr__`, `__eq__`, `__hash__` that read the fields.

    Otherwise the three are written as texts and compiled for each class. pydantic and what it needs
    define fifty, and seldom call them: a twenty-fifth of the start of `plan`.
    """
    make = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> object:  # Any: as dataclasses'
        if options.get("order") or options.get("unsafe_hash"):
            return make(cls, **options)
        process = partial(_with_methods, make, options)
        return process if cls is None else process(cls)

    dataclasses.dataclass = dataclass  # type: ignore[assignment]
    try:
        yield
    finally:
        dataclasses.dataclass = make


def _with_methods(make: Callable[..., Any], options: dict[str, Any], cls: type) -> type:
    """Make a dataclass by its options, with the methods below where it has none of its own."""
    own = vars(cls)
    own_hash = "__hash__" in own and (own["__hash__"] is not None or "__eq__" not in own)
    made: type = make(**{**options, "repr": False, "eq": False})(cls)
    shown, compared, hashed = _methods(dataclasses.fields(made))
    methods: dict[str, object] = {}
    if options.get("repr", True):
        methods["__repr__"] = shown
    if options.get("eq", True):
        methods["__eq__"] = compared
        if not own_hash:
            methods["__hash__"] = hashed if options.get("frozen") else None
    for name, method in methods.items():
        if name == "__hash__" or name not in own:
            setattr(made, name, method)
    return made


def _methods(fields: Iterable[dataclasses.Field[Any]]) -> Sequence[Callable[..., object]]:
    """Return how instances are shown, compared and hashed by their fields."""
    shown = [each.name for each in fields if each.repr]
    compared = [each.name for each in fields if each.compare]
    hashed = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]

    def values(this: object, names: Iterable[str]) -> tuple[object, ...]:
        return tuple(getattr(this, name) for name in names)

    @recursive_repr()
    def show(this: object) -> str:
        texts = (f"{name}={getattr(this, name)!r}" for name in shown)
        return f"{type(this).__qualname__}({', '.join(texts)})"

    def compare(this: object, other: object) -> object:
        if other.__class__ is not this.__class__:
            return NotImplemented
        return values(this, compared) == values(other, compared)

    return show, compare, lambda this: hash(values(this, hashed))


def import_pydantic() -> None:
    """Import what models are made of, leaving out definitions that no command reads."""
    with unchecked_typed_dicts():
        import_module("pydantic_core")
    with shared_dataclass_methods():
        for name in ("main", "types", "functional_validators"):
            import_module(f"pydantic.{name}")


@contextmanager
def lean_policy_imports() -> Iterator[None]:
    """Keep the imports of a command lean that reads a policy, and ends."""
    with patterns_on_demand():
        import_pydantic()
        yield


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
