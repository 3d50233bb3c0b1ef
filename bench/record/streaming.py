"""Many clients of the event stream at once, some of whom never read: what the loop notices."""

import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from bench.measure.loop import watch_lateness, watch_loop_turns
from bench.measure.machine import Stopwatch, rss_bytes
from bench.record.task import Results, Task, WarningLog
from bench.record.writing import open_bench_recording, write_at_pace
from reactive_desched.journal.clocks import utc_now
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import Health
from reactive_desched.web.server import Served, serve

RECORDS_PER_S = 1000
STALLED_AFTER_S = 3.0
"""So that who never reads is cut soon after this, and who reads is not; the default is longer."""

_CUT_WITHIN_S = 15.0
_POLL_INTERVAL_S = 0.05
_LONGEST_LINE = 1 << 20


async def stream_speed(task: Task) -> Results:
    """Serve clients that are another process, while evictions are recorded at a pace."""
    return await _measure_stream(task, "read")


async def stream_speed_filtered(task: Task) -> Results:
    """Serve clients that each ask for something else."""
    return await _measure_stream(task, "read-apart")


async def _measure_stream(task: Task, reading: str) -> Results:
    log, limits = WarningLog(), StreamLimits(stall_timeout_s=STALLED_AFTER_S)
    async with open_bench_recording(task) as kept:
        stream = EventStream(limits, utc_now, log)
        served = Served(Health(time.monotonic), events=stream)
        async with (
            stream.following(kept.journal.tail),
            serve(ListenAddress("127.0.0.1", 0), served) as url,
            _readers(task, reading, url) as readers,
        ):
            results = await _write_while_streaming(task, stream, kept.recorder)
            results["cut"] = await _wait_for_cut_clients(stream, task.silent)
            results["clients"] = await readers.finish(kept.journal.tail.last_seq)
    return results | {"stalled_after_s": limits.stall_timeout_s, "warnings": log.warnings}


async def _write_while_streaming(
    task: Task, stream: EventStream, recorder: JournalRecorder
) -> Results:
    before, watch = rss_bytes(), Stopwatch()
    with watch_loop_turns() as loop_turns:
        async with watch_lateness() as late:
            paced = await write_at_pace(recorder, RECORDS_PER_S, task.seconds)
    return paced | {
        "sent_per_s": round(stream.clients.counters.sent / watch.wall_s),
        "cpu_share": round(watch.cpu_s / watch.wall_s, 2),
        "grown_mb": round((rss_bytes() - before) / 1e6, 1),
        "loop_late_ms": late.summary(),
        "holds": loop_turns.summary(),
    }


async def _wait_for_cut_clients(stream: EventStream, silent: int) -> int:
    """Return how many were cut; those that never read have a while left for it."""
    with anyio.move_on_after(_CUT_WITHIN_S):
        while stream.clients.counters.cut < silent:  # noqa: ASYNC110  # there is no event for this
            await anyio.sleep(_POLL_INTERVAL_S)
    return stream.clients.counters.cut


class _ReaderProcess:
    """The other process: it prints when all are connected, reads where to end, and reports."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def connected(self) -> None:
        """Return when every client has its place."""
        await self._lines.receive_until(b"\n", _LONGEST_LINE)

    async def finish(self, last: int) -> Results:
        """Say which record is the last; return what the clients saw."""
        await self._stdin.send(b"%d\n" % last)
        results: Results = json.loads(await self._lines.receive_until(b"\n", _LONGEST_LINE))
        return results


@asynccontextmanager
async def _readers(task: Task, reading: str, url: str) -> AsyncIterator[_ReaderProcess]:
    command = [
        *(sys.executable, "-m", "bench.record", reading, "--folder", str(task.folder)),
        *("--address", url, "--count", str(task.count), "--silent", str(task.silent)),
    ]
    async with await anyio.open_process(command, stderr=None) as process:
        try:
            readers = _ReaderProcess(process)
            await readers.connected()
            yield readers
        finally:
            with suppress(ProcessLookupError):  # it has ended by itself
                process.terminate()
