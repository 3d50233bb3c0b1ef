"""A checkpoint kept outside the journal, in each form in which it can be given."""

import re
from typing import Final, NamedTuple

from reactive_desched.api.event import CHECKPOINT
from reactive_desched.errors import ConfigError, JournalError
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import parse_header
from reactive_desched.journal.signing.signed_note import SignedNote, parse_note

_SIZE_AND_ROOT: Final = re.compile(r"([0-9]{1,20}):([0-9A-Fa-f]{12,64})")


class PinnedCheckpoint(NamedTuple):
    """A checkpoint that a person wrote down: a number of records, and the start of their hash."""

    size: int
    root: str
    note: SignedNote | None = None


def parse_pinned(text: str) -> PinnedCheckpoint:
    """Read SIZE:HEX, a note, or checkpoint events of which the last counts; raises ConfigError.

    Blank lines behind a note are no part of it: a program that prints a text with its end of line
    often adds another.
    """
    if short := _SIZE_AND_ROOT.fullmatch(text.strip()):
        return PinnedCheckpoint(int(short[1]), short[2].lower())
    try:
        note = parse_note(
            _note_of_last_event(text) if text.lstrip().startswith("{") else _trim_newlines(text)
        )
    except JournalError as error:
        raise ConfigError(f"{error}; an event, or SIZE:HEX with 12 digits, is taken too") from error
    return PinnedCheckpoint(note.size, note.root, note)


def _trim_newlines(text: str) -> str:
    """Return the text with one end of line at its end, if it has any there."""
    bare = text.rstrip("\n")
    return text[: len(bare) + 1]


def _note_of_last_event(text: str) -> str:
    """Return the note of the last checkpoint event among lines of events."""
    for line in reversed(text.split("\n")):
        raw = line.encode(errors="replace")
        found = parse_header(raw)
        if found is not None and found.type == CHECKPOINT:
            return _note_of_event(raw)
    raise JournalError("there is no audit.checkpoint.v1 event in this text")


def _note_of_event(raw: bytes) -> str:
    found = decode_event(CHECKPOINT, raw)
    if found is None:
        raise JournalError("the checkpoint event in this text is damaged")
    note: str = found.data.note
    return note
