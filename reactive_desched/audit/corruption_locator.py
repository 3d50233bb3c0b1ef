"""Finds which of two records was changed, where the hash chain is broken between them.

The later record holds the hash of the earlier, so either may have been changed. The record that
follows decides: a record whose own hash stands in the next one is intact.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from reactive_desched.api.event import CHECKPOINT
from reactive_desched.audit.chain import ChainLink
from reactive_desched.audit.checkpoint_checks import CheckpointVerifier
from reactive_desched.audit.findings import BadRecord, FileLine, bad_record
from reactive_desched.errors import JournalError
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import LineHeader, digest, parse_header
from reactive_desched.journal.signing.signed_note import SignatureStatus, parse_note

LOOK_AHEAD: Final = 10_000
"""So many lines behind a broken link are looked at for the record that belongs there."""


def locate_corruption(
    last: ChainLink | None, line: FileLine, later: Sequence[bytes], checkpoints: CheckpointVerifier
) -> BadRecord:
    """Name the bad record, given the last that fits, the line that does not, and what follows."""
    found = _parse_whole_line(line.raw)
    if last is None:
        return bad_record(line, line.segment.first_seq, _UNREADABLE)
    if found is not None and found.prev == last.digest:
        return bad_record(line, last.seq + 1, f"its sequence was altered: it says {found.seq}")
    if found is not None and _is_misnamed_file(line, found):
        return _wrong_file(last, line, found)
    if any(_follows_link(one, last) for one in later):
        return _extra_line(last, line, found)
    if found is None:
        return (
            bad_record(line, last.seq + 1, _UNREADABLE)
            if not _holds_other_hash(line, last)
            else _altered_record(last)
        )
    if found.seq == last.seq + 1:
        return _diagnose_adjacent(last, line, found, later, checkpoints)
    return _diagnose_out_of_order(last, line, found, later)


_UNREADABLE: Final = "it cannot be read: it is not a whole record"


def _diagnose_adjacent(
    last: ChainLink,
    line: FileLine,
    found: LineHeader,
    later: Sequence[bytes],
    checkpoints: CheckpointVerifier,
) -> BadRecord:
    """Say whether the earlier record was altered, or the hash of it that the later one holds."""
    if (
        _only_prev_altered(last, line, found, later)
        or _signed_root(line, found, checkpoints) == last.digest
    ):
        return bad_record(line, found.seq, "its prev was altered")
    return _altered_record(last)


def _altered_record(last: ChainLink) -> BadRecord:
    reason = "it was altered: its hash is not the one that the next record holds"
    return bad_record(last.line, last.seq, reason)


def _only_prev_altered(
    last: ChainLink, line: FileLine, found: LineHeader, later: Sequence[bytes]
) -> bool:
    """Say whether the record would be whole if only it held the right hash."""
    after = _parse_whole_line(later[0]) if later else None
    if after is None:
        return False
    raw = line.raw[:-1].replace(found.prev.encode(), last.digest.encode(), 1)
    return digest(raw) == after.prev


def _signed_root(line: FileLine, found: LineHeader, checkpoints: CheckpointVerifier) -> str:
    """Return the root that a trusted key signed in this record; empty when there is none."""
    checkpoint = decode_event(CHECKPOINT, line.raw) if found.type == CHECKPOINT else None
    try:
        note = parse_note(checkpoint.data.note) if checkpoint else None
    except JournalError:
        note = None
    if note is None or checkpoints.signature_status(note)[0] is not SignatureStatus.VALID:
        return ""
    return note.root if note.size == found.seq - 1 else ""


def _extra_line(last: ChainLink, line: FileLine, found: LineHeader | None) -> BadRecord:
    """Name a line that stands before the one which follows the last whole record."""
    wanted = last.seq + 1
    if line.raw == last.line.raw:
        return bad_record(line, last.seq, "it stands here twice")
    if found is None:
        return bad_record(
            line, wanted, f"here is a line that is not a record; record {wanted} follows later"
        )
    if found.seq > wanted:
        return bad_record(line, found.seq, f"it stands before record {wanted}, which follows later")
    return bad_record(line, found.seq, f"it does not belong here: record {wanted} follows later")


def _diagnose_out_of_order(
    last: ChainLink, line: FileLine, found: LineHeader, later: Sequence[bytes]
) -> BadRecord:
    """Name the records that are missing or out of place."""
    wanted, after = last.seq + 1, _parse_whole_line(later[0]) if later else None
    if line.raw == last.line.raw:
        return bad_record(line, last.seq, "it stands here twice")
    if found.seq == last.seq:
        duplicate_reason = "two records claim this place, and what follows goes on from the other"
        on = after is not None and after.prev == digest(line.raw[:-1])
        return bad_record(last.line if on else line, found.seq, duplicate_reason)
    if found.seq < last.seq:
        return bad_record(line, found.seq, f"it stands here again, after record {last.seq}")
    if after is not None and after.seq == wanted + 1:
        return bad_record(line, wanted, f"record {found.seq} stands in its place")
    return _missing_records(last, line, found.seq - 1)


def _missing_records(last: ChainLink, line: FileLine, until: int) -> BadRecord:
    wanted = last.seq + 1
    what = "it is missing" if until == wanted else f"it is missing, and so is all to {until}"
    if line.offset:
        return bad_record(line, wanted, f"{what}: after record {last.seq} follows {until + 1}")
    return bad_record(
        line, wanted, f"{what}: the end of {last.line.segment.path.name}, or files after it"
    )


def _is_misnamed_file(line: FileLine, found: LineHeader) -> bool:
    """Say whether a whole file stands under a wrong name, rather than one that lost its head."""
    begins = line.offset == 0 and found.type == CHECKPOINT
    return begins and found.seq != line.segment.first_seq


def _wrong_file(last: ChainLink, line: FileLine, found: LineHeader) -> BadRecord:
    reason = (
        f"it begins a file that is named for record {line.segment.first_seq}, where record"
        f" {last.seq + 1} belongs: files were renamed or swapped"
    )
    return bad_record(line, found.seq, reason)


def _parse_whole_line(raw: bytes) -> LineHeader | None:
    return parse_header(raw) if raw.endswith(b"\n") else None


def _follows_link(raw: bytes, last: ChainLink) -> bool:
    found = _parse_whole_line(raw) if last.digest.encode() in raw else None
    return found is not None and found.prev == last.digest and found.seq == last.seq + 1


def _holds_other_hash(line: FileLine, last: ChainLink) -> bool:
    """Say whether a damaged line still holds, readable, another hash of the record before."""
    stamps = f'","sequence":"{last.seq + 1:020}",'.encode()
    before, found, _ = line.raw.partition(stamps)
    start = before.rfind(b'"prev":"')
    claimed_hash = before[start + 8 : start + 8 + len(last.digest)]
    right_form = len(claimed_hash) == hashlib.sha256().digest_size * 2 and not claimed_hash.strip(
        _HEX
    )
    return bool(found) and start >= 0 and right_form and claimed_hash != last.digest.encode()


_HEX: Final = b"0123456789abcdef"
