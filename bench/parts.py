"""The parts of the benchmark: each starts what it needs, measures, and returns plain results.

Where a figure has a floor, the controller and the floor take turns, so that a machine that changes
its speed changes both; the report takes the medians.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.processes import MeasuredProcess, Results, Size, controller, floor, load_server
from bench.start import measure as measure_start

_PACES = (200, 1000)
_WARM_UP = 100
ProgressLine = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class Bench:
    """The size, a folder on disk and one in memory for journals, and which part to profile."""

    size: Size
    folders: Mapping[str, Path]
    progress: ProgressLine
    profile: str = ""

    def controller(self, journal: str, *options: str, server: Results | None = None) -> "_Process":
        """Run a controller with a journal of this name in memory."""
        return controller(
            self.size, self.folders["tmpfs"] / journal, *options, *self.profiling, server=server
        )

    @property
    def profiling(self) -> tuple[str, ...]:
        """The option that makes a controller sample a part."""
        return ("--profile", self.profile) if self.profile else ()


_Process = AbstractContextManager[MeasuredProcess]


def measure_sync(bench: Bench) -> Results:
    """List the whole cluster, again and again, each time in a fresh process."""
    size = bench.size
    runs: list[Results] = []
    floors: list[Results] = []
    with load_server(size) as server:
        for turn in range(size.syncs):
            with bench.progress(f"first sync, {turn + 1} of {size.syncs}"):
                with bench.controller(f"sync-{turn}", server=server) as process:
                    runs.append(process.started)
                with floor(size, server=server) as process:
                    floors.append(process.started)
        with (
            bench.progress("first sync, each turn of the loop timed"),
            bench.controller("sync-holds", "--holds", server=server) as process,
        ):
            held = process.started
    return {"runs": runs, "floor": floors, "held": held}


def measure_watch(bench: Bench) -> Results:
    """Send watch events flat out."""
    size, results = bench.size, Results(runs=[], floor=[], taints=[])
    with (
        bench.progress("watch events"),
        bench.controller("watch") as ours,
        floor(size) as least,
    ):
        for process in (ours, least):
            process.ask("events", script="status", count=size.events // 5)  # warm
        for _ in range(size.runs):
            status = {"script": "status", "count": size.events}
            results["runs"].append(ours.ask("events", **status))
            results["floor"].append(least.ask("events", **status))
        for _ in range(size.syncs):
            results["taints"].append(ours.ask("events", script="flap", count=size.events // 4))
        results["held"] = ours.ask("events", script="status", count=size.events, holds=True)
        results["idle"] = ours.ask("idle")
    return results


def measure_judging(bench: Bench) -> Results:
    """Judge one change, then everything; run the polling peer beside it."""
    with bench.progress("judging, polling"), bench.controller("judge") as ours:
        results = {
            "one_change": ours.ask("one_change"),
            "full_pass": ours.ask("full_pass"),
            "polling": ours.ask("poll"),
        }
    journal = bench.folders["tmpfs"] / "tenth"
    with bench.progress("a tenth of the size"), controller(bench.size.one_tenth, journal) as ours:
        results["tenth"] = ours.ask("one_change")
    return results


def measure_reactions(bench: Bench) -> Results:
    """Send changes at several paces, and time the eviction requests that follow."""
    results: Results = {"floor": {}}
    for medium, folder in bench.folders.items():
        with ExitStack() as running:
            running.enter_context(bench.progress(f"reactions, journal on {medium}"))
            ours = running.enter_context(controller(bench.size, folder / "react", *bench.profiling))
            least = running.enter_context(floor(bench.size, "--requests"))
            results[medium] = _reactions(ours, least, bench.size, results["floor"])
    return results


def _reactions(
    ours: MeasuredProcess, least: MeasuredProcess, size: Size, floors: Results
) -> Results:
    for process in (ours, least):
        process.ask("react", script="bound", pace=_PACES[0], count=_WARM_UP)
    results: Results = {}
    for pace in _PACES:
        bound = {"script": "bound", "pace": pace, "count": size.reactions}
        for _ in range(size.syncs):
            results.setdefault(f"pods_{pace}", []).append(ours.ask("react", **bound))
            floors.setdefault(f"pods_{pace}", []).append(least.ask("react", **bound))
        results[f"nodes_{pace}"] = [
            ours.ask("react", script="probe", pace=pace, count=size.reactions)
        ]
    results["storm_200"] = [ours.ask("storm", pace=200, count=size.reactions)]
    results["relist_200"] = [ours.ask("relist", pace=200, count=size.reactions)]
    bound = {"script": "bound", "pace": _PACES[0], "count": size.reactions // 4}
    for _ in range(size.runs):
        results.setdefault("recorded", []).append(ours.ask("react", **bound))
        results.setdefault("unrecorded", []).append(ours.ask("unrecorded", **bound))
    return results


def measure_starts(bench: Bench) -> Results:
    """Start the commands."""
    with bench.progress("start"):
        return dict(measure_start())


PARTS: Mapping[str, Callable[[Bench], Results]] = {
    "sync": measure_sync,
    "watch": measure_watch,
    "react": measure_reactions,
    "judge": measure_judging,
    "start": measure_starts,
}


def failures(results: Results) -> Iterator[str]:
    """Yield what no speed excuses."""
    pods = results["size"]["pods"]
    sync = results.get("sync", {"runs": (), "floor": ()})
    for run in (*sync["runs"], *sync["floor"]):
        if run["pods"] != pods:
            yield f"{run['pods']} of {pods} pods were synced"
    if "judge" in results and results["judge"]["polling"]["pods"] < pods:
        yield "the polling peer did not see every pod"
    for medium, named in results.get("react", {}).items():
        for name, runs in named.items():
            for run in runs:
                yield from _reaction_failures(f"{name}, journal on {medium}", run)


def _reaction_failures(what: str, run: Results) -> Iterator[str]:
    if run.get("unsettled"):
        return  # its figures are not valid, and the report says so
    if run["evicted"] != run["expected"] or run.get("twice"):
        counts = f"{run['evicted']} of {run['expected']} evicted, {run.get('twice', 0)} twice"
        yield f"{what}: {counts}; {run.get('why_lost', '')}"
