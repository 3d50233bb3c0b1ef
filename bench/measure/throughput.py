"""How many watch events a core can take in, from the socket to the verdict, flat out."""

from bench.measure.live import Live
from bench.measure.machine import Stopwatch
from bench.measure.numbers import Numbers, middle

_RUNS = 3


async def flat_out(live: Live, script: str, count: int) -> Numbers:
    """Tell a script as fast as it can be read, three times; return the run in the middle."""
    return middle([await _once(live, script, count) for _ in range(_RUNS)], "events_per_core_s")


async def _once(live: Live, script: str, count: int) -> Numbers:
    prepared = await live.director.prepare(script, count)
    before, watch = live.stamps.changes, Stopwatch()
    await live.director.play()
    await live.stamps.reach(before + prepared)
    await live.settled()
    cpu_s, wall_s = watch.cpu_s, watch.wall_s
    return {
        "events": prepared,
        "events_per_core_s": round(prepared / cpu_s),
        "events_per_s": round(prepared / wall_s),
        "us_per_event": round(cpu_s / prepared * 1e6, 1),
    }
