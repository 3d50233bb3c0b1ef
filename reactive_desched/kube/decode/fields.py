"""What every reader needs: shared parts, quantities, moments and versions."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from reactive_desched.kube.decode.interning import InternTable

__all__ = ["epoch_seconds", "intern_field", "parse_resource_version", "quantity_texts"]

V = TypeVar("V")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_S: Final = 86_400
_MAX_VERSION_DIGITS: Final = 20


def intern_field(table: InternTable[bytes, V], raw: Raw, decode: Callable[[bytes], V]) -> V:
    """Return the shelf's value for this text, decoding it when it is new.

    The text is copied: a Raw would keep its whole page alive.
    """
    text = bytes(raw)
    found = table.get(text)
    return _decode_and_intern(table, text, decode) if found is None else found


def _decode_and_intern(
    table: InternTable[bytes, V], text: bytes, decode: Callable[[bytes], V]
) -> V:
    try:
        return table.put(text, decode(text))
    except ValueError as error:
        error.add_note(f"in its {table.name}")
        raise


def quantity_texts(resources: Mapping[str, Raw]) -> dict[str, str]:
    """Return a resource list as texts; a bare JSON number counts as its text."""
    texts = ((resource, bytes(raw)) for resource, raw in resources.items())
    return {
        resource: msgspec.json.decode(text, type=str) if text[:1] == b'"' else text.decode()
        for resource, text in texts
    }


def epoch_seconds(moment: datetime | None) -> int | None:
    """Return whole seconds since the epoch, None when there is no such moment."""
    if moment is None:
        return None
    since = moment - _EPOCH
    return since.days * _DAY_S + since.seconds


def parse_resource_version(text: str) -> int:
    """Return a resource version as a number, 0 when it is not one."""
    if text.isdecimal() and text.isascii() and len(text) <= _MAX_VERSION_DIGITS:
        return int(text)
    return 0
