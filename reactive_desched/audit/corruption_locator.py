"""Which of two records that do not fit together is the bad one.

A link joins two records: the later holds the hash of the earlier. When it is broken, either may
have been changed. What follows tells: a record whose own hash stands in the next one is whole.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from reactive_desched.api.event import CHECKPOINT
from reactive_desched.audit.chain import Link
from reactive_desched.audit.checkpoint_checks import Witnesses
from reactive_desched.audit.findings import Bad, Seen, bad
from reactive_desched.errors import JournalError
from reactive_desched.journal.events import event
from reactive_desched.journal.records import Mark, digest, mark
from reactive_desched.journal.signing.signed_note import Seal, parse_note

LOOK_AHEAD: Final = 10_000
"""So many lines behind a broken link are looked at for the record that belongs there."""


def blame(last: Link | None, seen: Seen, later: Sequence[bytes], witnesses: Witnesses) -> Bad:
    """Name the bad record, given the last that fits, the line that does not, and what follows."""
    found = _whole(seen.raw)
    if last is None:
        return bad(seen, seen.file.first_seq, _UNREADABLE)
    if found is not None and found.prev == last.digest:
        return bad(seen, last.seq + 1, f"its sequence was altered: it says {found.seq}")
    if found is not None and _is_misnamed(seen, found):
        return _wrong_file(last, seen, found)
    if any(_follows(one, last) for one in later):
        return _intruder(last, seen, found)
    if found is None:
        return bad(seen, last.seq + 1, _UNREADABLE) if not _accuses(seen, last) else _altered(last)
    if found.seq == last.seq + 1:
        return _one_of_two(last, seen, found, later, witnesses)
    return _out_of_place(last, seen, found, later)


_UNREADABLE: Final = "it cannot be read: it is no whole record"


def _one_of_two(
    last: Link, seen: Seen, found: Mark, later: Sequence[bytes], witnesses: Witnesses
) -> Bad:
    """Say whether the earlier record was altered, or the hash of it that the later one holds."""
    if _is_mended(last, seen, found, later) or _signed_root(seen, found, witnesses) == last.digest:
        return bad(seen, found.seq, "its prev was altered")
    return _altered(last)


def _altered(last: Link) -> Bad:
    reason = "it was altered: its hash is not the one that the next record holds"
    return bad(last.seen, last.seq, reason)


def _is_mended(last: Link, seen: Seen, found: Mark, later: Sequence[bytes]) -> bool:
    """Say whether the record would be whole if only it held the right hash."""
    after = _whole(later[0]) if later else None
    if after is None:
        return False
    raw = seen.raw[:-1].replace(found.prev.encode(), last.digest.encode(), 1)
    return digest(raw) == after.prev


def _signed_root(seen: Seen, found: Mark, witnesses: Witnesses) -> str:
    """Return the root that a trusted key signed in this record; empty when there is none."""
    checkpoint = event(CHECKPOINT, seen.raw) if found.type == CHECKPOINT else None
    try:
        note = parse_note(checkpoint.data.note) if checkpoint else None
    except JournalError:
        note = None
    if note is None or witnesses.seal(note)[0] is not Seal.SOUND:
        return ""
    return note.root if note.size == found.seq - 1 else ""


def _intruder(last: Link, seen: Seen, found: Mark | None) -> Bad:
    """Name a line that stands before the one which follows the last whole record."""
    wanted = last.seq + 1
    if seen.raw == last.seen.raw:
        return bad(seen, last.seq, "it stands here twice")
    if found is None:
        return bad(seen, wanted, f"here is a line that is no record; record {wanted} follows later")
    if found.seq > wanted:
        return bad(seen, found.seq, f"it stands before record {wanted}, which follows later")
    return bad(seen, found.seq, f"it does not belong here: record {wanted} follows later")


def _out_of_place(last: Link, seen: Seen, found: Mark, later: Sequence[bytes]) -> Bad:
    """Name what is missing, or what stands where it does not belong."""
    wanted, after = last.seq + 1, _whole(later[0]) if later else None
    if seen.raw == last.seen.raw:
        return bad(seen, last.seq, "it stands here twice")
    if found.seq == last.seq:
        same_place = "two records claim this place, and what follows goes on from the other"
        on = after is not None and after.prev == digest(seen.raw[:-1])
        return bad(last.seen if on else seen, found.seq, same_place)
    if found.seq < last.seq:
        return bad(seen, found.seq, f"it stands here again, after record {last.seq}")
    if after is not None and after.seq == wanted + 1:
        return bad(seen, wanted, f"record {found.seq} stands in its place")
    return _missing(last, seen, found.seq - 1)


def _missing(last: Link, seen: Seen, until: int) -> Bad:
    wanted = last.seq + 1
    what = "it is missing" if until == wanted else f"it is missing, and so is all to {until}"
    if seen.offset:
        return bad(seen, wanted, f"{what}: after record {last.seq} follows {until + 1}")
    return bad(seen, wanted, f"{what}: the end of {last.seen.file.path.name}, or files after it")


def _is_misnamed(seen: Seen, found: Mark) -> bool:
    """Say whether a whole file stands under a wrong name, rather than one that lost its head."""
    begins = seen.offset == 0 and found.type == CHECKPOINT
    return begins and found.seq != seen.file.first_seq


def _wrong_file(last: Link, seen: Seen, found: Mark) -> Bad:
    reason = (
        f"it begins a file that is named for record {seen.file.first_seq}, where record"
        f" {last.seq + 1} belongs: files were renamed or swapped"
    )
    return bad(seen, found.seq, reason)


def _whole(raw: bytes) -> Mark | None:
    return mark(raw) if raw.endswith(b"\n") else None


def _follows(raw: bytes, last: Link) -> bool:
    found = _whole(raw) if last.digest.encode() in raw else None
    return found is not None and found.prev == last.digest and found.seq == last.seq + 1


def _accuses(seen: Seen, last: Link) -> bool:
    """Say whether a damaged line still holds, readable, another hash of the record before."""
    stamps = f'","sequence":"{last.seq + 1:020}",'.encode()
    before, found, _ = seen.raw.partition(stamps)
    place = before.rfind(b'"prev":"')
    held = before[place + 8 : place + 8 + len(last.digest)]
    right_form = len(held) == hashlib.sha256().digest_size * 2 and not held.strip(_HEX)
    return bool(found) and place >= 0 and right_form and held != last.digest.encode()


_HEX: Final = b"0123456789abcdef"
