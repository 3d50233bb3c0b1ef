"""A short name for a pod template, the same whenever the template is the same."""

import hashlib
from typing import Any, Final

import msgspec

__all__ = ["template_hash"]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


def template_hash(template: Any) -> str:
    """Return ten characters that are safe in names and labels."""
    canonical = msgspec.json.encode(template, order="sorted")
    number = int.from_bytes(hashlib.sha256(canonical).digest()[:8], "big")
    digits: list[str] = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
