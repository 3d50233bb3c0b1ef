"""Writes checkpoints into the journal: when one is due, and what it says."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from reactive_desched.api.event import CHECKPOINT, Checkpoint
from reactive_desched.journal.event_builder import journal_event
from reactive_desched.journal.records import EncodedEvent, encode
from reactive_desched.telemetry.metrics import Metric, gauge

SIZE: Final = gauge("journal_checkpoint_size", "Records covered by the last signed checkpoint.")
ROOT_PREFIX: Final = gauge(
    "journal_checkpoint_root_prefix",
    "The first 48 bits of the last checkpoint's root, as a number: `audit verify "
    "--checkpoint SIZE:HEX`.",
)
ROOT_DIGITS: Final = 12
"""So many hexadecimal digits of a root make a number that a float holds exactly."""


class CheckpointSigner(Protocol):
    """Signs checkpoints."""

    def sign(self, size: int, root: str) -> str:
        """Return the signed statement that so many records end in this hash."""
        ...


class Unrecorded(NamedTuple):
    """The number of decisions that rate limits kept out of the record."""

    decisions: int = 0
    disruptions: int = 0

    def minus(self, other: "Unrecorded") -> "Unrecorded":
        """Return what is left when the other was reported."""
        return Unrecorded(self.decisions - other.decisions, self.disruptions - other.disruptions)


class CheckpointContext(NamedTuple):
    """Further statements of a checkpoint: the oldest open intent, and what was not recorded."""

    oldest_open_seq: int | None = None
    unrecorded: Unrecorded = Unrecorded()


class Checkpointer:
    """Makes checkpoint events, and says when one is due: after records or after time.

    `clock` gives the time of day that a checkpoint states, `monotonic` the time that intervals are
    measured by. `size` and
    `root` are what the last checkpoint says.
    """

    def __init__(
        self,
        signer: CheckpointSigner,
        *,
        every_records: int,
        every_s: float,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        size: int = 0,
        root: str = "",
    ) -> None:
        self._signer = signer
        self._every_records = every_records
        self._every_s = every_s
        self._clock = clock
        self._monotonic = monotonic
        self._due_at = monotonic() + every_s
        self.size = size
        self.root = root

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the last checkpoint."""
        yield SIZE.value(self.size)
        yield ROOT_PREFIX.value(int(self.root[:ROOT_DIGITS] or "0", 16))

    def is_due(self, records: int) -> bool:
        """Say whether so many records since the last checkpoint ask for another."""
        if records >= self._every_records:
            return True
        return records > 0 and self._monotonic() >= self._due_at

    @property
    def due_in_s(self) -> float:
        """In how many seconds to ask `is_due` again, while no record comes."""
        left_s = self._due_at - self._monotonic()
        return left_s if left_s > 0 else self._every_s

    def encode_checkpoint(
        self, source: str, size: int, root: str, context: CheckpointContext
    ) -> EncodedEvent:
        """Return a checkpoint over the records up to `size`, the last of which has hash `root`."""
        data = Checkpoint(
            note=self._signer.sign(size, root),
            oldest_open=context.oldest_open_seq,
            root=root,
            size=size,
            unrecorded=context.unrecorded.decisions,
            unrecorded_disruptions=context.unrecorded.disruptions,
        )
        return encode(journal_event(source, CHECKPOINT, size, self._clock(), data))

    def checkpointed(self, size: int, root: str) -> None:
        """Note that a checkpoint is on disk."""
        self._due_at = self._monotonic() + self._every_s
        self.size, self.root = size, root
