"""On a fast disk short writes are made in the event loop, everything else in the disk's thread."""

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from math import ceil
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from reactive_desched.errors import JournalUnavailable
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.log import MAX_BRIEF_RECORDS
from reactive_desched.journal.reading import read_events
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.write_health import FAST_WRITE_S, MAX_CREDIT_S

pytestmark = pytest.mark.anyio

Running = Callable[..., AbstractAsyncContextManager[Journal]]
MakeIntent = Callable[[str], AnyEvent]
THREAD, LOOP = "disk's thread", "event loop"
SLOW_S = 0.002
WARM_UP_WRITES = ceil(MAX_CREDIT_S / FAST_WRITE_S)
"""After so many writes that take no time the credit is full."""


class TimedDisk(Disk):
    """A real disk on which a write takes as long as told, and which notes who wrote."""

    def __init__(self) -> None:
        self.takes_s = 0.0
        self.fault: OSError | None = None
        self.free = threading.Event()  # the fixture sets it at the end
        self.free.set()
        self.written_in: list[str] = []
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    def append(self, descriptor: int, data: bytes) -> None:
        name = threading.current_thread().name
        self.written_in.append(THREAD if name == "journal disk" else LOOP)
        self._now_s += self.takes_s
        assert self.free.wait(10)
        if self.fault is not None:
            raise self.fault
        super().append(descriptor, data)


@pytest.fixture
def disk() -> TimedDisk:
    return TimedDisk()


async def warm_up(journal: Journal, intent: MakeIntent, disk: TimedDisk) -> None:
    """Make as many writes as it takes until the disk counts as fast."""
    for number in range(WARM_UP_WRITES):
        await journal.append(intent(f"warm-up-{number}"))
    await anyio.wait_all_tasks_blocked()  # no write is under way
    disk.written_in.clear()


