"""From the structs of the wire format to JSON Schemas, for each type of event and for all.

Draft 2020-12. Readers ignore what they do not know, so nothing here forbids a field or, where the
list of words is open, a word: a sample of a later revision is valid against an earlier one.
"""

import copy
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from reactive_desched.api import event as api

Json = dict[str, Any]  # a schema is JSON

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ENVELOPE: Final = "event.v1"
ENVELOPE_ID: Final = f"urn:reactive-desched:schemas:{ENVELOPE}"
REFS: Final = "#/$defs/"

_FORMS: Final[Mapping[str, Json]] = {
    "time": {"format": "date-time"},
    "recordedtime": {"format": "date-time"},
    "sequence": {"pattern": "^[0-9]{20}$"},
    "prev": {"pattern": "^[0-9a-f]{64}$"},
}
"""The form of attributes, as the journal writes them."""


def type_schemas() -> dict[str, Json]:
    """Return the schema of each type's data, by the schema's name; no two share a part."""
    structs = definitions()
    return {
        api.schema_name(type_): _of_type(type_, copy.deepcopy(structs)) for type_ in api.DATA_TYPES
    }


def envelope() -> Json:
    """Return the schema of a whole event: its attributes and, by its type, its data."""
    definitions_by_name = definitions()
    root = definitions_by_name.pop("Event")
    properties = {
        name: {**_without(shape, "default"), **_FORMS.get(name, {})}
        for name, shape in root["properties"].items()
    }
    properties["data"] = {"type": "object", "description": "What the type says it holds."}
    return {
        "$schema": DIALECT,
        "$id": ENVELOPE_ID,
        "title": "Event",
        "description": "A CloudEvent in structured form, as every line of the journal holds one.",
        **_without(root, "title", "description"),
        "properties": properties,
        "required": list(properties),
        "allOf": [_typed(type_, data.__name__) for type_, data in api.DATA_TYPES.items()],
        "$defs": _reachable(
            {"$ref": [REFS + data.__name__ for data in api.DATA_TYPES.values()]},
            definitions_by_name,
        ),
    }


def index() -> Json:
    """Return which schema is whose: names are those of files, without `.json`."""
    return {
        "event": ENVELOPE,
        "types": {
            type_: {
                "schema": api.schema_name(type_),
                "dataschema": api.dataschema(type_),
                "description": api.EVENT_TYPES[type_].meaning,
            }
            for type_ in api.DATA_TYPES
        },
    }


def definitions() -> dict[str, Json]:
    """Return the schema of each struct by its name."""
    structs = [*dict.fromkeys(api.DATA_TYPES.values()), api.Event]
    _, definitions_by_name = msgspec.json.schema_components(structs, ref_template=REFS + "{name}")
    # As a reader of the file has them: msgspec leaves tuples in defaults.
    definitions_by_name = msgspec.json.decode(msgspec.json.encode(definitions_by_name))
    for schema in definitions_by_name.values():
        if text := schema.get("description"):  # a docstring, indented before Python 3.13
            schema["description"] = inspect.cleandoc(text)
    return {name: _open_for_extension(schema) for name, schema in definitions_by_name.items()}


def _of_type(type_: str, definitions_by_name: Mapping[str, Json]) -> Json:
    root = definitions_by_name[api.DATA_TYPES[type_].__name__]
    return {
        "$schema": DIALECT,
        "$id": api.dataschema(type_),
        "title": type_,
        "description": api.EVENT_TYPES[type_].meaning,
        **_without(root, "title", "description"),
        **_needed_definitions(root, definitions_by_name),
    }


def _typed(type_: str, struct: str) -> Json:
    """Tie the data of an event to its type; a type not known here may hold anything."""
    return {
        "if": {"required": ["type"], "properties": {"type": {"const": type_}}},
        "then": {"properties": {"data": {"$ref": REFS + struct}}},
    }


def _open_for_extension(node: Any) -> Any:  # any part of a schema
    """Open what msgspec closes: lists of words become examples, and nothing is null but left out.

    We leave out what has no value and never write null.
    """
    if isinstance(node, list):
        return [_open_for_extension(each) for each in node]
    if not isinstance(node, dict):
        return node
    match node:
        case {"enum": [only], **rest}:
            return {**_open_for_extension(rest), "type": "string", "const": only}
        case {"enum": [*enum_values], **rest}:
            return {**_open_for_extension(rest), "type": "string", "examples": enum_values}
        case {"anyOf": [{**shape}, {"type": "null"}], "default": None, **rest}:
            return _open_for_extension({**rest, **shape})
        case {"anyOf": [{"type": one}, {"type": other}], **rest}:
            return {**_open_for_extension(rest), "type": [one, other]}
        case _:
            return {key: _open_for_extension(value) for key, value in node.items()}


def _needed_definitions(root: Json, definitions_by_name: Mapping[str, Json]) -> Json:
    needed = _reachable(root, definitions_by_name)
    return {"$defs": needed} if needed else {}


def _reachable(root: Json, definitions_by_name: Mapping[str, Json]) -> Json:
    """Return the definitions that a schema needs, by name in order."""
    needed: set[str] = set()
    waiting = set(_refs(root))
    while waiting:
        name = waiting.pop()
        needed.add(name)
        waiting |= set(_refs(definitions_by_name[name])) - needed
    return {name: definitions_by_name[name] for name in sorted(needed)}


def _refs(node: Any) -> Iterator[str]:  # any part of a schema
    if isinstance(node, str) and node.startswith(REFS):
        yield node.removeprefix(REFS)
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        yield from _refs(child)


def _without(schema: Json, *keys: str) -> Json:
    return {key: value for key, value in schema.items() if key not in keys}
