"""What a recording takes: a picture of the whole cluster, a change, and memory."""

import gc
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bench.measure.live import RunningController
from bench.measure.machine import Stopwatch, rss_bytes
from reactive_desched.recording.recorder import FLUSH_S, ClusterRecorder, RecorderBounds
from reactive_desched.telemetry import logs

_BOUNDS = RecorderBounds(2**33, 1e9, 2**32, 1e9)
_LOOK_S = 0.05
_WRITTEN_S = FLUSH_S + 2


async def picture(running: RunningController) -> dict[str, object]:
    """Record one picture of what the controller holds; return its size, and what it cost.

    `outside_cpu_s` is the processor time of other threads than the event loop's: compression.
    """
    with TemporaryDirectory(dir=running.target.journal) as name:
        folder = Path(name)
        recorder = _recorder(running, folder)
        gc.collect()
        watch, loop_s = Stopwatch(), time.thread_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recorder.run)
            while recorder.fault:  # noqa: ASYNC110  # a recorder has no event for this
                await anyio.sleep(_LOOK_S)
            cpu_s, wall_s, loop_s = watch.cpu_s, watch.wall_s, time.thread_time() - loop_s
            written = _size(folder)
            tasks.cancel_scope.cancel()
    return {
        "bytes": written,
        "cpu_s": round(cpu_s, 3),
        "loop_cpu_s": round(loop_s, 3),
        "outside_cpu_s": round(cpu_s - loop_s, 3),
        "wall_s": round(wall_s, 3),
    }


async def changes(running: RunningController, pace: float, count: int) -> dict[str, object]:
    """Record changes that come at a pace; return how many bytes each takes on the disk."""
    with TemporaryDirectory(dir=running.target.journal) as name:
        folder = Path(name)
        recorder = _recorder(running, folder)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recorder.run)
            while recorder.fault:  # noqa: ASYNC110  # a recorder has no event for this
                await anyio.sleep(_LOOK_S)
            await anyio.sleep(_WRITTEN_S)
            before, recorded = _size(folder), recorder.recorded
            prepared = await running.director.prepare("status", count)
            until = running.events_applied + prepared
            await running.director.play(pace)
            await running.wait_for_events(until)
            await anyio.sleep(_WRITTEN_S)
            written, recorded = _size(folder) - before, recorder.recorded - recorded
            tasks.cancel_scope.cancel()
    return {"changes": recorded, "bytes_per_change": round(written / max(1, recorded), 1)}


async def memory(_: RunningController) -> dict[str, object]:
    """Return the resident memory."""
    gc.collect()
    return {"rss_mb": round(rss_bytes() / 1e6, 1)}


def _recorder(running: RunningController, folder: Path) -> ClusterRecorder:
    return ClusterRecorder(
        running.controller.state,
        folder,
        _BOUNDS,
        lambda _: iter(()),
        moment=running.controller.clocks.moment,
        log=logs.logger("bench"),
    )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