async def test_the_loop_writes_once_fast_writes_have_filled_the_credit(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running() as journal:
        disk.written_in.clear()
        disk.takes_s = FAST_WRITE_S / 2
        fills = ceil(2 * MAX_CREDIT_S / FAST_WRITE_S)
        for number in range(fills + 1):
            await journal.append(intent(str(number)))

        assert disk.written_in == [THREAD] * fills + [LOOP]


async def test_a_write_in_the_event_loop_is_on_disk_when_append_returns(
    running: Running, intent: MakeIntent, disk: TimedDisk, tmp_path: Path
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        seq = await journal.append(intent("a"))

        *_, last = read_events(tmp_path)
        assert (disk.written_in, last.id, int(last.sequence)) == ([LOOP], "a", seq)


async def test_a_single_slow_write_changes_nothing(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        for takes_s in (SLOW_S, 0.0, 0.0):
            disk.takes_s = takes_s
            await journal.append(intent(f"{takes_s}-{journal.tail.last_seq}"))

        assert disk.written_in == [LOOP] * 3


async def test_a_disk_that_turns_slow_holds_the_loop_until_the_credit_is_used_up(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        disk.takes_s = SLOW_S
        last_in_loop = ceil(MAX_CREDIT_S / (SLOW_S - FAST_WRITE_S))
        for number in range(last_in_loop + 2):
            await journal.append(intent(str(number)))
        disk.takes_s = 0.0
        for number in range(WARM_UP_WRITES + 1):
            await journal.append(intent(f"fast-{number}"))

        slow, fast = disk.written_in[: last_in_loop + 2], disk.written_in[last_in_loop + 2 :]
        assert slow == [LOOP] * last_in_loop + [THREAD] * 2
        assert fast == [THREAD] * WARM_UP_WRITES + [LOOP]


async def test_one_write_longer_than_the_credit_sends_the_next_ones_to_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        disk.takes_s = MAX_CREDIT_S + FAST_WRITE_S
        await journal.append(intent("stuck"))
        disk.takes_s = 0.0
        await journal.append(intent("after"))

        assert disk.written_in == [LOOP, THREAD]


async def test_writes_that_are_slow_on_average_stay_in_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running() as journal:
        disk.written_in.clear()
        for number in range(5 * WARM_UP_WRITES):
            disk.takes_s = 0.0 if number % 8 else 9 * FAST_WRITE_S
            await journal.append(intent(str(number)))

        assert set(disk.written_in) == {THREAD}


async def test_many_records_at_once_are_written_in_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        for count in (MAX_BRIEF_RECORDS + 1, MAX_BRIEF_RECORDS):
            async with anyio.create_task_group() as group:
                for number in range(count):
                    group.start_soon(journal.append, intent(f"{count}-{number}"))

        assert disk.written_in == [THREAD, LOOP]


async def test_a_new_file_is_begun_in_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running(max_segment_bytes=2000 * WARM_UP_WRITES) as journal:
        await warm_up(journal, intent, disk)
        first = journal.active_first_seq
        while journal.active_first_seq == first:
            disk.written_in.clear()
            await journal.append(intent(f"after-{journal.tail.last_seq}"))

        assert disk.written_in == [THREAD, THREAD]  # the heading of the file, and the record


async def test_a_checkpoint_is_signed_and_written_in_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running(every_records=WARM_UP_WRITES + 2) as journal:
        await warm_up(journal, intent, disk)
        await journal.append(intent("plain"))
        await journal.append(intent("with a checkpoint"))

        assert disk.written_in == [LOOP, THREAD]


@pytest.mark.usefixtures("impatient")
async def test_a_failed_write_in_the_event_loop_is_refused_and_its_repair_left_to_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        disk.fault = OSError(28, "No space left on device")
        with pytest.raises(JournalUnavailable, match="No space left"):
            await journal.append(intent("a"))
        disk.fault = None
        await journal.append_until_durable(intent("b"))

        assert disk.written_in[0] == LOOP
        assert set(disk.written_in[1:]) == {THREAD}


async def test_on_a_fast_disk_a_begun_record_is_there_at_once_with_all_before_it(
    running: Running, intent: MakeIntent, disk: TimedDisk, tmp_path: Path
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        journal.append_nowait(intent("a"))
        pending = journal.begin_append(intent("b"))

        assert pending.is_durable
        assert [each.id for each in read_events(tmp_path)][-2:] == ["a", "b"]
        assert disk.written_in == [LOOP]
        seq = await pending.durable()
        await journal.tail.wait_past(seq - 1)  # readers have it in a later turn of the loop
        assert journal.tail.last_seq == seq


async def test_on_a_slow_disk_a_begun_record_waits_for_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk
) -> None:
    async with running() as journal:
        disk.takes_s = SLOW_S
        await warm_up(journal, intent, disk)
        pending = journal.begin_append(intent("a"))

        assert not pending.is_durable
        await pending.durable()
        assert (pending.is_durable, disk.written_in) == (True, [THREAD])


async def test_a_begun_record_does_not_overtake_a_write_in_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk, tmp_path: Path
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        many = [f"first-{number}" for number in range(MAX_BRIEF_RECORDS + 1)]
        for name in many:
            journal.append_nowait(intent(name))
        disk.free.clear()
        await anyio.lowlevel.checkpoint()  # the thread has begun, or soon will
        pending = journal.begin_append(intent("last"))

        assert not pending.is_durable
        disk.free.set()
        await pending.durable()
        names = [each.id for each in read_events(tmp_path)]
        assert names[-len(many) - 1 :] == [*many, "last"]


async def test_a_begun_record_that_fails_in_the_event_loop_is_written_by_the_thread(
    running: Running, intent: MakeIntent, disk: TimedDisk, tmp_path: Path
) -> None:
    async with running() as journal:
        await warm_up(journal, intent, disk)
        journal.append_nowait(intent("a"))
        disk.fault = OSError(5, "Input/output error")
        pending = journal.begin_append(intent("b"))
        assert not pending.is_durable
        disk.fault = None
        await pending.durable()

        assert disk.written_in == [LOOP, THREAD]
        assert [each.id for each in read_events(tmp_path)][-2:] == ["a", "b"]
