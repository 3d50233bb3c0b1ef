"""Translates pydantic's validation errors into messages about the file."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from types import NoneType, UnionType
from typing import Final, NamedTuple, Union, get_args, get_origin

from msgspec.structs import replace
from pydantic import AfterValidator, BaseModel
from pydantic.fields import FieldInfo

from reactive_desched.api.args import FieldError, FieldErrors, Path, file_key, fix_to
from reactive_desched.api.rules import Rule
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.hidden_errors import ErrorDetail
from reactive_desched.policy.yaml.quoting import flow_text, yaml_text
from reactive_desched.policy.yaml.scalars import NotFiniteError, parse_scalar
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.syntax_errors import joined_value_hint
from reactive_desched.policy.yaml.tree import MappingNode, ScalarNode, SequenceNode, YamlNode
from reactive_desched.primitives.durations import DurationError, parse_duration, write_duration
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

_PERCENT: Final = "percent"
"""The field that has a share, in each section that has one."""

_MAX_FIELDS_NAMED: Final = 8

_CHOICES: Final = r"'([^']*)'"

WrongTypeHint = Callable[[Path, YamlNode | None], str]


def explain_validation_error(
    details: Iterable[ErrorDetail],
    location: SourceLocation,
    type_hint: WrongTypeHint,
    model: type[BaseModel] | None = None,
) -> Iterator[Diagnostic]:
    """Turn what a model refuses into diagnostics; `type_hint` may improve that for a wrong type.

    The model says what a required field is for.
    """
    for detail in details:
        steps = (step for step in detail["loc"] if step != "[key]")
        at = reduce(_child_location, steps, location)
        if detail["type"] == "missing":
            yield at.diagnostic(
                "is required", _what_it_says(model, detail["loc"]), rule=Rule.MISSING_FIELD
            )
        else:
            place = _Place(model, tuple(step for step in detail["loc"] if step != "[key]"))
            yield from _explain_one(detail, at, type_hint, place)


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


class _Place(NamedTuple):
    """The place of a value in a model, by the steps that lead to it."""

    model: type[BaseModel] | None
    steps: Path

    @property
    def field(self) -> FieldInfo | None:
        """The field that has the value; None for an item of a list or mapping."""
        found: FieldInfo | None = None
        options: tuple[object, ...] = (self.model,)
        for step in self.steps:
            fields = (item for each in options for item in _fields_of(each).items())
            names = ((info, (name, info.alias, info.validation_alias)) for name, info in fields)
            found = next((info for info, known in names if step in known), None)
            options = () if found is None else _options(found.annotation)
        return found

    @property
    def takes_null(self) -> bool:
        """Say whether null is a value of the field."""
        return self.field is not None and NoneType in _options(self.field.annotation)

    @property
    def parent(self) -> "_Place":
        """The section of the field."""
        return _Place(self.model, self.steps[:-1])

    def parts(self) -> "dict[str, _Place]":
        """Return the fields of a section by their keys in a file."""
        options = (self.model,) if self.field is None else _options(self.field.annotation)
        fields = (name for option in options for name in _fields_of(option))
        return {file_key(name): _Place(self.model, (*self.steps, name)) for name in fields}

    def what_is_in_it(self) -> str:
        """Say which fields a section has, for a person who wrote something else; empty for none."""
        if self.steps and self.field is None:
            return ""  # an item of a list or mapping
        parts = list(self.parts())
        if not parts:
            return ""
        if len(parts) > _MAX_FIELDS_NAMED:
            parts[_MAX_FIELDS_NAMED:] = ["…"]
        return f"write its fields below it: {', '.join(parts)}"

    def how_to_switch_off(self, *, is_duration: bool = False) -> str:
        """Say what to write where a person wrote off and null is no value; empty if not known."""
        above = self.parent
        while above.steps and not above.takes_null:
            above = above.parent
        if above.steps:
            return f"write {above.steps[-1]}: null, which switches all of it off"
        parts = self.parts()
        if nullable := [key for key, part in parts.items() if part.takes_null]:
            return f"null switches a part of it off: {', '.join(nullable)}"
        if parts:
            return f"it is not off as a whole; what is in it: {', '.join(parts)}"
        if self.field is None or self.field.is_required():
            return ""
        if is_duration and not any(isinstance(it, AfterValidator) for it in self.field.metadata):
            return "write 0s"
        return "it is never off: leave it out for its default"


def _fields_of(option: object) -> Mapping[str, FieldInfo]:
    if isinstance(option, type) and issubclass(option, BaseModel):
        return option.model_fields
    return {}


def _options(annotation: object) -> tuple[object, ...]:
    """Return the alternatives of a type, null among them."""
    return get_args(annotation) if is_union(annotation) else (annotation,)


def _explain_one(
    detail: ErrorDetail, at: SourceLocation, type_hint: WrongTypeHint, place: _Place
) -> Iterator[Diagnostic]:
    """Explain one detail; a validator of ours may have several complaints in one."""
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, FieldErrors):
        for each in cause.errors:
            yield at.error(_with_off_hint(each, at, place))
        return
    kind = detail["type"]
    if kind in _EXPECTED:
        hint, text = type_hint(at.path, at.node), ""
        if _says_off(at.node):
            hint, text = "write null: that switches it off", "null"
            if not place.takes_null:
                is_list = _EXPECTED[kind] == "a list"
                hint = "write [] for none" if is_list else place.how_to_switch_off()
                text = "[]" if is_list else ""
        elif not hint:
            hint, text = _type_hint(kind, at)
        if not hint and (share := _share(at.node)):
            hint = _hint_for_share(share, place)
        elif not hint and kind == "model_type" and at.node is not None:
            hint = place.what_is_in_it()
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


def is_union(annotation: object) -> bool:
    """Say whether a type has alternatives, such as null."""
    return get_origin(annotation) in (Union, UnionType)


def _says_off(node: YamlNode | None) -> bool:
    return isinstance(node, ScalarNode) and node.text.lower() in _OFF


def _with_off_hint(error: FieldError, at: SourceLocation, place: _Place) -> FieldError:
    """Return the complaint about a duration with what to write where off is written."""
    if error.rule is not Rule.NOT_A_DURATION or error.path or not _says_off(at.node):
        return error
    return replace(error, hint=place.how_to_switch_off(is_duration=True))


def _hint_for_share(share: str, place: _Place) -> str:
    """Say where the number of a percentage goes."""
    if place.steps[-1] == _PERCENT:
        return f"write {share}: it is in per cent"
    if _PERCENT in place.parent.parts():
        return f"it takes no share: that is {_PERCENT}: {share}"
    return "it takes no share: write a number"


def _share(node: YamlNode | None) -> str:
    """Return the number of a text such as 10%; empty for any other value."""
    text = node.text.strip() if isinstance(node, ScalarNode) else ""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *%", text)
    return found[1] if found else ""


def _message(kind: str, detail: ErrorDetail, at: SourceLocation, cause: object) -> str:
    """Put the remaining kinds of complaint in our words."""
    context = detail.get("ctx", {})
    if kind in _BOUNDS:
        key, phrase = _BOUNDS[kind]
        is_duration = isinstance(at.node, ScalarNode) and isinstance(at.node.value, str)
        bound = write_duration(context[key]) if is_duration else _format_bound(context[key])
        return f"must be {phrase} {bound}, not {describe(at.node)}"
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
        case ScalarNode(value=str() as text) if kind == "bool_type" and (
            meant := nearest_name(text, ("true", "false"))
        ):
            return f"did you mean {meant}?", ""
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
