"""Fills the tables in the page on events from the wire format; the words around them stay."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from reactive_desched.api.event import DATA, schema_name
from reactive_desched.model.event_types import PREFIX
from tools.event_schemas import MEANINGS, REFS, Json, definitions, envelope

_TABLE: Final = re.compile(
    r"(<!-- (\w+), written by tools/write_event_schemas\.py -->\n).*?(<!-- end -->\n)", re.DOTALL
)


def filled(page: str) -> str:
    """Return the page with its tables as the code has them."""
    tables = {"types": _types, "attributes": _attributes, "data": _data}
    return _TABLE.sub(
        lambda found: found[1] + "\n".join(tables[found[2]]()) + "\n" + found[3], page
    )


def _types() -> Iterator[str]:
    yield "| type | data | schema | says |"
    yield "|---|---|---|---|"
    for type_, data in DATA.items():
        link = f"[{data.__name__}](#{data.__name__.lower()})"
        name = f"`{type_.removeprefix(PREFIX)}`"
        yield f"| {name} | {link} | `{schema_name(type_)}.json` | {MEANINGS[type_]} |"


def _attributes() -> Iterator[str]:
    yield "| attribute | meaning |"
    yield "|---|---|"
    for name, shape in envelope()["properties"].items():
        yield f"| `{name}` | {shape['description']} |"


def _data() -> Iterator[str]:
    known = definitions()
    del known["Event"]
    for name, schema in known.items():
        yield f"### {name}"
        yield ""
        yield schema["description"]
        yield ""
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        for field, shape in schema["properties"].items():
            mark = "" if field in schema["required"] else "?"
            yield f"| `{field}`{mark} | {_kind(shape)} | {_meaning(shape, known)} |"
        yield ""


def _kind(shape: Json) -> str:
    if "$ref" in shape:
        name = shape["$ref"].removeprefix(REFS)
        return f"[{name}](#{name.lower()})"
    if "items" in shape:
        return f"list of {_kind(shape['items'])}"
    if "additionalProperties" in shape:
        return f"object of {_kind(shape['additionalProperties'])}"
    return " or ".join(shape["type"]) if isinstance(shape["type"], list) else str(shape["type"])


def _meaning(shape: Json, known: Mapping[str, Json]) -> str:
    target = str(shape.get("$ref", "")).removeprefix(REFS)
    return str(shape.get("description") or known[target]["description"])
