"""The times that a recording covers, and its gaps, by its frames alone."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from reactive_desched.recording.frames import NO_FRAME, SegmentBegins
from reactive_desched.recording.items import Damage, Instant, PictureBegun
from reactive_desched.recording.rows import picture_end
from reactive_desched.recording.segments import (
    OnDamage,
    frames_in,
    ignore_damage,
    name_lost_end,
    picture_begun_in,
    recording_paths,
    unreadable,
)
from reactive_desched.text.ages import format_duration
from reactive_desched.text.times import format_second

_SHORT_S: Final = 60.0
"""A recording that lacks less of the time that was asked for is not said to be short."""


class RecordingSummary(Struct, frozen=True, kw_only=True):
    """The contents of a recording, by its files: times are seconds since the epoch."""

    first_s: float
    last_s: float
    bytes: int
    segments: int
    version: str
    cluster: str
    interruptions: tuple[tuple[float, float], ...]
    """Between which times nothing is recorded."""
    damages: tuple[Damage, ...]

    def gaps_between(self, since_s: float, until_s: float) -> Iterator[tuple[float, float]]:
        """Yield between which times of a period, within the recording, nothing is recorded."""
        for gap_begins_s, gap_ends_s in self.interruptions:
            begins_s, ends_s = max(gap_begins_s, since_s), min(gap_ends_s, until_s)
            if begins_s < ends_s:
                yield begins_s, ends_s

    def shortfall(self, since_s: float | None, until_s: float | None) -> str:
        """Say how much of a period is recorded that was asked for; empty where all of it is.

        None is the beginning or the end of the recording.
        """
        first_s, last_s = self.first_s, self.last_s
        asked_since_s = first_s if since_s is None else since_s
        asked_until_s = last_s if until_s is None else until_s
        since_s, until_s = max(first_s, asked_since_s), min(last_s, asked_until_s)
        missing_s = sum(
            ends_s - begins_s for begins_s, ends_s in self.gaps_between(since_s, until_s)
        )
        recorded_s, asked_s = until_s - since_s - missing_s, asked_until_s - asked_since_s
        if recorded_s <= 0 or asked_s - recorded_s < _SHORT_S:
            return ""
        return (
            f"{format_duration(recorded_s)} of the {format_duration(asked_s)} asked for are"
            f" recorded, between {format_second(since_s)} and {format_second(until_s)}"
        )


def summarize_recording(path: Path) -> RecordingSummary:
    """Read a recording's frames, but no more rows than the first of each segment.

    Raises NotRecorded where there is none.
    """
    paths = recording_paths(path)
    damages: list[Damage] = []
    spans = _spans_of(path, damages.append)
    newest = next((span.begun for span in reversed(spans) if span.begun is not None), None)
    pieces = (each for span in spans for each in span.pieces)
    covered = _joined(sorted((each[0].wall_s, each[-1].wall_s) for each in pieces))
    gaps = {
        gap
        for before, after in pairwise(spans)
        if _is_gap(before, after)
        for gap in _uncovered(before.last_s, after.first_s, covered)
    }
    return RecordingSummary(
        first_s=spans[0].first_s,
        last_s=spans[-1].last_s,
        bytes=sum(each.stat().st_size for each in paths if each.exists()),
        segments=len(spans),
        version="" if newest is None else newest.version,
        cluster="" if newest is None else newest.cluster,
        interruptions=tuple(sorted(gaps)),
        damages=tuple(damages),
    )


def covered_times(path: Path, on_damage: OnDamage) -> list[tuple[float, float]]:
    """Return from when to when there is a cluster to look at, oldest first.

    Behind a gap that is from the end of a picture on. Raises NotRecorded where there is none.
    """
    spans = _spans_of(path, on_damage)
    found: list[list[Instant]] = []  # the first and the last moment of each
    known: _Span | None = None  # the segment before, where the cluster is known at its end
    for span in spans:
        pieces = span.pieces
        if known is None or _is_gap(known, span):
            if (pictured := _pictured(span)) is None:
                known = None
                continue
            found.append([pictured, pictured])
            pieces = [each for each in pieces if each[-1].monotonic_s >= pictured.monotonic_s]
        known = span
        for piece in pieces:
            if found[-1][-1].is_step_to(piece[0]):
                found.append([piece[0], piece[0]])
            found[-1][-1] = max(found[-1][-1], piece[-1])
    return _joined(sorted((first.wall_s, last.wall_s) for first, last in found))


def _uncovered(
    since_s: float, until_s: float, covered: Iterable[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """Yield the parts of a time that are not covered; where a clock was set it may be, elsewhere.

    Of a time that ends before it begins, by a clock that was set back meanwhile, nothing is missing
    that a clock showed.
    """
    for first_s, last_s in covered:
        if first_s >= until_s:
            break
        if since_s < first_s:
            yield since_s, first_s
        since_s = max(since_s, last_s)
    if since_s < until_s:
        yield since_s, until_s


def _joined(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join times that overlap, as those that a clock showed twice; they are in their order."""
    joined: list[tuple[float, float]] = []
    for first_s, last_s in times:
        if joined and first_s <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last_s)
        else:
            joined.append((first_s, last_s))
    return joined


