"""Makes closed segments small; whatever happens in between, one whole file of each is there."""

import errno
import gzip
import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from reactive_desched.journal.atomic_files import TEMP_SUFFIX, sync_directory
from reactive_desched.journal.segments import GZIP_SUFFIX, Segment

_CHUNK_BYTES: Final = 1 << 20
_LEVEL: Final = 6


def compress(segment: Segment, check_cancelled: Callable[[], None]) -> None:
    """Put a compressed file in the place of a closed segment's plain one; blocks.

    The plain file goes only when the other is durable and was read back whole. `check_cancelled` is
    called now and then, and may raise. Raises OSError; then the plain file is still there.
    """
    final = segment.compressed_path
    temp_path = final.with_name(final.name + TEMP_SUFFIX)
    try:
        digest = _write(segment.path, temp_path, check_cancelled)
        _check(temp_path, digest, check_cancelled)
        temp_path.replace(final)
    finally:
        temp_path.unlink(missing_ok=True)
    sync_directory(final.parent)
    segment.path.unlink()
    sync_directory(final.parent)


def remove(segment: Segment) -> None:
    """Remove a segment, durably; blocks, and raises OSError.

    A compressed copy that a crash left beside the plain file goes first: it must not come back.
    """
    if not segment.is_compressed:
        segment.compressed_path.unlink(missing_ok=True)
    segment.path.unlink()
    sync_directory(segment.path.parent)


def remove_unfinished(directory: Path) -> None:
    """Remove what a crash left of a compression; blocks, and raises OSError."""
    for path in directory.glob(f"journal-*.jsonl{GZIP_SUFFIX}{TEMP_SUFFIX}"):
        path.unlink(missing_ok=True)


def _write(plain: Path, compressed: Path, check_cancelled: Callable[[], None]) -> bytes:
    """Write the compressed file, durably and as old as the plain one; return the text's digest."""
    with plain.open("rb") as source, compressed.open("wb") as target:
        status = os.fstat(source.fileno())
        os.fchmod(target.fileno(), status.st_mode & 0o777)
        with gzip.GzipFile("", "wb", _LEVEL, target, status.st_mtime) as packing:
            digest = _copy(source, packing.write, check_cancelled)
        target.flush()
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(target.fileno())
    return digest


def _check(compressed: Path, digest: bytes, check_cancelled: Callable[[], None]) -> None:
    """Raise OSError unless the compressed file holds the text of this digest."""
    try:
        with gzip.open(compressed, "rb") as source:
            is_whole = _copy(source, lambda _: None, check_cancelled) == digest
    except (EOFError, zlib.error):
        is_whole = False
    if not is_whole:
        raise OSError(errno.EIO, "reads back differently than it was written", str(compressed))


def _copy(
    source: IO[bytes] | gzip.GzipFile,
    write: Callable[[bytes], object],
    check_cancelled: Callable[[], None],
) -> bytes:
    """Hand over all there is to read; return its digest."""
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK_BYTES):
        check_cancelled()
        digest.update(chunk)
        write(chunk)
    return digest.digest()
