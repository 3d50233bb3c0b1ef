"""Opening a journal's files while the controller compresses, or removes, them."""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final, cast

from reactive_desched.audit.chain import MAX_LINE_BYTES
from reactive_desched.errors import ConfigError
from reactive_desched.journal.segments import GZIP_SUFFIX, READ_ERRORS, Segment, list_segments

_BUFFER_BYTES: Final = 1 << 18
_GZIP: Final = 31  # zlib's word for a gzip header and the largest window


def open_segment(segment: Segment) -> tuple[Segment, IO[bytes]] | None:
    """Open a segment, compressed meanwhile or not; None when it is gone.

    Returns it under the name that it has now. Raises ConfigError where we may not read it.
    """
    for path in (segment.path, _other_form(segment)):
        found = Segment(segment.first_seq, path)
        try:
            return found, _open_buffered(found)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"{path}: cannot read it: {error.strerror}") from error
    return None


def is_removed_by_retention(segment: Segment, directory: Path) -> bool:
    """Say whether retention has come past this segment by now."""
    return segment.first_seq < min((each.first_seq for each in list_segments(directory)), default=0)


def iter_lines(segment: Segment, file: IO[bytes]) -> Iterator[bytes]:
    """Yield an open file's lines with their ends; one that is too long comes in pieces.

    Raises one of UNREADABLE behind the last line that a damaged file still gives.
    """
    plain = iter(partial(file.readline, MAX_LINE_BYTES), b"")
    return _compressed_lines(segment.path, plain) if segment.is_compressed else plain


def read_ahead(rest: Iterator[bytes], files: list[Segment], limit: int) -> list[bytes]:
    """Return at most so many lines of the rest of a file and of those after it, as far as read."""
    found: list[bytes] = []
    with suppress(*READ_ERRORS):
        found.extend(islice(chain(rest, _all_lines(files)), limit))
    return found


def _all_lines(files: list[Segment]) -> Iterator[bytes]:
    for one in files:
        if opened := open_segment(one):
            with opened[1] as file:
                yield from iter_lines(opened[0], file)


def _other_form(segment: Segment) -> Path:
    """Return the path of the compressed form of a plain segment, and the other way round."""
    if not segment.is_compressed:
        return segment.compressed_path
    return segment.path.with_name(segment.path.name.removesuffix(GZIP_SUFFIX))


def _open_buffered(segment: Segment) -> IO[bytes]:
    """Open it to be read to its end: a line costs a quarter of what it does in small portions."""
    if not segment.is_compressed:
        return segment.path.open("rb", _BUFFER_BYTES)
    return cast("IO[bytes]", BufferedReader(segment.open(), _BUFFER_BYTES))


def _compressed_lines(path: Path, lines: Iterator[bytes]) -> Iterator[bytes]:
    yielded_bytes = 0
    try:
        for line in lines:
            yielded_bytes += len(line)
            yield line
    except READ_ERRORS:
        yield from _salvage_lines(
            path, yielded_bytes
        )  # what was unpacked already, and lost with the buffer
        raise


def _salvage_lines(path: Path, skip: int) -> Iterator[bytes]:
    """Yield the lines of a damaged file behind so many bytes, as far as it can be unpacked."""
    unpack, line = zlib.decompressobj(_GZIP), bytearray()
    with suppress(*READ_ERRORS), path.open("rb") as file:
        for packed in iter(partial(file.read, _BUFFER_BYTES), b""):
            for one in packed:  # byte by byte: an error takes along all that it was given with
                line += unpack.decompress(bytes((one,)))
                if (dropped := min(skip, len(line))) or b"\n" in line:
                    del line[:dropped]
                    skip -= dropped
                    *whole, line = line.split(b"\n")
                    yield from (bytes(each) + b"\n" for each in whole)
