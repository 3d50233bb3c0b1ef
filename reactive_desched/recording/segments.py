"""The files of a recording and the segments in them, each with a picture at its head."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from reactive_desched.errors import NotRecorded
from reactive_desched.primitives.shortage import lacking
from reactive_desched.recording.frames import (
    NO_FRAME,
    Frame,
    SegmentBegins,
    read_frames,
    segment_number,
    segment_paths,
)
from reactive_desched.recording.items import Damage, Instant, PictureBegun
from reactive_desched.recording.rows import RowReader
from reactive_desched.recording.segment_file import is_being_written

OnDamage = Callable[[Damage], None]


def ignore_damage(_: Damage) -> None:
    """Take a damage that another reading names."""


class RecordedSegment(Struct, frozen=True):
    """A part of a recording that begins with a picture, and when that began."""

    path: Path
    offset: int
    at: Instant


def recording_paths(path: Path) -> list[Path]:
    """Return the files of a recording: a folder's segments, oldest first, or the file itself.

    Raises NotRecorded where there is none, and where segments of two recordings, or recordings of
    two clusters, are mixed.
    """
    if path.is_dir():
        if found := segment_paths(path):
            _refuse_mixed(path, found)
            _refuse_clusters(path, found)
            return found
        raise NotRecorded(f"{path} holds no recording: no file in it ends in .rdrec")
    if not path.exists():
        raise NotRecorded(f"{path} does not exist, so there is no recording")
    return [path]


def _refuse_mixed(folder: Path, paths: Sequence[Path]) -> None:
    """Raise NotRecorded where two segments have one number: a recorder counts on."""
    for before, after in pairwise(paths):
        number = segment_number(after)
        if number is not None and number == segment_number(before):
            raise NotRecorded(
                f"{folder} has segments of two recordings: {before.name} and {after.name} have one"
                " number; move those of one of them to a folder of its own"
            )


def _refuse_clusters(folder: Path, paths: Sequence[Path]) -> None:
    """Raise NotRecorded where the segments are of two clusters."""
    named = ((path, begun) for path, begun in _beginnings(paths) if begun.cluster_uid)
    for (before, first), (after, begun) in pairwise(named):
        if begun.cluster_uid != first.cluster_uid:
            raise NotRecorded(
                f"{folder} has recordings of two clusters: {before.name} is of"
                f" {_cluster_text(first)}, {after.name} of {_cluster_text(begun)}; move those of"
                " one of them to a folder of its own"
            )


def _beginnings(paths: Iterable[Path]) -> Iterator[tuple[Path, PictureBegun]]:
    """Yield the head of each file of the recorder that continues no other, as far as it is read."""
    for path in paths:
        continues = NO_FRAME
        for _, each in frames_in((path,), ignore_damage, 0):
            if isinstance(each, SegmentBegins):
                continues = each.continues
            elif continues == NO_FRAME and (begun := picture_begun_in(each, path, ignore_damage)):
                yield path, begun
            if continues != NO_FRAME or not isinstance(each, SegmentBegins):
                break


def _cluster_text(begun: PictureBegun) -> str:
    return f"{begun.cluster} ({begun.cluster_uid})" if begun.cluster else begun.cluster_uid


def recorded_cluster(folder: Path) -> PictureBegun | None:
    """Return the newest head of a segment that names its cluster; None where none does."""
    heads = _beginnings(reversed(segment_paths(folder)))
    return next((begun for _, begun in heads if begun.cluster_uid), None)


_NOTHING_RECORDED: Final = (
    "nothing is recorded in it: its process ended before it wrote into it, or the file was emptied"
)


def missing_before(path: Path, before: Path | None) -> Iterator[Damage]:
    """Yield what is wrong where segments are missing between two files."""
    last = None if before is None else segment_number(before)
    number = segment_number(path)
    if last is None or number is None or number <= last + 1:
        return
    first = f"{last + 1:08}"
    lost, it = f"segment {first} of the recording is not here", "it"
    if number > last + 2:
        lost, it = f"segments {first} to {number - 1:08} of the recording are not here", "them"
    yield Damage(path.name, 0, f"before it {lost}: copy {it} to this folder")


def name_lost_end(
    path: Path, begins: SegmentBegins, last: int, named: Iterable[Damage], on_damage: OnDamage
) -> None:
    """Name a segment that does not continue the `last` frame before it.

    Where damage was `named` since then, that says it, unless it seemed to be a torn end.
    """
    is_cut = begins.continues != last and NO_FRAME not in (begins.continues, last)
    if is_cut and all(each.is_torn_end for each in named):
        on_damage(Damage(path.name, begins.offset, "frames before this segment are lost"))


def find_segments(paths: Sequence[Path], on_damage: OnDamage) -> list[RecordedSegment]:
    """Find the segments of these files, without reading more than the first frame of each.

    A file of the recorder has one; one that was exported or imported may have several.
    """
    found: list[RecordedSegment] = []
    for path in paths:
        of_path = _segments_of(path, on_damage)
        found += islice(of_path, 1) if path.suffix == _OF_RECORDER and len(paths) > 1 else of_path
    return found


def _segments_of(path: Path, on_damage: OnDamage) -> Iterator[RecordedSegment]:
    begins: int | None = None
    for _, each in frames_in((path,), on_damage, 0):
        if isinstance(each, SegmentBegins):
            begins = each.offset
        elif begins is not None:
            yield RecordedSegment(path, begins, each.at)
            begins = None


_OF_RECORDER: Final = ".rdrec"


def frames_in(
    paths: Iterable[Path], on_damage: OnDamage, offset: int
) -> Iterator[tuple[Path, Frame | SegmentBegins]]:
    """Yield the frames of the files in turn; of the first those from the segment at `offset` on."""
    before: Path | None = None
    for path in paths:
        for damage in missing_before(path, before):
            on_damage(damage)
        for frame in _frames_of(path, on_damage, offset):
            yield path, frame
        before, offset = path, 0


def _frames_of(path: Path, on_damage: OnDamage, offset: int) -> Iterator[Frame | SegmentBegins]:
    """Yield the frames of a file; one without any is damage, unless it was begun just now."""
    damages: list[Damage] = []

    def damaged(damage: Damage) -> None:
        damages.append(damage)
        on_damage(damage)

    is_empty = True
    try:
        with path.open("rb") as file:
            for frame in read_frames(file, path.name, damaged, offset):
                is_empty = is_empty and isinstance(frame, SegmentBegins)
                yield frame
    except OSError as error:
        if lacking(error):
            raise
        damaged(Damage(path.name, 0, f"cannot be read: {error.strerror}"))
    if is_empty and not damages and not is_being_written(path):
        on_damage(Damage(path.name, 0, _NOTHING_RECORDED, is_torn_end=True))


def picture_begun_in(frame: Frame, path: Path, on_damage: OnDamage) -> PictureBegun | None:
    """Return the head of the picture that a frame begins with; None where it begins none."""
    try:
        for item in RowReader().read(frame.at, frame.rows()):
            return item if isinstance(item, PictureBegun) else None
    except ValueError as error:
        on_damage(Damage(path.name, frame.offset, f"the frame {error}"))
    return None


def unreadable(path: Path, damages: Sequence[Damage]) -> NotRecorded:
    """Return the error for a recording without a segment; it names the first damage."""
    damage = f": {damages[0]}" if damages else ""
    return NotRecorded(f"{path} holds no recording that can be read{damage}")
