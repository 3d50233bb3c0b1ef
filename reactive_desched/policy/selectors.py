"""Label selector objects from a file, every fault at its own place."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.model.labels import key_problem, value_problem
from reactive_desched.policy.diagnostics import Complaint, Path, quoted
from reactive_desched.policy.hints import did_you_mean, nearest

_PARTS: Final = ("matchLabels", "matchExpressions")
_REQUIREMENT: Final = ("key", "operator", "values")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_WITH_VALUES: Final = ("In", "NotIn")


def selector_complaints(written: object) -> Iterator[Complaint]:
    """Say everything that is wrong with a selector object as it is written."""
    if not isinstance(written, dict):
        hint = "write matchLabels: {key: value} below it"
        yield Complaint("must be a label selector object", hint)
        return
    yield from _unknown(written, _PARTS, ())
    yield from _label_complaints(written.get("matchLabels"))
    yield from _expression_complaints(written.get("matchExpressions"))


def _unknown(written: dict[str, object], known: tuple[str, ...], path: Path) -> Iterator[Complaint]:
    for key in written:
        if key not in known:
            yield Complaint("unknown field", did_you_mean(key, known), (*path, key))


def _label_complaints(labels: object) -> Iterator[Complaint]:
    if labels is None:
        return
    if not isinstance(labels, dict):
        yield Complaint("must be a mapping of labels", "", ("matchLabels",))
        return
    for key, value in labels.items():
        path = ("matchLabels", key)
        yield from _word_complaints(value, path)
        if (wrong := key_problem(key)) is not None:
            yield Complaint(wrong, "", path)


def _word_complaints(value: object, path: Path) -> Iterator[Complaint]:
    """Check one label value."""
    if not isinstance(value, str):
        yield Complaint("a label value must be text", "put it in quotes", path)
    elif (wrong := value_problem(value)) is not None:
        yield Complaint(wrong, "", path)


def _expression_complaints(expressions: object) -> Iterator[Complaint]:
    if expressions is None:
        return
    if not isinstance(expressions, list):
        yield Complaint("must be a list of requirements", "", ("matchExpressions",))
        return
    for index, expression in enumerate(expressions):
        path = ("matchExpressions", index)
        if isinstance(expression, dict):
            yield from _requirement_complaints(expression, path)
        else:
            yield Complaint("must be a mapping with key, operator and values", "", path)


def _requirement_complaints(written: dict[str, object], path: Path) -> Iterator[Complaint]:
    yield from _unknown(written, _REQUIREMENT, path)
    yield from _key_complaints(written.get("key"), path)
    operator = written.get("operator")
    if operator not in _OPERATORS:
        yield _operator_complaint(operator, path)
        return
    yield from _values_complaints(str(operator), written.get("values"), path)


def _key_complaints(key: object, path: Path) -> Iterator[Complaint]:
    if not isinstance(key, str):
        yield Complaint("a requirement needs a key, as text", "", path)
    elif (wrong := key_problem(key)) is not None:
        yield Complaint(wrong, "", (*path, "key"))


def _operator_complaint(operator: object, path: Path) -> Complaint:
    if operator is None:
        return Complaint("a requirement needs an operator", f"one of {', '.join(_OPERATORS)}", path)
    meant = nearest(str(operator), _OPERATORS)
    hint = f"did you mean {meant}?" if meant else f"use {', '.join(_OPERATORS)}"
    return Complaint(
        f"{quoted(str(operator))} is not an operator of label selectors", hint, (*path, "operator")
    )


def _values_complaints(operator: str, values: object, path: Path) -> Iterator[Complaint]:
    """Check that values are there exactly where the operator takes them."""
    listed = values if values is not None else []
    if not isinstance(listed, list):
        yield Complaint("values must be a list", "", (*path, "values"))
    elif operator in _WITH_VALUES and not listed:
        yield Complaint(f"operator {operator} needs at least one value", "add values", path)
    elif operator not in _WITH_VALUES and listed:
        yield Complaint(f"operator {operator} takes no values", "remove them", (*path, "values"))
    else:
        for index, value in enumerate(listed):
            yield from _word_complaints(value, (*path, "values", index))
