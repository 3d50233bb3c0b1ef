"""Translates pydantic's validation errors into messages about the file."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from reactive_desched.api.args import FieldErrors, Path, file_key, fix_to
from reactive_desched.api.rules import Rule
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.quoting import flow_text, yaml_text
from reactive_desched.policy.yaml.scalars import NotFiniteError, parse_scalar
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.syntax_errors import joined_value_hint
from reactive_desched.policy.yaml.tree import MappingNode, ScalarNode, SequenceNode, YamlNode
from reactive_desched.primitives.durations import DurationError, parse_duration
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name

_EXPECTED: Final[Mapping[str, str]] = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "frozen_set_type": "a list",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping of fields",
    "set_type": "a list",
    "string_type": "text",
    "tuple_type": "a list",
}
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys((*_BOUNDS, "finite_number"), Rule.OUT_OF_BOUNDS),
    **dict.fromkeys(("too_short", "string_too_short"), Rule.MISSING_FIELD),
}
"""The rule of each kind of complaint that needs no more than words."""

_OFF: Final = frozenset({"false", "no", "none", "never", "off", "disabled", "unlimited"})
"""What is written where null would switch a section off, or take a limit away."""

_CHOICES: Final = r"'([^']*)'"

ErrorDetail = Mapping[str, Any]  # Any: pydantic's error details are not typed further
WrongTypeHint = Callable[[Path, YamlNode | None], str]


def explain_validation_error(
    error: ValidationError,
    location: SourceLocation,
    type_hint: WrongTypeHint,
    model: type[BaseModel] | None = None,
) -> Iterator[Diagnostic]:
    """Turn a validation error into diagnostics; `type_hint` may improve the hint for a wrong type.

    The model says what a required field is for.
    """
    for detail in error.errors(include_url=False, include_input=False):
        steps = (step for step in detail["loc"] if step != "[key]")
        at = reduce(_child_location, steps, location)
        if detail["type"] == "missing":
            yield at.diagnostic(
                "is required", _what_it_says(model, detail["loc"]), rule=Rule.MISSING_FIELD
            )
        else:
            takes_null = _takes_null(model, detail["loc"])
            yield from _explain_one(detail, at, type_hint, takes_null=takes_null)


def _what_it_says(model: type[BaseModel] | None, loc: Path) -> str:
    """Say what a field at the top of a model is for, by its description."""
    for name, info in model.model_fields.items() if model is not None and len(loc) == 1 else ():
        if loc[0] in (name, info.alias, info.validation_alias):
            text = (info.description or "").removesuffix(".")
            return f"it says: {text}" if text else ""
    return ""


def _child_location(location: SourceLocation, step: str | int) -> SourceLocation:
    """Go one step down; a field that is missing in the file may have its name in code."""
    below = location.below(step)
    if isinstance(step, str) and below.node is None:
        return location.below(file_key(step))
    return below


def _explain_one(
    detail: ErrorDetail, at: SourceLocation, type_hint: WrongTypeHint, *, takes_null: bool
) -> Iterator[Diagnostic]:
    """Explain one detail; a validator of ours may have several complaints in one."""
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, FieldErrors):
        yield from map(at.error, cause.errors)
        return
    kind = detail["type"]
    if kind in _EXPECTED:
        hint, text = type_hint(at.path, at.node), ""
        if takes_null and _says_off(at.node):
            hint, text = "write null: that switches it off", "null"
        elif not hint:
            hint, text = _type_hint(kind, at)
        yield at.diagnostic(
            f"must be {_EXPECTED[kind]}, not {describe(at.node)}",
            hint,
            rule=Rule.WRONG_TYPE,
            fix=fix_to(text, is_yaml=True),
        )
    elif kind in ("literal_error", "enum"):
        yield _wrong_choice(detail, at)
    else:
        rule = _RULES.get(kind, Rule.ARGUMENT_REFUSED)
        yield at.diagnostic(_message(kind, detail, at, cause), rule=rule)


def _takes_null(model: type[BaseModel] | None, loc: Path) -> bool:
    """Say whether null is a value of a field, which is a place in a model and those inside it."""
    options: tuple[object, ...] = (model,)
    for step in loc:
        fields = [
            item
            for each in options
            if isinstance(each, type) and issubclass(each, BaseModel)
            for item in each.model_fields.items()
        ]
        options = next(
            (
                get_args(info.annotation) if is_union(info.annotation) else (info.annotation,)
                for name, info in fields
                if step in (name, info.alias, info.validation_alias)
            ),
            (),
        )
    return NoneType in options


def is_union(annotation: object) -> bool:
    """Say whether a type has alternatives, such as null."""
    return get_origin(annotation) in (Union, UnionType)


def _says_off(node: YamlNode | None) -> bool:
    return isinstance(node, ScalarNode) and node.text.lower() in _OFF


def _message(kind: str, detail: ErrorDetail, at: SourceLocation, cause: object) -> str:
    """Put the remaining kinds of complaint in our words."""
    context = detail.get("ctx", {})
    if kind in _BOUNDS:
        key, phrase = _BOUNDS[kind]
        return f"must be {phrase} {_format_bound(context[key])}, not {describe(at.node)}"
    if kind in ("too_short", "string_too_short"):
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"needs at least {least} entries"
    if kind == "value_error" and cause is not None:
        return str(cause)
    return str(detail["msg"]).replace("Input should", "must")


def _format_bound(bound: float) -> str:
    """Write a bound without a fraction that says nothing."""
    return str(int(bound) if bound == int(bound) else bound)


def _wrong_choice(detail: ErrorDetail, at: SourceLocation) -> Diagnostic:
    """Offer the nearest of the allowed values, or all of them."""
    choices = re.findall(_CHOICES, detail.get("ctx", {}).get("expected", ""))
    written = at.node.text if isinstance(at.node, ScalarNode) else ""
    meant = nearest_name(written, choices)
    hint = f"did you mean {meant}?" if meant else f"choose from {', '.join(choices)}"
    return at.diagnostic(
        f"{describe(at.node)} is not a value it can have",
        hint,
        rule=Rule.UNKNOWN_VALUE,
        fix=fix_to(sole_near_name(written, choices)),
    )


def describe(node: YamlNode | None) -> str:
    """Say what is written, in words."""
    match node:
        case ScalarNode(value=str() as text):
            return f"the text {quote(text)}"
        case ScalarNode(value=bool(), text=text):
            return f"the true-or-false value {quote(text)[1:-1]}"
        case ScalarNode(value=int() | float(), text=text):
            return f"the number {quote(text)[1:-1]}"
        case SequenceNode():
            return "a list"
        case MappingNode():
            return "a mapping"
        case _:
            return "nothing"


_CURLY_QUOTES: Final = "\u201c\u201d\u201e\u2018\u2019"


def _type_hint(kind: str, at: SourceLocation) -> tuple[str, str]:
    """Suggest the small change that makes the type right, and the value as YAML, where it is one.

    Both are empty where there is none.
    """
    match at.node:
        case ScalarNode(value=str() as text) if _fits_unquoted(kind, text):
            return "remove the quotes", text
        case ScalarNode(value=str() as text) if _fits_unquoted(kind, text.strip(_CURLY_QUOTES)):
            return "remove the quotes: YAML has straight ones alone", text.strip(_CURLY_QUOTES)
        case ScalarNode(value=str() as text) if seconds := _whole_seconds(kind, at.path, text):
            return f"write {seconds}: it counts seconds", seconds
        case ScalarNode(value=bool() | int() | float(), text=text) if kind == "string_type":
            return f"put it in quotes: {quote(text)}", json.dumps(text)
        case ScalarNode(value=str() as text) if text and _EXPECTED[kind] == "a list":
            return f"write a list: [{quote(text)[1:-1]}]", f"[{flow_text(yaml_text(text))}]"
        case ScalarNode(text=text) if _EXPECTED[kind] == "a list":
            return f"write a list: [{quote(text)[1:-1]}]", ""
        case ScalarNode(value=str() as text) if _EXPECTED[kind].startswith("a mapping"):
            return joined_value_hint(text) or "", ""
        case MappingNode() if _EXPECTED[kind] == "a list":
            return 'begin each entry with "- "', ""
        case _:
            return "", ""


def _whole_seconds(kind: str, path: Path, text: str) -> str:
    """Write a duration as the number that a field of seconds takes; empty where that is not it."""
    if kind != "int_type" or not str(path[-1]).endswith("Seconds"):
        return ""
    try:
        seconds = parse_duration(text)
    except DurationError:
        return ""
    return str(int(seconds)) if seconds == int(seconds) else ""


def _fits_unquoted(kind: str, text: str) -> bool:
    """Say whether the text, without quotes, is of the type that is asked for."""
    try:
        value = parse_scalar(text)
    except NotFiniteError:
        return False
    if kind == "bool_type":
        return isinstance(value, bool)
    return kind in ("int_type", "float_type") and isinstance(value, (int, float))
