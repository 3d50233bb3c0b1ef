"""Amounts of resources as text."""

from typing import Final

from reactive_desched.model.resources import CPU, MEMORY

_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_STEP: Final = 1024
_MAX_DIGITS: Final = 100
"""From here on no decimals are written."""

_MILLI: Final = 1000


def format_quantity(resource: str, amount: int) -> str:
    """Write an amount as an exact quantity; cpu is given in milli-cores."""
    if resource == CPU:
        return str(amount // _MILLI) if amount % _MILLI == 0 else f"{amount}m"
    return str(amount)


def format_rounded(resource: str, amount: int) -> str:
    """Write an amount for people: bytes in the largest binary unit, everything else exactly."""
    if resource != MEMORY and not resource.endswith("-storage"):
        return format_quantity(resource, amount)
    value, power = float(amount), 0
    while abs(value) >= _STEP and power < len(_BINARY_SUFFIXES) - 1:
        value, power = value / _STEP, power + 1
    digits = 0 if value >= _MAX_DIGITS or value == int(value) else 1
    return f"{value:.{digits}f}{_BINARY_SUFFIXES[power]}"
