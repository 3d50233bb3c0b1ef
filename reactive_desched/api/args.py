"""Arguments of plugins and sections of settings: base classes, field types and field errors.

A validator reports what is wrong as `FieldError`s, each with its own path and a remedy; the policy
reader adds file, line and column.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, Protocol, Self, runtime_checkable

from msgspec import Struct, structs
from pydantic import (
    AfterValidator,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from reactive_desched.api.rules import Rule
from reactive_desched.errors import SelectorError
from reactive_desched.model.labels import (
    LabelSelector,
    Selector,
    parse_label_selector,
    parse_selector,
)
from reactive_desched.primitives.durations import DURATION_PATTERN, DurationError, parse_duration
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name

Path = tuple[str | int, ...]
"""Keys and indexes from a value to a part of it."""

LENIENT_CONTEXT: Final = "lenient"
"""The validation context in which errors that upstream does not report are left out."""

INT64_MAX: Final = 2**63 - 1
UINT64_MAX: Final = 2**64 - 1
INT32_MAX: Final = 2**31 - 1
_ALL: Final = 100


class Fix(Struct, frozen=True):
    """A mechanical correction: what to write instead of the key or value a message is about.

    `text` is a word, which is written in the quotes of the old one, or YAML where `is_yaml`. None
    takes the item of a list, or the key with its value, away.
    """

    text: str | None
    is_yaml: bool = False


def fix_to(word: str | None, *, is_yaml: bool = False) -> Fix | None:
    """Return the correction that writes a word; None where there is no word to write."""
    return Fix(word, is_yaml=is_yaml) if word else None


class FieldError(Struct, frozen=True):
    """An error in a field below the validated value, at `path`; the hint says what to write.

    `lenient_ok`: upstream accepts the value, though it has no effect or another one than it says.
    The place is the value, or its key where `at_key`. `fix` is for what one edit corrects.
    """

    message: str
    hint: str = ""
    path: Path = ()
    lenient_ok: bool = False
    rule: Rule = Rule.ARGUMENT_REFUSED
    fix: Fix | None = None
    at_key: bool = False


class FieldErrors(ValueError):  # noqa: N818 - carries several; the plural says so
    """A model's validator found errors, each at its own path."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(error.message for error in errors))


@runtime_checkable
class HasFieldWarnings(Protocol):
    """Arguments that are valid and still deserve a warning."""

    def warnings(self) -> Iterable[FieldError]:
        """Yield the values that have no effect, or probably not the intended one."""
        ...


@runtime_checkable
class HasMetricsSource(Protocol):
    """Arguments that may ask for measured use, from a source that the policy must provide."""

    @property
    def metrics_source(self) -> str:
        """The kind of the source, as `metricsProviders` names it; empty where none is asked."""
        ...


class NodeBand(Struct, frozen=True):
    """The thresholds of nodes that take pods and of nodes that give pods, in per cent by resource.

    It `fills` nodes that use at most so much of every resource, `empties` nodes that use at most so
    much of every resource, and `drains` nodes that use more than that of any. With `empties_any` it
    empties nodes whatever they use, with `packs` as many as it can. `spreads` names what it moves
    apart, whatever nodes use. `nodes` are those that it looks at, None for all.
    """

    fills: Mapping[str, float] = {}
    empties: Mapping[str, float] = {}
    drains: Mapping[str, float] = {}
    empties_any: bool = False
    packs: bool = False
    spreads: str = ""
    nodes: LabelSelector | None = None


@runtime_checkable
class MovesBetweenNodes(Protocol):
    """Arguments of a plugin that moves pods from some nodes to others, by their use or number."""

    def node_bands(self) -> Iterable[NodeBand]:
        """Yield the nodes meant, for each pool; none where thresholds follow the cluster's mean."""
        ...


def field_error(
    message: str,
    hint: str = "",
    path: Path = (),
    *,
    rule: Rule = Rule.ARGUMENT_REFUSED,
) -> FieldErrors:
    """Return what a validator raises of one error."""
    return FieldErrors([FieldError(message, hint, path, rule=rule)])


