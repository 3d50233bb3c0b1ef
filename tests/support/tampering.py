"""A small journal that tests take apart and put together wrongly."""

import base64
import gzip
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reactive_desched.api.event import CHECKPOINT, Checkpoint
from reactive_desched.audit.findings import BadRecord, VerifyReport
from reactive_desched.audit.pinned_checkpoint import PinnedCheckpoint
from reactive_desched.audit.verification import verify
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import (
    GENESIS,
    JournalRecord,
    digest,
    encode,
    format_line,
    parse_header,
)
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signed_note import parse_key
from reactive_desched.journal.signing.signer import Ed25519Signer
from tests.support.journals import new_signer, some_events, write_journal


class SampleJournal(NamedTuple):
    """A journal as it was written: its files, its records in order, and its signer."""

    files: dict[str, bytes]
    records: list[JournalRecord]
    signer: Ed25519Signer

    def raw(self, seq: int) -> bytes:
        """Return the line of a record."""
        return self.records[seq - 1].raw

    def file_of(self, seq: int) -> str:
        """The name of the file that begins with this record."""
        return f"journal-{seq:020}.jsonl"

    def file_and_offset(self, seq: int) -> tuple[str, int]:
        """The file and the offset of a record."""
        name = max(name for name in self.files if int(name[8:28]) <= seq)
        before = self.records[int(name[8:28]) - 1 : seq - 1]
        return name, sum(len(entry.raw) + 1 for entry in before)


def make_journal(folder: Path) -> SampleJournal:
    """Make 23 records in four files (1-7, 8-14, 15-21, 22-23), with checkpoints within them too."""
    records = write_journal(folder, some_events(16), per_segment=5, checkpoint_every=3)
    files = {one.path.name: one.path.read_bytes() for one in list_segments(folder)}
    return SampleJournal(files, records, new_signer(folder))


def verify_files(
    files: dict[str, bytes],
    *keys: Ed25519Signer,
    kept: PinnedCheckpoint | None = None,
    folder: Path | None = None,
) -> VerifyReport:
    """Verify these files with these keys."""
    with tempfile.TemporaryDirectory() as name:
        directory = folder or Path(name)
        for file, raw in files.items():
            (directory / file).write_bytes(raw)
        return verify(directory, [parse_key(one.public_key) for one in keys], "--key", kept)


def first_bad(
    files: dict[str, bytes], *keys: Ed25519Signer, kept: PinnedCheckpoint | None = None
) -> BadRecord:
    """Verify, and return what is bad."""
    bad = verify_files(files, *keys, kept=kept).bad
    assert bad is not None
    return bad


def verify_intact(
    files: dict[str, bytes], *keys: Ed25519Signer, kept: PinnedCheckpoint | None = None
) -> VerifyReport:
    """Verify what must be whole."""
    report = verify_files(files, *keys, kept=kept)
    assert report.ok, report.bad
    assert report.bad is None
    return report


def with_edited_lines(
    made: SampleJournal, name: str, edit: Callable[[list[bytes]], Any]
) -> dict[str, bytes]:
    """Return the files, with the lines of one edited."""
    lines = made.files[name].splitlines(keepends=True)
    edit(lines)
    return {**made.files, name: b"".join(lines)}


def rechained(raws: Sequence[bytes]) -> list[bytes]:
    """Chain the records anew, as somebody does who changed one and hides it."""
    result = [raws[0]]
    for raw in raws[1:]:
        old = parse_header(raw)
        assert old is not None
        prev = digest(result[-1])
        result.append(
            raw.replace(f'"prev":"{old.prev}","rec'.encode(), f'"prev":"{prev}","rec'.encode())
        )
    return result


def in_files(made: SampleJournal, raws: Sequence[bytes]) -> dict[str, bytes]:
    """Lay the records out in files as they were."""
    starts = [int(name[8:28]) for name in sorted(made.files)]
    ends = [*starts[1:], len(raws) + 1]
    return {
        made.file_of(start): b"".join(raw + b"\n" for raw in raws[start - 1 : end - 1])
        for start, end in zip(starts, ends, strict=True)
    }


def rewritten(made: SampleJournal, seq: int, edit: Callable[[bytes], bytes]) -> list[bytes]:
    """Return all records, with one edited and those after it chained anew."""
    raws = [entry.raw for entry in made.records]
    raws[seq - 1] = edit(raws[seq - 1])
    return [*raws[: seq - 1], *rechained(raws[seq - 1 :])]


def re_checkpointed(
    raws: Sequence[bytes], change: Callable[[Checkpoint, str], Checkpoint]
) -> list[bytes]:
    """Change every checkpoint by what now stands before it, and chain anew."""
    result: list[bytes] = []
    for seq, raw in enumerate(raws, 1):
        prev = digest(result[-1]) if result else GENESIS
        result.append(_re_checkpointed(raw, seq, prev, change))
    return result


def _re_checkpointed(
    raw: bytes, seq: int, prev: str, change: Callable[[Checkpoint, str], Checkpoint]
) -> bytes:
    was = parse_header(raw)
    assert was is not None
    read = decode_event(was.type, raw)
    assert read is not None
    data = change(read.data, prev) if was.type == CHECKPOINT else read.data
    fresh = msgspec.structs.replace(read, data=data, prev="", recordedtime="", sequence="")
    return format_line(encode(fresh), prev, read.recordedtime, seq)


def with_flipped_byte(raw: bytes, at: int, mask: int = 1) -> bytes:
    """Return the text with one byte changed."""
    return raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]


def compressed(made: SampleJournal) -> dict[str, bytes]:
    """Return the files with all but the last compressed."""
    *closed, last = sorted(made.files)
    small = {f"{name}.gz": gzip.compress(made.files[name], mtime=0) for name in closed}
    return {**small, last: made.files[last]}


def without_files(made: SampleJournal, *starts: int) -> dict[str, bytes]:
    """Return the files but those that begin with these records."""
    gone = {made.file_of(start) for start in starts}
    return {name: raw for name, raw in made.files.items() if name not in gone}


def resigned_by(signer: Ed25519Signer, raws: Sequence[bytes], *, since: int) -> list[bytes]:
    """Sign the checkpoints from a record on with another key."""

    def sign(data: Checkpoint, prev: str) -> Checkpoint:
        if data.size + 1 < since:
            return data
        return msgspec.structs.replace(data, root=prev, note=signer.sign(data.size, prev))

    return re_checkpointed(raws, sign)


def in_base64(root: str) -> str:
    """Return a root as notes write it."""
    return base64.b64encode(bytes.fromhex(root)).decode()


def decompressed(raw: bytes) -> bytes | None:
    """Return the text of a compressed file; None when it is damaged."""
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        return None
