"""The contract of a sink: it takes records in order, and again until it acknowledges them."""

from collections.abc import Sequence
from typing import Protocol

from reactive_desched.journal.records import JournalRecord


class Sink(Protocol):
    """Where records go. A `SinkRunner` drives it, with one call at a time.

    `name` names its position, metrics and log lines. `from_start` says where it begins when it
    has no saved cursor: at the oldest record, or with whatever comes next.
    """

    @property
    def name(self) -> str:
        """What its position, metrics and log lines call it."""
        ...

    @property
    def from_start(self) -> bool:
        """Whether a new sink wants what was recorded before."""
        ...

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Hand over records in their order; return how many, from the first, are safely there.

        At least one is, or it raises: SinkUnavailable when the rest must be tried again, and
        EventRejected when the first of them will never be taken. Either may have handed over some
        already; those come again.
        """
        ...

    async def close(self) -> None:
        """Close connections; never raises, and ends within seconds."""
        ...
