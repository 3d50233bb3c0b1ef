"""Reads no more of a large object than can be evaluated: what is beyond is left out, and named.

The API server bounds an object at about 1.5 MB and few lists in it, so that a pod may have 30,000
tolerations. Reading and indexing such a part would hold the event loop for a tenth of a second, and
keep megabytes. A part counts without the members that are read of nothing.
"""

from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Decoder

from reactive_desched.primitives.bounded_text import bounded_name
from reactive_desched.state.kinds.kind import LargeParts
from reactive_desched.text.counts import format_count

__all__ = ["LARGE_OBJECT_BYTES", "LargeObjectReader", "TrimmedObject"]

LARGE_OBJECT_BYTES: Final = 16 * 1024
"""A shorter object is read as it is: no part of it is too long."""

_MAX_LONG_TEXTS: Final = 256
"""A part of so many elements is long by its texts, which are cut."""

_MAX_STRUCTURES: Final = 8192
"""A list with more objects, in any depth, is not looked into for what is read of each."""

_IDENTITY: Final = frozenset({"metadata.name", "metadata.namespace", "metadata.uid"})

_encode: Final = msgspec.json.Encoder().encode


class TrimmedObject(Struct, frozen=True):
    """The JSON of an object as far as it is read, and the parts that are left out of it."""

    json: bytes
    unread: tuple[str, ...]

    @property
    def unread_text(self) -> str:
        """The parts that are left out, with their sizes."""
        return ", ".join(self.unread)


class LargeObjectReader:
    """Trims the large objects of one kind, by its `wire` type."""

    def __init__(self, wire: type[Struct], parts: LargeParts) -> None:
        self._decode = Decoder(_raw_form(wire)).decode
        self._wire = wire
        self._parts = parts

    def trim(self, raw: Raw | bytes | memoryview) -> TrimmedObject:
        """Return what is read of an object; raises a decode error for what is no JSON object."""
        form = self._decode(raw)
        unread: list[str] = []
        self._trim_members(form, self._wire, "", unread)
        return TrimmedObject(_encode(form), tuple(unread))

    def _trim_members(self, form: Any, wire: type[Struct], path: str, unread: list[str]) -> None:
        """Replace the long members of a form; `wire` says what they are."""
        for name, key, type_ in _members(wire):
            value = getattr(form, name)
            at = f"{path}.{key}" if path else key
            if isinstance(value, Struct):
                self._trim_members(value, _struct_of(type_) or wire, at, unread)
            elif at in _IDENTITY:
                pass  # a name is asked for as it is; one that is too long is refused
            elif isinstance(value, Raw) and len(value) > self._parts.limit_of(at):
                setattr(form, name, self._shortened(value, type_, at, unread))

    def _shortened(self, value: Raw, type_: Any, path: str, unread: list[str]) -> Raw | UnsetType:
        """Return a long part without what is not read of it, or what stands for it."""
        limit = self._parts.limit_of(path)
        if (inner := self._parts.types.get(path)) is not None:
            form = Decoder(_raw_form(inner)).decode(value)
            self._trim_members(form, inner, path, unread)
            return Raw(_encode(form))
        size = len(value)
        element = _element_of(type_)
        if element is not None and bytes(value).count(b"{") <= _MAX_STRUCTURES:
            value = Raw(_encode(Decoder(tuple[_raw_form(element), ...]).decode(value)))  # type: ignore[misc]  # a type made here
        if len(value) > limit and bytes(value).count(b",") < _MAX_LONG_TEXTS:
            value = Raw(_encode(_with_short_texts(msgspec.json.decode(value))))
        if len(value) <= limit:
            return value
        unread.append(f"{path} ({format_count(size, 'byte')})")
        neutral = self._parts.neutral.get(path)
        return UNSET if neutral is None else Raw(neutral)


@cache
def _raw_form(wire: type[Struct]) -> type[Struct]:
    """Return a type with the members of another, as texts but for structures within."""
    fields = [
        (name, _form_of(type_), msgspec.field(default=UNSET, name=key))
        for name, key, type_ in _members(wire)
    ]
    return msgspec.defstruct(f"Raw{wire.__name__}", fields)


def _form_of(type_: Any) -> Any:
    struct = _struct_of(type_)
    return Raw | UnsetType if struct is None else _raw_form(struct) | UnsetType | None


@cache
def _members(wire: type[Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Return each member of a wire type: its name here, its name in JSON, and its type."""
    hints = get_type_hints(wire)
    names = zip(wire.__struct_fields__, wire.__struct_encode_fields__, strict=True)
    return tuple((name, key, hints[name]) for name, key in names)


def _struct_of(type_: Any) -> type[Struct] | None:
    """Return the structure that a type is, if it is one or None."""
    found = [each for each in _alternatives(type_) if each is not NoneType]
    is_struct = len(found) == 1 and isinstance(found[0], type) and issubclass(found[0], Struct)
    return found[0] if is_struct else None


def _element_of(type_: Any) -> type[Struct] | None:
    """Return the structure of which a type is a list."""
    return _struct_of(get_args(type_)[0]) if get_origin(type_) is tuple else None


def _alternatives(type_: Any) -> Iterator[Any]:
    if get_origin(type_) in (Union, UnionType):
        yield from get_args(type_)
    else:
        yield type_


def _with_short_texts(value: Any) -> Any:
    match value:
        case str():
            return bounded_name(value)
        case dict():
            return {bounded_name(key): _with_short_texts(each) for key, each in value.items()}
        case list():
            return [_with_short_texts(each) for each in value]
        case _:
            return value
