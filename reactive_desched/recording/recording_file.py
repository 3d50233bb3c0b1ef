"""Writes a recording to one file, to be kept, sent, or looked at where no controller runs."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from reactive_desched.errors import RecordingError
from reactive_desched.model.objects import ClusterObject
from reactive_desched.recording.frames import NO_FRAME, pack_begin, pack_frame
from reactive_desched.recording.items import (
    Item,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    RecordingInterrupted,
    with_following,
)
from reactive_desched.recording.rows import RowWriter
from reactive_desched.state.resources import PODS

FRAME_BYTES: Final = 2**20
_STEP: Final = 256
_UNFINISHED: Final = ".unfinished"
_NOTHING: Final = (
    "nothing that can be read is recorded of that time, so nothing was written; `reactive-desched"
    " recording status` says which time is recorded"
)


class Writable(Protocol):
    """A file that is open for writing."""

    def write(self, data: bytes, /) -> int:
        """Write all of these bytes."""
        ...


class Written:
    """The number of items that were written, and the times of the first and the last of them."""

    def __init__(self) -> None:
        self.items = 0
        self.first_s = self.last_s = 0.0

    def count(self, item: Item) -> None:
        """Count an item."""
        if not self.items:
            self.first_s = item.at.wall_s
        self.items += 1
        self.last_s = item.at.wall_s


def write_recording(items: Iterable[Item], file: Writable) -> Written:
    """Write items to an open file: a segment for each picture, and one for what comes before it.

    The last item of each segment has a frame of its own, whose time is the end of the segment.
    Raises RecordingError where there is nothing to write.
    """
    written, rows, checksum = Written(), RowWriter(), NO_FRAME
    pods: dict[str, ClusterObject] = {}
    is_missing = False  # something was, since the segment began

    def flush() -> int:
        if (taken := rows.take()) is None:
            return checksum
        frame, last = pack_frame(*taken, checksum)
        file.write(frame)
        return last

    for item, following in with_following(_from_first_time(items)):
        is_last = following is None or isinstance(following, PictureBegun)
        if is_last or (rows.at is not None and rows.at.is_step_to(item.at)):
            checksum = flush()  # a time is found by the times of frames
        if isinstance(item, PictureBegun) or not written.items:
            checksum = flush()
            is_continued = isinstance(item, PictureBegun) and item.is_continued
            checksum = checksum if is_continued and not is_missing else NO_FRAME
            is_missing = False
            file.write(pack_begin(checksum))
            rows = RowWriter()
            pods.clear()
        if isinstance(item, ObjectFound | ObjectChanged) and item.resource == PODS:
            rows.add(item, pods.get(item.obj.key))
            pods[item.obj.key] = item.obj
        else:
            rows.add(item)
            is_missing = is_missing or isinstance(item, RecordingInterrupted)
        written.count(item)
        if written.items % _STEP == 0:
            rows.encode()
            if len(rows) >= FRAME_BYTES:
                checksum = flush()
    flush()
    if not written.items:
        raise RecordingError(_NOTHING)
    return written


def _from_first_time(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items; what is missing before the first of them is missing up to its time."""
    gap: RecordingInterrupted | None = None
    rest = iter(items)
    for item in rest:
        if isinstance(item, RecordingInterrupted):
            gap = item
            continue
        if gap is not None:
            yield replace(gap, at=item.at)
        yield item
        break
    yield from rest


def write_file(items: Iterable[Item], path: Path) -> Written:
    """Write items to a new file, for its owner alone; it is there once it is whole.

    Raises RecordingError where there is such a file, or nothing to write, or the disk takes none.
    """
    if path.exists():
        raise RecordingError(f"{path} exists: name another file, or remove it")
    unfinished = path.with_name(path.name + _UNFINISHED)
    try:
        fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                written = write_recording(items, file)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(f"{path} cannot be written: {error.strerror or error}") from error
    return written
