"""A journal's folder that can be kept: closed segments, and one being written."""

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from reactive_desched.api.event import JOURNAL_LOST, Event, JournalLost, dataschema
from reactive_desched.errors import JournalUnavailable
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import GENESIS, encode, format_line
from reactive_desched.journal.segments import list_segments, read_records, segment_at
from reactive_desched.journal.upkeep.retention_worker import (
    RetentionConfig,
    RetentionInputs,
    RetentionWorker,
)
from reactive_desched.policy.settings.recording import RetentionSettings
from reactive_desched.primitives.wakeup import Epoch

__all__ = ["DAY_S", "NOW", "RetainedJournal", "size_limits"]

NOW: Final = 1_790_000_000.0
"""The wall clock of those who keep it."""

DAY_S: Final = 86_400.0
RECORDED: Final = datetime.fromtimestamp(NOW - DAY_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
"""When every record was written."""


class _RecordingLogger:
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


def _loss_line(seq: int, sink: str, first: int, last: int) -> bytes:
    """Return a line that tells a loss."""
    event_ = Event(
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
    return format_line(encode(event_), GENESIS, RECORDED, seq)


def _write_segment(folder: Path, first: int) -> None:
    """Write a closed segment of ten records of a day ago."""
    path = segment_at(folder, first).path
    text = (_loss_line(seq, "nobody", seq, seq) for seq in range(first, first + 10))
    path.write_bytes(b"".join(one + b"\n" for one in text))
    os.utime(path, (NOW - DAY_S, NOW - DAY_S))


class RetainedJournal:
    """A journal in a folder: closed segments of ten records, about 6 KiB each, and an open one.

    `read_to` says how far each sink has read. While `unavailable`, no loss can be recorded. Its
    clock, `wall`, stands still until a test sets it.
    """

    def __init__(self, folder: Path, closed: int = 0, **read_to: int) -> None:
        for number in range(closed):
            _write_segment(folder, 10 * number + 1)
        if closed:
            segment_at(folder, 10 * closed + 1).path.touch()
        self.folder = folder
        self.acked_seqs = read_to
        self.oldest_open_seq: int | None = None
        self.unavailable = False
        self.wall = NOW
        self.log = _RecordingLogger()
        self.segments = Epoch()
        self.removing: list[tuple[int, list[int]]] = []
        last = list_segments(folder)[-1]
        self.active_first_seq = last.first_seq
        self._next = last.first_seq + len(list(read_records(last)))

    def reopened(self, folder: Path) -> "RetainedJournal":
        """Return the writer that a new process has of a copy of the folder."""
        return RetainedJournal(folder, **self.acked_seqs)

    def roll(self) -> None:
        """Close the open segment and begin another."""
        self.active_first_seq += 10
        segment_at(self.folder, self.active_first_seq).path.touch()

    def pass_time(self, seconds: float) -> None:
        """Let time go on."""
        self.wall += seconds

    async def record_loss(self, sink: str, first: int, last: int) -> None:
        """Record a loss in the open segment."""
        if self.unavailable:
            raise JournalUnavailable("No space left on device")
        with segment_at(self.folder, self.active_first_seq).path.open("ab") as file:
            file.write(_loss_line(self._next, sink, first, last) + b"\n")
        self._next += 1

    def retention_worker(
        self,
        retention: RetentionSettings | None = None,
        *,
        compress: bool = False,
        record_loss: Callable[[str, int, int], Awaitable[None]] | None = None,
    ) -> RetentionWorker:
        """Return a keeper of the folder, by default one that only looks."""
        followed = RetentionInputs(
            active_first_seq=lambda: self.active_first_seq,
            oldest_open_seq=lambda: self.oldest_open_seq,
            acked_seqs=lambda: self.acked_seqs,
        )
        return RetentionWorker(
            self.folder,
            followed,
            RetentionConfig(retention=retention or RetentionSettings(), compress=compress),
            record_loss or self.record_loss,
            segments=self.segments,
            log=self.log,
            clock=lambda: self.wall,
            on_remove=lambda oldest: self.removing.append((oldest, self.first_seqs())),
        )

    def file_names(self) -> list[str]:
        """Return the names of all files that are no notes."""
        files = (path for path in self.folder.iterdir() if path.is_file())
        return sorted(path.name for path in files if path.suffix != ".json")

    def first_seqs(self) -> list[int]:
        """Return the first sequences of the segments."""
        return [one.first_seq for one in list_segments(self.folder)]

    def losses(self) -> list[tuple[str, int, int]]:
        """Return the losses told in the open segment."""
        lines = read_records(segment_at(self.folder, self.active_first_seq))
        recorded = (decode_event(JOURNAL_LOST, one.raw) for one in lines)
        return [(it.data.sink, it.data.first, it.data.last) for it in recorded if it]


def size_limits(max_kib: float = 1024.0, hard_kib: float = 2048.0) -> RetentionSettings:
    """Return limits of size."""
    return RetentionSettings(max_bytes=int(max_kib * 1024), hard_max_bytes=int(hard_kib * 1024))
