import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
import trio
from anyio.to_thread import current_default_thread_limiter

from reactive_desched.errors import EventRefused, SinkUnavailable
from reactive_desched.journal.positions import Position, Positions
from reactive_desched.journal.records import Entry
from reactive_desched.journal.tail import Tail
from reactive_desched.metrics import Metrics
from reactive_desched.sinks.dead_letters import DeadLetters, letters
from reactive_desched.sinks.outage import LONGEST_ASKED_S
from reactive_desched.sinks.relay import Relay
from reactive_desched.testing.entries import evictions

pytestmark = pytest.mark.anyio

RECORDED = datetime(2026, 3, 29, 1, 30, 1, tzinfo=UTC)
"""When the records of `evictions` were written."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, trio.testing.MockClock]]:
    return "trio", {"clock": trio.testing.MockClock()}


async def pass_time() -> None:
    """Jump to whatever comes next, as soon as every task waits and no thread works.

    The clock's own jumping takes a working thread for idleness.
    """
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    while True:
        await trio.testing.wait_all_tasks_blocked()
        ahead_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if current_default_thread_limiter().borrowed_tokens or ahead_s == inf:
            time.sleep(0.0002)  # noqa: ASYNC251  # nobody but the thread has anything to do
        elif ahead_s > 0:
            clock.jump(ahead_s)


class Book:
    """A log that keeps its lines, with the moment of each."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str, dict[str, Any]]] = []

    def info(self, event: str, **values: Any) -> None:
        self.lines.append((trio.current_time(), event, values))

    warning = info

    def told(self, event: str) -> list[dict[str, Any]]:
        return [values for _, name, values in self.lines if name == event]

    def moments(self, event: str) -> list[float]:
        return [at for at, name, _ in self.lines if name == event]


class Shop:
    """A sink that keeps what it gets and behaves as scripted, at last well."""

    name = "shop"

    def __init__(self, *, from_start: bool = True) -> None:
        self.from_start = from_start
        self.script: list[Exception | int] = []
        self.always: Exception | None = None
        self.poison: int | None = None
        self.got: list[int] = []
        self.asked: list[tuple[float, int]] = []
        self.closed = 0

    async def deliver(self, entries: Sequence[Entry]) -> int:
        await anyio.lowlevel.checkpoint()
        self.asked.append((trio.current_time(), entries[0].seq))
        step = self.always or (self.script.pop(0) if self.script else len(entries))
        if isinstance(step, Exception):
            raise step
        if entries[0].seq == self.poison:
            raise EventRefused("too large")
        seqs = [entry.seq for entry in entries[:step]]
        taken = list(takewhile(lambda seq: seq != self.poison, seqs))
        self.got += taken
        return len(taken) if len(taken) < len(seqs) else step

    async def close(self) -> None:
        self.closed += 1


class Notes(Positions):
    """Positions in memory that remember every time, and can be made to fail."""

    def __init__(self, seq: int | None = None) -> None:
        self.kept: list[Position] = [] if seq is None else [Position(seq, "")]
        self.fault: OSError | None = None
        self.tries = 0
        self.is_damaged = False

    def read(self, name: str) -> Position | None:
        return self.kept[-1] if self.kept else None

    def is_there(self, name: str) -> bool:
        return self.is_damaged or bool(self.kept)

    def keep(self, name: str, seq: int, time: str) -> None:
        self.tries += 1
        if self.fault is not None:
            raise self.fault
        self.kept.append(Position(seq, time))

    @property
    def last(self) -> int | None:
        return self.kept[-1].seq if self.kept else None


class Graves(DeadLetters):
    """Dead letters on a disk that can be full."""

    fault: OSError | None = None

    def keep(self, sink: str, entry: Entry, reason: str, time: str) -> int:
        if self.fault is not None:
            raise self.fault
        return super().keep(sink, entry, reason, time)


