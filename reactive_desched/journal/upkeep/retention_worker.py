"""Keeps the journal's folder within its bounds while it is written and read."""

import errno
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import anyio
from anyio import from_thread, to_thread
from msgspec import Struct, field

from reactive_desched.errors import JournalError
from reactive_desched.journal.segments import Segment, segments
from reactive_desched.journal.upkeep import compression, limits
from reactive_desched.journal.upkeep.clock_drift import Reading
from reactive_desched.journal.upkeep.limits import Limits
from reactive_desched.journal.upkeep.loss_log import Losses
from reactive_desched.journal.upkeep.retention import Held, Loss, Needs, Tidying, tidying
from reactive_desched.journal.upkeep.trusted_clock import BelievedClock
from reactive_desched.policy.recording import Retention
from reactive_desched.telemetry.logs import Log

EVERY_S: Final = 60.0
_T = TypeVar("_T")


class Numbers(Struct, kw_only=True):
    """What the folder holds since the last round, and what was done in this process's life."""

    bytes: int = 0
    segments: int = 0
    oldest_seq: int = 0
    rounds: int = 0
    compressed: int = 0
    removed: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)


class Bounds(Struct, frozen=True, kw_only=True):
    """How closed segments are kept."""

    retention: Retention = Retention()
    compress: bool = True


class Followed(Struct, frozen=True, kw_only=True):
    """What must stay in the journal, asked at every round; none of these may block.

    `open_from` is the first sequence of the segment being written, `oldest_open` that of the oldest
    intent without an ending, and `read_to` the last that is safely with each configured sink.
    """

    open_from: Callable[[], int]
    oldest_open: Callable[[], int | None]
    read_to: Callable[[], Mapping[str, int]]


Lost = Callable[[str, int, int], Awaitable[object]]
"""Records that a sink lost the records from the first to the last; returns when that is durable."""


