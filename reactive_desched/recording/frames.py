"""The frames of a recording: what lies on the disk, and how a damaged one is found.

A segment is `MAGIC` and then frames; a file may hold several segments, one after the other. A frame
has a header of a fixed size, with the length, the checksum and the time of its first item, and rows
that zstd compressed. A frame depends on those before it in its segment (`rows.py`), and on no other
segment: what is behind a damaged frame is read again from the next segment on.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

import cramjam
from msgspec import Struct

from reactive_desched.recording.items import Damage, Instant

RECORDING_FOLDER: Final = "recording"
"""The folder of a recording in that of the journal."""

MAGIC: Final = b"rdrec\x00\x00\x01"
"""How each segment begins; the last byte is the format, which a reader of another refuses."""

MAX_RAW_BYTES: Final = 16 * 2**20
"""So long the rows of a frame may be: a header that says more is damaged."""

_HEADER: Final = struct.Struct("<IIIdd")
_LEVEL: Final = 3


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

    def rows(self) -> bytes:
        """Return the rows; raises ValueError where they are not what was compressed."""
        if not self.raw_bytes:
            return b""
        into = bytearray(self.raw_bytes)
        try:
            written = cramjam.zstd.decompress_into(self.payload, into)
        except Exception as error:
            raise ValueError(f"cannot be decompressed: {error}") from error
        if written != self.raw_bytes:
            raise ValueError("is shorter than its header says")
        return bytes(into)


class SegmentBegins(Struct, frozen=True, gc=False):
    """A segment begins at this place of the file."""

    offset: int


def pack_frame(at: Instant, rows: bytes) -> bytes:
    """Return a frame with these rows; compresses them, which takes a while for many."""
    payload = bytes(cramjam.zstd.compress(rows, _LEVEL))
    checksum = _checksum(at, len(rows), payload)
    return _HEADER.pack(len(payload), len(rows), checksum, at.wall_s, at.monotonic_s) + payload


def _checksum(at: Instant, raw_bytes: int, payload: bytes) -> int:
    head = _HEADER.pack(len(payload), raw_bytes, 0, at.wall_s, at.monotonic_s)
    return zlib.crc32(payload, zlib.crc32(head))


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
        head = file.read(len(MAGIC))
        if not head:
            return
        if head != MAGIC:
            on_damage(Damage(name, at, _not_a_segment(head, at)))
            next_at = _find_segment(file, at + 1)
            if next_at is None:
                return
            at = next_at
            continue
        yield SegmentBegins(at)
        at += len(MAGIC)
        while True:
            found = _read_frame(file, at)
            if isinstance(found, Frame):
                yield found
                at = found.end
                continue
            if found:
                on_damage(Damage(name, at, found))
                next_at = _find_segment(file, at)
                if next_at is None:
                    return
                at = next_at
            break
        file.seek(at)


def _read_frame(file: Readable, at: int) -> Frame | str:
    """Return the next frame, what is wrong with it, or nothing where a segment begins or it ends.

    Leaves the file where it is: the caller goes to where it reads on.
    """
    head = file.read(_HEADER.size)
    if not head or head.startswith(MAGIC):
        return ""
    if len(head) < _HEADER.size:
        return _torn(len(head))
    length, raw_bytes, checksum, wall_s, monotonic_s = _HEADER.unpack(head)
    if raw_bytes > MAX_RAW_BYTES or length > 2 * MAX_RAW_BYTES:
        return "the header of the frame is damaged"
    payload = file.read(length)
    instant = Instant(wall_s, monotonic_s)
    if len(payload) < length:
        return _torn(len(head) + len(payload))
    if _checksum(instant, raw_bytes, payload) != checksum:
        return "the checksum of the frame is wrong"
    return Frame(at, at + len(head) + length, instant, payload, raw_bytes)


def _torn(size: int) -> str:
    return f"the last frame was not written to its end: {size} bytes are cut off"


def _not_a_segment(head: bytes, at: int) -> str:
    if head[:-1] == MAGIC[:-1]:
        return f"its format is {head[-1]}, and this version reads {MAGIC[-1]}"
    if MAGIC.startswith(head) and at == 0:
        return "its beginning was not written to its end"
    return "no segment of a recording begins here"


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


def segment_paths(folder: Path) -> list[Path]:
    """Return the segments of a folder in their order; their names begin with a number."""
    return sorted(each for each in folder.glob("[0-9]*.rdrec") if each.is_file())
