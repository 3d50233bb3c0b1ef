"""Checks that what each checkpoint signs equals the records before it."""

from collections.abc import Sequence
from typing import Final

from reactive_desched.api.event import CHECKPOINT, EPOCH_BEGAN, Checkpoint
from reactive_desched.audit.findings import (
    BadRecord,
    EpochChange,
    FileLine,
    KeyUse,
    SequenceRange,
    bad_record,
)
from reactive_desched.errors import JournalError
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent, LineHeader
from reactive_desched.journal.signing.signed_note import (
    PublicKey,
    SignatureStatus,
    SignedNote,
    parse_note,
    verify_note,
)

MAX_UNKNOWN_KEYS: Final = 1000
"""At most so many unknown keys are distinguished; the uses of further ones are not listed."""

MAX_EPOCHS: Final = 1000
"""So many changes of epoch are named, the first ones."""

BAD_SIGNATURE: Final = "its signature is not right"
_NOT_TRUSTED: Final = "it and what follows is signed only by a key that is not trusted here"
_REWRITTEN: Final = "what it signed is not what stands before it"


class CheckpointVerifier:
    """Examines checkpoints with the keys that are trusted, and counts them by key.

    `signed_to` is the last record that a trusted key speaks of, `first_untrusted` the first
    checkpoint after which no trusted key signed anything. `epochs` are the changes of epoch, in
    order.
    """

    def __init__(self, keys: Sequence[PublicKey]) -> None:
        self._keys = keys
        self._verified: dict[str, KeyUse] = {}
        self._unknown: dict[str, KeyUse] = {}
        self.signed_to = 0
        self.first_untrusted: BadRecord | None = None
        self.origins: set[str] = set()
        self.epochs: list[tuple[EpochChange, FileLine]] = []
        self._source = ""

    @property
    def verified(self) -> tuple[KeyUse, ...]:
        """The trusted keys that signed."""
        return tuple(self._verified.values())

    @property
    def unknown(self) -> tuple[KeyUse, ...]:
        """The keys that signed what no trusted key did."""
        return tuple(self._unknown.values())

    def check(self, line: FileLine, header: LineHeader) -> BadRecord | None:
        """Say what is wrong with a checkpoint, or the start of an epoch, in its right place."""
        if header.type == EPOCH_BEGAN:
            return self._begin_epoch(line, header)
        found = decode_event(CHECKPOINT, line.raw)
        if found is None:
            return bad_record(
                line, header.seq, "it is called a checkpoint, and does not read as one"
            )
        try:
            note = parse_note(found.data.note)
        except JournalError as error:
            return bad_record(line, header.seq, str(error))
        if reason := _contradiction(found, note, header):
            return bad_record(line, header.seq, reason)
        return self._check_note(line, note, header)

    def signature_status(self, note: SignedNote) -> tuple[SignatureStatus, str]:
        """Say what the trusted keys say of a note, and which one says it."""
        statuses = [(verify_note(note, key), key.identity) for key in self._keys]
        for wanted in (SignatureStatus.INVALID, SignatureStatus.VALID):
            if match := next((each for each in statuses if each[0] is wanted), None):
                return match
        return SignatureStatus.OTHER_KEY, note.signatures[0].key_identity

    def _check_note(self, line: FileLine, note: SignedNote, header: LineHeader) -> BadRecord | None:
        """Say whether a note is signed, and true."""
        status, key = self.signature_status(note)
        if status is SignatureStatus.INVALID:
            return bad_record(
                line, header.seq, BAD_SIGNATURE, SequenceRange(self.signed_to + 1, header.seq)
            )
        if note.root != header.prev and not self.origins:
            return bad_record(line, header.seq, "it was altered: its prev is not what it signed")
        if note.root != header.prev:
            return bad_record(
                line, header.seq, _REWRITTEN, SequenceRange(self.signed_to + 1, header.seq - 1)
            )
        self._notice_source(line, f"//{note.origin}", header.seq)
        self._count_use(
            self._verified if status is SignatureStatus.VALID else self._unknown, key, header.seq
        )
        if len(self.origins) < MAX_UNKNOWN_KEYS:
            self.origins.add(note.origin)
        if status is SignatureStatus.VALID:
            self.signed_to, self.first_untrusted = note.size, None
        elif self.first_untrusted is None:
            self.first_untrusted = bad_record(line, header.seq, f"{_NOT_TRUSTED}, {key}")
        return None

    def _begin_epoch(self, line: FileLine, header: LineHeader) -> BadRecord | None:
        found = decode_event(EPOCH_BEGAN, line.raw)
        if found is None:
            return bad_record(
                line, header.seq, "it is called the start of an epoch, and does not read so"
            )
        data = found.data
        last = self.epochs[-1][0] if self.epochs else None
        if last and not last.is_recorded and last.source == found.source:
            self.epochs.pop()  # the first record of its file had its name already
        missing = (data.first_missing, data.last_missing)
        self._add_epoch(
            EpochChange(header.seq, line.time, found.source, data.previous, *missing, data.message),
            line,
        )
        return None

    def _notice_source(self, line: FileLine, source: str, seq: int) -> None:
        """Notice a checkpoint of another epoch than the one before, which no record explains."""
        previous, self._source = self._source, source
        is_recorded = bool(self.epochs) and self.epochs[-1][0].source == source
        if previous and previous != source and not is_recorded:
            reason = "no record says why, nor whether records are missing"
            self._add_epoch(
                EpochChange(
                    seq, line.time, source, previous, None, None, reason, is_recorded=False
                ),
                line,
            )

    def _add_epoch(self, epoch: EpochChange, line: FileLine) -> None:
        if len(self.epochs) < MAX_EPOCHS:
            self.epochs.append((epoch, line))

    def _count_use(self, uses: dict[str, KeyUse], key: str, seq: int) -> None:
        if key in uses or len(uses) < MAX_UNKNOWN_KEYS:
            so_far = uses.get(key) or KeyUse(key, 0, seq, seq)
            uses[key] = KeyUse(key, so_far.checkpoints + 1, so_far.first, seq)


def _contradiction(found: AnyEvent, note: SignedNote, header: LineHeader) -> str:
    """Say how a checkpoint contradicts itself; whether its note is true is another matter."""
    data: Checkpoint = found.data
    if data.size != header.seq - 1 or note.size != data.size:
        return f"it speaks of {note.size} records, and stands after {header.seq - 1}"
    if f"//{note.origin}" != found.source:
        return f"its note is of another journal, {note.origin}"
    return "" if data.root == note.root else "its root is not the one in its note"
