"""Lines back to events: what recovery, the audit and tests read of a record."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reactive_desched.api.event import DATA, Event
from reactive_desched.journal.records import AnyEvent
from reactive_desched.primitives.decode_errors import UNDECODABLE

_known: Final[Mapping[str, msgspec.json.Decoder[AnyEvent]]] = {
    type_: msgspec.json.Decoder(Event[data])  # type: ignore[valid-type]  # made from the table of types
    for type_, data in DATA.items()
}
_unknown: Final[msgspec.json.Decoder[AnyEvent]] = msgspec.json.Decoder(Event[Any])


def event(type_: str, raw: bytes) -> AnyEvent | None:
    """Return the event of a line of this type; None when it is damaged.

    The data of a type unknown here, one of a later version, is plain JSON.
    """
    try:
        return _known.get(type_, _unknown).decode(raw)
    except UNDECODABLE:
        return None
