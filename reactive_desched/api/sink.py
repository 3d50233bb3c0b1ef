"""The contract of a sink: it takes records in order, and again until it acknowledges them.

A package offers a sink with one line of its pyproject.toml; the name is its key below sinks:

    [project.entry-points."reactive_desched.sinks"]
    spool = "spool_sink:SpoolSink"
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct
from pydantic import AfterValidator, Field

from reactive_desched.api.args import Section, field_error
from reactive_desched.api.event import DATA_TYPES, Record
from reactive_desched.api.rules import Rule
from reactive_desched.model.event_types import short_type, type_names
from reactive_desched.primitives.hints import nearest_name, quote

__all__ = ["EventTypes", "Record", "Sink", "SinkHost", "SinkPlugin", "SinkSection"]


class Sink(Protocol):
    """Sends records to another system. A `SinkRunner` calls it, with one call at a time.

    `name` names its position, metrics and log lines. `from_start` says where it begins when it
    has no saved cursor: at the oldest record, or with whatever comes next.
    """

    @property
    def name(self) -> str:
        """Return what its position, metrics and log lines call it."""
        ...

    @property
    def from_start(self) -> bool:
        """Say whether a new sink wants what was recorded before."""
        ...

    async def deliver(self, entries: Sequence[Record]) -> int:
        """Hand over records in their order; return how many, from the first, are safely there.

        At least one is, or it raises: SinkUnavailable when the rest must be tried again, and
        EventRejected when the first of them will never be taken. Either may have handed over some
        already; those come again.
        """
        ...

    async def close(self) -> None:
        """Close connections; never raises, and ends within seconds."""
        ...


def _check_event_types(types: tuple[str, ...]) -> tuple[str, ...]:
    names = {name for type_ in DATA_TYPES for name in type_names(type_)}
    for one in types:
        if one not in names:
            message = f"no type of event is called {quote(one)}"
            near = nearest_name(one, map(short_type, names))
            listed = ", ".join(sorted(map(short_type, DATA_TYPES)))
            hint = f"did you mean {near}?" if near else f"there are {listed}"
            raise field_error(message, hint, rule=Rule.UNKNOWN_VALUE)
    return types


EventTypes = Annotated[tuple[str, ...], AfterValidator(_check_event_types)]
"""Types of event as settings name them: decision.evict, or decision for all of that family."""


class SinkSection(Section):
    """Base of the settings of an installed sink: what stands below its key in sinks."""

    types: EventTypes = Field(
        default=(),
        description="Only these types of event, such as eviction.succeeded; all if empty.",
    )


class Log(Protocol):
    """Writes log lines: a sentence, and fields beside it."""

    def info(self, event: str, **fields: Any) -> Any:  # Any: whatever a logger takes and returns
        """Log what is normal."""
        ...

    def warning(self, event: str, **fields: Any) -> Any:  # Any: as above
        """Log what a person should see."""
        ...


class SinkHost(Struct, frozen=True):
    """The name, log and clocks that the controller gives a sink.

    `name` names the sink in the log, in metrics and in its position. `clock` is monotonic, `wall`
    the time of day, both in seconds.
    """

    name: str
    log: Log
    clock: Callable[[], float]
    wall: Callable[[], float]


S = TypeVar("S", bound=SinkSection)


class SinkPlugin(ABC, Generic[S]):
    """A sink of an installed package: one class, which its entry point names.

    **Count, not index.** `deliver` returns how many records are safely there, counted from the
    first: 3 for records[0] to records[2]. It returns neither the index of the last one (2) nor its
    sequence. One too few sends a record twice; one too many loses a record, for it is never handed
    over again.

    **Everything comes at least once.** What is not counted comes again: after an exception, after
    a restart (the position is saved about once a second), after another replica became the leader.
    So a record may be there already. Write it under the event's `id`, which stays the same, or let
    readers drop ids that they have seen. Count a record only when it would survive a crash of this
    process: what stands in a buffer is lost.

    **One call at a time.** The next call comes when the last one has ended; there is no time-out.
    It may be cancelled while it waits, when the controller ends: what was not counted comes again.
    Code that blocks holds the whole controller: run it in a thread (`anyio.to_thread.run_sync`).
    """

    settings: ClassVar[type[SinkSection]]
    """The section below its key in sinks; unknown keys and wrong types are errors of ours."""

    from_start: ClassVar[bool] = False
    """Whether a new sink begins at the oldest record; else with the next one."""

    @classmethod
    def open(cls, settings: S, host: SinkHost) -> "SinkPlugin[S]":
        """Make the sink; an exception is tried again later, so connect here or in `deliver`."""
        return cls(settings, host)

    def __init__(self, settings: S, host: SinkHost) -> None:
        self.config = settings
        self.host = host

    @abstractmethod
    async def deliver(self, records: Sequence[Record]) -> int:
        """Hand over the records in their order; return how many, from the first, are there.

        Raise SinkUnavailable when nothing can be taken now: the same records come again later.
        Raise EventRejected when records[0] will never be taken: it goes to the dead letters. Where
        a later one fails, return how many went before it: it comes again, in front.
        """

    async def close(self) -> None:
        """Close what `open` and `deliver` opened, within seconds."""
