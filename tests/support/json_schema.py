"""A small reader of JSON Schema (draft 07), so that tests can ask what a schema accepts.

It knows the keywords our schemas use and refuses others, so that none goes unheeded.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Json = Any  # JSON is whatever it is
Schema = Mapping[str, Json]

_ANNOTATIONS: Final = frozenset(
    ("$schema", "$id", "$comment", "title", "description", "default", "definitions", "then", "else")
)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, Callable[[Json], bool]]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == int(value),
    "null": lambda value: value is None,
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
_BOUNDS: Final[Mapping[str, Callable[[Json, Json], bool]]] = {
    "exclusiveMinimum": lambda value, bound: value > bound,
    "maximum": lambda value, bound: value <= bound,
    "minimum": lambda value, bound: value >= bound,
}


class JsonSchema:
    """A schema whose definitions are under `definitions`."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def accepts(self, value: Json) -> bool:
        """Say whether a document is valid."""
        return self._accepts(self._root, value)

    def _accepts(self, schema: Json, value: Json) -> bool:
        if isinstance(schema, bool):
            return schema
        return all(
            self._meets_keyword(keyword, schema, value)
            for keyword in schema
            if keyword not in _ANNOTATIONS
        )

    def _meets_keyword(self, keyword: str, schema: Schema, value: Json) -> bool:
        """Say whether a value meets one keyword; raises ValueError for one not known here."""
        expected = schema[keyword]
        match keyword:
            case "$ref":
                return self._accepts(self._root["definitions"][expected.split("/")[-1]], value)
            case "allOf":
                return all(self._accepts(each, value) for each in expected)
            case "anyOf":
                return any(self._accepts(each, value) for each in expected)
            case "not":
                return not self._accepts(expected, value)
            case "if":
                branch = "then" if self._accepts(expected, value) else "else"
                return self._accepts(schema.get(branch, True), value)
            case "type":
                names = [expected] if isinstance(expected, str) else expected
                return any(_TYPES[name](value) for name in names)
            case "const":
                return _json_equal(expected, value)
            case "enum":
                return any(_json_equal(each, value) for each in expected)
            case _:
                return self._meets_typed_keyword(keyword, schema, value)

    def _meets_typed_keyword(self, keyword: str, schema: Schema, value: Json) -> bool:
        """Judge keywords that are about one type, and hold for every other."""
        if isinstance(value, dict) and keyword in _OBJECT:
            return all(self._in_object(keyword, schema, value))
        if isinstance(value, list) and keyword in _ARRAY:
            return self._in_array(keyword, schema[keyword], value)
        if isinstance(value, str) and keyword in _STRING:
            return _in_string(keyword, schema[keyword], value)
        if _is_number(value) and keyword in _BOUNDS:
            return _BOUNDS[keyword](value, schema[keyword])
        if keyword not in _OBJECT | _ARRAY | _STRING | _BOUNDS.keys():
            raise ValueError(f"{keyword} is not known here")
        return True

    def _in_object(self, keyword: str, schema: Schema, value: dict[str, Json]) -> Iterator[bool]:
        expected = schema[keyword]
        match keyword:
            case "required":
                yield all(field in value for field in expected)
            case "minProperties":
                yield len(value) >= expected
            case "propertyNames":
                yield from (self._accepts(expected, field) for field in value)
            case "properties":
                for field in expected.keys() & value.keys():
                    yield self._accepts(expected[field], value[field])
            case "additionalProperties":
                for field in value.keys() - schema.get("properties", {}).keys():
                    yield self._accepts(expected, value[field])

    def _in_array(self, keyword: str, expected: Json, value: list[Json]) -> bool:
        match keyword:
            case "items":
                return all(self._accepts(expected, item) for item in value)
            case "contains":
                return any(self._accepts(expected, item) for item in value)
            case "uniqueItems":
                return not expected or all(
                    not _json_equal(one, other)
                    for at, one in enumerate(value)
                    for other in value[:at]
                )
            case "minItems":
                return len(value) >= int(expected)
            case _:
                return len(value) <= int(expected)


_OBJECT: Final = frozenset(
    ("additionalProperties", "minProperties", "properties", "propertyNames", "required")
)
_ARRAY: Final = frozenset(("contains", "items", "maxItems", "minItems", "uniqueItems"))
_STRING: Final = frozenset(("minLength", "pattern"))


def _in_string(keyword: str, expected: Json, value: str) -> bool:
    if keyword == "minLength":
        return len(value) >= int(expected)
    return re.search(expected, value) is not None


def _json_equal(one: Json, other: Json) -> bool:
    """Compare as JSON does: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)
