"""Kubernetes resource quantities as exact integers: "250m" of cpu, "1.5Gi" of memory.

As apimachinery's resource.Quantity: decimal, binary and exponent suffixes, at most nano
precision, rounded away from zero; binary ones end at 2^63-1. Floats never appear.
"""

import re
from fractions import Fraction
from typing import Final

from reactive_desched.errors import QuantityError

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
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
_BINARY: Final = frozenset({"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
_NANO: Final = 10**9
_KIBI: Final = 1024
_BINARY_SUFFIXES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES: Final = ("u", "m", "", "k", "M", "G", "T", "P", "E")
# Nearly every quantity is an integer with one of these; they need no fractions.
_PLAIN: Final = re.compile(r"([0-9]{1,62})([KMGTPE]i|[numkMGTPE])?")
_MILLI_SCALE: Final = {
    suffix: int(scale * 1000) for suffix, scale in _SCALE.items() if suffix not in ("n", "u")
}
_PER_MILLI: Final = {"n": 10**6, "u": 10**3}
# Quantities with a binary suffix are capped here, as upstream does.
_BINARY_MAX: Final = 2**63 - 1
# An exponent past this is a typing error, and computing it would take memory without bound.
_MAX_EXPONENT: Final = 30
_MAX_LENGTH: Final = 64


def parse_quantity(text: str) -> Fraction:
    """Return the exact value of a quantity, rounded away from zero at one nano.

    Raises QuantityError when the text is not a quantity ("1KB", "1 Gi", "").
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
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
    nano = _capped(Fraction(_ceil(value * _NANO), _NANO), match["suffix"])
    return -nano if match["sign"] == "-" else nano


def milli_value(text: str) -> int:
    """Return thousandths, rounded away from zero (as Quantity.MilliValue): "0.1m" is 1."""
    if (plain := _plain_milli_value(text)) is not None:
        return plain
    return _away_from_zero(parse_quantity(text) * 1000)


def integer_value(text: str) -> int:
    """Return units, rounded away from zero (as Quantity.Value): "1500m" is 2."""
    if (plain := _plain_milli_value(text)) is not None:
        return -(-plain // 1000)
    return _away_from_zero(parse_quantity(text))


def canonical_quantity(text: str) -> str:
    """Return a quantity as the API server writes it: the largest suffix without a fraction.

    "0.5" is 500m and 1024Mi is 1Gi; a binary suffix becomes a decimal one where bytes would be
    lost, and below 1,024. Raises QuantityError when the text is not a quantity.
    """
    value, match = parse_quantity(text), _QUANTITY.fullmatch(text)
    if not value or match is None:
        return "0"
    if match["suffix"] in _BINARY and abs(value) >= _KIBI and value.denominator == 1:
        return _shortened(value, _KIBI, "", _BINARY_SUFFIXES)
    units = value * _NANO
    if match["exponent"] is not None:
        number, power = int(units), -9
        while number % 1000 == 0:
            number, power = number // 1000, power + 3
        return f"{number}e{power}" if power else str(number)
    return _shortened(units, 1000, "n", _DECIMAL_SUFFIXES)


def _shortened(value: Fraction, step: int, first: str, suffixes: tuple[str, ...]) -> str:
    number, suffix = int(value), first
    for each in suffixes:
        if number % step:
            break
        number, suffix = number // step, each
    return f"{number}{suffix}"


def _plain_milli_value(text: str) -> int | None:
    """Return thousandths of an unsigned integer with a common suffix, None for other shapes."""
    match = _PLAIN.fullmatch(text)
    if match is None:
        return None
    number, suffix = match.groups()
    if (parts := _PER_MILLI.get(suffix)) is not None:  # as metrics-server measures cpu
        return -(-int(number) // parts)
    value = int(number) * _MILLI_SCALE[suffix]
    return min(value, _BINARY_MAX * 1000) if suffix in _BINARY else value


def _capped(value: Fraction, suffix: str | None) -> Fraction:
    return min(value, Fraction(_BINARY_MAX)) if suffix in _BINARY else value


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _away_from_zero(value: Fraction) -> int:
    return _ceil(value) if value >= 0 else -_ceil(-value)
