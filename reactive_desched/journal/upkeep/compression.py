"""Makes closed segments small; whatever happens in between, one whole file of each is there."""

import errno
import gzip
import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from reactive_desched.journal.durable import UNFINISHED, sync_directory
from reactive_desched.journal.segments import COMPRESSED, Segment

_CHUNK_BYTES: Final = 1 << 20
_LEVEL: Final = 6


def compress(one: Segment, go_on: Callable[[], None]) -> None:
    """Put a compressed file in the place of a closed segment's plain one; blocks.

    The plain file goes only when the other is durable and was read back whole. It calls `go_on`
    now and then, which may raise. Raises OSError; then the plain file is still there.
    """
    final = one.path.with_name(one.path.name + COMPRESSED)
    unfinished = final.with_name(final.name + UNFINISHED)
    try:
        digest = _write(one.path, unfinished, go_on)
        _check(unfinished, digest, go_on)
        unfinished.replace(final)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_directory(final.parent)
    one.path.unlink()
    sync_directory(final.parent)


def remove(one: Segment) -> None:
    """Remove a segment, durably; blocks, and raises OSError.

    A compressed copy that a crash left beside the plain file goes first: it must not come back.
    """
    if not one.is_compressed:
        one.path.with_name(one.path.name + COMPRESSED).unlink(missing_ok=True)
    one.path.unlink()
    sync_directory(one.path.parent)


def remove_unfinished(directory: Path) -> None:
    """Remove what a crash left of a compression; blocks, and raises OSError."""
    for path in directory.glob(f"journal-*.jsonl{COMPRESSED}{UNFINISHED}"):
        path.unlink(missing_ok=True)


def _write(plain: Path, compressed: Path, go_on: Callable[[], None]) -> bytes:
    """Write the compressed file, durably and as old as the plain one; return the text's digest."""
    with plain.open("rb") as source, compressed.open("wb") as target:
        status = os.fstat(source.fileno())
        os.fchmod(target.fileno(), status.st_mode & 0o777)
        with gzip.GzipFile("", "wb", _LEVEL, target, status.st_mtime) as packing:
            digest = _copy(source, packing.write, go_on)
        target.flush()
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(target.fileno())
    return digest


def _check(compressed: Path, digest: bytes, go_on: Callable[[], None]) -> None:
    """Raise OSError unless the compressed file holds the text of this digest."""
    try:
        with gzip.open(compressed, "rb") as source:
            is_whole = _copy(source, lambda _: None, go_on) == digest
    except (EOFError, zlib.error):
        is_whole = False
    if not is_whole:
        raise OSError(errno.EIO, "reads back differently than it was written", str(compressed))


def _copy(
    source: IO[bytes] | gzip.GzipFile,
    write: Callable[[bytes], object],
    go_on: Callable[[], None],
) -> bytes:
    """Hand over all there is to read; return its digest."""
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK_BYTES):
        go_on()
        digest.update(chunk)
        write(chunk)
    return digest.digest()
