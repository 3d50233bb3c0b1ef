"""Finds what a schema forbids in a value, in the words of the API server."""

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

import msgspec

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import cause
from reactive_desched.sim.structural.correlation import ABSENT, field_of, item_of
from reactive_desched.sim.structural.formats import has_format
from reactive_desched.sim.structural.reading import inner_of

__all__ = ["BLOCKING", "list_faults", "shown", "type_name", "value_faults"]

Schema = Mapping[str, Any]
_TYPE: Final = "FieldValueTypeInvalid"
_REQUIRED: Final = "FieldValueRequired"
_INVALID: Final = "FieldValueInvalid"
_UNSUPPORTED: Final = "FieldValueNotSupported"
_LONG: Final = "FieldValueTooLong"
_MANY: Final = "FieldValueTooMany"
_TWICE: Final = "FieldValueDuplicate"
BLOCKING: Final = frozenset({_TYPE, _REQUIRED, _UNSUPPORTED, _LONG, _MANY})
"""Reasons of faults beside which no rule is looked at."""
_ROOT: Final = "<nil>"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_BITS: Final[Mapping[str, int]] = MappingProxyType({"int32": 31, "int64": 63})
_LARGEST_PLAIN: Final = 1_000_000


def value_faults(schema: Schema, value: Any, old: Any = ABSENT, path: str = "") -> Iterator[Obj]:
    """Yield the faults of a value; what is as it was has none."""
    if old is not ABSENT and old == value and path:
        return
    if said := _type_fault(schema, value, path):
        yield said
    yield from _junctor_faults(schema, value, path)
    if check := _OF_TYPE.get(type(value)):
        yield from check(schema, value, old, path)
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(f'"{_plain(each)}"' for each in schema["enum"])
        text = f"Unsupported value: {shown(value)}: supported values: {known}"
        yield _fault(_UNSUPPORTED, path, text)


