"""Keeps the journal's folder within its bounds while it is written and read."""

import errno
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from gzip import GzipFile
from os import SEEK_END
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import anyio
from anyio import from_thread, to_thread
from msgspec import Struct, field

from reactive_desched.errors import JournalError
from reactive_desched.journal.records import MAX_RECORD_BYTES, parse_header, recorded_at
from reactive_desched.journal.segments import READ_ERRORS, Segment, list_segments
from reactive_desched.journal.upkeep import compression, limits
from reactive_desched.journal.upkeep.limits import RetentionLimits
from reactive_desched.journal.upkeep.loss_log import LossLog
from reactive_desched.journal.upkeep.retention import (
    CleanupPlan,
    Loss,
    Pins,
    SegmentInfo,
    plan_cleanup,
)
from reactive_desched.policy.settings.recording import RetentionSettings
from reactive_desched.primitives.wakeup import Epoch
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge

INTERVAL_S: Final = 60.0
END_BYTES: Final = 4 * MAX_RECORD_BYTES
"""The age of a file is that of the last whole record in so many bytes at its end."""

_T = TypeVar("_T")

BYTES: Final = gauge(
    "journal_bytes", "Bytes of all segments, measured when a segment begins and every minute."
)
HARD_MAX_BYTES: Final = gauge(
    "journal_hard_max_bytes",
    "journal.retention.hardMaxBytes: beyond it segments are removed even if a "
    "sink has not read them.",
)
SEGMENTS: Final = gauge("journal_segments", "Segments there are.")
OLDEST_SEQUENCE: Final = gauge(
    "journal_oldest_sequence", "Sequence of the oldest record in the journal."
)
SEGMENTS_REMOVED: Final = counter("journal_segments_removed", "Segments removed by retention.")
UPKEEP_FAULTS: Final = counter(
    "journal_upkeep_faults",
    "Failures to compress or remove segments; each is retried.",
    "what",
)


class RetentionStats(Struct, kw_only=True):
    """The contents of the folder after the last round, and the removals of this process.

    `hard_max_bytes` is the cap on its bytes.
    """

    bytes: int = 0
    hard_max_bytes: int = 0
    segments: int = 0
    oldest_seq: int = 0
    rounds: int = 0
    compressed: int = 0
    removed: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)


class RetentionConfig(Struct, frozen=True, kw_only=True):
    """Limits on how long closed segments are kept, and whether they are compressed."""

    retention: RetentionSettings = RetentionSettings.model_construct()
    compress: bool = True


class RetentionInputs(Struct, frozen=True, kw_only=True):
    """Names what must stay in the journal, at every round; none of these calls may block.

    `active_first_seq` is the first sequence of the segment being written, `oldest_open_seq` that of
    the oldest intent without an outcome, and `acked_seqs` the last that each configured sink has.
    """

    active_first_seq: Callable[[], int]
    oldest_open_seq: Callable[[], int | None]
    acked_seqs: Callable[[], Mapping[str, int]]


LossRecorder = Callable[[str, int, int], Awaitable[object]]
"""Records that a sink lost the records from the first to the last; returns when that is durable."""


