"""Numbers that may be written as a percentage of a total: "25%" or 3."""

from typing import Any

__all__ = ["share_of"]


def share_of(value: Any, total: int, *, round_up: bool) -> int:
    """Return an int as it is, and a percentage of the total, rounded as asked.

    Raises ValueError for anything else, with the words of the real API machinery.
    """
    if isinstance(value, int):
        return value
    text = str(value)
    number = text.removesuffix("%")
    if not text.endswith("%") or not number.isdecimal():
        raise ValueError(f'invalid value for IntOrString: invalid type: "{text}" is no percentage')
    scaled = int(number) * total
    return -(-scaled // 100) if round_up else scaled // 100