class Keeper:
    """Compresses and removes closed segments, at once and then every so often.

    It never touches the segment being written. Whoever has a file open reads it to its end. A fault
    of the disk, or of telling a loss, is counted and tried again in the next round.

    Nothing goes by age unless the time of day held its course for a day, across restarts of up to
    an hour: a clock that is wrong for less than that, in this process or at its start, removes
    nothing that it should not, save that one set during a restart may take files an hour early.
    Meanwhile sizes bound the folder. What is dated in the future is young.
    """

    def __init__(
        self,
        directory: Path,
        followed: Followed,
        bounds: Bounds,
        lost: Lost,
        *,
        log: Log,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        removing: Callable[[int], None] = lambda _oldest: None,
    ) -> None:
        """Keep this folder; `clock` gives the wall clock's seconds, as files have them.

        `monotonic` gives those of a clock that nobody can set, which shows when that one jumps.
        `removing` is called before files go, with what is the oldest sequence from then on.
        """
        self.numbers = Numbers()
        self._directory = directory
        self._followed = followed
        self._bounds = bounds
        self._lost = lost
        self._log = log
        self._clock = BelievedClock(directory, clock, monotonic, log)
        self._removing = removing
        self._losses = Losses(directory)
        self._known_faults: set[str] = set()

    async def run(self, every_s: float = EVERY_S) -> None:
        """Tidy up now and for ever."""
        await self.begin()
        while True:
            await self.tidy()
            await anyio.sleep(every_s)

    async def begin(self) -> None:
        """Tell who looks from outside by which limits, and learn how the clock was doing."""
        with self._surviving("tell the limits"):
            kept = self._bounds.retention
            told = Limits(
                kept.max_bytes, kept.max_age_s, kept.hard_max_bytes, self._bounds.compress
            )
            await _in_thread(limits.write, self._directory, told)
        await _in_thread(self._clock.resume)

    async def tidy(self) -> None:
        """Do one round."""
        faults = sum(self.numbers.faults.values())
        with self._surviving("look"):
            await _in_thread(compression.remove_unfinished, self._directory)
            await self._compress(await self._look())
            await self._remove(await self._look())
            await self._look()
            with self._surviving("note the clock"):
                await _in_thread(self._clock.note)
        if faults == sum(self.numbers.faults.values()):
            self._known_faults.clear()
        self.numbers.rounds += 1

    async def _look(self) -> "_Look":
        """See what lies there and what it asks for."""
        open_from = self._followed.open_from()
        read_to = dict(self._followed.read_to())
        oldest_open = self._followed.oldest_open()
        needs = Needs(open_from=open_from, oldest_open=oldest_open, read_to=read_to)
        look = await _in_thread(self._look_at_files, needs, self._clock.read())
        self.numbers.bytes = sum(look.sizes.values())
        self.numbers.segments = len(look.found)
        self.numbers.oldest_seq = min(look.found, default=0)
        return look

    def _look_at_files(self, needs: Needs, now: Reading) -> "_Look":
        told = self._losses.told_to(needs.read_to, needs.open_from)
        needs = needs.past(told)
        found = {one.first_seq: one for one in segments(self._directory)}
        held = [_held(one, now.wall) for one in found.values()]
        sizes = {one.first_seq: one.size for one in held}
        todo = tidying(held, needs, self._bounds.retention, by_age=now.is_believed)
        return _Look(found, sizes, needs.open_from, todo)

    async def _compress(self, look: "_Look") -> None:
        """Compress what is to stay."""
        for first_seq in look.todo.compress if self._bounds.compress else ():
            with self._surviving("compress"):
                work = compression.compress
                await _in_thread(work, look.found[first_seq], from_thread.check_cancelled)
                self.numbers.compressed += 1

    async def _remove(self, look: "_Look") -> None:
        """Remove what nobody misses, and the rest once its loss is recorded."""
        with self._surviving("remove"):
            await self._remove_all(look, look.todo.remove)
            for loss in look.todo.losses:
                await self._tell(loss)
            await self._remove_all(look, look.todo.sacrifice)

    async def _remove_all(self, look: "_Look", going: Sequence[int]) -> None:
        if not going:
            return
        self._removing(min((seq for seq in look.found if seq > going[-1]), default=look.open_from))
        for first_seq in going:
            await _in_thread(compression.remove, look.found[first_seq])
            self.numbers.removed += 1
        self._log.info("removed old segments of the journal", segments=len(going))

    async def _tell(self, loss: Loss) -> None:
        """Have a loss recorded."""
        since = self._followed.open_from()
        await _in_thread(self._losses.begin, loss, since)
        await self._lost(*loss)
        await _in_thread(self._losses.end, loss, since)
        lost = self.numbers.lost
        lost[loss.sink] = lost.get(loss.sink, 0) + loss.last - loss.first + 1
        self._log.warning("removing records before a sink has read them", **loss._asdict())

    @contextmanager
    def _surviving(self, doing: str) -> Iterator[None]:
        """Count what goes wrong with the disk; log it once until a round goes well."""
        try:
            yield
        except (OSError, JournalError) as error:
            kind = f"{doing}: {_kind(error)}"
            faults = self.numbers.faults
            faults[kind] = faults.get(kind, 0) + 1
            if kind not in self._known_faults:
                self._known_faults.add(kind)
                self._log.warning(
                    "the journal's folder cannot be tidied", what=doing, error=str(error)
                )


class _Look(NamedTuple):
    """The segments by their first sequence, how large they are, and what they ask for."""

    found: dict[int, Segment]
    sizes: dict[int, int]
    open_from: int
    todo: Tidying


def _held(one: Segment, now: float) -> Held:
    status = one.path.stat()
    return Held(one.first_seq, status.st_size, now - status.st_mtime, one.is_compressed)


def _kind(error: OSError | JournalError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number or 0, type(error).__name__)


async def _in_thread(work: Callable[..., _T], *values: Any) -> _T:  # any work, with its own values
    return await to_thread.run_sync(partial(work, *values))
