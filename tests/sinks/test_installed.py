"""A sink of another package fails alone, and what it raises is named with that package."""

import asyncio
from collections.abc import Sequence
from math import inf, nan
from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_desched.api.event import Record
from reactive_desched.api.sink import SinkHost, SinkPlugin, SinkSection
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.sinks.installed import InstalledSink
from tests.support.entries import eviction_entries
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

ORIGIN = "the sink queue (queue_sink:QueueSink) of queue_sink 1.0"


class Taking(SinkPlugin[SinkSection]):
    """Takes so many of the records that it is handed."""

    settings = SinkSection

    def __init__(self, settings: SinkSection, host: SinkHost) -> None:
        super().__init__(settings, host)
        self.taken: list[int] = []
        self.at_once = 1000

    async def deliver(self, records: Sequence[Record]) -> int:
        taken = records[: self.at_once]
        self.taken += [record.seq for record in taken]
        return len(taken)


def make(
    kind: type[SinkPlugin[Any]], *types: str, log: RecordingLogger | None = None
) -> InstalledSink:
    host = SinkHost(name="queue", log=log or RecordingLogger(), clock=lambda: 0.0, wall=lambda: 0.0)
    return InstalledSink(kind, SinkSection(types=types), host, ORIGIN)


async def deliver_all(sink: InstalledSink, records: Sequence[Record]) -> None:
    while records:
        records = records[await sink.deliver(records) :]


@pytest.mark.parametrize("at_once", [1, 3, 1000])
@pytest.mark.parametrize("word", ["", "eviction", "policy.loaded", "leader"])
async def test_it_gets_each_wanted_record_once_and_in_order(
    tmp_path: Path, at_once: int, word: str
) -> None:
    records = write_journal(tmp_path, some_events(150))
    wanted = [one.seq for one in records if f"descheduler.{word}".encode() in one.raw]

    class Slow(Taking):
        def __init__(self, settings: SinkSection, host: SinkHost) -> None:
            super().__init__(settings, host)
            self.at_once = at_once
            made.append(self)

    made: list[Slow] = []
    await deliver_all(make(Slow, *filter(None, [word])), records)

    assert wanted
    assert made[0].taken == wanted


async def test_a_record_that_cannot_be_read_is_rejected_when_it_is_the_first() -> None:
    first, last = eviction_entries(2)
    sink = make(Taking, "eviction")

    assert await sink.deliver([first, Record(7, b"{"), last]) == 1
    with pytest.raises(EventRejected):
        await sink.deliver([Record(7, b"{"), last])
    assert await make(Taking, "policy").deliver([first, Record(7, b"{")]) == 1


class Clearing(Taking):
    async def deliver(self, records: Any) -> int:  # Any: what it is handed, whatever it does to it
        count = len(records)
        records.clear()
        return count


class Blocking(Taking):
    def deliver(self, records: Sequence[Record]) -> int:  # type: ignore[override]  # no coroutine
        return len(records)


class Raising(Taking):
    error: BaseException = RuntimeError("password=hunter2")

    async def deliver(self, records: Sequence[Record]) -> int:
        del records
        raise self.error


class Exiting(Raising):
    error = SystemExit(1)


class CancelledInside(Raising):
    error = asyncio.CancelledError()


class FailingGroup(Raising):
    error = ExceptionGroup("two", [KeyError("a"), ValueError("b")])


class NotOpening(Taking):
    @classmethod
    def open(cls, settings: SinkSection, host: SinkHost) -> "NotOpening":
        del settings
        raise ConnectionRefusedError(111, f"refused {host.name}")


class OpeningNothing(Taking):
    @classmethod
    def open(cls, settings: SinkSection, host: SinkHost) -> Any:  # Any: not what it should be
        del settings, host


@pytest.mark.parametrize(
    "kind",
    [
        Clearing,
        Blocking,
        Raising,
        Exiting,
        CancelledInside,
        FailingGroup,
        NotOpening,
        OpeningNothing,
    ],
)
async def test_whatever_it_raises_is_tried_again_and_named_without_its_text(
    kind: type[Taking], golden: Golden
) -> None:
    with pytest.raises(SinkUnavailable) as caught:
        await make(kind).deliver(eviction_entries(2))

    text = str(caught.value)
    assert golden() in text.partition(" at ")[0]
    assert "hunter2" not in text


@pytest.mark.parametrize("answer", [0, -1, 4, None, True, "3", 2.0, [1, 2, 3]], ids=repr)
async def test_what_is_no_count_of_the_records_is_refused(answer: object, golden: Golden) -> None:
    class Miscounting(Taking):
        async def deliver(self, records: Sequence[Record]) -> Any:  # Any: no count
            del records
            return answer

    with pytest.raises(SinkUnavailable) as caught:
        await make(Miscounting).deliver(eviction_entries(3))
    assert golden() in str(caught.value)


@pytest.mark.parametrize(
    ("asked_s", "wait_s"),
    [(5, 5.0), (0.5, 0.5), (None, None), (inf, None), (nan, None), ("9", None)],
)
async def test_the_pause_that_it_asks_for_is_a_number(asked_s: Any, wait_s: float | None) -> None:
    class Resting(Raising):
        error = SinkUnavailable("x" * 10_000, asked_s)

    with pytest.raises(SinkUnavailable) as caught:
        await make(Resting).deliver(eviction_entries(1))
    assert caught.value.retry_after_s == wait_s
    assert len(str(caught.value)) < 600


async def test_a_sink_that_could_not_be_opened_is_opened_later() -> None:
    class Late(Taking):
        tries = 0

        @classmethod
        def open(cls, settings: SinkSection, host: SinkHost) -> "Late":
            cls.tries += 1
            if cls.tries == 1:
                raise OSError(2, "no folder")
            return cls(settings, host)

    sink = make(Late)
    with pytest.raises(SinkUnavailable):
        await sink.deliver(eviction_entries(1))

    assert await sink.deliver(eviction_entries(3)) == 3
    assert await sink.deliver(eviction_entries(1)) == 1
    assert Late.tries == 2


async def test_what_close_raises_is_logged_and_goes_no_further(golden: Golden) -> None:
    class Unclosable(Taking):
        async def close(self) -> None:
            raise OSError(5, "broken")

    log = RecordingLogger()
    sink = make(Unclosable, log=log)
    await sink.close()
    assert log.lines == []

    await sink.deliver(eviction_entries(1))
    await sink.close()
    await sink.close()

    [line] = log.values_of("the sink did not close")
    assert golden() in line["message"].partition(" at ")[0]


async def test_the_end_of_the_controller_is_not_taken_for_a_fault() -> None:
    class Hanging(Taking):
        async def deliver(self, records: Sequence[Record]) -> int:
            await anyio.sleep_forever()
            return len(records)

    with anyio.move_on_after(0.05) as scope:
        await make(Hanging).deliver(eviction_entries(1))
    assert scope.cancelled_caught
