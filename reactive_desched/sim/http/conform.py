"""Drops fields that a type does not have, as a server with typed objects does."""

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from reactive_desched.errors import QuantityError
from reactive_desched.model.quantities import canonical_quantity
from reactive_desched.sim.amounts import exact
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.http.schema import message_for, named_fields
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource

__all__ = ["Conformed", "conform", "conform_metadata"]

_TYPE = ("apiVersion", "kind")
_TYPED_INSIDE = ("core.PersistentVolumeClaim",)
"""Messages that may carry their own kind although they are part of another object."""
_OPAQUE = ("meta.ManagedFieldsEntry",)
_TIMES = ("T", "U")
_LEFT_OUT = ("s", "i", "b", "%", "*")
"""The forms of which a type's zero is left out, unless the field keeps it."""
_WORDS: Mapping[type, str] = MappingProxyType(
    {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
)


class Conformed(Struct, frozen=True):
    """The part of an object that its type has room for, and what was wrong with the rest."""

    obj: Obj
    unknown: tuple[str, ...]
    """Where there were fields the type does not have, as paths."""
    wrong: tuple[str, ...]
    """What could not be read at all, as sentences."""


def conform(kind: Resource, obj: Obj) -> Conformed:
    """Read an object as its kind; kinds whose fields are not listed are taken as they are."""
    message = message_for(kind.api_version, kind.kind)
    if message is None:
        return Conformed(obj, (), ())
    reader = _Reader()
    read = reader.message(message, obj, "")
    return Conformed(read, tuple(reader.unknown), tuple(reader.wrong))


def conform_metadata(metadata: Obj) -> Conformed:
    """Read the metadata of an object of any kind."""
    reader = _Reader()
    read = reader.message("meta.ObjectMeta", metadata, "metadata")
    return Conformed(read, tuple(reader.unknown), tuple(reader.wrong))


class _Reader:
    """Walks an object along its type: what is null or empty is left out, but for times."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[str] = []

    def message(self, message: str, given: Any, path: str) -> Any:
        if not isinstance(given, dict):
            return self._mismatch(given, path, "object")
        if message in _OPAQUE:
            return given
        known, found = named_fields(message), {}
        for name, value in given.items():
            place = f"{path}.{name}" if path else name
            if name in _TYPE and (not path or message in _TYPED_INSIDE):
                found[name] = value
            elif name not in known:
                self.unknown.append(place)
            elif value is not None:
                read = self._value(known[name].kind, value, place)
                if read or known[name].keeps_zero or known[name].kind[0] not in _LEFT_OUT:
                    found[name] = read
            elif known[name].kind in _TIMES:
                found[name] = None
        return found

    def _value(self, kind: str, given: Any, path: str) -> Any:
        form, inner = kind[0], kind[1:]
        if form == "@":
            return self.message(inner, given, path)
        if form == "*":
            return self._list(inner, given, path)
        if form == "%":
            return self._map(inner, given, path)
        return self._scalar(form, given, path)

    def _list(self, inner: str, given: Any, path: str) -> Any:
        if not isinstance(given, list):
            return self._mismatch(given, path, "array")
        items = (item for item in enumerate(given) if item[1] is not None)
        return [self._value(inner, item, f"{path}[{index}]") for index, item in items]

    def _map(self, inner: str, given: Any, path: str) -> Any:
        if not isinstance(given, dict):
            return self._mismatch(given, path, "object")
        items = (item for item in given.items() if item[1] is not None)
        return {name: self._value(inner, item, f"{path}.{name}") for name, item in items}

    def _scalar(self, form: str, given: Any, path: str) -> Any:
        types, wanted = _SCALARS[form]
        if type(given) not in types:
            return self._mismatch(given, path, wanted)
        if (fault := _FAULTS.get(form)) and (said := fault(given)):
            self.wrong.append(f"{path}: {said}")
        return _canonical(str(given)) if form == "Q" else given

    def _mismatch(self, given: Any, path: str, wanted: str) -> Any:
        word = _WORDS.get(type(given), "null")
        self.wrong.append(f"json: cannot unmarshal {word} into field {path} of type {wanted}")
        return given


def _quantity_fault(given: Any) -> str:
    try:
        exact(str(given))
    except QuantityError:
        pattern = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        return f"quantities must match the regular expression {pattern}"
    return ""


@lru_cache(maxsize=1_000)
def _canonical(text: str) -> str:
    """Return a quantity as every client sees it, such as 500m for 0.5; others as they are."""
    try:
        return canonical_quantity(text)
    except QuantityError:
        return text


def _time_fault(given: str) -> str:
    try:
        parse_time(given)
    except ValueError:
        return f'parsing time "{given}" as "2006-01-02T15:04:05Z07:00": cannot parse it'
    return ""


def _bytes_fault(given: str) -> str:
    try:
        base64.b64decode(given, validate=True)
    except binascii.Error as error:
        return f"illegal base64 data: {error}"
    return ""


_SCALARS: Mapping[str, tuple[tuple[type, ...], str]] = MappingProxyType(
    {
        "s": ((str,), "string"),
        "i": ((int,), "int"),
        "b": ((bool,), "bool"),
        "d": ((int, float), "float"),
        "y": ((str,), "base64"),
        "T": ((str,), "Time"),
        "U": ((str,), "MicroTime"),
        "D": ((str,), "Duration"),
        "J": ((dict,), "RawExtension"),
        "Q": ((str, int, float), "Quantity"),
        "I": ((int, str), "IntOrString"),
    }
)
_FAULTS: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {"Q": _quantity_fault, "T": _time_fault, "U": _time_fault, "y": _bytes_fault}
)