class Following:
    """A relay with all it works with; records are 1, 2, 3 and so on."""

    def __init__(self, directory: Path, sink: Shop | None = None, kept: int | None = None) -> None:
        self.sink = sink or Shop()
        self.tail = Tail(directory, "//here", 1, 0)
        self.positions = Notes(kept)
        self.graves = Graves(directory / "dead-letters")
        self.book = Book()
        self.relay = self.again()

    def again(self) -> Relay:
        """Make the relay anew, as a restart does."""
        self.relay = Relay(
            self.sink,
            self.tail,
            self.positions,
            self.graves,
            clock=trio.current_time,
            wall=lambda: RECORDED + timedelta(seconds=trio.current_time()),
            rng=Random(1),
            log=self.book,
        )
        return self.relay

    def record(self, count: int) -> None:
        self.tail.published(evictions(count, self.tail.last + 1))

    async def caught_up(self) -> None:
        """Wait until the relay is done with every record; virtual time passes meanwhile."""
        await eventually(lambda: self.relay.position == self.tail.last)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(pass_time)
            async with anyio.create_task_group() as running:
                running.start_soon(self.relay.run)
                await anyio.sleep(0.001)  # it begins
                yield
                running.cancel_scope.cancel()
            group.cancel_scope.cancel()


@pytest.fixture
def here(tmp_path: Path) -> Following:
    return Following(tmp_path)


async def eventually(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(10_000):
        while not holds():  # noqa: ASYNC110  # what is waited for knows nothing of events
            await anyio.sleep(0.05)


async def test_a_sink_gets_every_record_once_and_in_order(here: Following) -> None:
    here.record(700)
    async with here.running():
        await here.caught_up()
        here.record(3)
        await here.caught_up()

    assert here.sink.got == list(range(1, 704))
    assert here.relay.delivered == 703


async def test_what_a_sink_leaves_of_a_delivery_comes_next(here: Following) -> None:
    here.sink.script = [2, 1]
    here.record(5)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 3, 4, 5]
    assert [seq for _, seq in here.sink.asked] == [1, 3, 4]


async def test_after_a_failure_the_same_records_come_again(here: Following) -> None:
    here.sink.script = [2, SinkUnavailable("away"), SinkUnavailable("away")]
    here.record(4)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 3, 4]
    assert [seq for _, seq in here.sink.asked] == [1, 3, 3, 3]
    assert here.relay.retries == 2


async def test_waits_double_from_a_fifth_of_a_second_to_half_a_minute(here: Following) -> None:
    here.sink.always = SinkUnavailable("away")
    here.record(1)
    async with here.running():
        await anyio.sleep(400)

    moments = [at for at, _ in here.sink.asked]
    waits = [after - before for before, after in pairwise(moments)]
    for wait, base in zip(waits, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15, 15, 15], strict=False):
        assert base <= wait < 2 * base
    assert (
        len({round(wait / base, 3) for wait, base in zip(waits, [0.2, 0.4, 0.8], strict=False)})
        == 3
    )


async def test_a_sink_that_says_when_to_come_back_is_obeyed(here: Following) -> None:
    here.sink.script = [SinkUnavailable("busy", 90.0), SinkUnavailable("busy", 1e9)]
    here.record(1)
    async with here.running():
        assert await here.relay.flushed(10_000)

    (first, _), (second, _), (third, _) = here.sink.asked
    assert second - first == pytest.approx(90)
    assert third - second == pytest.approx(LONGEST_ASKED_S)


async def test_an_outage_is_told_as_it_doubles_then_each_minute_and_when_over(
    here: Following,
) -> None:
    here.sink.always = SinkUnavailable("no broker", 0.1)
    here.record(1)
    async with here.running():
        await anyio.sleep(300)
        assert here.relay.trouble == "no broker"
        here.sink.always = None
        await here.caught_up()

    assert here.relay.trouble == ""
    told = here.book.moments("sink is unavailable")
    spans = [after - told[0] for after in told]
    assert spans[0] == 0
    for before, after in pairwise(spans[1:]):
        assert 2 * before <= after or after - before >= 60
    assert 8 <= len(spans) <= 12
    assert here.book.told("sink is unavailable")[-1]["reason"] == "no broker"
    assert len(here.book.told("sink is back")) == 1


async def test_another_reason_is_told_at_once(here: Following) -> None:
    here.sink.script = [SinkUnavailable("no answer") for _ in range(8)]
    here.sink.script += [SinkUnavailable("answered 410 Gone")]
    here.record(1)
    async with here.running():
        await here.caught_up()

    told = here.book.told("sink is unavailable")
    assert (told[-1]["reason"], told[-1]["attempts"]) == ("answered 410 Gone", 9)


