"""What the metrics read of a journal, gathered so that the journal need not know of them."""

from reactive_desched.journal.journal import Journal


class JournalStats:
    """A journal in numbers, as they are at the moment of asking."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def records_written(self) -> int:
        """Records made durable."""
        return self._journal.records_written

    @property
    def records_refused(self) -> int:
        """Records refused because of the disk."""
        return self._journal.records_refused

    @property
    def records_unrecorded(self) -> int:
        """Verdicts left out."""
        return self._journal.records_unrecorded

    @property
    def healthy(self) -> bool:
        """Say whether records can be written now."""
        return self._journal.healthy

    @property
    def last_seq(self) -> int:
        """The sequence of the newest durable record."""
        return self._journal.tail.last_seq

    @property
    def torn_bytes(self) -> int:
        """How much of a torn last line was set aside at the opening."""
        return self._journal.recovery.torn_bytes

    @property
    def damaged_lines(self) -> int:
        """How many damaged lines the opening found."""
        return self._journal.recovery.damaged_lines

    @property
    def checkpoint_size(self) -> int:
        """How many records the last checkpoint covers."""
        return self._journal.checkpointer.size

    @property
    def checkpoint_root(self) -> str:
        """The hash that the last checkpoint signs; empty before there is one."""
        return self._journal.checkpointer.root
