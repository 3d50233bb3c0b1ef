"""Proves that a journal is as it was written, or names the first record that is not."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from reactive_desched.api.event import format_missing
from reactive_desched.audit.chain import MAX_LINE_BYTES, ChainBreak, ChainLink, ChainVerifier
from reactive_desched.audit.checkpoint_checks import BAD_SIGNATURE, CheckpointVerifier
from reactive_desched.audit.corruption_locator import LOOK_AHEAD, locate_corruption
from reactive_desched.audit.findings import (
    BadRecord,
    FileLine,
    PinnedCheckpointResult,
    RecordPoint,
    SequenceRange,
    TornLine,
    VerifyReport,
    bad_record,
)
from reactive_desched.audit.live_files import (
    is_removed_by_retention,
    iter_lines,
    open_segment,
    read_ahead,
)
from reactive_desched.audit.pinned_checkpoint import PinnedCheckpoint
from reactive_desched.errors import ConfigError
from reactive_desched.journal.cursors import highest_acked
from reactive_desched.journal.records import digest, parse_header
from reactive_desched.journal.segments import READ_ERRORS, Segment, list_segments
from reactive_desched.journal.signing.signed_note import PublicKey, SignatureStatus
from reactive_desched.primitives.bounded_text import printable


def verify(
    directory: Path, keys: Sequence[PublicKey], keys_from: str, pinned: PinnedCheckpoint | None
) -> VerifyReport:
    """Verify all records of a folder, and that the kept checkpoint is true of them.

    Reads every byte, and may run while the journal is written. Raises ConfigError for a folder
    without a journal, and for a kept checkpoint that its own key did not sign.
    """
    acked_seq = highest_acked(directory)  # before the files are listed: it may be written meanwhile
    try:
        files = list_segments(directory)
    except OSError as error:
        raise ConfigError(f"{directory}: cannot read this folder: {error.strerror}") from error
    if not files and pinned is None:
        raise ConfigError(f"{directory}: there is no journal here; name its folder with --journal")
    checkpoints = CheckpointVerifier(keys)
    key = _pinned_key(pinned, checkpoints)
    run = _Verification(directory, files, acked_seq, checkpoints, pinned)
    run.verify_all()
    return run.report(keys_from, key)


class _Verification:
    """One run over the files of a journal."""

    def __init__(
        self,
        directory: Path,
        files: list[Segment],
        acked_seq: int,
        checkpoints: CheckpointVerifier,
        pinned: PinnedCheckpoint | None,
    ) -> None:
        """Verify these files; `had` is the last record that any follower had before."""
        self._directory = directory
        self._files = files
        self._acked_seq = acked_seq
        self._checkpoints = checkpoints
        self._pinned = pinned
        self._chain = ChainVerifier(checkpoints.check, pinned.size if pinned else 0)
        self._torn: TornLine | None = None
        self._bad: BadRecord | None = None
        self._agrees: bool | None = None
        self._segments_read = self._compressed = self._removed = 0

    def verify_all(self) -> None:
        """Verify until something is bad."""
        for index, one in enumerate(self._files):
            self._bad = self._verify_segment(index, one)
            if self._bad:
                return
        self._bad = (
            self._check_pinned() or self._check_truncation() or self._checkpoints.first_untrusted
        )

    def report(self, keys_from: str, pinned_key: str) -> VerifyReport:
        """Say what was found."""
        chain, witnesses, kept = self._chain, self._checkpoints, self._pinned
        last = chain.last_link.seq if chain.last_link else 0
        return VerifyReport(
            ok=self._bad is None and not any(epoch.is_loss for epoch, _ in witnesses.epochs),
            journal=str(self._directory),
            records=chain.records,
            first=RecordPoint(chain.first_seq, chain.first_line.time) if chain.first_line else None,
            last=RecordPoint(last, chain.last_link.line.time) if chain.last_link else None,
            segments=self._segments_read,
            compressed=self._compressed,
            keys_from=keys_from,
            verified=witnesses.verified,
            unknown=witnesses.unknown,
            signed_to=witnesses.signed_to,
            unsigned=max(0, last - witnesses.signed_to),
            torn=self._torn,
            removed=self._removed,
            kept=PinnedCheckpointResult(kept.size, kept.root, pinned_key, self._agrees)
            if kept
            else None,
            bad=self._bad,
            epochs=tuple(epoch for epoch, _ in witnesses.epochs),
        )

    def _verify_segment(self, index: int, segment: Segment) -> BadRecord | None:
        opened = open_segment(segment)
        if opened is None:
            return self._check_removed(segment)
        segment, file = opened
        self._segments_read += 1
        self._compressed += segment.is_compressed
        with file:
            return self._verify_lines(index, segment, file)

    def _verify_lines(self, index: int, segment: Segment, file: IO[bytes]) -> BadRecord | None:
        lines = iter_lines(segment, file)
        try:
            chain_break = self._chain.follow(lines, segment)
        except READ_ERRORS as error:
            return self._diagnose_damage(index, segment, error)
        if chain_break is None:
            return None
        if index == len(self._files) - 1 and _is_torn(chain_break.line):
            seen = chain_break.line
            self._torn = TornLine(segment.path.name, seen.offset, len(seen.raw))
            return None
        return self._diagnose(chain_break, lines, self._files[index + 1 :])

    def _check_removed(self, segment: Segment) -> BadRecord | None:
        """Accept missing segments that retention removed, and no others."""
        if is_removed_by_retention(segment, self._directory):
            self._removed += 1
            self._chain.restart()
            return None
        return BadRecord(
            segment.first_seq, segment.path.name, 0, "", "its file was removed meanwhile"
        )

    def _diagnose_damage(self, index: int, segment: Segment, error: BaseException) -> BadRecord:
        """Name the first record that a damaged file does not give any more."""
        last = self._chain.last_link
        here = last if last and last.line.segment == segment else None
        seq, offset = (here.seq + 1, _end_offset(here)) if here else (segment.first_seq, 0)
        after = self._files[index + 1 : index + 2]
        if after and seq == after[0].first_seq:
            seq -= 1  # every record is whole, and yet the file is not: its last stands for it
        return BadRecord(seq, segment.path.name, offset, "", f"the file is damaged: {error}")

    def _diagnose(
        self, chain_break: ChainBreak, rest: Iterator[bytes], files: list[Segment]
    ) -> BadRecord:
        later = read_ahead(rest, files, LOOK_AHEAD)
        if chain_break.diagnosis is None:
            return locate_corruption(
                self._chain.last_link, chain_break.line, later, self._checkpoints
            )
        return _diagnose_forgery(chain_break.diagnosis, chain_break.line, later)

    def _check_pinned(self) -> BadRecord | None:
        """Compare the kept checkpoint with the record that it covers last."""
        kept, chain, origins = self._pinned, self._chain, self._checkpoints.origins
        if kept is None:
            return None
        if kept.note and origins and kept.note.origin not in origins:
            self._agrees = False
            if lost := self._lost_in_an_epoch(kept):
                return lost
            here = ", ".join(sorted(origins))
            reason = f"the kept checkpoint is of the journal {kept.note.origin}; this is {here}"
            return _bad_at(chain.first_line, chain.first_seq, reason)
        root = self._root_at(kept.size)
        self._agrees = root is not None and root.startswith(kept.root)
        if self._agrees:
            return None
        return self._lost_in_an_epoch(kept) or self._diagnose_disagreement(kept.size, root)

    def _lost_in_an_epoch(self, kept: PinnedCheckpoint) -> BadRecord | None:
        """Say whether the kept checkpoint covers records that a change of epoch lost.

        A note names its epoch; SIZE:HEX may be of any.
        """
        origin = f"//{kept.note.origin}" if kept.note else ""
        for epoch, line in self._checkpoints.epochs:
            first, last = epoch.first_missing, epoch.last_missing
            if first is None or kept.size < first or origin not in ("", epoch.previous):
                continue
            reason = (
                f"the kept checkpoint speaks of {kept.size} records, of which some are lost:"
                f" {format_missing(first, last)} since another epoch began in record"
                f" {epoch.sequence} ({epoch.reason})"
            )
            return bad_record(line, first, printable(reason))
        return None

    def _check_truncation(self) -> BadRecord | None:
        """Say that followers, by the positions beside the journal, had more than there is."""
        last = self._chain.last_link
        end = last.seq if last else 0
        if self._acked_seq <= end:
            return None
        file = last.line.segment.path.name if last else ""
        reason = f"its followers had records up to {self._acked_seq}, and here they end: cut off"
        return BadRecord(end + 1, file, _end_offset(last), "", reason)

    def _root_at(self, size: int) -> str | None:
        """Return what so many records end in; None when they are not here."""
        chain = self._chain
        if chain.watched_link:
            return chain.watched_link.digest
        first = parse_header(chain.first_line.raw) if chain.first_line else None
        return first.prev if first and first.seq == size + 1 else None

    def _diagnose_disagreement(self, size: int, root: str | None) -> BadRecord:
        chain = self._chain
        last = chain.last_link.seq if chain.last_link else 0
        if size > last:
            reason = f"the kept checkpoint speaks of {size} records, and here they end: cut off"
            file = chain.last_link.line.segment.path.name if chain.last_link else ""
            return BadRecord(last + 1, file, _end_offset(chain.last_link), "", reason)
        if root is None:
            reason = "it is no longer here, so that the kept checkpoint proves nothing: keep newer"
            return _bad_at(chain.first_line, size, reason)
        reason = "up to here, all was written anew: the kept checkpoint says another hash"
        seen = chain.watched_link.line if chain.watched_link else chain.first_line
        return _bad_at(seen, size, reason, SequenceRange(min(size, chain.first_seq), size))


def _pinned_key(pinned: PinnedCheckpoint | None, checkpoints: CheckpointVerifier) -> str:
    """Return the trusted key that signed the kept checkpoint; raises ConfigError for a forgery."""
    if pinned is None or pinned.note is None:
        return ""
    status, key = checkpoints.signature_status(pinned.note)
    if status is SignatureStatus.INVALID:
        raise ConfigError(f"the kept checkpoint was altered: {key} did not sign this text")
    return key if status is SignatureStatus.VALID else ""


def _is_torn(line: FileLine) -> bool:
    return not line.raw.endswith(b"\n") and len(line.raw) < MAX_LINE_BYTES


def _diagnose_forgery(diagnosis: BadRecord, line: FileLine, later: Sequence[bytes]) -> BadRecord:
    """Say whether an unsigned note alone was altered, or the records that it covers, too."""
    if diagnosis.reason != BAD_SIGNATURE or not later:
        return diagnosis
    after = parse_header(later[0])
    if after is not None and after.prev == digest(line.raw.rstrip(b"\n")):
        return diagnosis
    return bad_record(
        line, diagnosis.sequence, "it was altered: what it says is not what was signed"
    )


def _end_offset(link: ChainLink | None) -> int:
    return link.line.offset + len(link.line.raw) if link else 0


def _bad_at(
    line: FileLine | None, sequence: int, reason: str, suspects: SequenceRange | None = None
) -> BadRecord:
    if line is None:
        return BadRecord(sequence, "", 0, "", reason, suspects)
    return bad_record(line, sequence, reason, suspects)
