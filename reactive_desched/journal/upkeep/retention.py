"""Which closed segments are compressed and which are removed, and what a sink loses by it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.policy.recording import Retention


class Held(NamedTuple):
    """A segment as it lies on the disk; its age is that of its last write."""

    first_seq: int
    size: int
    age_s: float
    is_compressed: bool


class Needs(Struct, frozen=True, gc=False, kw_only=True):
    """What must stay, and for whom.

    `open_from` is the first sequence of the segment being written, `oldest_open` that of the oldest
    intent without an ending, and `read_to` the last that is safely with each configured sink.
    """

    open_from: int
    oldest_open: int | None = None
    read_to: Mapping[str, int] = {}

    def past(self, told: Mapping[str, int]) -> "Needs":
        """Return the same for sinks that no longer wait for records they were told to have lost."""
        read_to = {sink: max(seq, told.get(sink, 0)) for sink, seq in self.read_to.items()}
        return replace(self, read_to=read_to)


class Loss(NamedTuple):
    """Records that go before a sink has read them, the first and last of them included."""

    sink: str
    first: int
    last: int


class Tidying(Struct, frozen=True, gc=False):
    """What to do, with segments named by their first sequence, oldest first.

    Compress those, then look again, since it may spare some; remove those that nobody misses; tell
    the losses, and only when they are recorded sacrifice the rest.
    """

    compress: tuple[int, ...] = ()
    remove: tuple[int, ...] = ()
    losses: tuple[Loss, ...] = ()
    sacrifice: tuple[int, ...] = ()


class _Closed(NamedTuple):
    """A segment that nobody writes any more, with its last sequence."""

    held: Held
    last_seq: int


def tidying(
    segments: Sequence[Held], needs: Needs, limits: Retention, *, by_age: bool = True
) -> Tidying:
    """Say what to compress and remove, of segments oldest first.

    The open segment always stays, and so does everything from the oldest open intent on. The others
    go oldest first, without leaving a gap: by size and age as far as every sink has read them,
    and beyond the hard cap in any case. What goes by age is not worth compressing. Without `by_age`
    no segment is too old: sizes alone count.
    """
    oldest_s = limits.max_age_s if by_age else math.inf
    closed = _closed(segments, needs)
    total = sum(one.size for one in segments)
    settled = _settled(closed, needs)
    outdated = _outdated(settled, total - limits.max_bytes, needs, oldest_s)
    capped = max(outdated, _above_cap(settled, total, limits))
    outlived = {one.held for one in settled[:outdated] if one.held.age_s > oldest_s}
    plain = (one.held for one in closed if not one.held.is_compressed)
    return Tidying(
        compress=tuple(held.first_seq for held in plain if held not in outlived),
        remove=tuple(one.held.first_seq for one in settled[:outdated]),
        losses=tuple(_losses(settled[outdated:capped], needs.read_to)),
        sacrifice=tuple(one.held.first_seq for one in settled[outdated:capped]),
    )


def _closed(segments: Sequence[Held], needs: Needs) -> list[_Closed]:
    """Return what may be touched."""
    starts = [one.first_seq for one in segments if one.first_seq < needs.open_from]
    ends = [seq - 1 for seq in (*starts[1:], needs.open_from)]
    return [_Closed(*pair) for pair in zip(segments, ends[: len(starts)], strict=False)]


def _settled(closed: Sequence[_Closed], needs: Needs) -> Sequence[_Closed]:
    """Return those that end before the oldest open intent: only they may be removed."""
    if needs.oldest_open is None:
        return closed
    return [one for one in closed if one.last_seq < needs.oldest_open]


def _outdated(closed: Sequence[_Closed], excess: int, needs: Needs, oldest_s: float) -> int:
    """Return how many, from the oldest, go by size or age without anybody losing a record."""
    read = min(needs.read_to.values(), default=needs.open_from)
    for count, (held, last_seq) in enumerate(closed):
        is_wanted_gone = excess > 0 or held.age_s > oldest_s
        if not is_wanted_gone or last_seq > read:
            return count
        excess -= held.size
    return len(closed)


def _above_cap(closed: Sequence[_Closed], total: int, limits: Retention) -> int:
    """Return how many, from the oldest, go so that the rest is not above the hard cap."""
    for count, (held, _) in enumerate(closed):
        if total <= limits.hard_max_bytes:
            return count
        total -= held.size
    return len(closed)


def _losses(going: Sequence[_Closed], read_to: Mapping[str, int]) -> Iterator[Loss]:
    """Yield what each sink has not read of what goes."""
    if not going:
        return
    oldest, last = going[0].held.first_seq, going[-1].last_seq
    for sink, read in sorted(read_to.items()):
        if read < last:
            yield Loss(sink, max(read + 1, oldest), last)
