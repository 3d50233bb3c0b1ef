"""Which closed segments are compressed and which are removed, and what a sink loses by it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.policy.recording import RetentionSettings


class SegmentInfo(NamedTuple):
    """A segment as it lies on the disk; its age is that of its last write."""

    first_seq: int
    size: int
    age_s: float
    is_compressed: bool


class Pins(Struct, frozen=True, gc=False, kw_only=True):
    """What must stay, and for whom.

    `open_from` is the first sequence of the segment being written, `oldest_open` that of the oldest
    intent without an ending, and `read_to` the last that is safely with each configured sink.
    """

    active_first_seq: int
    oldest_open_seq: int | None = None
    acked_seqs: Mapping[str, int] = {}

    def past_losses(self, reported: Mapping[str, int]) -> "Pins":
        """Return the same for sinks that no longer wait for records they were told to have lost."""
        acked_seqs = {
            sink: max(seq, reported.get(sink, 0)) for sink, seq in self.acked_seqs.items()
        }
        return replace(self, acked_seqs=acked_seqs)


class Loss(NamedTuple):
    """Records that go before a sink has read them, the first and last of them included."""

    sink: str
    first: int
    last: int


class CleanupPlan(Struct, frozen=True, gc=False):
    """What to do, with segments named by their first sequence, oldest first.

    Compress those, then look again, since it may spare some; remove those that nobody misses; tell
    the losses, and only when they are recorded sacrifice the rest.
    """

    compress: tuple[int, ...] = ()
    remove: tuple[int, ...] = ()
    losses: tuple[Loss, ...] = ()
    drop_unread: tuple[int, ...] = ()


class _ClosedSegment(NamedTuple):
    """A segment that nobody writes any more, with its last sequence."""

    info: SegmentInfo
    last_seq: int


def plan_cleanup(
    segments: Sequence[SegmentInfo], pins: Pins, limits: RetentionSettings, *, by_age: bool = True
) -> CleanupPlan:
    """Say what to compress and remove, of segments oldest first.

    The open segment always stays, and so does everything from the oldest open intent on. The others
    go oldest first, without leaving a gap: by size and age as far as every sink has read them,
    and beyond the hard cap in any case. What goes by age is not worth compressing. Without `by_age`
    no segment is too old: sizes alone count.
    """
    max_age_s = limits.max_age_s if by_age else math.inf
    closed = _closed_segments(segments, pins)
    total = sum(one.size for one in segments)
    removable = _before_open_intents(closed, pins)
    outdated = _count_outdated(removable, total - limits.max_bytes, pins, max_age_s)
    capped = max(outdated, _count_above_cap(removable, total, limits))
    too_old = {one.info for one in removable[:outdated] if one.info.age_s > max_age_s}
    plain = (one.info for one in closed if not one.info.is_compressed)
    return CleanupPlan(
        compress=tuple(held.first_seq for held in plain if held not in too_old),
        remove=tuple(one.info.first_seq for one in removable[:outdated]),
        losses=tuple(_losses(removable[outdated:capped], pins.acked_seqs)),
        drop_unread=tuple(one.info.first_seq for one in removable[outdated:capped]),
    )


def _closed_segments(segments: Sequence[SegmentInfo], pins: Pins) -> list[_ClosedSegment]:
    """Return what may be touched."""
    starts = [one.first_seq for one in segments if one.first_seq < pins.active_first_seq]
    ends = [seq - 1 for seq in (*starts[1:], pins.active_first_seq)]
    return [_ClosedSegment(*pair) for pair in zip(segments, ends[: len(starts)], strict=False)]


def _before_open_intents(closed: Sequence[_ClosedSegment], pins: Pins) -> Sequence[_ClosedSegment]:
    """Return those that end before the oldest open intent: only they may be removed."""
    if pins.oldest_open_seq is None:
        return closed
    return [one for one in closed if one.last_seq < pins.oldest_open_seq]


def _count_outdated(
    closed: Sequence[_ClosedSegment], excess: int, pins: Pins, max_age_s: float
) -> int:
    """Return how many, from the oldest, go by size or age without anybody losing a record."""
    acked_by_all = min(pins.acked_seqs.values(), default=pins.active_first_seq)
    for count, (info, last_seq) in enumerate(closed):
        is_wanted_gone = excess > 0 or info.age_s > max_age_s
        if not is_wanted_gone or last_seq > acked_by_all:
            return count
        excess -= info.size
    return len(closed)


def _count_above_cap(
    closed: Sequence[_ClosedSegment], total: int, limits: RetentionSettings
) -> int:
    """Return how many, from the oldest, go so that the rest is not above the hard cap."""
    for count, (held, _) in enumerate(closed):
        if total <= limits.hard_max_bytes:
            return count
        total -= held.size
    return len(closed)


def _losses(removed: Sequence[_ClosedSegment], acked_seqs: Mapping[str, int]) -> Iterator[Loss]:
    """Yield what each sink has not read of what goes."""
    if not removed:
        return
    oldest, last = removed[0].info.first_seq, removed[-1].last_seq
    for sink, acked in sorted(acked_seqs.items()):
        if acked < last:
            yield Loss(sink, max(acked + 1, oldest), last)
