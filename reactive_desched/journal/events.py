"""Lines back to events: what recovery, the audit and tests read of a record."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from reactive_desched.api.event import DATA_TYPES, Event
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import JournalLine, list_segments, read_lines
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


OnSkipped = Callable[[Path, JournalLine], None]


def _ignore_skipped(path: Path, line: JournalLine) -> None:
    """Take no notice of a skipped line."""


def read_events(directory: Path, on_skipped: OnSkipped = _ignore_skipped) -> Iterator[AnyEvent]:
    """Yield every event in the order written.

    Lines that are damaged go to `on_skipped`. A last line without its end is still being written,
    or torn: it is not a record, and is not reported.
    """
    for segment in list_segments(directory):
        for line in read_lines(segment):
            found = (
                decode_event(line.header.type, line.raw[:-1]) if line.header is not None else None
            )
            if found is not None:
                yield found
            elif line.raw.endswith(b"\n"):
                on_skipped(segment.path, line)
