"""The types of fields in policies and settings; plugins use them for their arguments too."""

from typing import Annotated, Final

from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
)
from pydantic.alias_generators import to_camel

from reactive_desched.errors import SelectorError
from reactive_desched.model.labels import LabelSelector, Selector, parse_selector, selector_from
from reactive_desched.policy.durations import DurationError, parse_duration
from reactive_desched.policy.problems import Complaint, Complaints, quoted

INT64_MAX: Final = 2**63 - 1
UINT64_MAX: Final = 2**64 - 1
INT32_MAX: Final = 2**31 - 1


def written_name(field: str) -> str:
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
        alias_generator=AliasGenerator(
            validation_alias=written_name, serialization_alias=written_name
        ),
        validate_by_name=True,
        validate_by_alias=True,
    )


def _seconds(written: object, info: ValidationInfo) -> float:
    """Read a duration; code, unlike a file, may also give seconds as a number."""
    if info.mode == "python" and type(written) in (int, float):
        return float(written)  # type: ignore[arg-type]  # the line above has looked
    if not isinstance(written, str):
        shown = f"write {written}s for seconds" if type(written) is int else ""
        raise Complaints([Complaint("must be a duration such as 90s or 1h30m", shown)])
    try:
        seconds = parse_duration(written)
    except DurationError as error:
        raise Complaints([Complaint(f"{quoted(written)} {error}", error.hint)]) from error
    if seconds < 0:
        raise Complaints([Complaint(f"must not be negative; got {quoted(written)}")])
    return seconds


def _selector(written: object) -> Selector:
    """Read a label selector in its text form; code may also give a parsed one."""
    if isinstance(written, Selector):
        return written
    if not isinstance(written, str):
        hint = 'write labels as one text, for example "pool=blue,zone in (a,b)"'
        raise Complaints([Complaint("must be a label selector in text form", hint)])
    try:
        return parse_selector(written)
    except SelectorError as error:
        raise Complaints([Complaint(str(error))]) from error


Count = Annotated[int, Field(ge=0, le=UINT64_MAX)]
"""A whole number, zero or more."""

Int32 = Annotated[int, Field(ge=-INT32_MAX - 1, le=INT32_MAX)]
"""A whole number of 32 bits."""

Seconds = Annotated[float, PlainValidator(_seconds)]
"""A Go duration text (`90s`, `1h30m`), zero or more; held in seconds."""

SelectorText = Annotated[Selector, PlainValidator(_selector)]
"""A label selector in text form, such as `pool in (blue,green),!legacy`."""

SelectorObject = Annotated[LabelSelector, PlainValidator(selector_from)]
"""A label selector as an object with `matchLabels` and `matchExpressions`."""
