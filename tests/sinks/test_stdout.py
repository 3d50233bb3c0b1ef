import os
import subprocess
import sys
from collections.abc import Iterator
from io import FileIO, RawIOBase
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from anyio.lowlevel import checkpoint

from reactive_desched.api import event as api
from reactive_desched.api.sink import Sink
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import StdoutSettings
from reactive_desched.sinks.stdout import StdoutSink
from tests.support.entries import decision_data, entry, eviction_entries
from tests.support.golden import Golden

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]  # what hangs is the fault

FULL = 3000
"""So many records are more than a pipe holds."""


class Pipe(NamedTuple):
    """Both ends of a pipe."""

    reader: FileIO
    writer: FileIO

    async def read(self, count: int) -> bytes:
        """Read so many bytes, as they come."""

        def some() -> bytes:
            found = b""
            while len(found) < count:
                found += self.reader.read(count - len(found)) or b""
            return found

        return await anyio.to_thread.run_sync(some)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    with FileIO(reader, "rb") as left, FileIO(writer, "wb") as right:
        yield Pipe(left, right)


def lines(entries: list[JournalRecord]) -> bytes:
    return b"".join(entry.raw + b"\n" for entry in entries)


async def test_every_event_is_one_line_of_the_very_bytes_of_its_record(pipe: Pipe) -> None:
    sink: Sink = StdoutSink(StdoutSettings(), pipe.writer)
    some = eviction_entries(3)

    assert await sink.deliver(some) == 3
    assert await pipe.read(len(lines(some))) == lines(some)
    assert (sink.name, sink.from_start) == ("stdout", False)
    await sink.close()


async def test_only_the_types_asked_for_are_written_and_the_others_are_done_with(
    pipe: Pipe,
) -> None:
    sink = StdoutSink(StdoutSettings(types=("eviction.succeeded",)), pipe.writer)
    left_out = entry(api.DECISION_DEFER, decision_data("defer"), 1)
    wanted = eviction_entries(1, first=2)

    assert await sink.deliver([left_out, *wanted]) == 2
    assert await pipe.read(len(lines(wanted))) == lines(wanted)


async def test_a_pipe_without_a_reader_holds_up_no_other_sink(pipe: Pipe) -> None:
    sink = StdoutSink(StdoutSettings(), pipe.writer)
    some = eviction_entries(FULL)
    turns = 0
    async with anyio.create_task_group() as group:

        async def deliver() -> None:
            assert await sink.deliver(some) == len(some)

        group.start_soon(deliver)
        await anyio.wait_readable(pipe.reader)
        for _ in range(100):
            await checkpoint()
            turns += 1
        assert turns == 100

        assert await pipe.read(len(lines(some))) == lines(some)


async def test_a_writer_cut_short_ends_its_line_before_the_next_delivery_begins(
    pipe: Pipe,
) -> None:
    sink = StdoutSink(StdoutSettings(), pipe.writer)
    first, second = eviction_entries(FULL), eviction_entries(2, first=FULL + 1)
    with anyio.move_on_after(0.05) as scope:
        await sink.deliver(first)
    assert scope.cancelled_caught

    async with anyio.create_task_group() as group:
        group.start_soon(sink.deliver, second)
        both = lines(first) + lines(second)
        assert await pipe.read(len(both)) == both


async def test_a_reader_that_went_away_is_reported_and_nothing_breaks(
    pipe: Pipe, golden: Golden
) -> None:
    sink = StdoutSink(StdoutSettings(), pipe.writer)
    pipe.reader.close()

    for _ in range(2):
        with pytest.raises(SinkUnavailable) as caught:
            await sink.deliver(eviction_entries(1))

        assert golden() in str(caught.value)
    await sink.close()


class Fickle(RawIOBase):
    """A stream whose writes go as scripted: so many bytes, or an error."""

    def __init__(self, *script: int | OSError) -> None:
        self.script = list(script)
        self.written = b""

    def write(self, line: memoryview, /) -> int:  # type: ignore[override]  # what the sink gives
        step = self.script.pop(0) if self.script else len(line)
        if isinstance(step, OSError):
            raise step
        self.written += bytes(line[:step])
        return min(step, len(line))


async def test_a_line_that_broke_off_stays_on_a_line_of_its_own(golden: Golden) -> None:
    full = OSError(28, "No space left on device")
    stream = Fickle(10, full)
    sink = StdoutSink(StdoutSettings(), stream)
    some = eviction_entries(2)

    with pytest.raises(SinkUnavailable) as caught:
        await sink.deliver(some)

    assert golden() in str(caught.value)
    assert await sink.deliver(some) == 2
    assert stream.written == some[0].raw[:10] + b"\n" + lines(some)


async def test_what_was_written_before_a_failure_is_done_with() -> None:
    some = eviction_entries(3)
    stream = Fickle(len(some[0].raw) + 1, OSError(5, "Input/output error"))
    sink = StdoutSink(StdoutSettings(), stream)

    assert await sink.deliver(some) == 1
    assert await sink.deliver(some[1:]) == 2
    assert stream.written == lines(some)


class Counting:
    """The end of a pipe that counts how often it took nothing."""

    def __init__(self, pipe: Pipe) -> None:
        os.set_blocking(pipe.writer.fileno(), False)
        self.fileno = pipe.writer.fileno
        self._writer = pipe.writer
        self.refusals = 0

    def write(self, line: memoryview, /) -> int | None:
        written: int | None = self._writer.write(line)
        self.refusals += written is None
        return written


async def test_a_stream_that_takes_nothing_just_now_is_waited_for(pipe: Pipe) -> None:
    stream = Counting(pipe)
    sink = StdoutSink(StdoutSettings(), stream)
    some = eviction_entries(FULL)
    async with anyio.create_task_group() as group:
        group.start_soon(sink.deliver, some)
        await anyio.wait_readable(pipe.reader)
        await anyio.sleep(0.05)
        assert await pipe.read(len(lines(some))) == lines(some)

    assert 0 < stream.refusals < FULL  # it is not asked over and over


async def test_a_closed_stream_is_reported(pipe: Pipe) -> None:
    pipe.writer.close()
    with pytest.raises(SinkUnavailable, match="standard output is closed"):
        await StdoutSink(StdoutSettings(), pipe.writer).deliver(eviction_entries(1))


async def test_a_record_that_cannot_be_read_is_refused_and_order_continues(pipe: Pipe) -> None:
    sink = StdoutSink(StdoutSettings(), pipe.writer)
    good, bad = eviction_entries(1), JournalRecord(2, b"{")

    assert await sink.deliver([*good, bad]) == 1
    with pytest.raises(EventRejected, match="the record cannot be read"):
        await sink.deliver([bad])


SCRIPT = """
import anyio, sys
from reactive_desched.policy.settings.recording import StdoutSettings
from reactive_desched.sinks.stdout import StdoutSink, standard_output
from tests.support.entries import eviction_entries

async def main():
    sink = StdoutSink(StdoutSettings(), standard_output())
    with anyio.move_on_after(0.2):
        await sink.deliver(eviction_entries(3000))
    await sink.close()
    print("ended", file=sys.stderr, flush=True)

anyio.run(main)
"""


def test_a_process_ends_although_its_output_is_not_read(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.read() == b"ended\n"
            assert process.wait() == 0
        finally:
            process.kill()


def test_a_missing_output_is_reported_before_anything_begins(golden: Golden) -> None:
    script = "from reactive_desched.sinks.stdout import standard_output; standard_output()"
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -c "$1" >&-', sys.executable, script],
        capture_output=True,
        check=False,
        text=True,
    )

    assert golden() in done.stderr
