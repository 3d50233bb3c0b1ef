"""Which records `events` shows, and where it writes them: of a folder as of a server."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from reactive_desched.cli.controller_client import ControllerClient
from reactive_desched.cli.record_filters import FilterValues
from reactive_desched.journal.records import JournalRecord, recorded_at


class TailOptions(Struct, frozen=True, kw_only=True):
    """What the command line said: a controller or a journal; `last` counts without a start."""

    controller: ControllerClient | None = None
    journal: Path | None = None
    start: str | None = None
    until: datetime | None = None
    last: int = 10
    follow: bool = False
    filters: FilterValues = {}
    output: str = "table"


class Printer(Protocol):
    """Shows records."""

    def show(self, records: Iterable[JournalRecord]) -> None:
        """Write them and have them seen."""
        ...


def is_before(entry: JournalRecord, until: datetime | None) -> bool:
    """Return whether a record was written before a moment; a damaged line counts as such."""
    return until is None or (written := recorded_at(entry.raw)) is None or written < until