async def test_an_event_that_is_never_taken_goes_to_the_dead_letters(here: Following) -> None:
    here.sink.poison = 3
    here.record(5)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 4, 5]
    (letter,) = letters(here.graves.path("shop"))
    assert (letter.sequence, letter.reason) == (3, "too large")
    assert letter.event.encode() == evictions(5)[2].raw
    assert (here.relay.dead_letters, here.relay.delivered) == (1, 4)
    told = here.book.told("event will never be taken: it is with the dead letters")
    assert [line["sequence"] for line in told] == [3]


async def test_while_dead_letters_cannot_be_written_nothing_is_passed_over(
    here: Following,
) -> None:
    here.sink.poison = 2
    here.graves.fault = OSError(28, "No space left on device")
    here.record(3)
    async with here.running():
        await eventually(lambda: bool(here.relay.trouble))
        await anyio.sleep(30)
        assert here.sink.got == [1]
        assert "No space left" in here.relay.trouble
        here.graves.fault = None
        await here.caught_up()

    assert here.sink.got == [1, 3]
    assert [letter.sequence for letter in letters(here.graves.path("shop"))] == [2]


async def test_records_that_were_removed_are_counted_as_lost(tmp_path: Path) -> None:
    here = Following(tmp_path, kept=4)
    here.record(4)
    here.tail.last = 20
    here.tail.removed_before(21)
    here.tail._recent._entries.clear()
    here.record(2)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [21, 22]
    assert here.relay.lost == 16
    (told,) = here.book.told("records were removed before the sink had them")
    assert (told["first"], told["goes_on_at"]) == (5, 21)


async def test_a_bug_in_a_sink_is_told_by_its_type_and_does_not_end_the_relay(
    here: Following,
) -> None:
    here.sink.script = [ValueError("hunter2"), 99]
    here.record(3)
    async with here.running():
        await here.caught_up()

    assert here.sink.got[-3:] == [1, 2, 3]
    reasons = [line["reason"] for line in here.book.told("sink is unavailable")]
    assert "ValueError" in reasons[0]
    assert "deliver" in reasons[0]
    assert "hunter2" not in str(here.book.lines)
    assert here.relay.retries == 2  # 99 of 3 records cannot be there


async def test_a_position_is_kept_once_a_second_and_at_the_end(here: Following) -> None:
    async with here.running():
        for _ in range(40):
            here.record(1)
            await anyio.sleep(0.1)
        await here.caught_up()

    moments = [datetime.fromisoformat(kept.time) for kept in here.positions.kept]
    gaps = [after - before for before, after in pairwise(moments[:-1])]
    assert all(gap >= timedelta(seconds=0.999) for gap in gaps)
    assert 3 <= len(moments) <= 7
    assert here.positions.last == 40


async def test_a_position_is_kept_soon_even_if_nothing_follows(here: Following) -> None:
    async with here.running():
        here.record(2)
        await here.caught_up()
        await eventually(lambda: here.positions.last == 2)


async def test_a_restart_goes_on_behind_the_kept_position(here: Following) -> None:
    here.record(5)
    async with here.running():
        await here.caught_up()
    here.record(2)
    here.again()
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 3, 4, 5, 6, 7]


async def test_a_sink_of_news_begins_at_the_end_and_misses_nothing_across_a_crash(
    tmp_path: Path,
) -> None:
    here = Following(tmp_path, Shop(from_start=False))
    here.record(5)
    async with here.running():
        await eventually(lambda: here.positions.last == 5)
    here.record(2)
    here.again()
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [6, 7]


async def test_where_a_sink_of_news_began_is_kept_before_its_first_delivery(
    tmp_path: Path,
) -> None:
    here = Following(tmp_path, Shop(from_start=False))
    here.sink.always = SinkUnavailable("away")
    here.record(5)
    async with here.running():
        here.record(2)
        await anyio.sleep(1)
        assert here.positions.last == 5


@pytest.mark.parametrize("from_start", [True, False], ids=["from the start", "news"])
async def test_when_its_position_cannot_be_read_a_sink_gets_all_there_is_again(
    tmp_path: Path, *, from_start: bool
) -> None:
    here = Following(tmp_path, Shop(from_start=from_start))
    here.positions.is_damaged = True
    here.record(3)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 3]
    [told] = [values for _, event, values in here.book.lines if "cannot be read" in event]
    assert told == {"sink": "shop", "begins_behind": 0}


async def test_where_a_sink_without_a_position_begins_is_told(tmp_path: Path) -> None:
    here = Following(tmp_path, Shop(from_start=False))
    here.record(3)
    async with here.running():
        await eventually(lambda: here.positions.last == 3)

    assert here.book.told("the sink has no position yet") == [{"sink": "shop", "begins_behind": 3}]


