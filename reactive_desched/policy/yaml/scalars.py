"""What an unquoted YAML word means: as the Go reader of upstream policies understands it."""

import math
import re
from typing import Final

from reactive_desched.policy.yaml.tree import PlainValue

_TRUE: Final = frozenset(
    ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"),
)
_FALSE: Final = frozenset(
    ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"),
)
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))

_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_MAX_INTEGER_CHARS: Final = 80
_OLD_OCTAL: Final = re.compile(r"[-+]?0[0-7]+")


class NotFiniteError(ValueError):
    """A number is infinite, not a number, or too large to hold."""


def parse_scalar(text: str) -> PlainValue:
    """Return the value of an unquoted word; raises NotFiniteError.

    Whole floats become integers (3.0 passes for 3), as YAML becomes JSON before it is decoded.
    """
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text[:1] in "+-.0123456789":
        return _parse_number(text.replace("_", ""), text)
    return text


def is_octal(text: str, value: PlainValue) -> bool:
    """Return whether a word is a number that begins with 0, such as 0600: it is read as octal."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and _OLD_OCTAL.fullmatch(text.replace("_", "")) is not None


def _parse_number(digits: str, text: str) -> int | float | str:
    """Return the number that a word denotes, or the word itself where it is none."""
    if len(digits) <= _MAX_INTEGER_CHARS and _INTEGER.fullmatch(digits):
        return int(digits, 8) if _OLD_OCTAL.fullmatch(digits) else int(digits, 0)
    if _FLOAT.fullmatch(digits):
        return _as_int_if_whole(float(digits))
    if _NOT_FINITE.fullmatch(text):
        raise NotFiniteError
    return text


def _as_int_if_whole(number: float) -> int | float:
    """Return an integer for a whole float."""
    if not math.isfinite(number):
        raise NotFiniteError
    return int(number) if number.is_integer() else number
