"""A small reader of JSON Schema (draft 07), so that tests can ask what a schema accepts.

It knows the keywords our schemas use and refuses others, so that none goes unheeded.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Json = Any  # JSON is whatever it is
Schema = Mapping[str, Json]

_WORDS: Final = frozenset(
    ("$schema", "title", "description", "default", "definitions", "then", "else")
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
        return all(self._keyword(word, schema, value) for word in schema if word not in _WORDS)

    def _keyword(self, word: str, schema: Schema, value: Json) -> bool:
        """Say whether a value meets one keyword; raises ValueError for one not known here."""
        said = schema[word]
        match word:
            case "$ref":
                return self._accepts(self._root["definitions"][said.split("/")[-1]], value)
            case "allOf":
                return all(self._accepts(each, value) for each in said)
            case "anyOf":
                return any(self._accepts(each, value) for each in said)
            case "not":
                return not self._accepts(said, value)
            case "if":
                branch = "then" if self._accepts(said, value) else "else"
                return self._accepts(schema.get(branch, True), value)
            case "type":
                names = [said] if isinstance(said, str) else said
                return any(_TYPES[name](value) for name in names)
            case "const":
                return _same(said, value)
            case "enum":
                return any(_same(each, value) for each in said)
            case _:
                return self._shaped(word, schema, value)

    def _shaped(self, word: str, schema: Schema, value: Json) -> bool:
        """Judge keywords that are about one type, and hold for every other."""
        if isinstance(value, dict) and word in _OBJECT:
            return all(self._in_object(word, schema, value))
        if isinstance(value, list) and word in _ARRAY:
            return self._in_array(word, schema[word], value)
        if isinstance(value, str) and word in _STRING:
            return _in_string(word, schema[word], value)
        if _is_number(value) and word in _BOUNDS:
            return _BOUNDS[word](value, schema[word])
        if word not in _OBJECT | _ARRAY | _STRING | _BOUNDS.keys():
            raise ValueError(f"{word} is not known here")
        return True

    def _in_object(self, word: str, schema: Schema, value: dict[str, Json]) -> Iterator[bool]:
        said = schema[word]
        match word:
            case "required":
                yield all(field in value for field in said)
            case "minProperties":
                yield len(value) >= said
            case "propertyNames":
                yield from (self._accepts(said, field) for field in value)
            case "properties":
                for field in said.keys() & value.keys():
                    yield self._accepts(said[field], value[field])
            case "additionalProperties":
                for field in value.keys() - schema.get("properties", {}).keys():
                    yield self._accepts(said, value[field])

    def _in_array(self, word: str, said: Json, value: list[Json]) -> bool:
        match word:
            case "items":
                return all(self._accepts(said, item) for item in value)
            case "contains":
                return any(self._accepts(said, item) for item in value)
            case "uniqueItems":
                return not said or all(
                    not _same(one, other) for at, one in enumerate(value) for other in value[:at]
                )
            case "minItems":
                return len(value) >= int(said)
            case _:
                return len(value) <= int(said)


_OBJECT: Final = frozenset(
    ("additionalProperties", "minProperties", "properties", "propertyNames", "required")
)
_ARRAY: Final = frozenset(("contains", "items", "maxItems", "minItems", "uniqueItems"))
_STRING: Final = frozenset(("minLength", "pattern"))


def _in_string(word: str, said: Json, value: str) -> bool:
    if word == "minLength":
        return len(value) >= int(said)
    return re.search(said, value) is not None


def _same(one: Json, other: Json) -> bool:
    """Compare as JSON does: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)
