"""Which events a sink that can be choosy wants: one rule, and one message for a wrong word."""

from reactive_desched.api.event import DATA
from reactive_desched.errors import ConfigError, EventRefused
from reactive_desched.journal.records import Entry
from reactive_desched.journal.summary import Filter, Summary, check_types, summary


class Wanted:
    """The types of event a sink wants, all if none is named; raises ConfigError for others."""

    def __init__(self, sink: str, types: tuple[str, ...]) -> None:
        try:
            check_types(types, tuple(DATA))
        except ConfigError as error:
            raise ConfigError(f"sinks.{sink}.types: {error}") from error
        self._filter = Filter(types=types)

    def summary(self, entry: Entry) -> Summary | None:
        """Return what a wanted event says in short, None for others.

        Raises EventRefused for a record that cannot be read.
        """
        event = summary(entry.raw)
        if event is None:
            raise EventRefused("the record cannot be read")
        return event if self._filter.wants(event) else None
