"""A journal's folder that can be kept: closed segments, and one being written."""

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from reactive_desched.api.event import JOURNAL_LOST, Event, JournalLost, dataschema
from reactive_desched.errors import JournalUnavailable
from reactive_desched.journal.events import event
from reactive_desched.journal.records import GENESIS, encode, line
from reactive_desched.journal.segments import entries, segment, segments
from reactive_desched.journal.upkeep.retention_worker import Bounds, Followed, Keeper
from reactive_desched.policy.recording import Retention

__all__ = ["DAY_S", "NOW", "KeptJournal", "within"]

NOW: Final = 1_790_000_000.0
"""The wall clock of those who keep it."""

DAY_S: Final = 86_400.0


class _Lines:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.infos: list[str] = []
        self.warnings: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **_values: Any) -> None:  # as the keeper's log
        """Keep what it says."""
        self.infos.append(event)

    def warning(self, event: str, **values: Any) -> None:  # as the keeper's log
        """Keep it."""
        self.warnings.append((event, values))


def _told_line(seq: int, sink: str, first: int, last: int) -> bytes:
    """Return a line that tells a loss."""
    told = Event(
        id=f"e.lost.{sink}.{first}",
        source="//c/descheduler/i/e",
        specversion="1.0",
        type=JOURNAL_LOST,
        datacontenttype="application/json",
        dataschema=dataschema(JOURNAL_LOST),
        subject=sink,
        time=datetime(2026, 11, 20, tzinfo=UTC),
        partitionkey="e",
        correlationid="e",
        causationid="e",
        traceparent="00-0-0-00",
        data=JournalLost(first=first, last=last, sink=sink),
    )
    return line(encode(told), GENESIS, "2026-11-20T00:00:00Z", seq)


def _write_segment(folder: Path, first: int) -> None:
    """Write a closed segment of ten records, last written a day ago."""
    path = segment(folder, first).path
    text = (_told_line(seq, "nobody", seq, seq) for seq in range(first, first + 10))
    path.write_bytes(b"".join(one + b"\n" for one in text))
    os.utime(path, (NOW - DAY_S, NOW - DAY_S))


class KeptJournal:
    """A journal in a folder: closed segments of ten records, about 6 KiB each, and an open one.

    `read_to` says how far each sink has read. While `unavailable`, no loss can be recorded. Its
    clocks, `wall` and `monotonic`, stand still until somebody sets them.
    """

    def __init__(self, folder: Path, closed: int = 0, **read_to: int) -> None:
        for number in range(closed):
            _write_segment(folder, 10 * number + 1)
        if closed:
            segment(folder, 10 * closed + 1).path.touch()
        self.folder = folder
        self.read_to = read_to
        self.oldest_open: int | None = None
        self.unavailable = False
        self.wall, self.monotonic = NOW, 1000.0
        self.log = _Lines()
        self.removing: list[tuple[int, list[int]]] = []
        last = segments(folder)[-1]
        self.open_from = last.first_seq
        self._next = last.first_seq + len(list(entries(last)))

    def again(self, folder: Path) -> "KeptJournal":
        """Return the writer that a new process has of a copy of the folder."""
        return KeptJournal(folder, **self.read_to)

    def roll(self) -> None:
        """Close the open segment and begin another."""
        self.open_from += 10
        segment(self.folder, self.open_from).path.touch()

    def pass_time(self, seconds: float) -> None:
        """Let time go on."""
        self.wall += seconds
        self.monotonic += seconds

    async def lost(self, sink: str, first: int, last: int) -> None:
        """Record a loss in the open segment."""
        if self.unavailable:
            raise JournalUnavailable("No space left on device")
        with segment(self.folder, self.open_from).path.open("ab") as file:
            file.write(_told_line(self._next, sink, first, last) + b"\n")
        self._next += 1

    def keeper(
        self,
        retention: Retention | None = None,
        *,
        compress: bool = False,
        lost: Callable[[str, int, int], Awaitable[None]] | None = None,
    ) -> Keeper:
        """Return a keeper of the folder, by default one that only looks."""
        followed = Followed(
            open_from=lambda: self.open_from,
            oldest_open=lambda: self.oldest_open,
            read_to=lambda: self.read_to,
        )
        return Keeper(
            self.folder,
            followed,
            Bounds(retention=retention or Retention(), compress=compress),
            lost or self.lost,
            log=self.log,
            clock=lambda: self.wall,
            monotonic=lambda: self.monotonic,
            removing=lambda oldest: self.removing.append((oldest, self.firsts())),
        )

    def names(self) -> list[str]:
        """Return the names of all files that are no notes."""
        files = (path for path in self.folder.iterdir() if path.is_file())
        return sorted(path.name for path in files if path.suffix != ".json")

    def firsts(self) -> list[int]:
        """Return the first sequences of the segments."""
        return [one.first_seq for one in segments(self.folder)]

    def losses(self) -> list[tuple[str, int, int]]:
        """Return the losses told in the open segment."""
        lines = entries(segment(self.folder, self.open_from))
        found = (event(JOURNAL_LOST, one.raw) for one in lines)
        return [(it.data.sink, it.data.first, it.data.last) for it in found if it]


def within(max_kib: float = 1024.0, hard_kib: float = 2048.0) -> Retention:
    """Return limits of size."""
    return Retention(max_bytes=int(max_kib * 1024), hard_max_bytes=int(hard_kib * 1024))
