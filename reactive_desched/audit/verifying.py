"""Proves that a journal is as it was written, or names the first record that is not."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from reactive_desched.audit.chain import LONGEST_LINE, Chain, Link, Misfit
from reactive_desched.audit.checkpoint_checks import FORGED, Witnesses
from reactive_desched.audit.corruption_locator import LOOK_AHEAD, blame
from reactive_desched.audit.findings import Bad, KeptFound, Point, Range, Report, Seen, Torn, bad
from reactive_desched.audit.live_files import (
    ahead,
    is_before_the_oldest,
    lines_of,
    open_segment,
)
from reactive_desched.audit.pinned_checkpoint import Kept
from reactive_desched.errors import ConfigError
from reactive_desched.journal.records import digest, mark
from reactive_desched.journal.segments import UNREADABLE, Segment, segments
from reactive_desched.journal.signing.signed_note import Key, Seal
from reactive_desched.journal.truncation import reached


def verify(directory: Path, keys: Sequence[Key], keys_from: str, kept: Kept | None) -> Report:
    """Verify all records of a folder, and that the kept checkpoint is true of them.

    Reads every byte, and may run while the journal is written. Raises ConfigError for a folder
    without a journal, and for a kept checkpoint that its own key did not sign.
    """
    had = reached(directory)  # before the files are listed: it may be written meanwhile
    try:
        files = segments(directory)
    except OSError as error:
        raise ConfigError(f"{directory}: cannot read this folder: {error.strerror}") from error
    if not files and kept is None:
        raise ConfigError(f"{directory}: there is no journal here; name its folder with --journal")
    witnesses = Witnesses(keys)
    key = _key_of(kept, witnesses)
    run = _Verification(directory, files, had, witnesses, kept)
    run.all()
    return run.report(keys_from, key)


class _Verification:
    """One run over the files of a journal."""

    def __init__(
        self,
        directory: Path,
        files: list[Segment],
        had: int,
        witnesses: Witnesses,
        kept: Kept | None,
    ) -> None:
        """Verify these files; `had` is the last record that any follower had before."""
        self._directory = directory
        self._files = files
        self._had = had
        self._witnesses = witnesses
        self._kept = kept
        self._chain = Chain(witnesses.examine, kept.size if kept else 0)
        self._torn: Torn | None = None
        self._bad: Bad | None = None
        self._agrees: bool | None = None
        self._read = self._compressed = self._removed = 0

    def all(self) -> None:
        """Verify until something is bad."""
        for index, one in enumerate(self._files):
            self._bad = self._one(index, one)
            if self._bad:
                return
        self._bad = self._compare() or self._cut_off() or self._witnesses.doubtful

    def report(self, keys_from: str, kept_key: str) -> Report:
        """Say what was found."""
        chain, witnesses, kept = self._chain, self._witnesses, self._kept
        last = chain.last.seq if chain.last else 0
        return Report(
            ok=self._bad is None,
            journal=str(self._directory),
            records=chain.records,
            first=Point(chain.first_seq, chain.first.time) if chain.first else None,
            last=Point(last, chain.last.seen.time) if chain.last else None,
            segments=self._read,
            compressed=self._compressed,
            keys_from=keys_from,
            verified=witnesses.verified,
            unknown=witnesses.unknown,
            signed_to=witnesses.signed_to,
            unsigned=max(0, last - witnesses.signed_to),
            torn=self._torn,
            removed=self._removed,
            kept=KeptFound(kept.size, kept.root, kept_key, self._agrees) if kept else None,
            bad=self._bad,
        )

    def _one(self, index: int, one: Segment) -> Bad | None:
        opened = open_segment(one)
        if opened is None:
            return self._gone(one)
        one, file = opened
        self._read += 1
        self._compressed += one.is_compressed
        with file:
            return self._lines(index, one, file)

    def _lines(self, index: int, one: Segment, file: IO[bytes]) -> Bad | None:
        lines = lines_of(one, file)
        try:
            misfit = self._chain.follow(lines, one)
        except UNREADABLE as error:
            return self._damaged(index, one, error)
        if misfit is None:
            return None
        if index == len(self._files) - 1 and _is_torn(misfit.seen):
            seen = misfit.seen
            self._torn = Torn(one.path.name, seen.offset, len(seen.raw))
            return None
        return self._judge(misfit, lines, self._files[index + 1 :])

    def _gone(self, one: Segment) -> Bad | None:
        """Let retention remove what it will; anybody else may not."""
        if is_before_the_oldest(one, self._directory):
            self._removed += 1
            self._chain.resume()
            return None
        return Bad(one.first_seq, one.path.name, 0, "", "its file was removed meanwhile")

    def _damaged(self, index: int, one: Segment, error: BaseException) -> Bad:
        """Name the first record that a damaged file does not give any more."""
        last = self._chain.last
        here = last if last and last.seen.file == one else None
        seq, offset = (here.seq + 1, _end(here)) if here else (one.first_seq, 0)
        after = self._files[index + 1 : index + 2]
        if after and seq == after[0].first_seq:
            seq -= 1  # every record is whole, and yet the file is not: its last stands for it
        return Bad(seq, one.path.name, offset, "", f"the file is damaged: {error}")

    def _judge(self, misfit: Misfit, rest: Iterator[bytes], files: list[Segment]) -> Bad:
        later = ahead(rest, files, LOOK_AHEAD)
        if misfit.known is None:
            return blame(self._chain.last, misfit.seen, later, self._witnesses)
        return _forged(misfit.known, misfit.seen, later)

    def _compare(self) -> Bad | None:
        """Hold the kept checkpoint against the record that it speaks of."""
        kept, chain, origins = self._kept, self._chain, self._witnesses.origins
        if kept is None:
            return None
        if kept.note and origins and kept.note.origin not in origins:
            self._agrees = False
            here = ", ".join(sorted(origins))
            reason = f"the kept checkpoint is of the journal {kept.note.origin}; this is {here}"
            return _at(chain.first, chain.first_seq, reason)
        root = self._root(kept.size)
        self._agrees = root is not None and root.startswith(kept.root)
        if self._agrees:
            return None
        return self._disagreement(kept.size, root)

    def _cut_off(self) -> Bad | None:
        """Say that followers, by the positions beside the journal, had more than there is."""
        last = self._chain.last
        end = last.seq if last else 0
        if self._had <= end:
            return None
        file = last.seen.file.path.name if last else ""
        reason = f"its followers had records up to {self._had}, and here they end: cut off"
        return Bad(end + 1, file, _end(last), "", reason)

    def _root(self, size: int) -> str | None:
        """Return what so many records end in; None when they are not here."""
        chain = self._chain
        if chain.watched:
            return chain.watched.digest
        first = mark(chain.first.raw) if chain.first else None
        return first.prev if first and first.seq == size + 1 else None

    def _disagreement(self, size: int, root: str | None) -> Bad:
        chain = self._chain
        last = chain.last.seq if chain.last else 0
        if size > last:
            reason = f"the kept checkpoint speaks of {size} records, and here they end: cut off"
            file = chain.last.seen.file.path.name if chain.last else ""
            return Bad(last + 1, file, _end(chain.last), "", reason)
        if root is None:
            reason = "it is no longer here, so that the kept checkpoint proves nothing: keep newer"
            return _at(chain.first, size, reason)
        reason = "up to here, all was written anew: the kept checkpoint says another hash"
        seen = chain.watched.seen if chain.watched else chain.first
        return _at(seen, size, reason, Range(min(size, chain.first_seq), size))


def _key_of(kept: Kept | None, witnesses: Witnesses) -> str:
    """Return the trusted key that signed the kept checkpoint; raises ConfigError for a forgery."""
    if kept is None or kept.note is None:
        return ""
    seal, key = witnesses.seal(kept.note)
    if seal is Seal.FORGED:
        raise ConfigError(f"the kept checkpoint was altered: {key} did not sign this text")
    return key if seal is Seal.SOUND else ""


def _is_torn(seen: Seen) -> bool:
    return not seen.raw.endswith(b"\n") and len(seen.raw) < LONGEST_LINE


def _forged(known: Bad, seen: Seen, later: Sequence[bytes]) -> Bad:
    """Say of a note that is not signed whether it alone was altered, or what it speaks of too."""
    if known.reason != FORGED or not later:
        return known
    after = mark(later[0])
    if after is not None and after.prev == digest(seen.raw.rstrip(b"\n")):
        return known
    return bad(seen, known.sequence, "it was altered: what it says is not what was signed")


def _end(link: Link | None) -> int:
    return link.seen.offset + len(link.seen.raw) if link else 0


def _at(seen: Seen | None, sequence: int, reason: str, suspects: Range | None = None) -> Bad:
    if seen is None:
        return Bad(sequence, "", 0, "", reason, suspects)
    return bad(seen, sequence, reason, suspects)
