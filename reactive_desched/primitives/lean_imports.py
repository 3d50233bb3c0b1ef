"""Keeps imports from loading and making what is not used here: most of a start is imports."""

import dataclasses
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from importlib import import_module
from reprlib import recursive_repr
from typing import Any

__all__ = [
    "certificates_on_demand",
    "import_pydantic",
    "lean_policy_imports",
    "patterns_on_demand",
    "shared_dataclass_methods",
    "unchecked_typed_dicts",
]

_Methods = Iterator[tuple[str, Callable[..., object] | None]]


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


class _OneClass(type):
    """Lets every class that is derived from its instance be that instance itself."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **_: object) -> type:
        for base in bases:
            if isinstance(base, cls):
                return base
        return super().__new__(cls, name, bases, body)

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **_: object):
        super().__init__(name, bases, body)


class _UncheckedDict(dict[str, object], metaclass=_OneClass):
    """Stands for `TypedDict`, and for each that is defined with it."""


@contextmanager
def unchecked_typed_dicts() -> Iterator[None]:
    """Let each `TypedDict` that is defined meanwhile be one class, whose annotations are forgotten.

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
    """Let dataclasses defined meanwhile get methods that read the fields when they are called.

    Otherwise up to six methods are written as texts and compiled for each class. pydantic and what
    it needs define fifty, and seldom call them: a tenth of the start of `plan`. Classes that are
    ordered, derive from a dataclass, or have a `__post_init__` are made as ever.
    """
    make = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> object:  # Any: as dataclasses'
        process = partial(_dataclass, make, options)
        return process if cls is None else process(cls)

    dataclasses.dataclass = dataclass  # type: ignore[assignment]
    try:
        yield
    finally:
        dataclasses.dataclass = make


def _dataclass(make: Callable[..., Any], options: dict[str, Any], cls: type) -> type:
    """Make a dataclass by its options, with the methods below where it has none of its own."""
    is_special = options.get("order") or options.get("unsafe_hash")
    if is_special or dataclasses.is_dataclass(cls) or hasattr(cls, "__post_init__"):
        made: type = make(**options)(cls)
        return made
    own = {**vars(cls)}
    if own.get("__hash__", MISSING) is None and "__eq__" in own:
        del own["__hash__"]  # Python's, for a class that says only what is equal
    cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclasses describe an `__init__`
    made = make(**{**options, "init": False, "repr": False, "eq": False, "frozen": False})(cls)
    fields = dataclasses.fields(made)
    methods = dict(_methods(fields, options))
    if options.get("frozen"):
        methods.update(_frozen_methods(made, [each.name for each in fields]))
        made.__dataclass_params__.frozen = True  # type: ignore[attr-defined]  # for those that derive from it
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


def _methods(fields: Sequence[Field[Any]], options: dict[str, Any]) -> _Methods:
    """Yield how instances are made, shown, compared and hashed by their fields."""
    shown = [each.name for each in fields if each.repr]
    compared = [each.name for each in fields if each.compare]
    hashed = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]

    @recursive_repr()
    def show(this: object) -> str:
        texts = (f"{name}={getattr(this, name)!r}" for name in shown)
        return f"{type(this).__qualname__}({', '.join(texts)})"

    def compare(this: object, other: object) -> object:
        if other.__class__ is not this.__class__:
            return NotImplemented
        return _values(this, compared) == _values(other, compared)

    if options.get("init", True):
        yield "__init__", _init(fields, object.__setattr__ if options.get("frozen") else setattr)
    if options.get("repr", True):
        yield "__repr__", show
    if options.get("eq", True):
        yield "__eq__", compare
        is_frozen = options.get("frozen")
        yield "__hash__", (lambda this: hash(_values(this, hashed))) if is_frozen else None


def _values(this: object, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(this, name) for name in names)


def _init(
    fields: Sequence[Field[Any]], assign: Callable[[object, str, object], None]
) -> Callable[..., None]:
    """Return an `__init__` that takes values of fields, and their defaults for the others."""
    positional = [each.name for each in fields if each.init and not each.kw_only]

    def initialize(this: object, /, *values: object, **named: object) -> None:
        given = dict(zip(positional, values, strict=False))
        if len(values) > len(positional) or given.keys() & named.keys():
            raise TypeError(f"{type(this).__name__}() got too many values")
        given.update(named)
        for field in fields:
            if field.init and field.name in given:
                value = given.pop(field.name)
            elif field.default_factory is not MISSING:
                value = field.default_factory()
            elif field.default is not MISSING:
                value = field.default
            elif field.init:
                raise TypeError(f"{type(this).__name__}() has no value for {field.name}")
            else:
                continue
            assign(this, field.name, value)
        if given:
            raise TypeError(f"{type(this).__name__}() has no field {next(iter(given))}")

    return initialize


def _frozen_methods(cls: type, names: Sequence[str]) -> _Methods:
    """Yield how assignments to fields are refused, and how copies get theirs all the same."""

    def set_attribute(this: object, name: str, value: object) -> None:
        if type(this) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, this).__setattr__(name, value)  # type: ignore[arg-type]  # the class of `this`

    def delete_attribute(this: object, name: str) -> None:
        if type(this) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, this).__delattr__(name)  # type: ignore[arg-type]  # the same

    def set_state(this: object, state: Sequence[object]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(this, name, value)

    yield "__setattr__", set_attribute
    yield "__delattr__", delete_attribute
    if "__slots__" in vars(cls):  # else its dictionary is copied
        yield "__getstate__", lambda this: _values(this, names)
        yield "__setstate__", set_state


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