def _pictured(span: "_Span") -> Instant | None:
    """Return when the picture at the head of a segment ended; None where it is not whole."""
    is_begun = False
    for _, each in frames_in((span.path,), ignore_damage, span.offset):
        if isinstance(each, SegmentBegins):
            if is_begun:
                return None
            is_begun = True
            continue
        try:
            ended = picture_end(each.at, each.rows())
        except ValueError:
            return None
        if ended is not None:
            return ended
    return None


class _Span(Struct):
    """A segment: its times, which it continues, its last frame, and its picture.

    `pieces` are the first and the last moment of each time in which its clock was not set.
    """

    path: Path
    offset: int
    pieces: list[list[Instant]]
    continues: int
    last: int
    begun: PictureBegun | None

    @property
    def first_s(self) -> float:
        """Return its first time of day."""
        return self.pieces[0][0].wall_s

    @property
    def last_s(self) -> float:
        """Return its last time of day."""
        return self.pieces[-1][-1].wall_s


def _is_gap(before: _Span, after: _Span) -> bool:
    """Say whether something is missing between two segments."""
    is_continued = after.begun is not None and after.begun.is_continued
    return not is_continued or after.continues != before.last


def _spans_of(path: Path, on_damage: OnDamage) -> list[_Span]:
    """Return the segments of a recording; raises NotRecorded where none can be read."""
    spans: list[_Span] = []
    damages: list[Damage] = []
    segment: SegmentBegins | None = None
    named = 0  # of the damages, before the segment that was read last
    for file, each in frames_in(recording_paths(path), damages.append, 0):
        if isinstance(each, SegmentBegins):
            segment, last = each, spans[-1].last if spans else NO_FRAME
            name_lost_end(file, each, last, damages[named:], damages.append)
            named = len(damages)
        elif segment is not None:
            begun, pieces = picture_begun_in(each, file, damages.append), [[each.at, each.at]]
            spans.append(
                _Span(file, segment.offset, pieces, segment.continues, each.checksum, begun)
            )
            segment = None
        else:
            pieces, spans[-1].last = spans[-1].pieces, each.checksum
            if (before := pieces[-1][-1]).is_step_to(each.at):
                passed_s = max(0.0, each.at.monotonic_s - before.monotonic_s)
                pieces[-1][-1] = Instant(before.wall_s + passed_s, each.at.monotonic_s)
                pieces.append([each.at, each.at])
            pieces[-1][-1] = each.at
    if not spans:
        raise unreadable(path, damages)
    for damage in damages:
        on_damage(damage)
    return spans
