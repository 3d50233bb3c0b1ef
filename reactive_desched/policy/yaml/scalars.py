"""Reads a YAML scalar as kubectl and the SIG descheduler do, by sigs.k8s.io/yaml.

It reads YAML 1.1 with `go.yaml.in/yaml/v2` and writes JSON: octal numbers and `yes` are as in 1.1,
times and numbers to the base sixty stay texts, what no number of 64 bits can hold is one or a text.
`tests/policy/yaml/sigs_yaml/` has its own answers for a thousand documents.
"""

import binascii
import math
import re
import struct
from datetime import date
from decimal import Decimal
from typing import Final, Literal

from reactive_desched.policy.yaml.tree import PlainValue

__all__ = [
    "NotFiniteError",
    "WrongTagError",
    "is_octal",
    "parse_key",
    "parse_scalar",
    "parse_tagged",
]

_Kind = Literal["bool", "float", "int", "null", "str"]

_WORDS: Final[dict[str, tuple[_Kind, PlainValue]]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", None)),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), ("bool", True)),
    **dict.fromkeys(("true", "True", "TRUE"), ("bool", True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), ("bool", False)),
    **dict.fromkeys(("false", "False", "FALSE"), ("bool", False)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), ("float", math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), ("float", -math.inf)),
}
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_NUMBER_CHARACTERS: Final = frozenset("+-._0123456789abcdefABCDEFoOxX")
_TAGS: Final = "tag:yaml.org,2002:"
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
_MOST_DECIMALS: Final = 20
"""More digits than this are too many for 64 bits."""

_EXPONENT_FROM: Final = 1e21
"""From here on JSON that Go writes has an exponent."""

_KEY_EXPONENTS: Final = range(-4, 6)
"""The exponents of numbers that Go writes without one where it writes the shortest text."""


class NotFiniteError(ValueError):
    """A number is infinite or not a number: JSON has none."""


class WrongTagError(ValueError):
    """A scalar is not what its tag says."""


def parse_scalar(text: str) -> PlainValue:
    """Return the value of a word without quotes and tag; raises NotFiniteError.

    Whole floats become integers (3.0 passes for 3), as YAML becomes JSON before it is decoded.
    """
    return _json_value(_resolve(text)[1])


def parse_tagged(text: str, tag: str) -> PlainValue:
    """Return the value of a scalar with a tag, quoted or not; a tag of one's own makes it a text.

    Raises WrongTagError, and NotFiniteError.
    """
    return _json_value(_resolve_tagged(text, tag)[1])


def parse_key(text: str, tag: str | None = None) -> str | None:
    """Return the key of JSON that a key without quotes becomes: `yes` is "true".

    None where kubectl refuses it: null, and a whole number for which 63 bits do not suffice.
    Raises WrongTagError.
    """
    match _resolve(text) if tag is None else _resolve_tagged(text, tag):
        case "bool", value:
            return "true" if value else "false"
        case "int", int() as number:
            return str(number) if number <= _INT64_MAX else None
        case "float", float() as number:
            return _float_key(number)
        case _, str() as word:
            return word
    return None


def is_octal(text: str, value: PlainValue) -> bool:
    """Return whether a word is a number that begins with 0, such as 0600: it is read as octal."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and re.fullmatch(r"[-+]?0[0-7]+", text.replace("_", "")) is not None


def _json_value(value: PlainValue) -> PlainValue:
    """Return a whole float as an integer, as JSON has it; raise NotFiniteError."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise NotFiniteError
    if not value.is_integer() or abs(value) >= _EXPONENT_FROM:
        return value
    return int(Decimal(repr(value)))  # in digits that suffice to name it


