"""Checkpoints as witnesses: what each one signs must be what stands before it."""

from collections.abc import Sequence
from typing import Final

from reactive_desched.api.event import CHECKPOINT, Checkpoint
from reactive_desched.audit.findings import Bad, KeyUse, Range, Seen, bad
from reactive_desched.errors import JournalError
from reactive_desched.journal.events import event
from reactive_desched.journal.records import AnyEvent, Mark
from reactive_desched.journal.signing.signed_note import Key, Note, Seal, parse_note, verify_note

MAX_UNKNOWN: Final = 1000
"""So many unknown keys are told apart; the uses of further ones are not listed."""

FORGED: Final = "its signature is not right"
_NOT_TRUSTED: Final = "it and what follows is signed only by a key that is not trusted here"
_REWRITTEN: Final = "what it signed is not what stands before it"


class Witnesses:
    """Examines checkpoints with the keys that are trusted, and counts them by key.

    `signed_to` is the last record that a trusted key speaks of, `doubtful` the first checkpoint
    after which no trusted key signed anything.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = keys
        self._verified: dict[str, KeyUse] = {}
        self._unknown: dict[str, KeyUse] = {}
        self.signed_to = 0
        self.doubtful: Bad | None = None
        self.origins: set[str] = set()

    @property
    def verified(self) -> tuple[KeyUse, ...]:
        """The trusted keys that signed."""
        return tuple(self._verified.values())

    @property
    def unknown(self) -> tuple[KeyUse, ...]:
        """The keys that signed what no trusted key did."""
        return tuple(self._unknown.values())

    def examine(self, seen: Seen, mark: Mark) -> Bad | None:
        """Say what is wrong with a checkpoint whose place in the chain is right."""
        found = event(CHECKPOINT, seen.raw)
        if found is None:
            return bad(seen, mark.seq, "it is called a checkpoint, and does not read as one")
        try:
            note = parse_note(found.data.note)
        except JournalError as error:
            return bad(seen, mark.seq, str(error))
        if reason := _contradiction(found, note, mark):
            return bad(seen, mark.seq, reason)
        return self._weigh(seen, note, mark)

    def seal(self, note: Note) -> tuple[Seal, str]:
        """Say what the trusted keys say of a note, and which one says it."""
        seals = [(verify_note(note, key), key.short) for key in self._keys]
        for wanted in (Seal.FORGED, Seal.SOUND):
            if match := next((each for each in seals if each[0] is wanted), None):
                return match
        return Seal.OTHER_KEY, note.signatures[0].key

    def _weigh(self, seen: Seen, note: Note, mark: Mark) -> Bad | None:
        """Say whether a note is signed, and true."""
        seal, key = self.seal(note)
        if seal is Seal.FORGED:
            return bad(seen, mark.seq, FORGED, Range(self.signed_to + 1, mark.seq))
        if note.root != mark.prev and not self.origins:
            return bad(seen, mark.seq, "it was altered: its prev is not what it signed")
        if note.root != mark.prev:
            return bad(seen, mark.seq, _REWRITTEN, Range(self.signed_to + 1, mark.seq - 1))
        self._count(self._verified if seal is Seal.SOUND else self._unknown, key, mark.seq)
        if len(self.origins) < MAX_UNKNOWN:
            self.origins.add(note.origin)
        if seal is Seal.SOUND:
            self.signed_to, self.doubtful = note.size, None
        elif self.doubtful is None:
            self.doubtful = bad(seen, mark.seq, f"{_NOT_TRUSTED}, {key}")
        return None

    def _count(self, uses: dict[str, KeyUse], key: str, seq: int) -> None:
        if key in uses or len(uses) < MAX_UNKNOWN:
            so_far = uses.get(key) or KeyUse(key, 0, seq, seq)
            uses[key] = KeyUse(key, so_far.checkpoints + 1, so_far.first, seq)


def _contradiction(found: AnyEvent, note: Note, mark: Mark) -> str:
    """Say how a checkpoint contradicts itself; whether its note is true is another matter."""
    data: Checkpoint = found.data
    if data.size != mark.seq - 1 or note.size != data.size:
        return f"it speaks of {note.size} records, and stands after {mark.seq - 1}"
    if f"//{note.origin}" != found.source:
        return f"its note is of another journal, {note.origin}"
    return "" if data.root == note.root else "its root is not the one in its note"
