"""Many clients of the event stream at once, some of whom never read: what the loop notices."""

import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from bench.measure.hold import watching
from bench.measure.machine import Stopwatch, rss_bytes
from bench.record.lateness import lateness
from bench.record.task import Found, Quiet, Task
from bench.record.writing import books, keep_pace
from reactive_desched.app.recording import utc_now
from reactive_desched.journal.recorder import Ledger
from reactive_desched.primitives.listen_address import Listen
from reactive_desched.telemetry.metrics import Metrics
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import Health
from reactive_desched.web.server import serve

RECORDS_PER_S = 1000
STALLED_AFTER_S = 3.0
"""So that who never reads is cut while this lasts; the default gives them longer."""

_CUT_WITHIN_S = 15.0
_LOOK_S = 0.05
_LONGEST_LINE = 1 << 20


async def streamed(task: Task) -> Found:
    """Serve clients that are another process, while evictions are told at a pace."""
    return await _streamed(task, "read")


async def streamed_apart(task: Task) -> Found:
    """Serve clients that each ask for something else."""
    return await _streamed(task, "read-apart")


async def _streamed(task: Task, reading: str) -> Found:
    log, limits = Quiet(), StreamLimits(stalled_after_s=min(STALLED_AFTER_S, task.seconds / 2))
    async with books(task, Metrics()) as kept:
        stream = EventStream(kept.journal.tail, limits, utc_now, log)
        async with (
            serve(Listen("127.0.0.1", 0), Health(time.monotonic), None, stream) as url,
            _readers(task, reading, url) as readers,
        ):
            found = await _told(task, stream, kept.ledger)
            found["clients"] = await readers.ended(kept.journal.tail.last)
            found["cut"] = await _cut(stream, task.silent)
    return found | {"stalled_after_s": limits.stalled_after_s, "warnings": log.warnings}


async def _told(task: Task, stream: EventStream, ledger: Ledger) -> Found:
    before, watch = rss_bytes(), Stopwatch()
    with watching() as holds:
        async with lateness() as late:
            paced = await keep_pace(ledger, RECORDS_PER_S, task.seconds)
    return paced | {
        "sent_per_s": round(stream.clients.numbers.sent / watch.wall_s),
        "cpu_share": round(watch.cpu_s / watch.wall_s, 2),
        "grown_mb": round((rss_bytes() - before) / 1e6, 1),
        "loop_late_ms": late.summary(),
        "holds": holds.summary(),
    }


async def _cut(stream: EventStream, silent: int) -> int:
    """Return how many were cut; those that never read have a while left for it."""
    with anyio.move_on_after(_CUT_WITHIN_S):
        while stream.clients.numbers.cut < silent:  # noqa: ASYNC110  # there is no event for this
            await anyio.sleep(_LOOK_S)
    return stream.clients.numbers.cut


class _Readers:
    """The other process: it says when all are connected, is told where to end, and reports."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def connected(self) -> None:
        """Return when every client has its place."""
        await self._lines.receive_until(b"\n", _LONGEST_LINE)

    async def ended(self, last: int) -> Found:
        """Say which record is the last; return what the clients saw."""
        await self._to.send(b"%d\n" % last)
        found: Found = json.loads(await self._lines.receive_until(b"\n", _LONGEST_LINE))
        return found


@asynccontextmanager
async def _readers(task: Task, reading: str, url: str) -> AsyncIterator[_Readers]:
    command = [
        *(sys.executable, "-m", "bench.record", reading, "--folder", str(task.folder)),
        *("--address", url, "--count", str(task.count), "--silent", str(task.silent)),
    ]
    async with await anyio.open_process(command, stderr=None) as process:
        try:
            readers = _Readers(process)
            await readers.connected()
            yield readers
        finally:
            with suppress(ProcessLookupError):  # it has ended by itself
                process.terminate()