def _resolve(text: str) -> tuple[_Kind, PlainValue]:
    """Return what kind of value a word is, and the value, as go-yaml resolves it."""
    if (word := _WORDS.get(text)) is not None:
        return word
    if text[0] not in _NUMBER_STARTS or not _NUMBER_CHARACTERS.issuperset(text):
        return "str", text
    if text[0] == ".":
        number = _parse_fraction(text)
        return ("str", text) if number is None else ("float", number)
    digits = text.replace("_", "")
    if (whole := _parse_whole(digits)) is not None:
        return "int", whole
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", digits):
        number = float(digits)
        return ("float", number) if math.isfinite(number) else ("str", text)
    return "str", text


def _resolve_tagged(text: str, tag: str) -> tuple[_Kind, PlainValue]:
    """Return what kind of value a scalar with a tag is, and the value; raise WrongTagError."""
    name = tag.removeprefix(_TAGS)
    if name == "binary":
        return "str", _decode_base64(text)
    if name == tag or name not in ("bool", "float", "int", "null", "timestamp"):
        return "str", text
    kind, value = _resolve(text)
    if name == "timestamp" and _is_timestamp(text):
        return "str", text
    if name == "float" and kind == "int" and isinstance(value, int) and value <= _INT64_MAX:
        return "float", float(value)
    if kind != name:
        raise WrongTagError
    return kind, value


def _parse_fraction(text: str) -> float | None:
    """Read a number that begins with a point, by Go's rules: underscores only between digits."""
    if not re.fullmatch(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?", text):
        return None
    number = float(text.replace("_", ""))
    return number if math.isfinite(number) else None


def _parse_whole(digits: str) -> int | None:
    """Read a whole number of 64 bits; without a sign it may be one of 64 bits without one."""
    if re.fullmatch(r"[-+]?(0|[1-9][0-9]*)", digits):
        number = int(digits) if len(digits) <= _MOST_DECIMALS else _UINT64_MAX + 1
    elif re.fullmatch(r"[-+]?0[0-7]+", digits):
        number = int(digits, 8)
    elif re.fullmatch(r"[-+]?0([xX][0-9a-fA-F]+|[bB][01]+|[oO][0-7]+)", digits):
        number = int(digits, 0)
    elif signed := re.fullmatch(r"0b([-+][01]+)", digits):  # Go tries what follows 0b alone, too
        number = int(signed[1], 2)
        return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None
    else:
        return None
    most = _INT64_MAX if digits[0] in "+-" else _UINT64_MAX
    return number if -_INT64_MAX - 1 <= number <= most else None


def _decode_base64(text: str) -> str:
    """Return the text that base64 holds; each byte that is not UTF-8 becomes U+FFFD."""
    written = text.replace("\r", "").replace("\n", "")
    try:
        decoded = binascii.a2b_base64(written, strict_mode=True).decode(errors="surrogateescape")
    except ValueError as error:
        raise WrongTagError from error
    return re.sub("[\udc80-\udcff]", "\ufffd", decoded)


def _is_timestamp(text: str) -> bool:
    """Return whether a text is a date, or a date with a time, as go-yaml reads them."""
    time = "([01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9]([.,][0-9]+)?"
    day = "([0-9]{4})-(1[0-2]|0?[1-9])-(3[01]|[0-2]?[0-9])"
    written = re.fullmatch(f"{day}([Tt]{time}(Z|[-+][0-9]{{2}}:[0-9]{{2}})| {time})?", text)
    if written is None:
        return False
    try:
        # years repeat after 400, and Go has a year 0
        date(int(written[1]) % 400 + 400, int(written[2]), int(written[3]))
    except ValueError:
        return False
    return True


def _float_key(number: float) -> str:
    """Write a number as the key that it becomes: the shortest text of 32 bits."""
    try:
        (single,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        single = math.copysign(math.inf, number)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    shortest = next(
        text
        for text in (f"{single:.{digits}e}" for digits in range(9))
        if struct.pack("f", float(text)) == struct.pack("f", single)
    )
    mantissa, exponent = shortest.split("e")
    if int(exponent) in _KEY_EXPONENTS:
        return f"{float(shortest):.{max(0, len(mantissa.partition('.')[2]) - int(exponent))}f}"
    return shortest
