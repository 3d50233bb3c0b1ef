"""Label selector objects from a file, every fault at its own place."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.api.args import FieldError, Path, fix_to
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import label_key_error, label_value_error
from reactive_desched.primitives.hints import did_you_mean, nearest_name, quote, sole_near_name

_PARTS: Final = ("matchLabels", "matchExpressions")
_REQUIREMENT: Final = ("key", "operator", "values")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
LABEL_VALUE_HINT: Final = (
    "a label value has at most 63 characters: letters a-z and A-Z, digits, -, _ and ., a letter or "
    "digit first and last"
)
LABEL_KEY_HINT: Final = (
    "a label key is a name of at most 63 characters (letters a-z and A-Z, digits, -, _ and ., a "
    "letter or digit first and last), after a DNS name and a / if it has one"
)
_WITH_VALUES: Final = ("In", "NotIn")


def selector_errors(written: object) -> Iterator[FieldError]:
    """Say everything that is wrong with a selector object as it is written."""
    if not isinstance(written, dict):
        hint = "write matchLabels: {key: value} below it"
        yield FieldError("must be a label selector object", hint, rule=Rule.LABEL_SELECTOR)
        return
    yield from _unknown_field_errors(written, _PARTS, ())
    yield from _match_labels_errors(written.get("matchLabels"))
    yield from _match_expressions_errors(written.get("matchExpressions"))


def _unknown_field_errors(
    written: dict[str, object], allowed: tuple[str, ...], path: Path
) -> Iterator[FieldError]:
    for key, value in written.items():
        if key not in allowed:
            meant = sole_near_name(key, allowed)
            hint = did_you_mean(key, allowed)
            is_label = allowed is _PARTS and not nearest_name(key, allowed)
            if is_label and isinstance(value, str):
                hint = f"a label stands below matchLabels: {{{quote(key)[1:-1]}: …}}"
            yield FieldError(
                "unknown field",
                hint,
                (*path, key),
                rule=Rule.UNKNOWN_FIELD,
                fix=fix_to(meant) if meant not in written else None,
                at_key=True,
            )


def _match_labels_errors(labels: object) -> Iterator[FieldError]:
    if labels is None:
        return
    if not isinstance(labels, dict):
        yield FieldError(
            "must be a mapping of labels", "", ("matchLabels",), rule=Rule.LABEL_SELECTOR
        )
        return
    for key, value in labels.items():
        path = ("matchLabels", key)
        yield from _label_value_errors(value, path)
        if (wrong := label_key_error(key)) is not None:
            yield FieldError(wrong, LABEL_KEY_HINT, path, rule=Rule.LABEL_SELECTOR, at_key=True)


def _label_value_errors(value: object, path: Path) -> Iterator[FieldError]:
    """Check one label value."""
    if not isinstance(value, str):
        yield FieldError(
            "a label value must be text", "put it in quotes", path, rule=Rule.LABEL_SELECTOR
        )
    elif (wrong := label_value_error(value)) is not None:
        yield FieldError(wrong, LABEL_VALUE_HINT, path, rule=Rule.LABEL_SELECTOR)


def _match_expressions_errors(expressions: object) -> Iterator[FieldError]:
    if expressions is None:
        return
    if not isinstance(expressions, list):
        yield FieldError(
            "must be a list of requirements", "", ("matchExpressions",), rule=Rule.LABEL_SELECTOR
        )
        return
    for index, expression in enumerate(expressions):
        path = ("matchExpressions", index)
        if isinstance(expression, dict):
            yield from _requirement_errors(expression, path)
        else:
            yield FieldError(
                "must be a mapping with key, operator and values",
                "",
                path,
                rule=Rule.LABEL_SELECTOR,
            )


def _requirement_errors(written: dict[str, object], path: Path) -> Iterator[FieldError]:
    yield from _unknown_field_errors(written, _REQUIREMENT, path)
    yield from _label_key_errors(written.get("key"), path)
    operator = written.get("operator")
    if operator not in _OPERATORS:
        yield _operator_error(operator, path)
        return
    yield from _values_errors(str(operator), written.get("values"), path)


def _label_key_errors(key: object, path: Path) -> Iterator[FieldError]:
    if not isinstance(key, str):
        yield FieldError("a requirement needs a key, as text", "", path, rule=Rule.LABEL_SELECTOR)
    elif (wrong := label_key_error(key)) is not None:
        yield FieldError(wrong, LABEL_KEY_HINT, (*path, "key"), rule=Rule.LABEL_SELECTOR)


def _operator_error(operator: object, path: Path) -> FieldError:
    if operator is None:
        return FieldError(
            "a requirement needs an operator",
            f"one of {', '.join(_OPERATORS)}",
            path,
            rule=Rule.LABEL_SELECTOR,
        )
    meant = nearest_name(str(operator), _OPERATORS)
    hint = f"did you mean {meant}?" if meant else f"use {', '.join(_OPERATORS)}"
    return FieldError(
        f"{quote(str(operator))} is not an operator of label selectors",
        hint,
        (*path, "operator"),
        rule=Rule.LABEL_SELECTOR,
        fix=fix_to(sole_near_name(str(operator), _OPERATORS)),
    )


def _values_errors(operator: str, values: object, path: Path) -> Iterator[FieldError]:
    """Check that values are there exactly where the operator takes them."""
    listed = values if values is not None else []
    if not isinstance(listed, list):
        yield FieldError("values must be a list", "", (*path, "values"), rule=Rule.LABEL_SELECTOR)
    elif operator in _WITH_VALUES and not listed:
        yield FieldError(
            f"operator {operator} needs at least one value",
            "add values",
            path,
            rule=Rule.LABEL_SELECTOR,
        )
    elif operator not in _WITH_VALUES and listed:
        yield FieldError(
            f"operator {operator} takes no values",
            "remove them",
            (*path, "values"),
            rule=Rule.LABEL_SELECTOR,
        )
    else:
        for index, value in enumerate(listed):
            yield from _label_value_errors(value, (*path, "values", index))
