"""Runs one programme of measurements in this process; prints what it found as one line of JSON."""

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from bench.measure import floor, judging, poll, reaction, throughput, unrecorded
from bench.measure.hold import watch_loop_turns
from bench.measure.live import RunningController, run_controller
from bench.measure.machine import Stopwatch
from bench.measure.stamps import frames_stamped
from bench.measure.target import Target

Results = dict[str, object]
_IDLE_S = 5.0
_PACES = (200, 1000)
_WARM_UP = 100


async def full_run(running: RunningController, events: int) -> Results:
    """Throughput, idleness, the price of judging, and the polling peer."""
    results: Results = {"idle": await _idle()}
    with watch_loop_turns() as loop_turns:
        with running.phase("status"):
            results["status_events"] = await throughput.flat_out(running, "status", events)
        with running.phase("flap"):
            results["taint_events"] = await throughput.flat_out(running, "flap", events // 4)
    results["steady_holds"] = loop_turns.summary()
    results["one_change"] = judging.one_change(running, running.plugins)
    with running.phase("pass"):
        results["full_pass"] = await judging.full_pass(running)
    with running.phase("poll"):
        results["polling"] = await poll.run_polling_cycle(running.director.http, running.target.url)
    return results


async def reactions(running: RunningController, count: int) -> Results:
    """Reaction times at several paces: idle, beside a storm of news, during a relist."""
    results: Results = {}
    with frames_stamped(running.stamps):
        await reaction.idle(running, "bound", _PACES[0], _WARM_UP)  # connections open, code warm
        for pace in _PACES:
            with running.phase("bound"):
                results[f"pods_{pace}"] = await reaction.idle(running, "bound", pace, count)
            with running.phase("probe"):
                results[f"nodes_{pace}"] = await reaction.idle(running, "probe", pace, count)
        with running.phase("storm"):
            results["storm_200"] = await reaction.during_event_storm(running, 200, count)
        with running.phase("relist"):
            results["relist_200"] = await reaction.during_relist(running, 200, count)
    return results


async def recording(running: RunningController, count: int) -> Results:
    """Reaction times with the whole record, and with intents and outcomes alone."""
    await reaction.idle(running, "bound", _PACES[0], _WARM_UP)  # as above
    return dict(await unrecorded.compare_recording(running, _PACES[0], count))


async def change_cost_only(running: RunningController, _: int) -> Results:
    """Only the price of one change: for a cluster of another size."""
    return {"one_change": judging.one_change(running, running.plugins)}


PROGRAMMES: dict[str, Callable[[RunningController, int], Awaitable[Results]]] = {
    "whole": full_run,
    "reactions": reactions,
    "recording": recording,
    "nodes": change_cost_only,
}


async def _idle() -> Results:
    gc.collect()
    watch = Stopwatch()
    await anyio.sleep(_IDLE_S)
    return {"cpu_percent": round(100 * watch.cpu_s / watch.wall_s, 3)}


async def _run(programme: str, target: Target, count: int) -> Results:
    if programme == "floor":
        return dict(await floor.floors(target, count, _PACES))
    async with run_controller(target) as running:
        return {"sync": running.sync} | await PROGRAMMES[programme](running, count)


def main() -> None:
    """Read what to measure from the command line."""
    parser = argparse.ArgumentParser(prog="bench.measure")
    parser.add_argument("programme", choices=[*PROGRAMMES, "floor"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--profile", default="", metavar="PHASE", help="sample one phase")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = Target(
            url=args.url,
            ca=args.ca,
            pods=args.pods,
            nodes=args.nodes,
            folder=Path(folder),
            journal=args.journal,
            profile=args.profile,
        )
        results = anyio.run(_run, args.programme, target, args.count)
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
