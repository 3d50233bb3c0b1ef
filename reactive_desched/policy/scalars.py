"""What an unquoted YAML word means: as the Go reader of upstream policies understands it."""

import math
import re
from typing import Final

from reactive_desched.policy.tree import Plain

_TRUE: Final = frozenset(
    ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"),
)
_FALSE: Final = frozenset(
    ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"),
)
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))

_WHOLE: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_REAL: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_WHOLE: Final = 80
_OLD_OCTAL: Final = re.compile(r"[-+]?0[0-7]+")


class NotFiniteError(ValueError):
    """A number is infinite, not a number, or too large to hold."""


def understand(word: str) -> Plain:
    """Give the value of an unquoted word; raises NotFiniteError.

    Whole floats become integers (3.0 passes for 3), as YAML becomes JSON before it is decoded.
    """
    if word in _NULL:
        return None
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if word[:1] in "+-.0123456789":
        return _number(word.replace("_", ""), word)
    return word


def _number(digits: str, word: str) -> int | float | str:
    """Give the number a word writes, or the word itself when it is none."""
    if len(digits) <= _LONGEST_WHOLE and _WHOLE.fullmatch(digits):
        return int(digits, 8) if _OLD_OCTAL.fullmatch(digits) else int(digits, 0)
    if _REAL.fullmatch(digits):
        return _whole_if_possible(float(digits))
    if _NOT_FINITE.fullmatch(word):
        raise NotFiniteError
    return word


def _whole_if_possible(number: float) -> int | float:
    """Give an integer for a whole float."""
    if not math.isfinite(number):
        raise NotFiniteError
    return int(number) if number.is_integer() else number
