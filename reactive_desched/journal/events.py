"""Lines back to events: what recovery, the audit and tests read of a record."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reactive_desched.api.event import DATA_TYPES, Event
from reactive_desched.journal.records import AnyEvent
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

_decoders: Final[Mapping[str, msgspec.json.Decoder[AnyEvent]]] = {
    type_: msgspec.json.Decoder(Event[data])  # type: ignore[valid-type]  # made from the table of types
    for type_, data in DATA_TYPES.items()
}
_fallback_decoder: Final[msgspec.json.Decoder[AnyEvent]] = msgspec.json.Decoder(Event[Any])


def decode_event(type_: str, raw: bytes) -> AnyEvent | None:
    """Return the event of a line of this type; None when it is damaged.

    The data of a type unknown here, one of a later version, is plain JSON.
    """
    try:
        return _decoders.get(type_, _fallback_decoder).decode(raw)
    except DECODE_ERRORS:
        return None
