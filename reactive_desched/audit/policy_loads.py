"""Lists the loads of policies and settings, in the order of the journal, with their texts."""

import difflib
import hashlib
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.event import (
    POLICY_LOADED,
    POLICY_REJECTED,
    PolicyFile,
    PolicyLoaded,
    PolicyRejected,
)
from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import IndexCatalogue, RecordLocation
from reactive_desched.errors import ConfigError
from reactive_desched.journal.event_builder import MAX_POLICY_BYTES, without_secrets
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent, parse_header
from reactive_desched.primitives.hints import quote
from reactive_desched.text.times import format_timestamp

MIN_REVISION_CHARS: Final = 4
"""The beginning of a revision must have so many characters."""

_RECORD_NUMBER: Final = re.compile(r"[0-9]{1,11}")
_MAX_LINE_CHARS: Final = 60
_CHARS_BEFORE: Final = 20
"""So much of two long lines is left before the place where they begin to differ."""

_MAX_NAMED: Final = 10


class LoadRecord(NamedTuple):
    """The record of a load, accepted or rejected, with its place in the journal."""

    seq: int
    event: AnyEvent

    @property
    def loaded(self) -> PolicyLoaded | None:
        """Return what was loaded; None where it was rejected."""
        return self.event.data if isinstance(self.event.data, PolicyLoaded) else None


class FileText(NamedTuple):
    """A file of a load: its text as some record has it; without it, why there is none."""

    file: PolicyFile
    text: str = ""
    from_seq: int | None = None
    missing: str = ""

    @property
    def is_exact(self) -> bool:
        """Say whether the text is that of the file to the byte: nothing was left out as secret."""
        return self.from_seq is not None and sha256_of(self.text) == self.file.sha256


