"""Decides which closed segments are compressed and removed, and what a sink loses by it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.policy.settings.recording import RetentionSettings


class SegmentInfo(NamedTuple):
    """A segment as it lies on the disk."""

    first_seq: int
    size: int
    is_compressed: bool


class Pins(Struct, frozen=True, gc=False, kw_only=True):
    """The records that must stay.

    `active_first_seq` is the first sequence of the segment being written, `oldest_open_seq` that of
    the oldest intent without an outcome, and `acked_seqs` the last that each configured sink has.
    """

    active_first_seq: int
    oldest_open_seq: int | None = None
    acked_seqs: Mapping[str, int] = {}

    def past_losses(self, reported: Mapping[str, int]) -> "Pins":
        """Return the same, without records whose loss is reported to the sink already."""
        acked_seqs = {
            sink: max(seq, reported.get(sink, 0)) for sink, seq in self.acked_seqs.items()
        }
        return replace(self, acked_seqs=acked_seqs)


class Loss(NamedTuple):
    """Records that are removed before a sink has them, from the first to the last."""

    sink: str
    first: int
    last: int


class CleanupPlan(Struct, frozen=True, gc=False):
    """The segments to remove and to compress, named by their first sequence, oldest first.

    Compress, then plan again, as the smaller files may spare some; remove what every sink has;
    record the losses, and only when they are durable drop what a sink has not read.
    """

    compress: tuple[int, ...] = ()
    remove: tuple[int, ...] = ()
    losses: tuple[Loss, ...] = ()
    drop_unread: tuple[int, ...] = ()


class _ClosedSegment(NamedTuple):
    """A segment that is not written any more, with its last sequence."""

    info: SegmentInfo
    last_seq: int


def plan_cleanup(
    segments: Sequence[SegmentInfo],
    pins: Pins,
    limits: RetentionSettings,
    *,
    oldest_age_s: float = 0.0,
) -> CleanupPlan:
    """Decide what to compress and remove, of segments oldest first.

    The segment being written stays, and so does everything from the oldest open intent on. The
    others go oldest first, without leaving a gap: by size as far as every sink has read them, and
    beyond the hard cap in any case. Where no segment goes by size, the oldest goes if its last
    record is too old, and only that one: a clock that jumped forward costs one segment a round.
    """
    closed = _closed_segments(segments, pins)
    total = sum(one.size for one in segments)
    removable = _before_open_intents(closed, pins)
    acked_by_all = min(pins.acked_seqs.values(), default=pins.active_first_seq)
    read = [one for one in removable if one.last_seq <= acked_by_all]
    by_size = _count_beyond(read, total, limits.max_bytes)
    by_age = int(not by_size and bool(read) and oldest_age_s > limits.max_age_s)
    removed = by_size + by_age
    capped = max(removed, _count_beyond(removable, total, limits.hard_max_bytes))
    plain = [one.info.first_seq for one in closed[by_age:] if not one.info.is_compressed]
    return CleanupPlan(
        compress=tuple(plain),
        remove=tuple(one.info.first_seq for one in removable[:removed]),
        losses=tuple(_losses(removable[removed:capped], pins.acked_seqs)),
        drop_unread=tuple(one.info.first_seq for one in removable[removed:capped]),
    )


def _closed_segments(segments: Sequence[SegmentInfo], pins: Pins) -> list[_ClosedSegment]:
    """Return the segments that may be changed."""
    starts = [one.first_seq for one in segments if one.first_seq < pins.active_first_seq]
    ends = [seq - 1 for seq in (*starts[1:], pins.active_first_seq)]
    return [_ClosedSegment(*pair) for pair in zip(segments, ends[: len(starts)], strict=False)]


def _before_open_intents(closed: Sequence[_ClosedSegment], pins: Pins) -> Sequence[_ClosedSegment]:
    """Return the segments that end before the oldest open intent: only they may be removed."""
    if pins.oldest_open_seq is None:
        return closed
    return [one for one in closed if one.last_seq < pins.oldest_open_seq]


def _count_beyond(closed: Sequence[_ClosedSegment], total: int, limit: int) -> int:
    """Return how many segments, from the oldest, must go so that the rest is within the limit."""
    for count, (info, _) in enumerate(closed):
        if total <= limit:
            return count
        total -= info.size
    return len(closed)


def _losses(removed: Sequence[_ClosedSegment], acked_seqs: Mapping[str, int]) -> Iterator[Loss]:
    """Yield which of the removed records each sink has not read."""
    if not removed:
        return
    oldest, last = removed[0].info.first_seq, removed[-1].last_seq
    for sink, acked in sorted(acked_seqs.items()):
        if acked < last:
            yield Loss(sink, max(acked + 1, oldest), last)