@pytest.mark.parametrize(
    ("from_start", "got"), [(True, [1, 2, 3]), (False, [3])], ids=["from the start", "news"]
)
async def test_with_the_position_of_another_journal_a_sink_starts_over(
    tmp_path: Path, *, from_start: bool, got: list[int]
) -> None:
    here = Following(tmp_path, Shop(from_start=from_start), kept=900)
    here.record(2)
    async with here.running():
        await eventually(lambda: here.positions.last != 900)
        here.record(1)
        await here.caught_up()

    assert here.sink.got == got
    assert here.relay.lost == 0


async def test_positions_that_cannot_be_kept_stop_nothing_and_are_told_once_a_minute(
    here: Following,
) -> None:
    here.positions.fault = OSError(5, "Input/output error")
    async with here.running():
        for _ in range(200):
            here.record(1)
            await anyio.sleep(1)
        await here.caught_up()
        here.positions.fault = None
        await eventually(lambda: here.positions.last == 200)

    text = "position of a sink cannot be kept: after a crash, more is sent again"
    assert here.sink.got == list(range(1, 201))
    assert here.positions.tries > 20
    assert len(here.book.told(text)) <= 5
    assert "Input/output error" in here.book.told(text)[0]["reason"]


async def test_lag_is_counted_and_timed_from_when_a_record_was_written(here: Following) -> None:
    assert here.relay.lag_records == 0
    here.sink.always = SinkUnavailable("away")
    async with here.running():
        here.record(3)
        await eventually(lambda: bool(here.sink.asked))
        await anyio.sleep(50)
        lag_s = here.relay.lag_s
        assert here.relay.lag_records == 3
        assert lag_s == pytest.approx(trio.current_time())
        here.sink.always = None
        await here.caught_up()
        await anyio.sleep(0.1)
        assert (here.relay.lag_records, here.relay.lag_s) == (0, 0.0)


async def test_flushing_ends_when_everything_is_there(here: Following) -> None:
    async with here.running():
        here.sink.script = [1, SinkUnavailable("away", 7.0)]
        here.record(2)
        assert await here.relay.flushed(8)
        assert here.sink.got == [1, 2]


async def test_flushing_ends_when_time_is_up(here: Following) -> None:
    here.sink.always = SinkUnavailable("away")
    here.record(1)
    async with here.running():
        began = trio.current_time()
        assert not await here.relay.flushed(8)
        assert trio.current_time() - began == pytest.approx(8)


async def test_stopping_closes_the_sink_and_keeps_the_position_in_the_middle_of_an_outage(
    here: Following,
) -> None:
    here.sink.script = [2, *[SinkUnavailable("away", 3000)] * 5000]
    here.record(3)
    async with here.running():
        await here.relay.flushed(1)

    assert here.sink.closed == 1
    assert here.positions.last == 2


async def test_a_journal_that_cannot_be_read_is_trouble_until_it_can(
    here: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(seq: int, most: int = 500) -> list[Entry]:
        raise OSError(5, "Input/output error")

    here.record(2)
    with monkeypatch.context() as patched:
        patched.setattr(here.tail, "after", fails)
        async with here.running():
            await anyio.sleep(1)
            assert "Input/output error" in here.relay.trouble
            patched.undo()
            await here.caught_up()

    assert here.sink.got == [1, 2]


async def test_metrics_tell_how_each_sink_fares(here: Following) -> None:
    metrics = Metrics()
    metrics.sources.sinks = {"shop": here.relay}
    here.sink.poison = 1
    here.sink.script = [SinkUnavailable("away")]
    here.record(3)
    async with here.running():
        await here.caught_up()
        here.sink.always = SinkUnavailable("away")
        here.record(2)
        await anyio.sleep(1)
        text = metrics.exposition("")[0].decode()

    name = "reactive_desched_sink_"
    assert f'{name}delivered_total{{sink="shop"}} 2.0' in text
    assert f'{name}dead_letters_total{{sink="shop"}} 1.0' in text
    assert f'{name}lost_total{{sink="shop"}} 0.0' in text
    assert f'{name}lag_records{{sink="shop"}} 2.0' in text
    assert f'{name}up{{sink="shop"}} 0.0' in text
    assert f'{name}retries_total{{sink="shop"}}' in text
    assert f'{name}lag_seconds{{sink="shop"}}' in text
