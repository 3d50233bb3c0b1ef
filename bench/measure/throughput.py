"""How many watch events a core can take in, from the socket to the verdict, flat out."""

from bench.measure.live import RunningController
from bench.measure.machine import Stopwatch
from bench.measure.numbers import Quantiles, median_run

_RUNS = 3


async def flat_out(live: RunningController, script: str, count: int) -> Quantiles:
    """Tell a script as fast as it can be read, three times; return the run in the middle."""
    return median_run([await _once(live, script, count) for _ in range(_RUNS)], "events_per_core_s")


async def _once(live: RunningController, script: str, count: int) -> Quantiles:
    prepared = await live.director.prepare(script, count)
    before, watch = live.stamps.changes, Stopwatch()
    await live.director.play()
    await live.stamps.wait_for_changes(before + prepared)
    await live.wait_until_idle()
    cpu_s, wall_s = watch.cpu_s, watch.wall_s
    return {
        "events": prepared,
        "events_per_core_s": round(prepared / cpu_s),
        "events_per_s": round(prepared / wall_s),
        "us_per_event": round(cpu_s / prepared * 1e6, 1),
    }
