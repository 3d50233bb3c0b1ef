"""The types of fields in policies and settings; plugins use them for their arguments too."""

from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from reactive_desched.errors import SelectorError
from reactive_desched.model.labels import (
    LabelSelector,
    Selector,
    parse_label_selector,
    parse_selector,
)
from reactive_desched.policy.diagnostics import FieldError, FieldErrors, quote, raise_field_errors
from reactive_desched.policy.durations import DURATION_PATTERN, DurationError, parse_duration

INT64_MAX: Final = 2**63 - 1
UINT64_MAX: Final = 2**64 - 1
INT32_MAX: Final = 2**31 - 1


def file_key(field: str) -> str:
    """Give the name a field has in a file: `max_wait_s` is written `maxWait`."""
    return to_camel(field.removesuffix("_s"))


class Section(BaseModel):
    """A part of a file: frozen, camelCase when written, snake_case in code.

    A field in seconds ends in `_s`; the unit is no part of the written name, as durations are
    written with their unit.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(validation_alias=file_key, serialization_alias=file_key),
        validate_by_name=True,
        validate_by_alias=True,
    )


def _read_duration(written: object, info: ValidationInfo) -> float:
    """Read a duration; code, unlike a file, may also give seconds as a number."""
    if info.mode == "python" and type(written) in (int, float):
        return float(written)  # type: ignore[arg-type]  # the line above has looked
    if not isinstance(written, str):
        shown = f"write {written}s for seconds" if type(written) is int else ""
        raise FieldErrors([FieldError("must be a duration such as 90s or 1h30m", shown)])
    try:
        return parse_duration(written)
    except DurationError as error:
        raise FieldErrors([FieldError(f"{quote(written)} {error}", error.hint)]) from error


def _read_seconds(written: object, info: ValidationInfo) -> float:
    """Read a duration that is not negative."""
    seconds = _read_duration(written, info)
    if seconds < 0 and isinstance(written, str):
        raise FieldErrors([FieldError(f"must not be negative; got {quote(written)}")])
    return seconds


def _check_count(number: int, info: ValidationInfo) -> int:
    """Refuse a number of things below zero, which upstream takes for zero."""
    if number < 0:
        error = FieldError(f"must be at least 0, not {number}", "write 0", lenient_ok=True)
        raise_field_errors([error], info.context)
    return max(0, number)


def read_selector(written: object) -> Selector:
    """Read a label selector in its text form; code may also give a parsed one."""
    if isinstance(written, Selector):
        return written
    if not isinstance(written, str):
        hint = 'write labels as one text, for example "pool=blue,zone in (a,b)"'
        raise FieldErrors([FieldError("must be a label selector in text form", hint)])
    try:
        return parse_selector(written)
    except SelectorError as error:
        raise FieldErrors([FieldError(str(error))]) from error


Count = Annotated[int, Field(ge=0, le=UINT64_MAX)]
"""A whole number, zero or more."""

SignedCount = Annotated[
    int,
    Field(ge=-INT64_MAX - 1, le=INT64_MAX, json_schema_extra={"minimum": 0}),
    AfterValidator(_check_count),
]
"""A whole number, zero or more, that upstream reads as a signed one."""

Int32 = Annotated[int, Field(ge=-INT32_MAX - 1, le=INT32_MAX)]
"""A whole number of 32 bits."""

_AS_DURATION: Final = WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN})
AS_SELECTOR_TEXT: Final = WithJsonSchema({"type": "string"})
"""Editors are told no more of a selector in text form than that it is a text."""

Seconds = Annotated[float, PlainValidator(_read_seconds), _AS_DURATION]
"""A Go duration text (`90s`, `1h30m`), zero or more; held in seconds."""

SignedSeconds = Annotated[float, PlainValidator(_read_duration), _AS_DURATION]
"""A Go duration text that may be negative; its model says what that means."""

SelectorText = Annotated[Selector, PlainValidator(read_selector), AS_SELECTOR_TEXT]
"""A label selector in text form, such as `pool in (blue,green),!legacy`."""

SelectorObject = Annotated[
    LabelSelector,
    PlainValidator(parse_label_selector),
    WithJsonSchema({"type": "object", "title": "LabelSelector"}),
]
"""A label selector as an object with `matchLabels` and `matchExpressions`."""
