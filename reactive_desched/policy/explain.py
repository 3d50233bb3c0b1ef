"""What a validator's complaint means to the person who wrote the file."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from reactive_desched.policy.diagnostics import Complaints, Path, Problem, quoted
from reactive_desched.policy.fields import written_name
from reactive_desched.policy.hints import nearest
from reactive_desched.policy.scalars import NotFiniteError, understand
from reactive_desched.policy.source_location import Place
from reactive_desched.policy.tree import Items, Node, Scalar, Table

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
_CHOICES: Final = re.compile(r"'([^']*)'")

Detail = Mapping[str, Any]  # Any: pydantic's error details are not typed further
Advise = Callable[[Path, Node | None], str]


def explain(
    error: ValidationError, place: Place, advise: Advise, model: type[BaseModel] | None = None
) -> Iterator[Problem]:
    """Turn a validation error into problems; `advise` may have a better hint for a wrong type.

    The model says what a required field is for.
    """
    for detail in error.errors(include_url=False, include_input=False):
        steps = (step for step in detail["loc"] if step != "[key]")
        at = reduce(_down, steps, place)
        if detail["type"] == "missing":
            yield at.problem("is required", _purpose(model, detail["loc"]))
        else:
            yield from _explain_one(detail, at, advise)


def _purpose(model: type[BaseModel] | None, loc: Path) -> str:
    """Give the description of a field at the top of a model."""
    for name, info in model.model_fields.items() if model is not None and len(loc) == 1 else ():
        if loc[0] in (name, info.alias, info.validation_alias):
            return (info.description or "").removesuffix(".")
    return ""


def _down(place: Place, step: str | int) -> Place:
    """Go one step down; a field that is not written may be told by its name in code."""
    below = place.below(step)
    if isinstance(step, str) and below.node is None:
        return place.below(written_name(step))
    return below


def _explain_one(detail: Detail, at: Place, advise: Advise) -> Iterator[Problem]:
    """Explain one detail; a validator of ours may have several complaints in one."""
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, Complaints):
        yield from map(at.complaint, cause.complaints)
        return
    kind = detail["type"]
    if kind in _EXPECTED:
        hint = advise(at.path, at.node) or _type_hint(kind, at.node)
        yield at.problem(f"must be {_EXPECTED[kind]}, not {described(at.node)}", hint)
    elif kind in ("literal_error", "enum"):
        yield _wrong_choice(detail, at)
    else:
        yield at.problem(_message(kind, detail, at, cause))


def _message(kind: str, detail: Detail, at: Place, cause: object) -> str:
    """Put the remaining kinds of complaint in our words."""
    context = detail.get("ctx", {})
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"must be {words} {_number(context[key])}, not {described(at.node)}"
    if kind in ("too_short", "string_too_short"):
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"needs at least {least} entries"
    if kind == "value_error" and cause is not None:
        return str(cause)
    return str(detail["msg"]).replace("Input should", "must")


def _number(bound: float) -> str:
    """Write a bound without a fraction that says nothing."""
    return str(int(bound) if bound == int(bound) else bound)


def _wrong_choice(detail: Detail, at: Place) -> Problem:
    """Offer the nearest of the allowed values, or all of them."""
    choices = _CHOICES.findall(detail.get("ctx", {}).get("expected", ""))
    written = at.node.text if isinstance(at.node, Scalar) else ""
    meant = nearest(written, choices)
    hint = f"did you mean {meant}?" if meant else f"choose from {', '.join(choices)}"
    return at.problem(f"{described(at.node)} is not a value it can have", hint)


def described(node: Node | None) -> str:
    """Say what is written, in words."""
    match node:
        case Scalar(value=str() as text):
            return f"the text {quoted(text)}"
        case Scalar(value=bool(), text=text):
            return f"the true-or-false value {quoted(text)[1:-1]}"
        case Scalar(value=int() | float(), text=text):
            return f"the number {quoted(text)[1:-1]}"
        case Items():
            return "a list"
        case Table():
            return "a mapping"
        case _:
            return "nothing"


def _type_hint(kind: str, node: Node | None) -> str:
    """Suggest the small change that makes the type right, where there is one."""
    match node:
        case Scalar(value=str() as text) if _fits_unquoted(kind, text):
            return "remove the quotes"
        case Scalar(value=bool() | int() | float(), text=text) if kind == "string_type":
            return f"put it in quotes: {quoted(text)}"
        case Scalar(text=text) if _EXPECTED[kind] == "a list":
            return f"write a list: [{quoted(text)[1:-1]}]"
        case Table() if _EXPECTED[kind] == "a list":
            return 'begin each entry with "- "'
        case _:
            return ""


def _fits_unquoted(kind: str, text: str) -> bool:
    """Say whether the text, without quotes, is of the type that is asked for."""
    try:
        value = understand(text)
    except NotFiniteError:
        return False
    if kind == "bool_type":
        return isinstance(value, bool)
    return kind in ("int_type", "float_type") and isinstance(value, (int, float))
