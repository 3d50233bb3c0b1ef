"""Reads the protobuf bodies that Go clients send by default, as the JSON they stand for.

Answers are always JSON: every client that sends protobuf also accepts that.
"""

import base64
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.sim.clock import rfc3339, rfc3339_micro
from reactive_desched.sim.http.schema import Field, numbered_fields, readable_message
from reactive_desched.sim.http.wire import fields, signed
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import bad_request

__all__ = ["MEDIA_TYPE", "decode"]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_SCHEMA = "ext.JSONSchemaProps"


def decode(body: bytes) -> Obj:
    """Return the object in a protobuf body, its type included; raise 400 if it cannot be read."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body does not begin as Kubernetes protobuf does")
    envelope = dict(fields(body[len(_MAGIC) :]))
    kind = dict(fields(_bytes(envelope.get(1, b""))))
    version, name = (_text(kind.get(number, b"")) for number in (1, 2))
    message = "meta.DeleteOptions" if name == "DeleteOptions" else _message_name(version, name)
    return {"apiVersion": version, "kind": name} | _message(message, _bytes(envelope.get(2, b"")))


def _message_name(version: str, kind: str) -> str:
    message = readable_message(version, kind)
    if message is None:
        raise bad_request(f"no kind {kind!r} in version {version!r} can be read from protobuf")
    return message


def _message(message: str, data: bytes) -> Obj:
    known = numbered_fields(message)
    found: Obj = {}
    for number, raw in fields(data):
        if (field := known.get(number)) is not None:
            _put(found, field, raw)
    return found


def _put(found: Obj, field: Field, raw: int | bytes) -> None:
    """Add one field as Go's JSON encoder would: what is empty and optional is left out."""
    kind = field.kind
    if kind.startswith("*"):
        found.setdefault(field.name, []).append(_value(kind[1:], raw))
    elif kind.startswith("%"):
        entry = dict(fields(_bytes(raw)))
        key = _text(entry.get(1, b""))
        found.setdefault(field.name, {})[key] = _value(kind[1:], entry.get(2, b""))
    else:
        value = _value(kind, raw)
        if field.name == ".":
            found |= value
        elif value is not None and (value or field.keeps_zero):
            found[field.name] = value


def _value(kind: str, raw: int | bytes) -> Any:
    if kind.startswith("@"):
        return _message(kind[1:], _bytes(raw))
    if kind.startswith("*"):
        # A map of lists: the list is a message whose first field repeats.
        return [_value(kind[1:], item) for _, item in fields(_bytes(raw))]
    return _SCALARS[kind](raw)


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise bad_request("a protobuf field holds a number where a message belongs")
    return raw


def _number(raw: int | bytes) -> int:
    if not isinstance(raw, int):
        return 0
    return signed(raw)


def _text(raw: int | bytes) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise bad_request(f"a protobuf text is not UTF-8: {error}") from error


def _moment(raw: int | bytes) -> float | None:
    parts = dict(fields(_bytes(raw)))
    if not parts:
        return None
    return _number(parts.get(1, 0)) + _number(parts.get(2, 0)) / 1e9


def _time(raw: int | bytes) -> str | None:
    moment = _moment(raw)
    return None if moment is None else rfc3339(moment)


def _micro_time(raw: int | bytes) -> str | None:
    moment = _moment(raw)
    return None if moment is None else rfc3339_micro(moment)


def _quantity(raw: int | bytes) -> str | None:
    return _text(dict(fields(_bytes(raw))).get(1, b"")) or None


def _int_or_string(raw: int | bytes) -> int | str:
    parts = dict(fields(_bytes(raw)))
    return _text(parts.get(3, b"")) if parts.get(1) else _number(parts.get(2, 0))


def _json(raw: int | bytes) -> Any:
    try:
        return msgspec.json.decode(_bytes(dict(fields(_bytes(raw))).get(1, b"null")))
    except DECODE_ERRORS as error:
        raise bad_request(f"a protobuf field is not JSON: {error}") from error


def _schema_or_list(raw: int | bytes) -> Any:
    parts = list(fields(_bytes(raw)))
    for number, each in parts:
        if number == 1:
            return _message(_SCHEMA, _bytes(each))
    return [_message(_SCHEMA, _bytes(each)) for _, each in parts]


def _schema_or_flag(raw: int | bytes) -> Any:
    parts = dict(fields(_bytes(raw)))
    schema = parts.get(2)
    return bool(parts.get(1)) if schema is None else _message(_SCHEMA, _bytes(schema))


def _schema_or_names(raw: int | bytes) -> Any:
    parts = list(fields(_bytes(raw)))
    for number, each in parts:
        if number == 1:
            return _message(_SCHEMA, _bytes(each))
    return [_text(each) for _, each in parts]


def _duration(raw: int | bytes) -> str:
    return f"{_number(dict(fields(_bytes(raw))).get(1, 0)) / 1e9:g}s"


_SCALARS: Mapping[str, Callable[[int | bytes], Any]] = MappingProxyType(
    {
        "s": _text,
        "i": _number,
        "b": bool,
        "y": lambda raw: base64.b64encode(_bytes(raw)).decode(),
        "d": lambda raw: struct.unpack("<d", _bytes(raw))[0],
        "T": _time,
        "U": _micro_time,
        "D": _duration,
        "Q": _quantity,
        "I": _int_or_string,
        "J": _json,
        "A": _schema_or_list,
        "O": _schema_or_flag,
        "N": _schema_or_names,
    }
)
