"""What is told of the journal: whether it writes, what it holds, and how it was last signed."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from reactive_desched.telemetry.families import counter, gauge

if TYPE_CHECKING:
    from prometheus_client import Metric

ROOT_PREFIX_DIGITS = 12
"""So many hexadecimal digits of a checkpoint's root are told: what a float holds exactly."""


class JournalMetricsSource(Protocol):
    """What is read of a journal; the root is hexadecimal and empty before the first checkpoint."""

    @property
    def records_written(self) -> int:
        """Records made durable."""
        ...

    @property
    def records_refused(self) -> int:
        """Records refused because of the disk."""
        ...

    @property
    def records_unrecorded(self) -> int:
        """Verdicts left out."""
        ...

    @property
    def healthy(self) -> bool:
        """Say whether records can be written now."""
        ...

    @property
    def last_seq(self) -> int:
        """The sequence of the newest durable record."""
        ...

    @property
    def torn_bytes(self) -> int:
        """How much of a torn last line was set aside when it was opened."""
        ...

    @property
    def damaged_lines(self) -> int:
        """How many damaged lines opening it found."""
        ...

    @property
    def checkpoint_size(self) -> int:
        """How many records the last checkpoint covers."""
        ...

    @property
    def checkpoint_root(self) -> str:
        """The hash it signs."""
        ...


class JournalDirMetricsSource(Protocol):
    """What is read of whoever keeps the journal's folder."""

    bytes: int
    segments: int
    oldest_seq: int
    removed: int

    @property
    def faults(self) -> Mapping[str, int]:
        """What failed, and how often."""
        ...


class StreamMetricsSource(Protocol):
    """What is read of the stream of events."""

    clients: int
    turned_away: int
    cut: int
    sent: int
    resets: int


def journal_families(journal: JournalMetricsSource) -> "Iterator[Metric]":
    """Yield the families of a journal."""
    text = "Records made durable."
    yield counter("journal_records", text, [], {(): journal.records_written})
    text = "Records refused because the disk failed or was stuck."
    yield counter("journal_records_refused", text, [], {(): journal.records_refused})
    text = "Verdicts not recorded, by the bound on their rate."
    yield counter("journal_records_unrecorded", text, [], {(): journal.records_unrecorded})
    text = "1 while the journal can write; else nothing is evicted."
    yield gauge("journal_healthy", text, [], {(): journal.healthy})
    text = "Sequence of the newest durable record."
    yield gauge("journal_sequence", text, [], {(): journal.last_seq})
    text = "Bytes of a torn last line, repaired when the journal was opened."
    yield gauge("journal_torn_bytes", text, [], {(): journal.torn_bytes})
    text = "Damaged lines found when the journal was opened."
    yield gauge("journal_damaged_lines", text, [], {(): journal.damaged_lines})
    yield from _checkpoint_families(journal)


def journal_dir_families(journal_dir: JournalDirMetricsSource) -> "Iterator[Metric]":
    """Yield the families of the journal's folder."""
    text = "Bytes of all segments."
    yield gauge("journal_bytes", text, [], {(): journal_dir.bytes})
    text = "Segments there are."
    yield gauge("journal_segments", text, [], {(): journal_dir.segments})
    text = "Sequence of the oldest record there is."
    yield gauge("journal_oldest_sequence", text, [], {(): journal_dir.oldest_seq})
    text = "Segments removed by retention."
    yield counter("journal_segments_removed", text, [], {(): journal_dir.removed})
    text = "What failed while segments were compressed or removed; it is tried again."
    faults: dict[tuple[str, ...], float] = {(what,): n for what, n in journal_dir.faults.items()}
    yield counter("journal_upkeep_faults", text, ["what"], faults)


def stream_families(stream: StreamMetricsSource) -> "Iterator[Metric]":
    """Yield the families of the stream of events."""
    text = "Clients of the event stream."
    yield gauge("stream_clients", text, [], {(): stream.clients})
    text = "Clients turned away because all places were taken."
    yield counter("stream_clients_turned_away", text, [], {(): stream.turned_away})
    text = "Clients cut because they took nothing for too long."
    yield counter("stream_clients_cut", text, [], {(): stream.cut})
    text = "Events sent to clients."
    yield counter("stream_events_sent", text, [], {(): stream.sent})
    text = "Clients told that their place is gone."
    yield counter("stream_resets", text, [], {(): stream.resets})


def _checkpoint_families(journal: JournalMetricsSource) -> "Iterator[Metric]":
    text = "Records covered by the last signed checkpoint."
    yield gauge("journal_checkpoint_size", text, [], {(): journal.checkpoint_size})
    text = "The first 48 bits of its root, as a number: `audit verify --checkpoint SIZE:HEX`."
    prefix = journal.checkpoint_root[:ROOT_PREFIX_DIGITS] or "0"
    yield gauge("journal_checkpoint_root_prefix", text, [], {(): int(prefix, 16)})
