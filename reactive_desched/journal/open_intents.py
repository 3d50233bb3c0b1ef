"""Which intents still wait for their outcome: the memory that makes each end exactly once."""

from collections.abc import Iterable
from itertools import chain

from reactive_desched.api.event import EVICTION_REQUESTED, OUTCOMES
from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.journal.signing.checkpointer import Context

MAX_OPEN = 10_000
"""With this many intents open, further ones are refused: nothing ends them, so begin no more."""


class OpenIntents:
    """The intents on disk without outcome, oldest first, and the ids of records on their way."""

    def __init__(self, found: Iterable[OpenIntent] = ()) -> None:
        self._open = {intent.event.id: intent for intent in found}
        self._beginning: set[str] = set()
        self._ending: set[str] = set()

    def all(self) -> tuple[OpenIntent, ...]:
        """Return the intents on disk without outcome, oldest first."""
        return tuple(self._open.values())

    def get(self, key: str) -> OpenIntent | None:
        """Return an open intent by its id."""
        return self._open.get(key)

    @property
    def oldest_seq(self) -> int | None:
        """Return where in the journal the oldest of them stands."""
        return next((intent.seq for intent in self._open.values()), None)

    def context(self, batch: Iterable[AnyEvent], unrecorded: int, first: int | None) -> Context:
        """Return what a checkpoint tells before this batch, or behind it: it begins at `first`."""
        if first is None:
            return Context(self.oldest_seq, unrecorded)
        events = tuple(enumerate(batch, first))
        ended = {event.causationid for _, event in events if event.type in OUTCOMES}
        still = (intent.seq for key, intent in self._open.items() if key not in ended)
        begun = (seq for seq, event in events if event.type == EVICTION_REQUESTED)
        return Context(next(chain(still, begun), None), unrecorded)

    def admit(self, event: AnyEvent) -> None:
        """Note that a record is on its way to disk; raise JournalError when it must not be."""
        if event.type == EVICTION_REQUESTED:
            self._admit_intent(event.id)
            self._beginning.add(event.id)
        elif event.type in OUTCOMES:
            key = event.causationid
            if key not in self._open or key in self._ending:
                raise JournalError(f"intent {key} is not open: it has its outcome, or never was")
            self._ending.add(key)

    def _admit_intent(self, key: str) -> None:
        if key in self._open or key in self._beginning:
            raise JournalError(f"intent {key} was begun already")
        if len(self._open) + len(self._beginning) >= MAX_OPEN:
            raise JournalUnavailable(f"{MAX_OPEN} intents wait for their outcome; no more is begun")

    def landed(self, event: AnyEvent, seq: int) -> None:
        """Note that an admitted record is on disk."""
        self.withdrawn(event)
        if event.type == EVICTION_REQUESTED:
            self._open[event.id] = OpenIntent(seq, event)
        elif event.type in OUTCOMES:
            del self._open[event.causationid]

    def withdrawn(self, event: AnyEvent) -> None:
        """Note that an admitted record is on its way no longer."""
        if event.type == EVICTION_REQUESTED:
            self._beginning.discard(event.id)
        elif event.type in OUTCOMES:
            self._ending.discard(event.causationid)
