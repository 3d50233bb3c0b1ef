"""Which intents still wait for their outcome: the memory that makes each end exactly once."""

from collections.abc import Iterable

from reactive_desched.errors import JournalError, JournalUnavailable
from reactive_desched.journal.records import IntentRecord, OutcomeRecord, Stamped, stamped

MAX_OPEN = 10_000
"""With this many intents open, further ones are refused: nothing ends them, so begin no more."""


class OpenIntents:
    """The intents on disk without outcome, oldest first, and the ids of records on their way."""

    def __init__(self, found: Iterable[IntentRecord] = ()) -> None:
        self._open = {intent.id: intent for intent in found}
        self._beginning: set[str] = set()
        self._ending: set[str] = set()

    def all(self) -> tuple[IntentRecord, ...]:
        """Return the intents on disk without outcome, oldest first."""
        return tuple(self._open.values())

    @property
    def oldest_seq(self) -> int | None:
        """Return where in the journal the oldest of them stands."""
        return next((intent.seq for intent in self._open.values()), None)

    def admit(self, record: Stamped) -> None:
        """Note that a record is on its way to disk; raise JournalError when it must not be."""
        match record:
            case IntentRecord(id=key):
                self._admit_intent(key)
                self._beginning.add(key)
            case OutcomeRecord(intent=key):
                if key not in self._open or key in self._ending:
                    raise JournalError(
                        f"intent {key} is not open: it has its outcome, or never was"
                    )
                self._ending.add(key)
            case _:
                pass

    def _admit_intent(self, key: str) -> None:
        if key in self._open or key in self._beginning:
            raise JournalError(f"intent {key} was begun already")
        if len(self._open) + len(self._beginning) >= MAX_OPEN:
            raise JournalUnavailable(f"{MAX_OPEN} intents wait for their outcome; no more is begun")

    def landed(self, record: Stamped, seq: int) -> None:
        """Note that an admitted record is on disk."""
        self.withdrawn(record)
        match record:
            case IntentRecord():
                self._open[record.id] = stamped(record, seq)
            case OutcomeRecord():
                del self._open[record.intent]
            case _:
                pass

    def withdrawn(self, record: Stamped) -> None:
        """Note that an admitted record is on its way no longer."""
        match record:
            case IntentRecord():
                self._beginning.discard(record.id)
            case OutcomeRecord():
                self._ending.discard(record.intent)
            case _:
                pass
