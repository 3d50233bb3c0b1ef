"""A short name for a pod template, the same whenever the template is the same."""

import hashlib
from typing import Any, Final

import msgspec

__all__ = ["template_hash"]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


def template_hash(template: Any) -> str:
    """Return ten characters that are safe in names and labels; null is the same as absent."""
    canonical = msgspec.json.encode(_without_nulls(template), order="sorted")
    number = int.from_bytes(hashlib.sha256(canonical).digest()[:8], "big")
    digits: list[str] = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(v) for key, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value
