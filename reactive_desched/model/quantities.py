"""Kubernetes resource quantities as exact integers: "250m" of cpu, "1.5Gi" of memory.

As apimachinery's resource.Quantity: decimal, binary and exponent suffixes, at most nano
precision, rounded away from zero. Floats never appear.
"""

import re
from fractions import Fraction
from typing import Final

from reactive_desched.errors import QuantityError

_SHAPE: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?"
)
_SCALE: Final = {
    None: Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_NANO: Final = 10**9
# An exponent past this is a typing error, and computing it would take memory without bound.
_MAX_EXPONENT: Final = 30
_MAX_LENGTH: Final = 64


def parse_quantity(text: str) -> Fraction:
    """Return the exact value of a quantity, rounded away from zero at one nano.

    Raises QuantityError when the text is not a quantity ("1KB", "1 Gi", "").
    """
    match = _SHAPE.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity; write for example 250m, 2, 1.5Gi or 1e3")
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > _MAX_EXPONENT:
        raise QuantityError(f"{text!r} has an exponent beyond ±{_MAX_EXPONENT}")
    number = match["number"]
    whole_part, _, fraction_part = number.partition(".")
    digits = int((whole_part + fraction_part) or 0)
    value = Fraction(digits, 10 ** len(fraction_part))
    value *= _SCALE[match["suffix"]] * Fraction(10) ** exponent
    nano = Fraction(_ceil(value * _NANO), _NANO)
    return -nano if match["sign"] == "-" else nano


def milli(text: str) -> int:
    """Return thousandths, rounded away from zero (as Quantity.MilliValue): "0.1m" is 1."""
    if text.isdecimal() and len(text) < _MAX_LENGTH:
        return int(text) * 1000
    return _away_from_zero(parse_quantity(text) * 1000)


def whole(text: str) -> int:
    """Return units, rounded away from zero (as Quantity.Value): "1500m" is 2."""
    if text.isdecimal() and len(text) < _MAX_LENGTH:
        return int(text)
    return _away_from_zero(parse_quantity(text))


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _away_from_zero(value: Fraction) -> int:
    return _ceil(value) if value >= 0 else -_ceil(-value)