def raise_field_errors(errors: Iterable[FieldError], context: object = None) -> None:
    """Raise FieldErrors if there are any; LENIENT_CONTEXT leaves out those that are lenient_ok."""
    remaining = tuple(errors)
    if context == LENIENT_CONTEXT:
        remaining = tuple(error for error in remaining if not error.lenient_ok)
    if remaining:
        raise FieldErrors(remaining)


def exclusive_errors(names: str, *are_given: object) -> Iterator[FieldError]:
    """Yield an error where more than one of the fields called `names` is given."""
    if sum(map(bool, are_given)) > 1:
        message = f"only one of {names} can count"
        yield FieldError(message, "keep one of them", rule=Rule.EXCLUSIVE_FIELDS)


def prefixed(step: str | int, errors: Iterable[FieldError]) -> Iterator[FieldError]:
    """Put a step before the path of each error."""
    for each in errors:
        yield structs.replace(each, path=(step, *each.path))


@cache  # a model asks twice for each field
def camel_case(field: str) -> str:
    """Return a name in camelCase; four expressions of pydantic's are for other names than ours."""
    words = field.split("_")
    if not (field.isascii() and field.islower() and all(map(str.isalpha, words))):
        return to_camel(field)
    return words[0] + "".join(map(str.capitalize, words[1:]))


def file_key(field: str) -> str:
    """Return the key of a field in a file: `max_wait_s` is written `maxWait`."""
    return camel_case(field.removesuffix("_s"))


class Section(BaseModel):
    """A part of a file: frozen, camelCase when written, snake_case in code.

    A field in seconds ends in `_s`; its key in a file does not, because durations are written
    with their unit. A section's default is `Part.model_construct()`: unlike `Part()` it builds no
    validator, so that a program pays for the sections that its files have.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(validation_alias=file_key, serialization_alias=file_key),
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # a model's validator is built when a file has the section
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:  # Any: what deepcopy keeps
        """Return itself: it is frozen, and every use of a section as a default copies it."""
        del memo
        return self


class _NeedsRestart:
    """Marks a field of the settings, with all below it, that is read at start-up alone."""


NEEDS_RESTART: Final = _NeedsRestart()
"""`Annotated[int, NEEDS_RESTART]`: a reload keeps the old value and logs a warning."""


def needs_restart(field: FieldInfo) -> bool:
    """Return whether a changed value of the field has an effect after a restart alone."""
    return NEEDS_RESTART in field.metadata


class PluginArgs(BaseModel):
    """Base of a plugin's arguments: frozen, camelCase in files, unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=camel_case,
        populate_by_name=True,
        arbitrary_types_allowed=True,
        defer_build=True,  # a model's validator is built when a policy enables the plugin
    )


def _read_duration(written: object, info: ValidationInfo) -> float:
    """Parse a duration; code, unlike a file, may also pass seconds as a number."""
    if info.mode == "python" and type(written) in (int, float):
        return float(written)  # type: ignore[arg-type]  # the line above has looked
    if not isinstance(written, str):
        shown = f"write {written}s for seconds" if type(written) is int else ""
        raise field_error(
            "must be a duration such as 90s or 1h30m", shown, rule=Rule.NOT_A_DURATION
        )
    try:
        return parse_duration(written)
    except DurationError as error:
        wrong = FieldError(
            f"{quote(written)} {error}",
            error.hint,
            rule=Rule.NOT_A_DURATION,
            fix=fix_to(error.accepted),
        )
        raise FieldErrors([wrong]) from error


def _read_seconds(written: object, info: ValidationInfo) -> float:
    """Parse a duration of zero or more."""
    seconds = _read_duration(written, info)
    if seconds < 0 and isinstance(written, str):
        raise field_error(f"must not be negative; got {quote(written)}", rule=Rule.OUT_OF_BOUNDS)
    return seconds


def _check_count(number: int, info: ValidationInfo) -> int:
    """Report a number below zero, which upstream treats as zero."""
    if number < 0:
        error = FieldError(
            f"must be at least 0, not {number}", "write 0", lenient_ok=True, rule=Rule.OUT_OF_BOUNDS
        )
        raise_field_errors([error], info.context)
    return max(0, number)


