"""Selects the types of event that a sink with a choice takes."""

from reactive_desched.errors import EventRejected
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import EventFilter, EventSummary, parse_summary


class TypeFilter:
    """The types of event a sink wants, all if none is named; settings refuse unknown ones."""

    def __init__(self, types: tuple[str, ...]) -> None:
        self._filter = EventFilter(types=types)

    @property
    def wants_all(self) -> bool:
        """Say whether no type is left out."""
        return self._filter.is_empty

    def match(self, entry: JournalRecord) -> EventSummary | None:
        """Return the summary of a wanted event, None for others.

        Raises EventRejected for a record that cannot be read.
        """
        event = parse_summary(entry.raw)
        if event is None:
            raise EventRejected("the record cannot be read")
        return event if self._filter.matches(event) else None
