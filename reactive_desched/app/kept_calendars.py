"""Keeps on disk, beside the journal, the times of calendars: a restart need not wait for them."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.journal import atomic_files
from reactive_desched.policy.settings.limits import CalendarSettings
from reactive_desched.policy.wall_windows import Span

FILE: Final = "calendars.json"


class KeptCalendar(Struct, frozen=True):
    """The times of a calendar's events, and when it was read, in seconds since the epoch."""

    read_s: float
    spans: tuple[Span, ...]


KeptCalendars = Mapping[str, KeptCalendar]
"""What was read of each calendar, by its `digest_of`."""

_decode: Final = msgspec.json.Decoder(dict[str, KeptCalendar]).decode


def digest_of(calendar: CalendarSettings, zone: str) -> str:
    """Return what names a calendar on disk: its address may be a secret."""
    return sha256(f"{calendar.file}\n{calendar.url}\n{zone}".encode()).hexdigest()


def read_kept(directory: Path) -> KeptCalendars:
    """Return what an earlier process kept; blocks.

    Raises OSError, and ValueError for a file that no controller wrote.
    """
    try:
        return _decode((directory / FILE).read_bytes())
    except FileNotFoundError:
        return {}


def write_kept(directory: Path, kept: KeptCalendars) -> None:
    """Keep this in place of what was there, all or nothing; blocks, and raises OSError."""
    atomic_files.replace(directory / FILE, msgspec.json.encode(kept))
