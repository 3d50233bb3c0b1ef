"""Runs the controller in this process and measures what standard input asks for."""

import argparse
import gc
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import anyio
from msgspec.structs import replace

from bench.measure import judging, poll, reaction, recording
from bench.measure.commands import Command, serve_commands
from bench.measure.live import RunningController, run_controller
from bench.measure.loop import watch_loop_turns
from bench.measure.machine import Stopwatch
from bench.measure.scraping import PLUGIN, labels, scrape
from bench.measure.soak import soak
from bench.measure.target import Target
from reactive_desched.app.run import loop_options
from reactive_desched.telemetry.sig_compat import MAX_SERIES

Results = dict[str, object]
_IDLE_S = 5.0


async def watch_events(
    running: RunningController, script: str, count: int, *, holds: bool = False
) -> Results:
    """Read the next events of a script as fast as they come; return what each cost.

    With `holds` every turn of the loop is timed too, which costs some of the rate; only asyncio's
    own loop lets that be done.
    """
    prepared = await running.director.prepare(script, count)
    until, watch = running.events_applied + prepared, Stopwatch()
    with (
        watch_loop_turns(same_work=True) if holds else nullcontext() as turns,
        running.profiled("watch"),
    ):
        watch.restart()
        await running.director.play()
        await running.wait_for_events(until)
        await running.wait_until_idle()
        result: Results = dict(watch.per_event(prepared))
    return result if turns is None else result | {"holds": turns.summary()}


async def idle(_: RunningController) -> Results:
    """Wait a while and return the share of a core that this took."""
    gc.collect()
    watch = Stopwatch()
    await anyio.sleep(_IDLE_S)
    return {"cpu_percent": round(100 * watch.cpu_s / watch.wall_s, 3)}


async def polling_peer(running: RunningController) -> Results:
    """Run one cycle of a descheduler that polls."""
    return dict(await poll.run_polling_cycle(running.director.http, running.target.url))


async def one_change(running: RunningController) -> Results:
    """Time the judging of one change, for each plugin."""
    return dict(judging.one_change(running, running.plugins))


async def full_pass(running: RunningController) -> Results:
    """Time the judging of everything."""
    with running.profiled("judge"):
        return dict(await judging.full_pass(running))


async def scraped(running: RunningController) -> Results:
    """Have as many series of evictions as are kept, each under two names; time scrapes of them."""
    some_pod = next(iter(running.controller.state.pods))
    for number in range(MAX_SERIES):
        namespace, node = labels(number)
        pod = replace(some_pod, namespace=namespace, node=node)
        running.metrics.upstream.count_eviction("bench", PLUGIN, pod, "success")
    return await scrape(running.url, "descheduler_pods_evicted")


def commands(running: RunningController) -> dict[str, Command]:
    """Return everything that can be asked for, by name."""
    return {
        "events": partial(watch_events, running),
        "idle": partial(idle, running),
        "one_change": partial(one_change, running),
        "full_pass": partial(full_pass, running),
        "picture": partial(recording.picture, running),
        "changes": partial(recording.changes, running),
        "memory": partial(recording.memory, running),
        "poll": partial(polling_peer, running),
        "react": partial(reaction.react, running),
        "resume": partial(reaction.after_outage, running),
        "storm": partial(reaction.during_event_storm, running),
        "relist": partial(reaction.during_relist, running),
        "scrape": partial(scraped, running),
        "soak": partial(soak, running),
        "unrecorded": partial(reaction.react_unrecorded, running),
    }


async def _run(target: Target) -> None:
    async with run_controller(target) as running:
        await serve_commands(running.sync, commands(running))


def main() -> None:
    """Read from the command line where the load server is, and what to profile."""
    parser = argparse.ArgumentParser(prog="bench.measure")
    parser.add_argument("--url", required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument(
        "--holds",
        action="store_true",
        help="use asyncio's own loop, and time its turns in the sync",
    )
    parser.add_argument("--recorded", action="store_true", help="record what the controller sees")
    parser.add_argument("--profile", default="", metavar="PART", help="sample one part")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = Target(folder=Path(folder), **vars(args))
        anyio.run(_run, target, backend_options={} if target.holds else loop_options())


if __name__ == "__main__":
    main()