class FileChange(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The changes of a file since the load before.

    `instead_of` is the file that was read in its place. `lines` has what one changed line was and
    is, or the only line that was added or removed.
    """

    name: str
    change: str
    instead_of: str = ""
    added: int | None = None
    removed: int | None = None
    lines: tuple[str, ...] = ()


class HistoryEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A line of the history: `how` is start, reload or rejected."""

    sequence: int
    id: str
    time: str
    how: str
    revision: str
    source: str
    mode: str = ""
    version: str = ""
    is_first: bool = False
    files: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    others: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class PolicyLoads:
    """The loads that a journal holds. Texts are looked up as they are wanted."""

    def __init__(self, catalogue: IndexCatalogue) -> None:
        self._catalogue = catalogue
        self._texts: dict[str, tuple[str, int]] = {}

    def newest(self, limit: int | None = None) -> list[LoadRecord]:
        """Return the records of loads in order; of more than `limit` the newest."""
        locations = self._locations((POLICY_LOADED, POLICY_REJECTED), limit)
        return list(self._read(locations))

    def in_force(self) -> LoadRecord | None:
        """Return the load that came into force last."""
        return next(iter(self._read(self._locations((POLICY_LOADED,), 1))), None)

    def find(self, name: str) -> LoadRecord:
        """Return a load by its record, its event's id or its revision, of which the latest counts.

        Raises ConfigError where none or several different ones are meant.
        """
        if _RECORD_NUMBER.fullmatch(name) and (found := self._by_sequence(int(name))) is not None:
            return found
        revisions: dict[str, LoadRecord] = {}
        for each in self.newest():
            loaded = each.loaded
            if loaded is None:
                continue
            if each.event.id == name:
                return each
            if len(name) >= MIN_REVISION_CHARS and loaded.revision.startswith(name):
                revisions[loaded.revision] = each
        if len(revisions) > 1:
            named = ", ".join(list(revisions)[:_MAX_NAMED])
            raise ConfigError(f"{quote(name)} can be more than one revision: {named}")
        if not revisions:
            raise ConfigError(
                f"no policy of this journal has the record, id or revision {quote(name)}:"
                " `policy history` lists them"
            )
        return next(iter(revisions.values()))

    def variants(self, revision: str) -> list[LoadRecord]:
        """Return the latest load of each different set of files with this revision, in order."""
        found: dict[tuple[str, ...], LoadRecord] = {}
        for each in self.newest():
            if each.loaded is not None and each.loaded.revision == revision:
                found[tuple(file.sha256 for file in each.loaded.files)] = each
        return sorted(found.values(), key=lambda each: each.seq)

    def texts(self, record: LoadRecord) -> list[FileText]:
        """Return the text of each file of a load, from whichever record has it."""
        files = () if record.loaded is None else record.loaded.files
        return [self._text(file, record.seq) for file in files]

    def history(self, limit: int | None) -> list[HistoryEntry]:
        """Return what was loaded and rejected, and what each changed, in order."""
        records = self.newest(None if limit is None else limit + 1)
        if limit is not None and len(records) <= limit:
            limit = None  # the first is the first of all
        entries = []
        last: LoadRecord | None = None
        for each in records:
            entries.append(self._entry(each, last))
            last = each if each.loaded is not None else last
        return entries if limit is None else entries[-limit:]

    def _entry(self, record: LoadRecord, before: LoadRecord | None) -> HistoryEntry:
        event, data = record.event, record.event.data
        time = format_timestamp(event.time)
        if isinstance(data, PolicyRejected):
            return HistoryEntry(
                sequence=record.seq,
                id=event.id,
                time=time,
                how="rejected",
                revision=data.kept,
                source=data.source,
                problems=data.problems,
            )
        is_reload = before is not None and _process(before.event.id) == _process(event.id)
        earlier = before.loaded if before is not None else None
        return HistoryEntry(
            sequence=record.seq,
            id=event.id,
            time=time,
            how="reload" if is_reload else "start",
            revision=data.revision,
            source=data.source,
            mode=data.mode,
            version=data.version,
            is_first=earlier is None,
            files=tuple(file.name for file in data.files),
            changes=() if earlier is None else tuple(self._changes(earlier, data, record.seq)),
            others=() if earlier is None else tuple(_other_changes(earlier, data)),
        )

    def _changes(self, before: PolicyLoaded, now: PolicyLoaded, seq: int) -> Iterator[FileChange]:
        earlier = {file.name: file for file in before.files}
        kept = earlier.keys() & {file.name for file in now.files}
        gone = [file for file in before.files if file.name not in kept]
        new = [file for file in now.files if file.name not in kept]
        is_replaced = len(gone) == len(new) == 1  # as by another replica, with a path of its own
        for file in now.files:
            if file.name in kept:
                if earlier[file.name].sha256 != file.sha256:
                    yield _compare(self._text(earlier[file.name], seq), self._text(file, seq))
            elif is_replaced and gone[0].sha256 == file.sha256:
                yield FileChange(file.name, "the same text", gone[0].name)
            elif is_replaced:
                change = _compare(self._text(gone[0], seq), self._text(file, seq))
                yield replace(change, instead_of=gone[0].name)
            else:
                yield FileChange(file.name, "added")
        for file in () if is_replaced else gone:
            yield FileChange(file.name, "removed")

    def _text(self, file: PolicyFile, seq: int) -> FileText:
        if file.text:
            return FileText(file, file.text, seq)
        if file.sha256 not in self._texts:
            self._read_texts(file.sha256)
        if (found := self._texts.get(file.sha256)) is not None:
            return FileText(file, *found)
        if file.size > MAX_POLICY_BYTES:
            why = (
                f"it had {file.size:,} bytes, and a record holds no more than {MAX_POLICY_BYTES:,}"
            )
        else:
            why = "it was too long for a record, or the record with it was removed since"
        return FileText(file, missing=why)

    def _read_texts(self, sha256: str) -> None:
        """Read records, the newest first, until one has the text of a file with this SHA-256."""
        for location in reversed(self._locations((POLICY_LOADED,), None)):
            for each in self._read([location]):
                for file in each.event.data.files:
                    if file.text:
                        self._texts.setdefault(file.sha256, (file.text, each.seq))
            if sha256 in self._texts:
                return

    def _by_sequence(self, seq: int) -> LoadRecord | None:
        locations = self._catalogue.find_all(lambda index: lookup.find_sequence(index, seq))
        found = next(iter(self._read(locations)), None)
        return found if found is not None and found.loaded is not None else None

    def _locations(self, types: tuple[str, ...], limit: int | None) -> list[RecordLocation]:
        found = self._catalogue.find_all(
            lambda index: lookup.find_types(index, types, newest=True, limit=limit)
        )
        found.sort(key=lambda each: (each.index_number, each.span.n))
        return found if limit is None else found[-limit:]

    def _read(self, locations: list[RecordLocation]) -> Iterator[LoadRecord]:
        for entry in self._catalogue.fetch(locations):
            seen = parse_header(entry.raw)
            event = decode_event(seen.type, entry.raw) if seen is not None else None
            if event is not None and isinstance(event.data, PolicyLoaded | PolicyRejected):
                yield LoadRecord(entry.seq, event)


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def with_secrets(text: FileText, present: str) -> str | None:
    """Return the text of a file to the byte, with what is secret from the file as it is now.

    A line of the record in which something was left out is taken from the lines of `present` that
    would be recorded so. None where the result is not what the file held, by its SHA-256.
    """
    if text.is_exact:
        return text.text
    hidden: Mapping[str, str] = {
        shown: line
        for line in present.splitlines(keepends=True)
        if (shown := without_secrets(line)) != line
    }
    whole = "".join(hidden.get(line, line) for line in text.text.splitlines(keepends=True))
    return whole if sha256_of(whole) == text.file.sha256 else None


def _process(event_id: str) -> str:
    """Return the part of an id that the records of one process share."""
    return event_id.rpartition(".")[0]


def _compare(old: FileText, new: FileText) -> FileChange:
    name = new.file.name
    for each, what in ((old, "what it was is unknown"), (new, "what it became is unknown")):
        if each.missing:
            return FileChange(name, f"{what}: {each.missing}")
    before, after = old.text.splitlines(), new.text.splitlines()
    removed: list[str] = []
    added: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            removed += before[start:end]
            added += after[new_start:new_end]
    if not (removed or added):
        return FileChange(name, "changed in what is left out as secret, or in the ends of lines")
    lines: tuple[str, ...] = ()
    if len(removed) == len(added) == 1:
        lines = _shortened(*removed, *added)
    elif len(removed) + len(added) == 1:
        lines = (_cut((removed + added)[0].strip(), 0),)
    return FileChange(name, "changed", "", len(added), len(removed), lines)


def _shortened(before: str, now: str) -> tuple[str, str]:
    """Cut two lines alike, so that the place is left from which on they differ."""
    before, now = before.strip(), now.strip()
    common = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    )
    start = 0 if max(len(before), len(now)) <= _MAX_LINE_CHARS else max(0, common - _CHARS_BEFORE)
    return _cut(before, start), _cut(now, start)


def _cut(text: str, start: int) -> str:
    shown = text if start == 0 else f"…{text[start:]}"
    return shown if len(shown) <= _MAX_LINE_CHARS else f"{shown[: _MAX_LINE_CHARS - 1]}…"


def _other_changes(before: PolicyLoaded, now: PolicyLoaded) -> Iterator[str]:
    for old, new in ((before.mode, now.mode), (before.version, now.version)):
        if old != new:
            yield f"{old} → {new}"