def read_selector(written: object) -> Selector:
    """Parse a label selector in text form; code may also pass a parsed one."""
    if isinstance(written, Selector):
        return written
    if not isinstance(written, str):
        hint = 'write labels as one text, for example "pool=blue,zone in (a,b)"'
        raise field_error("must be a label selector in text form", hint, rule=Rule.LABEL_SELECTOR)
    try:
        return parse_selector(written)
    except SelectorError as error:
        raise field_error(str(error), rule=Rule.LABEL_SELECTOR) from error


Count = Annotated[int, Field(ge=0, le=UINT64_MAX)]
"""A whole number, zero or more."""

PositiveCount = Annotated[int, Field(ge=1, le=UINT64_MAX)]
"""A whole number, one or more."""

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
"""The JSON Schema of a selector in text form."""

Seconds = Annotated[float, PlainValidator(_read_seconds), _AS_DURATION]
"""A Go duration text (`90s`, `1h30m`), zero or more; held in seconds."""


def longer_than_zero(example: str) -> AfterValidator:
    """Return a mark for a field in seconds that must not be 0; the hint has the example."""

    def check(seconds: float) -> float:
        if seconds <= 0:
            hint = f"write for example {example}"
            raise field_error("must be longer than 0s", hint, rule=Rule.NOT_LONGER_THAN_ZERO)
        return seconds

    return AfterValidator(check)


PositiveSeconds = Annotated[Seconds, longer_than_zero("1h")]
"""A duration that is longer than zero; `longer_than_zero` has another example in its hint."""

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


class AnyOf(Struct, frozen=True):
    """Annotates a list of texts of which each must be one of those allowed.

    `what` is the list's name in a file. The JSON Schema lists the allowed texts.
    """

    what: str
    allowed: tuple[str, ...]

    def __get_pydantic_core_schema__(
        self,
        source: Any,  # Any: an annotation
        handler: GetCoreSchemaHandler,
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        written = handler(schema)
        written["items"] = {"type": "string", "enum": list(self.allowed)}
        return written

    def _check(self, values: tuple[str, ...]) -> tuple[str, ...]:
        raise_field_errors(
            self._error(index, value)
            for index, value in enumerate(values)
            if value not in self.allowed
        )
        return values

    def _error(self, index: int, value: str) -> FieldError:
        meant = nearest_name(value, self.allowed)
        guess = f"did you mean {meant}? " if meant else ""
        hint = f"{guess}{self.what} must be one of [{' '.join(self.allowed)}]"
        return FieldError(
            f"{quote(value)} cannot be in {self.what}",
            hint,
            (index,),
            rule=Rule.UNKNOWN_VALUE,
            fix=fix_to(sole_near_name(value, self.allowed)),
        )


def _check_percent(written: object) -> object:
    """Explain that "20%" is a text and no number."""
    if isinstance(written, str) and written.endswith("%"):
        number = written.removesuffix("%").strip()
        wrong = FieldError(
            f"must be a number, not the text {quote(written)}",
            f"write {number} without quotes",
            rule=Rule.WRONG_TYPE,
            fix=fix_to(number, is_yaml=True) if number.isdecimal() else None,
        )
        raise FieldErrors([wrong])
    return written


Percent = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_check_percent)]
"""A number of per cent: 20 is a fifth, 0.2 is a five-hundredth."""

Percentages = Mapping[str, Percent]
"""Per cent by resource (`cpu`, `memory`, `pods`, any extended resource)."""


def percentage_errors(written: Percentages) -> Iterator[FieldError]:
    """Yield an error for each value outside 0 to 100, and one where there is none."""
    if not written:
        hint = "write per cent by resource, for example cpu: 20"
        yield FieldError("no resource has a threshold here", hint, rule=Rule.THRESHOLD_RANGE)
    for resource, percent in written.items():
        if not 0 <= percent <= _ALL:
            message = f"must be from 0 to {_ALL} per cent, not {percent:g}"
            yield FieldError(message, path=(resource,), rule=Rule.THRESHOLD_RANGE)


def fraction_warnings(written: Percentages | None) -> Iterator[FieldError]:
    """Warn of values between 0 and 1, which are probably meant as fractions."""
    for resource, percent in (written or {}).items():
        if 0 < percent < 1:
            hint = f"write {percent * _ALL:g} for {percent * _ALL:g} %"
            yield FieldError(
                f"{percent:g} is less than one per cent",
                hint,
                (resource,),
                rule=Rule.FRACTION_OF_PERCENT,
            )
