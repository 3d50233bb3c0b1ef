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
from reactive_desched.audit.findings import Bad, Report
from reactive_desched.audit.pinned_checkpoint import Kept
from reactive_desched.audit.verifying import verify
from reactive_desched.journal.events import event
from reactive_desched.journal.records import GENESIS, Entry, digest, encode, line, mark
from reactive_desched.journal.segments import segments
from reactive_desched.journal.signing.signed_note import parse_key
from reactive_desched.journal.signing.signer import Signer
from tests.support.journals import new_signer, some_events, write_journal


class Made(NamedTuple):
    """A journal as it was written: its files, its records in order, and its signer."""

    files: dict[str, bytes]
    records: list[Entry]
    signer: Signer

    def raw(self, seq: int) -> bytes:
        """Return the line of a record."""
        return self.records[seq - 1].raw

    def named(self, seq: int) -> str:
        """The name of the file that begins with this record."""
        return f"journal-{seq:020}.jsonl"

    def place(self, seq: int) -> tuple[str, int]:
        """The file and the offset of a record."""
        name = max(name for name in self.files if int(name[8:28]) <= seq)
        before = self.records[int(name[8:28]) - 1 : seq - 1]
        return name, sum(len(entry.raw) + 1 for entry in before)


def make(folder: Path) -> Made:
    """Make 23 records in four files (1-7, 8-14, 15-21, 22-23), with checkpoints within them too."""
    records = write_journal(folder, some_events(16), per_segment=5, seal_every=3)
    files = {one.path.name: one.path.read_bytes() for one in segments(folder)}
    return Made(files, records, new_signer(folder))


def look(
    files: dict[str, bytes], *keys: Signer, kept: Kept | None = None, folder: Path | None = None
) -> Report:
    """Verify these files with these keys."""
    with tempfile.TemporaryDirectory() as name:
        directory = folder or Path(name)
        for file, raw in files.items():
            (directory / file).write_bytes(raw)
        return verify(directory, [parse_key(one.public_key) for one in keys], "--key", kept)


def found(files: dict[str, bytes], *keys: Signer, kept: Kept | None = None) -> Bad:
    """Verify, and return what is bad."""
    bad = look(files, *keys, kept=kept).bad
    assert bad is not None
    return bad


def whole(files: dict[str, bytes], *keys: Signer, kept: Kept | None = None) -> Report:
    """Verify what must be whole."""
    report = look(files, *keys, kept=kept)
    assert report.ok, report.bad
    assert report.bad is None
    return report


def with_lines(made: Made, name: str, edit: Callable[[list[bytes]], Any]) -> dict[str, bytes]:
    """Return the files, with the lines of one edited."""
    lines = made.files[name].splitlines(keepends=True)
    edit(lines)
    return {**made.files, name: b"".join(lines)}


def chained(raws: Sequence[bytes]) -> list[bytes]:
    """Chain the records anew, as somebody does who changed one and hides it."""
    result = [raws[0]]
    for raw in raws[1:]:
        old = mark(raw)
        assert old is not None
        prev = digest(result[-1])
        result.append(
            raw.replace(f'"prev":"{old.prev}","rec'.encode(), f'"prev":"{prev}","rec'.encode())
        )
    return result


def in_files(made: Made, raws: Sequence[bytes]) -> dict[str, bytes]:
    """Lay the records out in files as they were."""
    starts = [int(name[8:28]) for name in sorted(made.files)]
    ends = [*starts[1:], len(raws) + 1]
    return {
        made.named(start): b"".join(raw + b"\n" for raw in raws[start - 1 : end - 1])
        for start, end in zip(starts, ends, strict=True)
    }


def rewritten(made: Made, seq: int, edit: Callable[[bytes], bytes]) -> list[bytes]:
    """Return all records, with one edited and those after it chained anew."""
    raws = [entry.raw for entry in made.records]
    raws[seq - 1] = edit(raws[seq - 1])
    return [*raws[: seq - 1], *chained(raws[seq - 1 :])]


def resealed(raws: Sequence[bytes], change: Callable[[Checkpoint, str], Checkpoint]) -> list[bytes]:
    """Change every checkpoint by what now stands before it, and chain anew."""
    result: list[bytes] = []
    for seq, raw in enumerate(raws, 1):
        prev = digest(result[-1]) if result else GENESIS
        result.append(_resealed(raw, seq, prev, change))
    return result


def _resealed(
    raw: bytes, seq: int, prev: str, change: Callable[[Checkpoint, str], Checkpoint]
) -> bytes:
    was = mark(raw)
    assert was is not None
    read = event(was.type, raw)
    assert read is not None
    data = change(read.data, prev) if was.type == CHECKPOINT else read.data
    fresh = msgspec.structs.replace(read, data=data, prev="", recordedtime="", sequence="")
    return line(encode(fresh), prev, read.recordedtime, seq)


def flipped(raw: bytes, at: int, mask: int = 1) -> bytes:
    """Return the text with one byte changed."""
    return raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]


def packed(made: Made) -> dict[str, bytes]:
    """Return the files with all but the last compressed."""
    *closed, last = sorted(made.files)
    small = {f"{name}.gz": gzip.compress(made.files[name], mtime=0) for name in closed}
    return {**small, last: made.files[last]}


def without(made: Made, *starts: int) -> dict[str, bytes]:
    """Return the files but those that begin with these records."""
    gone = {made.named(start) for start in starts}
    return {name: raw for name, raw in made.files.items() if name not in gone}


def resealed_by(signer: Signer, raws: Sequence[bytes], *, since: int) -> list[bytes]:
    """Sign the checkpoints from a record on with another key."""

    def sign(data: Checkpoint, prev: str) -> Checkpoint:
        if data.size + 1 < since:
            return data
        return msgspec.structs.replace(data, root=prev, note=signer.note(data.size, prev))

    return resealed(raws, sign)


def in_base64(root: str) -> str:
    """Return a root as notes write it."""
    return base64.b64encode(bytes.fromhex(root)).decode()


def unpacked(raw: bytes) -> bytes | None:
    """Return the text of a compressed file; None when it is damaged."""
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        return None
