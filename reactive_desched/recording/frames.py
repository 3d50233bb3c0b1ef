"""The frames of a recording: what lies on the disk, and how a damaged one is found.

A segment is `MAGIC`, the checksum of the last frame of the segment that it continues, and frames; a
file may hold several segments, one after the other. A frame has a header of a fixed size, with the
length, the checksum and the time of its first item, and rows that zstd compressed. Its checksum is
also over that of the frame before it, so that a frame that is gone is noticed. A frame depends on
those before it in its segment (`rows.py`), and on no other segment: what is behind a damaged frame
is read again from the next segment on.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

import cramjam
from msgspec import Struct

from reactive_desched.primitives.shortage import lacking
from reactive_desched.recording.items import Damage, Instant

RECORDING_FOLDER: Final = "recording"
"""The folder of a recording in that of the journal."""

MAGIC: Final = b"rdrec\x00\x00\x01"
"""How each segment begins; the last byte is the format, which a reader of another refuses."""

MAX_RAW_BYTES: Final = 16 * 2**20
"""So long the rows of a frame may be: a header that says more is damaged."""

NO_FRAME: Final = 0
"""What stands for the checksum of the frame before the first, of a segment that continues none."""

_BEGIN: Final = struct.Struct(f"<{len(MAGIC)}sI")
_HEADER: Final = struct.Struct("<IIIdd")
_LEVEL: Final = 3
_MOST_ADDED: Final = 1024
"""So much longer, and by a 128th, may rows be that zstd did not shorten."""
_SEGMENT_NAME: Final = re.compile(r"[0-9].*\.rdrec")
_NO_MEMORY: Final = "not enough memory", "returned null pointer"
"""What zstd says where it gets none."""


class Readable(Protocol):
    """A file that is open for reading."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, fewer only at the end."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to another place."""
        ...


class Frame(Struct, frozen=True, gc=False):
    """A frame as it was found: its place, the time of its first item, and how to read its rows."""

    offset: int
    end: int
    at: Instant
    payload: bytes
    raw_bytes: int
    checksum: int

    def rows(self) -> bytes:
        """Return the rows; raises ValueError where they are not what was compressed.

        Raises MemoryError where there is too little memory for them, which is no damage.
        """
        if not self.raw_bytes:
            return b""
        into = bytearray(self.raw_bytes)
        try:
            written = cramjam.zstd.decompress_into(self.payload, into)
        except BaseException as error:  # a panic of zstd's is no Exception
            if any(words in str(error) for words in _NO_MEMORY):
                raise MemoryError(str(error)) from error
            if not isinstance(error, cramjam.DecompressionError):
                raise
            raise ValueError(f"cannot be decompressed: {error}") from error
        if written != self.raw_bytes:
            raise ValueError("is shorter than its header says")
        return bytes(into)


class SegmentBegins(Struct, frozen=True, gc=False):
    """A segment begins at this place of the file.

    It continues the one whose last frame has the checksum `continues`, or none for `NO_FRAME`.
    """

    offset: int
    continues: int


def pack_begin(continues: int) -> bytes:
    """Return how a segment begins that continues one whose last frame has this checksum."""
    return _BEGIN.pack(MAGIC, continues)


def pack_frame(at: Instant, rows: bytes, before: int) -> tuple[bytes, int]:
    """Return a frame with these rows, and its checksum; compresses them, which takes a while.

    `before` is the checksum of the frame before it; of the first that of the segment it continues.
    """
    payload = bytes(cramjam.zstd.compress(rows, _LEVEL))
    checksum = _checksum(at, len(rows), payload, before)
    head = _HEADER.pack(len(payload), len(rows), checksum, at.wall_s, at.monotonic_s)
    return head + payload, checksum


def _checksum(at: Instant, raw_bytes: int, payload: bytes, before: int) -> int:
    head = _HEADER.pack(len(payload), raw_bytes, 0, at.wall_s, at.monotonic_s)
    return zlib.crc32(payload, zlib.crc32(head, before)) or 1  # 0 says that there is no frame


def read_frames(
    file: Readable, name: str, on_damage: Callable[[Damage], None], start: int = 0
) -> Iterator[Frame | SegmentBegins]:
    """Yield the frames of a file, and where each segment begins, from the segment at `start` on.

    Behind a damaged frame it goes on with the next segment, if there is one. What is wrong goes
    to `on_damage`; a frame that ends with the file was being written, and is damage as well.
    """
    at = start
    file.seek(at)
    while True:
        head = file.read(_BEGIN.size)
        if not head:
            return
        if len(head) < _BEGIN.size or not head.startswith(MAGIC):
            on_damage(Damage(name, at, *_not_a_segment(head)))
            next_at = _find_segment(file, at + 1)
            if next_at is None:
                return
            at = next_at
            continue
        _, before = _BEGIN.unpack(head)
        yield SegmentBegins(at, before)
        at += len(head)
        while True:
            found = _read_frame(file, at, before)
            if isinstance(found, Frame):
                yield found
                at, before = found.end, found.checksum
                continue
            if found:
                is_torn = isinstance(found, _Torn)
                on_damage(Damage(name, at, str(found), is_torn))
                next_at = _find_segment(file, at)
                if next_at is None:
                    return
                at = next_at
            break
        file.seek(at)


class _Torn(str):
    """The fault of a frame that ends with the file."""

    __slots__ = ()


def _read_frame(file: Readable, at: int, before: int) -> Frame | str:
    """Return the next frame, what is wrong with it, or nothing where a segment begins or it ends.

    Leaves the file where it is: the caller goes to where it reads on.
    """
    head = file.read(_HEADER.size)
    if not head or head.startswith(MAGIC):
        return ""
    if len(head) < _HEADER.size:
        return _torn(len(head))
    length, raw_bytes, checksum, wall_s, monotonic_s = _HEADER.unpack(head)
    if raw_bytes > MAX_RAW_BYTES or length > raw_bytes + raw_bytes // 128 + _MOST_ADDED:
        return "the header of the frame is damaged"
    payload = file.read(length)
    instant = Instant(wall_s, monotonic_s)
    if len(payload) < length:
        return _torn(len(head) + len(payload))
    if _checksum(instant, raw_bytes, payload, before) != checksum:
        return "the checksum of the frame is wrong, or a frame before it is gone"
    return Frame(at, at + len(head) + length, instant, payload, raw_bytes, checksum)


def _torn(size: int) -> _Torn:
    return _Torn(f"the last frame was not written to its end: {_cut_off(size)}")


def _cut_off(size: int) -> str:
    return f"{size} bytes are cut off"


def _not_a_segment(head: bytes) -> tuple[str, bool]:
    """Return what is wrong with the beginning of a segment, and whether it is a torn end."""
    begin = head[: len(MAGIC)]
    if begin[:-1] == MAGIC[:-1] and begin != MAGIC:
        return f"its format is {begin[-1]}, and this version reads {MAGIC[-1]}", False
    if MAGIC.startswith(begin):
        cut_off = _cut_off(len(head))
        return f"the beginning of the segment was not written to its end: {cut_off}", True
    return "no segment of a recording begins here", False


def _find_segment(file: Readable, at: int) -> int | None:
    """Find the next place at which a segment seems to begin, and go there."""
    file.seek(at)
    kept = b""
    while chunk := file.read(2**20):
        text = kept + chunk
        found = text.find(MAGIC)
        if found >= 0:
            at += found - len(kept)
            file.seek(at)
            return at
        at += len(chunk)
        kept = text[-len(MAGIC) + 1 :]
    return None


def segment_number(path: Path) -> int | None:
    """Return the number of a segment: those of a recording are in turn. None: it has no number."""
    digits = path.name.partition("-")[0]
    return int(digits) if digits.isdecimal() else None


def segment_paths(folder: Path) -> list[Path]:
    """Return the segments of a folder in their order; their names begin with a number.

    Raises OSError where this process lacks what it takes to list them.
    """
    try:
        named = [each for each in folder.iterdir() if _SEGMENT_NAME.fullmatch(each.name)]
    except OSError as error:
        if lacking(error):
            raise
        return []
    return sorted(each for each in named if each.is_file())