class RetentionWorker:
    """Compresses and removes closed segments: at once, when one is closed, and once a minute.

    It never touches the segment being written. A reader that has a file open reads it to its end.
    A fault of the disk, or of recording a loss, is counted and tried again in the next round.
    """

    def __init__(
        self,
        directory: Path,
        inputs: RetentionInputs,
        config: RetentionConfig,
        record_loss: LossRecorder,
        *,
        segments: Epoch,
        log: Logger,
        clock: Callable[[], float],
        on_remove: Callable[[int], None] = lambda _oldest: None,
    ) -> None:
        """Keep this folder; `clock` gives the wall clock's seconds, as records have them.

        When `segments` advances a segment was closed, and the next round begins at once.

        `on_remove` is called before files go, with what is the oldest sequence from then on.
        """
        self.stats = RetentionStats(hard_max_bytes=config.retention.hard_max_bytes)
        self._segments = segments
        self._directory = directory
        self._inputs = inputs
        self._config = config
        self._record_loss_event = record_loss
        self._log = log
        self._clock = clock
        self._oldest_recorded: tuple[int, float] | None = None  # first sequence, last record's time
        self._on_remove = on_remove
        self._loss_log = LossLog(directory)
        self._logged_faults: set[str] = set()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the journal's folder."""
        yield BYTES.value(self.stats.bytes)
        yield HARD_MAX_BYTES.value(self.stats.hard_max_bytes)
        yield SEGMENTS.value(self.stats.segments)
        yield OLDEST_SEQUENCE.value(self.stats.oldest_seq)
        yield SEGMENTS_REMOVED.value(self.stats.removed)
        yield UPKEEP_FAULTS.by_label(self.stats.faults)

    async def run(self, interval_s: float = INTERVAL_S) -> None:
        """Do a round now and after every interval, until cancelled."""
        await self.prepare()
        while True:
            begun = self._segments.number
            await self.run_once()
            with anyio.move_on_after(interval_s):
                await self._segments.wait_past(begun)

    async def prepare(self) -> None:
        """Write retention.json, for `audit status`."""
        with self._count_faults("write the limits"):
            retention = self._config.retention
            retention_limits = RetentionLimits(
                retention.max_bytes,
                retention.max_age_s,
                retention.hard_max_bytes,
                self._config.compress,
            )
            await _in_thread(limits.write, self._directory, retention_limits)

    async def run_once(self) -> None:
        """Do one round."""
        faults = sum(self.stats.faults.values())
        with self._count_faults("look"):
            await _in_thread(compression.remove_unfinished, self._directory)
            await self._compress(await self._scan())
            await self._remove(await self._scan())
            await self._scan()
        if faults == sum(self.stats.faults.values()):
            self._logged_faults.clear()
        self.stats.rounds += 1

    async def _scan(self) -> "_Scan":
        """List the segments and plan the cleanup."""
        active_first_seq = self._inputs.active_first_seq()
        acked_seqs = dict(self._inputs.acked_seqs())
        oldest_open_seq = self._inputs.oldest_open_seq()
        pins = Pins(
            active_first_seq=active_first_seq,
            oldest_open_seq=oldest_open_seq,
            acked_seqs=acked_seqs,
        )
        scan = await _in_thread(self._scan_files, pins)
        self.stats.bytes = sum(scan.sizes.values())
        self.stats.segments = len(scan.segments)
        self.stats.oldest_seq = min(scan.segments, default=0)
        return scan

    def _scan_files(self, pins: Pins) -> "_Scan":
        reported = self._loss_log.reported_until(pins.acked_seqs, pins.active_first_seq)
        pins = pins.past_losses(reported)
        found = {one.first_seq: one for one in list_segments(self._directory)}
        infos = [_segment_info(one) for one in found.values()]
        sizes = {one.first_seq: one.size for one in infos}
        age_s = self._age_s(found[min(found)], pins) if found else 0.0
        plan = plan_cleanup(infos, pins, self._config.retention, oldest_age_s=age_s)
        return _Scan(found, sizes, pins.active_first_seq, plan)

    def _age_s(self, oldest: Segment, pins: Pins) -> float:
        """Return how long ago the last record of the oldest segment was written; 0 if unknown."""
        if oldest.first_seq >= pins.active_first_seq:
            return 0.0
        if self._oldest_recorded is None or self._oldest_recorded[0] != oldest.first_seq:
            recorded_s = _last_recorded_s(oldest)
            if recorded_s is None:
                return 0.0
            self._oldest_recorded = oldest.first_seq, recorded_s
        return self._clock() - self._oldest_recorded[1]

    async def _compress(self, scan: "_Scan") -> None:
        """Compress the segments that stay."""
        for first_seq in scan.plan.compress if self._config.compress else ():
            with self._count_faults("compress"):
                work = compression.compress
                await _in_thread(work, scan.segments[first_seq], from_thread.check_cancelled)
                self.stats.compressed += 1

    async def _remove(self, scan: "_Scan") -> None:
        """Remove segments that every sink has read, and the rest once their loss is recorded."""
        with self._count_faults("remove"):
            await self._remove_segments(scan, scan.plan.remove)
            for loss in scan.plan.losses:
                await self._record_loss(loss)
            await self._remove_segments(scan, scan.plan.drop_unread)

    async def _remove_segments(self, scan: "_Scan", first_seqs: Sequence[int]) -> None:
        if not first_seqs:
            return
        self._on_remove(
            min(
                (seq for seq in scan.segments if seq > first_seqs[-1]),
                default=scan.active_first_seq,
            )
        )
        for first_seq in first_seqs:
            await _in_thread(compression.remove, scan.segments[first_seq])
            self.stats.removed += 1
        self._log.info("removed old segments of the journal", segments=len(first_seqs))

    async def _record_loss(self, loss: Loss) -> None:
        """Record a loss in the journal."""
        since = self._inputs.active_first_seq()
        await _in_thread(self._loss_log.mark_pending, loss, since)
        await self._record_loss_event(*loss)
        await _in_thread(self._loss_log.mark_recorded, loss, since)
        lost = self.stats.lost
        lost[loss.sink] = lost.get(loss.sink, 0) + loss.last - loss.first + 1
        self._log.warning("records are removed before a sink has read them", **loss._asdict())

    @contextmanager
    def _count_faults(self, operation: str) -> Iterator[None]:
        """Count disk errors; log one until a round succeeds."""
        try:
            yield
        except (OSError, JournalError) as error:
            kind = f"{operation}: {_error_name(error)}"
            faults = self.stats.faults
            faults[kind] = faults.get(kind, 0) + 1
            if kind not in self._logged_faults:
                self._logged_faults.add(kind)
                self._log.warning(
                    "retention cannot clean up the journal's folder",
                    what=operation,
                    error=str(error),
                )


class _Scan(NamedTuple):
    """The segments by their first sequence, their sizes, and the cleanup they need."""

    segments: dict[int, Segment]
    sizes: dict[int, int]
    active_first_seq: int
    plan: CleanupPlan


def _segment_info(segment: Segment) -> SegmentInfo:
    return SegmentInfo(segment.first_seq, segment.path.stat().st_size, segment.is_compressed)


def _last_recorded_s(segment: Segment) -> float | None:
    """Return when the last whole record was written, in seconds since 1970; None if unknown.

    A thread that went through all lines would keep the interpreter's lock from the event loop for
    a tenth of a second, so only the file's last lines are parsed.
    """
    for line in reversed(_end_of(segment).split(b"\n")):
        if parse_header(line) is not None and (recorded := recorded_at(line)) is not None:
            return recorded.timestamp()
    return None


def _end_of(segment: Segment) -> bytes:
    """Return a file's last bytes, END_BYTES at least if it has them, as far as it can be read."""
    end = b""
    with suppress(*READ_ERRORS), segment.open() as file:
        if not isinstance(file, GzipFile):
            file.seek(max(0, file.seek(0, SEEK_END) - END_BYTES))
        while chunk := file.read(END_BYTES):
            end = end[-END_BYTES:] + chunk
    return end


def _error_name(error: OSError | JournalError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number or 0, type(error).__name__)


async def _in_thread(work: Callable[..., _T], *values: Any) -> _T:  # any work, with its own values
    return await to_thread.run_sync(partial(work, *values))
