"""Which events a sink that can be choosy wants."""

from reactive_desched.errors import EventRefused
from reactive_desched.journal.records import Entry
from reactive_desched.journal.summary import Filter, Summary, summary


class Wanted:
    """The types of event a sink wants, all if none is named; settings refuse unknown ones."""

    def __init__(self, types: tuple[str, ...]) -> None:
        self._filter = Filter(types=types)

    def summary(self, entry: Entry) -> Summary | None:
        """Return what a wanted event says in short, None for others.

        Raises EventRefused for a record that cannot be read.
        """
        event = summary(entry.raw)
        if event is None:
            raise EventRefused("the record cannot be read")
        return event if self._filter.wants(event) else None
