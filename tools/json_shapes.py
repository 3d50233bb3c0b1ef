"""From pydantic's JSON Schema to one that editors like: plain, and as forgiving as the reader."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from reactive_desched.model.labels import LabelSelector
from tools.schema_rules import LABEL_SELECTOR, RULES, Json

Definitions = dict[str, Json]

REFS: Final = "#/definitions/"
_SELECTOR: Final = "LabelSelector"
_MAX_EXACT_INTEGER: Final = 2**53
_UNITS: Final = ((3600, "h"), (60, "m"), (1, "s"))


class _Generator(GenerateJsonSchema):
    """Handles the one type of ours that is no model; ignores defaults that are no JSON."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's name and type

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        if schema["cls"] is LabelSelector:
            return {"type": "object", "title": _SELECTOR}
        return super().is_instance_schema(schema)


def definitions(models: Iterable[type[BaseModel]]) -> Definitions:
    """Describe models and all models in them, by name; raises KeyError for a rule of no model."""
    _, made = models_json_schema(
        [(model, "validation") for model in models],
        ref_template=f"{REFS}{{model}}",
        schema_generator=_Generator,
    )
    shapes = {name: _model_schema(name, schema) for name, schema in made["$defs"].items()}
    return {**shapes, _SELECTOR: LABEL_SELECTOR}


def ref(name: str) -> Json:
    """Refer to a definition."""
    return {"$ref": f"{REFS}{name}"}


def or_null(schema: Json) -> Json:
    """Let nothing stand there too: it means that the field is not written."""
    match schema:
        case {"anyOf": _} if {"type": "null"} in schema["anyOf"]:
            return schema
        case {"type": str() as kind, **rest}:
            with_null = {"enum": [*rest["enum"], None]} if "enum" in rest else {}
            return {**rest, **with_null, "type": [kind, "null"]}
        case {"$ref": target, **rest}:
            return {**rest, "anyOf": [{"$ref": target}, {"type": "null"}]}
        case _:
            return schema


def merge_rule(schema: Json, rule: Mapping[str, object]) -> Json:
    """Add a rule to a schema; what both say is the rule's."""
    made = dict(schema)
    for key, value in rule.items():
        old = made.get(key)
        made[key] = (
            merge_rule(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return made


def reachable(root: Json, definitions_by_name: Definitions) -> Definitions:
    """Give the definitions that a schema needs, by name in order."""
    needed: set[str] = set()
    waiting = set(_refs(root))
    while waiting:
        name = waiting.pop()
        needed.add(name)
        waiting |= set(_refs(definitions_by_name[name])) - needed
    return {name: definitions_by_name[name] for name in sorted(needed)}


def _refs(node: object) -> Iterator[str]:
    """Give the names a schema refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.removeprefix(REFS)
            else:
                yield from _refs(value)
    elif isinstance(node, list):
        for each in node:
            yield from _refs(each)


def _model_schema(name: str, schema: Json) -> Json:
    """Describe one model: its rules added, its optional fields nullable."""
    plain = merge_rule(_without_titles(schema), RULES.get(name, {}))
    required = plain.get("required", [])
    properties = {
        field: _with_default(shape) if field in required else or_null(_with_default(shape))
        for field, shape in plain.get("properties", {}).items()
    }
    return {**plain, "properties": properties} if properties else plain


def _without_titles(node: Json) -> Json:
    """Drop made-up titles, and bounds that JavaScript's numbers cannot distinguish from others."""
    if node.get("title") == _SELECTOR:
        return ref(_SELECTOR)
    made: Json = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {name: _without_titles(shape) for name, shape in value.items()}
        elif key in ("title", "$defs") or (
            key in ("minimum", "maximum") and abs(value) > _MAX_EXACT_INTEGER
        ):
            continue
        elif isinstance(value, dict):
            made[key] = _without_titles(value)
        elif isinstance(value, list):
            made[key] = [_without_titles(it) if isinstance(it, dict) else it for it in value]
        else:
            made[key] = value
    return made


def _with_default(field: Json) -> Json:
    """Keep a default that says something, as it would be written; flatten `anyOf` with null."""
    default = field.get("default")
    made = _flatten_any_of({key: value for key, value in field.items() if key != "default"})
    if default in (None, "", [], {}) or isinstance(default, dict):
        return made
    is_time = "string" in made.get("type", ()) and not isinstance(default, str)
    return {**made, "default": _format_duration(default) if is_time else default}


def _flatten_any_of(field: Json) -> Json:
    """Write "this or null" as one type where that is all that is said."""
    match field.get("anyOf"):
        case [{"type": str(), **rest} as shape, {"type": "null"}] if "$ref" not in rest:
            outer = {key: value for key, value in field.items() if key != "anyOf"}
            return {**or_null(shape), **outer}
        case _:
            return field


def _format_duration(seconds: float) -> str:
    """Write a duration in the largest unit that needs no fraction."""
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"
