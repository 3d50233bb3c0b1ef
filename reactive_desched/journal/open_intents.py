"""Keeps the intents without an outcome, so that each gets exactly one."""

from collections.abc import Iterable
from itertools import chain

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED
from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.journal.signing.checkpointer import CheckpointContext, Unrecorded

MAX_OPEN_INTENTS = 10_000
"""With this many intents open, further ones are refused: nothing ends them, so begin no more."""


class OpenIntents:
    """The intents on disk without outcome, oldest first, and the ids of records on their way."""

    def __init__(self, recovered: Iterable[OpenIntent] = ()) -> None:
        self._open = {intent.event.id: intent for intent in recovered}
        self._starting: set[str] = set()
        self._finishing: set[str] = set()

    def all(self) -> tuple[OpenIntent, ...]:
        """Return the intents on disk without outcome, oldest first."""
        return tuple(self._open.values())

    def get(self, key: str) -> OpenIntent | None:
        """Return an open intent by its id."""
        return self._open.get(key)

    @property
    def oldest_seq(self) -> int | None:
        """Return the sequence of the oldest open intent."""
        return next((intent.seq for intent in self._open.values()), None)

    def checkpoint_context(
        self, batch: Iterable[AnyEvent], unrecorded: Unrecorded, first_seq: int | None
    ) -> CheckpointContext:
        """Return a checkpoint's context: behind this batch, or before it if `first_seq` is None."""
        if first_seq is None:
            return CheckpointContext(self.oldest_seq, unrecorded)
        events = tuple(enumerate(batch, first_seq))
        ended = {event.causationid for _, event in events if event.type in EVICTION_OUTCOME_TYPES}
        still_open = (intent.seq for key, intent in self._open.items() if key not in ended)
        started = (seq for seq, event in events if event.type == EVICTION_REQUESTED)
        return CheckpointContext(next(chain(still_open, started), None), unrecorded)

    def admit(self, event: AnyEvent) -> None:
        """Note that a record is on its way to disk; raise JournalError when it must not be."""
        if event.type == EVICTION_REQUESTED:
            self._admit_intent(event.id)
            self._starting.add(event.id)
        elif event.type in EVICTION_OUTCOME_TYPES:
            key = event.causationid
            if key not in self._open or key in self._finishing:
                raise JournalError(f"intent {key} is not open: it has its outcome, or never was")
            self._finishing.add(key)

    def _admit_intent(self, key: str) -> None:
        if key in self._open or key in self._starting:
            raise JournalError(f"intent {key} was begun already")
        if len(self._open) + len(self._starting) >= MAX_OPEN_INTENTS:
            raise JournalUnavailable(
                f"{MAX_OPEN_INTENTS} intents wait for their outcome; no more is begun"
            )

    def committed(self, event: AnyEvent, seq: int) -> None:
        """Note that an admitted record is on disk."""
        self.discarded(event)
        if event.type == EVICTION_REQUESTED:
            self._open[event.id] = OpenIntent(seq, event)
        elif event.type in EVICTION_OUTCOME_TYPES:
            del self._open[event.causationid]

    def discarded(self, event: AnyEvent) -> None:
        """Note that an admitted record is on its way no longer."""
        if event.type == EVICTION_REQUESTED:
            self._starting.discard(event.id)
        elif event.type in EVICTION_OUTCOME_TYPES:
            self._finishing.discard(event.causationid)