def list_faults(schema: Schema, value: Any, path: str = "") -> Iterator[Obj]:
    """Yield the items that are twice in a list whose items are unique."""
    if isinstance(value, dict):
        for name, part in value.items():
            if (inner := inner_of(schema, name)) is not None:
                yield from list_faults(inner, part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        how = schema.get("x-kubernetes-list-type")
        if how in ("set", "map"):
            yield from _twice(schema, value, path, is_set=how == "set")
        for at, item in enumerate(value):
            yield from list_faults(schema.get("items") or {}, item, f"{path}[{at}]")


def type_name(value: Any) -> str:
    """Return the type of a value as a schema names it."""
    return _NAMES[type(value)]


def shown(value: Any) -> str:
    """Return a value as the API server writes it in a refusal."""
    return _number(value) if isinstance(value, float) else msgspec.json.encode(value).decode()


_NAMES: Mapping[type, str] = MappingProxyType(
    {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
        type(None): "null",
    }
)


def _fault(reason: str, path: str, message: str) -> Obj:
    return cause(reason, path or _ROOT, message)


def _body(path: str, rest: str, value: object = "") -> Obj:
    text = f"Invalid value: {shown(value)}: {path} in body should {rest}"
    return _fault(_INVALID, path, text)


def _type_fault(schema: Schema, value: Any, path: str) -> Obj | None:
    wanted = ("integer", "string") if schema.get(_INT_OR_STRING) else (schema.get("type"),)
    found, form = type_name(value), str(schema.get("format") or "")
    if wanted == (None,) or (value is None and schema.get("nullable")):
        return None
    is_whole = isinstance(value, float) and value.is_integer() and "integer" in wanted
    is_counted = found == "integer" and "number" in wanted
    if found not in wanted and not is_whole and not is_counted:
        said, known = found, ",".join(map(str, wanted))
        if isinstance(value, float) and form in _BITS:
            said, known = "float64", form
    elif isinstance(value, str) and not has_format(form, value):
        said, known = value, form
    else:
        return None
    text = f'{path} in body must be of type {known}: "{said}"'
    return _fault(_TYPE, path, f'Invalid value: "{said}": {text}')


def _junctor_faults(schema: Schema, value: Any, path: str) -> Iterator[Obj]:
    """Yield the faults that alternatives find; of those that all fail, the first one's, too."""
    for name, sentence in (
        ("anyOf", "must validate at least one schema (anyOf)"),
        ("oneOf", "must validate one and only one schema (oneOf). "),
    ):
        if not (options := schema.get(name)):
            continue
        found = [list(value_faults(option, value, ABSENT, path)) for option in options]
        valid = sum(not faults for faults in found)
        if name == "oneOf" and valid != 1:
            said = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield _junctor(path, f"{sentence}{said}")
        elif not valid:
            yield _junctor(path, sentence)
        if not valid:
            yield from found[0]
    failed = 0
    for part in schema.get("allOf") or ():
        faults = list(value_faults(part, value, ABSENT, path))
        failed += bool(faults)
        yield from faults
    if failed:
        none = ". None validated" if failed == len(schema["allOf"]) else ""
        yield _junctor(path, f"must validate all the schemas (allOf){none}")
    if (other := schema.get("not")) is not None and not any(value_faults(other, value)):
        yield _junctor(path, "must not validate the schema (not)")


def _junctor(path: str, said: str) -> Obj:
    return _fault(_INVALID, "", f'Invalid value: "": "{path}" {said}')


def _text_faults(schema: Schema, value: str, _old: Any, path: str) -> Iterator[Obj]:
    most, least = schema.get("maxLength"), schema.get("minLength")
    if most is not None and len(value) > most:
        unit = "byte" if most == 1 else "bytes"
        yield _fault(_LONG, path, f"Too long: may not be more than {most} {unit}")
    elif least is not None and len(value) < least:
        yield _body(path, f"be at least {least} chars long", value)
    elif (pattern := schema.get("pattern")) and not _matches(pattern, value):
        yield _body(path, f"match '{pattern}'", value)


def _matches(pattern: str, value: str) -> bool:
    """Say whether a text matches; a pattern that is not Python's as well is not looked at."""
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True


def _number_faults(schema: Schema, value: float, _old: Any, path: str) -> Iterator[Obj]:
    most, least = schema.get("maximum"), schema.get("minimum")
    form = str(schema.get("format") or "")
    bits = _BITS.get(form) if schema.get("type") == "integer" else None
    if bits is not None and (value % 1 or not -(2**bits) <= value < 2**bits):
        text = f"Checked value must be of type integer with format {form} in {path}"
        yield _fault(_INVALID, "", f'Invalid value: "": {text}')
    factor = schema.get("multipleOf")
    if factor and Decimal(repr(value)) % Decimal(repr(factor)):
        yield _body(path, f"be a multiple of {_number(factor)}", value)
    if most is not None:
        is_strict = bool(schema.get("exclusiveMaximum"))
        if value > most or (is_strict and value == most):
            word = "less than" if is_strict else "less than or equal to"
            yield _body(path, f"be {word} {_bound(most, value)}", value)
    if least is not None:
        is_strict = bool(schema.get("exclusiveMinimum"))
        if value < least or (is_strict and value == least):
            word = "greater than" if is_strict else "greater than or equal to"
            yield _body(path, f"be {word} {_bound(least, value)}", value)


def _array_faults(schema: Schema, value: list[Any], old: Any, path: str) -> Iterator[Obj]:
    if (items := schema.get("items")) is not None:
        for at, item in enumerate(value):
            yield from value_faults(items, item, item_of(schema, old, item), f"{path}[{at}]")
    most, least = schema.get("maxItems"), schema.get("minItems")
    if least is not None and len(value) < least:
        yield _body(path, f"have at least {least} items", len(value))
    if most is not None and len(value) > most:
        yield _fault(_MANY, path, _too_many(len(value), most))
    if schema.get("uniqueItems") and any(item in value[:at] for at, item in enumerate(value)):
        yield _body(path, "n't contain duplicates".lstrip())


def _object_faults(schema: Schema, value: Obj, old: Any, path: str) -> Iterator[Obj]:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if least is not None and len(value) < least:
        yield _body(path, f"have at least {least} properties", len(value))
    if most is not None and len(value) > most:
        yield _fault(_MANY, path, _too_many(len(value), most))
    for name, part in value.items():
        if (inner := inner_of(schema, name)) is not None:
            place = f"{path}.{name}" if path else name
            yield from value_faults(inner, part, field_of(old, name), place)
    for name in schema.get("required") or ():
        if name not in value:
            place = f"{path}.{name}" if path else name
            yield _fault(_REQUIRED, place, "Required value")


def _too_many(there: int, most: int) -> str:
    items = "item" if most == 1 else "items"
    return f"Too many: {there}: must have at most {most} {items}"


def _twice(schema: Schema, value: list[Any], path: str, *, is_set: bool) -> Iterator[Obj]:
    """Yield the second one of each that is there more than once."""
    names = schema.get("x-kubernetes-list-map-keys") or ()
    seen: list[Any] = []
    said: list[Any] = []
    for at, item in enumerate(value):
        key = item
        if not is_set and isinstance(item, dict):
            key = {name: item[name] for name in names if name in item}
        if key in seen and key not in said:
            said.append(key)
            yield _fault(_TWICE, f"{path}[{at}]", f"Duplicate value: {shown(key)}")
        seen.append(key)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else shown(value)


def _bound(bound: float, value: float) -> str:
    """Write a bound: of a whole number it is one, too, if it can be."""
    is_whole = isinstance(value, int) and float(bound).is_integer()
    return str(int(bound)) if is_whole else _number(bound)


def _number(value: float) -> str:
    """Write a number as Go does: from a million on with an exponent."""
    if abs(value) < _LARGEST_PLAIN and float(value).is_integer():
        return str(int(value))
    digits = Decimal(repr(float(value))).normalize()
    exponent = digits.adjusted()
    if -5 < exponent < 21 and abs(value) < _LARGEST_PLAIN:  # noqa: PLR2004 -- Go's bounds
        return f"{digits:f}"
    mantissa = f"{digits.scaleb(-exponent):f}"
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


_OF_TYPE: Mapping[type, Callable[[Schema, Any, Any, str], Iterator[Obj]]] = MappingProxyType(
    {
        str: _text_faults,
        int: _number_faults,
        float: _number_faults,
        list: _array_faults,
        dict: _object_faults,
    }
)
