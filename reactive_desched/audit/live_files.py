"""Opening a journal's files while the controller compresses, or removes, them."""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final, cast

from reactive_desched.audit.chain import LONGEST_LINE
from reactive_desched.errors import ConfigError
from reactive_desched.journal.segments import COMPRESSED, UNREADABLE, Segment, segments

_BUFFER_BYTES: Final = 1 << 18
_GZIP: Final = 31  # zlib's word for a gzip header and the largest window


def open_segment(one: Segment) -> tuple[Segment, IO[bytes]] | None:
    """Open a segment, compressed meanwhile or not; None when it is gone.

    Returns it under the name that it has now. Raises ConfigError where we may not read it.
    """
    for path in (one.path, _other(one)):
        found = Segment(one.first_seq, path)
        try:
            return found, _buffered(found)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"{path}: cannot read it: {error.strerror}") from error
    return None


def is_before_the_oldest(one: Segment, directory: Path) -> bool:
    """Say whether retention has come past this segment by now."""
    return one.first_seq < min((each.first_seq for each in segments(directory)), default=0)


def lines_of(one: Segment, file: IO[bytes]) -> Iterator[bytes]:
    """Yield an open file's lines with their ends; one that is too long comes in pieces.

    Raises one of UNREADABLE behind the last line that a damaged file still gives.
    """
    plain = iter(partial(file.readline, LONGEST_LINE), b"")
    return _packed_lines(one.path, plain) if one.is_compressed else plain


def ahead(rest: Iterator[bytes], files: list[Segment], most: int) -> list[bytes]:
    """Return at most so many lines of the rest of a file and of those after it, as far as read."""
    found: list[bytes] = []
    with suppress(*UNREADABLE):
        found.extend(islice(chain(rest, _all(files)), most))
    return found


def _all(files: list[Segment]) -> Iterator[bytes]:
    for one in files:
        if opened := open_segment(one):
            with opened[1] as file:
                yield from lines_of(opened[0], file)


def _other(one: Segment) -> Path:
    """Return the path of the compressed form of a plain segment, and the other way round."""
    name = one.path.name
    other = name.removesuffix(COMPRESSED) if one.is_compressed else name + COMPRESSED
    return one.path.with_name(other)


def _buffered(one: Segment) -> IO[bytes]:
    """Open it to be read to its end: a line costs a quarter of what it does in small portions."""
    if not one.is_compressed:
        return one.path.open("rb", _BUFFER_BYTES)
    return cast("IO[bytes]", BufferedReader(one.open(), _BUFFER_BYTES))


def _packed_lines(path: Path, lines: Iterator[bytes]) -> Iterator[bytes]:
    given = 0
    try:
        for line in lines:
            given += len(line)
            yield line
    except UNREADABLE:
        yield from _whole_lines(path, given)  # what was unpacked already, and lost with the buffer
        raise


def _whole_lines(path: Path, skip: int) -> Iterator[bytes]:
    """Yield the lines of a damaged file behind so many bytes, as far as it can be unpacked."""
    unpack, line = zlib.decompressobj(_GZIP), bytearray()
    with suppress(*UNREADABLE), path.open("rb") as file:
        for packed in iter(partial(file.read, _BUFFER_BYTES), b""):
            for one in packed:  # byte by byte: an error takes along all that it was given with
                line += unpack.decompress(bytes((one,)))
                if (dropped := min(skip, len(line))) or b"\n" in line:
                    del line[:dropped]
                    skip -= dropped
                    *whole, line = line.split(b"\n")
                    yield from (bytes(each) + b"\n" for each in whole)
