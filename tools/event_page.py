"""Fills the tables in the page on events, and the list in an example, from the wire format."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

from reactive_desched.api.event import CHECKPOINT, DATA_TYPES, EVENT_TYPES, schema_name
from reactive_desched.model.event_types import TYPE_PREFIX, short_type
from tools.event_schemas import REFS, Json, definitions, envelope

_TABLE: Final = re.compile(
    r"(<!-- (\w+), written by tools/write_event_schemas\.py -->\n).*?(<!-- end -->\n)", re.DOTALL
)

_KINDS: Final = re.compile(r"(const KINDS = \[\n).*?(  \];\n)", re.DOTALL)
_INDENT: Final = 4 * " "


def fill_tables(page: str) -> str:
    """Return the page with its tables as the code has them."""
    tables = {"types": _types, "attributes": _attributes, "data": _data}
    return _TABLE.sub(
        lambda found: found[1] + "\n".join(tables[found[2]]()) + "\n" + found[3], page
    )


def fill_kinds(page: str) -> str:
    """Return the example of a page with all kinds of event but checkpoints in its list."""
    kinds = [f'"{short_type(type_)}",' for type_ in DATA_TYPES if type_ != CHECKPOINT]
    lines = textwrap.fill(" ".join(kinds), 100, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return _KINDS.sub(lambda found: f"{found[1]}{lines}\n{found[2]}", page)


def _types() -> Iterator[str]:
    yield "| type | data | schema | says |"
    yield "|---|---|---|---|"
    for type_, data in DATA_TYPES.items():
        link = f"[{data.__name__}](#{data.__name__.lower()})"
        name = f"`{type_.removeprefix(TYPE_PREFIX)}`"
        yield f"| {name} | {link} | `{schema_name(type_)}.json` | {EVENT_TYPES[type_].meaning} |"


def _attributes() -> Iterator[str]:
    yield "| attribute | meaning |"
    yield "|---|---|"
    for name, shape in envelope()["properties"].items():
        yield f"| `{name}` | {shape['description']} |"


def _data() -> Iterator[str]:
    definitions_by_name = definitions()
    del definitions_by_name["Event"]
    for name, schema in definitions_by_name.items():
        yield f"### {name}"
        yield ""
        yield schema["description"]
        yield ""
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        for field, shape in schema["properties"].items():
            mark = "" if field in schema["required"] else "?"
            yield (
                f"| `{field}`{mark} | {_json_type(shape)} | "
                f"{_describe(shape, definitions_by_name)} |"
            )
        yield ""


def _json_type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REFS)
        return f"[{name}](#{name.lower()})"
    if "items" in schema:
        return f"list of {_json_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"object of {_json_type(schema['additionalProperties'])}"
    return " or ".join(schema["type"]) if isinstance(schema["type"], list) else str(schema["type"])


def _describe(schema: Json, definitions_by_name: Mapping[str, Json]) -> str:
    target = str(schema.get("$ref", "")).removeprefix(REFS)
    return str(schema.get("description") or definitions_by_name[target]["description"])
