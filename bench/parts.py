"""The parts of the benchmark: each starts what it needs, measures, and returns plain results.

Where a figure has a floor, the controller and the floor take turns, so that a machine that changes
its speed changes both; the report takes the medians.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench.looking import measure as measure_looking
from bench.processes import (
    SIZES,
    MeasuredProcess,
    Results,
    Size,
    balance,
    controller,
    floor,
    load_server,
    metrics_floor,
)
from bench.start import measure as measure_start
from reactive_desched.telemetry.sig_compat import MAX_SERIES

_PACE = 200
"""Changes per second of a busy cluster."""
_WARM_UP = 100
_CHANGE_PACE, _CHANGES = 50, 1_500
_FEWEST = 20
_KEPT_UP = 0.95
_BISECTIONS = 3
_SLOWEST = 10
_START_ROUNDS = 5
_OUTAGE_S = 20.0
ProgressLine = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class Bench:
    """The size, a folder on disk and one in memory for journals, and which part to profile.

    A soak takes so many `minutes`.
    """

    size: Size
    folders: Mapping[str, Path]
    progress: ProgressLine
    profile: str = ""
    minutes: float = 30

    def controller(
        self, journal: str, *options: str, server: MeasuredProcess | None = None
    ) -> "_Process":
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
    size, results = bench.size, Results(runs=[], floor=[], uvloop=[], bare=[], taints=[])
    with (
        bench.progress("watch events"),
        bench.controller("watch") as ours,
        floor(size) as least,
        floor(size, "--uvloop") as uvloop,
        floor(size, "--shape=bare") as bare,
    ):
        processes = {"runs": ours, "floor": least, "uvloop": uvloop, "bare": bare}
        for process in processes.values():
            process.ask("events", script="status", count=size.events // 5)  # warm
        for _ in range(size.runs):
            for name, process in processes.items():
                results[name].append(process.ask("events", script="status", count=size.events))
        for _ in range(size.syncs):
            results["taints"].append(ours.ask("events", script="flap", count=size.events // 4))
        results["idle"] = ours.ask("idle")
    with (
        bench.progress("watch events, each turn of the loop timed"),
        bench.controller("watch-holds", "--holds") as ours,
    ):
        ours.ask("events", script="status", count=size.events // 5)  # warm
        results["held"] = ours.ask("events", script="status", count=size.events, holds=True)
    return results


def measure_judging(bench: Bench) -> Results:
    """Judge one change, then everything; run the polling peer beside it."""
    with bench.progress("judging, polling"), bench.controller("judge", "--holds") as ours:
        results = {
            "one_change": ours.ask("one_change"),
            "full_pass": ours.ask("full_pass"),
            "polling": ours.ask("poll"),
        }
    journal = bench.folders["tmpfs"] / "tenth"
    with bench.progress("a tenth of the size"), controller(bench.size.one_tenth, journal) as ours:
        results["tenth"] = ours.ask("one_change")
    return results


def measure_balance(bench: Bench) -> Results:
    """Keep up every plugin's indexes over a balanced cluster, and sweep it."""
    with bench.progress("every plugin at once"), balance(bench.size) as process:
        return process.started


def measure_reactions(bench: Bench) -> Results:
    """Send changes at several paces, and time the eviction requests that follow."""
    with (
        bench.progress("reactions, journal on tmpfs"),
        bench.controller("react") as ours,
        floor(bench.size, "--shape=requests") as least,
        floor(bench.size, "--shape=requests", "--uvloop") as uvloop,
        _recorded_floor(bench, "recorded-requests") as recorded,
        _recorded_floor(bench, "recorded-requests-in-thread") as in_thread,
    ):
        other_floors = {
            "pods_uvloop_floor": uvloop,
            "pods_recorded_floor": recorded,
            "pods_recorded_in_thread_floor": in_thread,
        }
        results = _reactions(ours, least, other_floors, bench.size)
    disk = bench.folders["disk"] / "react"
    with (
        bench.progress("reactions, journal on disk"),
        controller(bench.size, disk, *bench.profiling) as ours,
    ):
        ours.ask("react", **_bound(_PACE, _WARM_UP))
        results["pods_disk"] = [
            ours.ask("react", **_bound(_PACE, bench.size.reactions))
            for _ in range(bench.size.syncs)
        ]
    return results


def _recorded_floor(bench: Bench, shape: str) -> _Process:
    """Run the floor that writes a durable record, in memory, before it evicts."""
    file = bench.folders["tmpfs"] / shape
    return floor(bench.size, f"--shape={shape}", f"--journal={file}")


def _reactions(
    ours: MeasuredProcess,
    least: MeasuredProcess,
    other_floors: Mapping[str, MeasuredProcess],
    size: Size,
) -> Results:
    processes = {"pods": ours, "pods_floor": least, **other_floors}
    for process in processes.values():
        process.ask("react", **_bound(_PACE, _WARM_UP))
    results = _in_turn(processes, size, _PACE)
    results["nodes"] = [ours.ask("react", script="probe", pace=_PACE, count=size.reactions)]
    results["storm"] = [ours.ask("storm", pace=_PACE, count=size.reactions)]
    results["relist"] = [ours.ask("relist", pace=_PACE, count=size.reactions)]
    for _ in range(size.syncs):
        few = _bound(_PACE, size.reactions // 4)
        results.setdefault("recorded", []).append(ours.ask("react", **few))
        results.setdefault("unrecorded", []).append(ours.ask("unrecorded", **few))
    results["saturation"] = find_saturation(
        lambda pace: ours.ask("react", **_bound(pace, pace * size.ramp_s))
    )
    half = results["saturation"]["pace"] / 2
    return results | _in_turn({"half": ours, "half_floor": least}, size, half)


def _bound(pace: float, count: float) -> Results:
    """Name the script that binds pods where they may not stay: one event, one eviction."""
    return {"script": "bound", "pace": pace, "count": max(_FEWEST, round(count))}


def _in_turn(processes: Mapping[str, MeasuredProcess], size: Size, pace: float) -> Results:
    runs = Results({name: [] for name in processes})
    for _ in range(size.syncs):
        for name, process in processes.items():
            runs[name].append(process.ask("react", **_bound(pace, size.reactions)))
    return runs


def find_saturation(react: Callable[[float], Results]) -> Results:
    """Find the pace at which requests stop keeping up with the changes.

    `react` runs at a pace. The pace doubles until less than 95 % of it comes out, or the load
    server itself cannot send so fast; then bisection narrows it down to about a tenth. Returns the
    greatest pace that was kept up, every run that was tried, and which side gave out; a pace is
    given up when it failed twice in a row.
    """
    tried: list[Results] = []

    def keeps_up(pace: float) -> bool:
        return try_once(pace) or try_once(pace)  # another process may have had the core

    def try_once(pace: float) -> bool:
        run = react(pace)
        sent, requests = run["sent_per_s"], run["requests_per_s"]
        is_server = sent < _KEPT_UP * pace
        kept = not is_server and requests >= _KEPT_UP * pace and not run["unsettled"]
        tried.append({"pace": pace, "requests_per_s": requests, "kept_up": kept})
        if not kept:
            tried[-1]["limit"] = "load server" if is_server else "controller"
        return bool(kept)

    low, high = 0.0, float(_PACE)
    while keeps_up(high):
        low, high = high, high * 2
    while not low:
        low, high = (high / 2, high) if high < _SLOWEST or keeps_up(high / 2) else (0, high / 2)
    for _ in range(_BISECTIONS):
        middle = round((low * high) ** 0.5)
        low, high = (middle, high) if keeps_up(middle) else (low, middle)
    failed = next(run for run in tried if run["pace"] == high and not run["kept_up"])
    return {"pace": low, "limit": failed["limit"], "tried": tried}


def measure_recording(bench: Bench) -> Results:
    """Run a controller that records beside one that does not; read and replay recordings."""
    size = bench.size
    with (
        bench.progress("recording"),
        bench.controller("recorded", "--recorded") as recorded,
        bench.controller("not-recorded") as plain,
    ):
        processes = {"recorded": recorded, "plain": plain}
        results = Results(memory={}, events={}, reactions={})
        for name, process in processes.items():
            process.ask("events", script="status", count=size.events // 5)  # warm
            process.ask("react", **_bound(_PACE, _WARM_UP))
            results["events"][name], results["reactions"][name] = [], []
        for _ in range(size.runs):
            for name, process in processes.items():
                run = process.ask("events", script="status", count=size.events)
                results["events"][name].append(run)
        for _ in range(size.syncs):
            for name, process in processes.items():
                run = process.ask("react", **_bound(_PACE, size.reactions))
                results["reactions"][name].append(run)
        for name, process in processes.items():
            results["memory"][name] = process.ask("memory")
        results["pictures"] = [recorded.ask("picture") for _ in range(size.syncs)]
        results["changes"] = recorded.ask("changes", pace=_CHANGE_PACE, count=_CHANGES)
    with bench.progress("recordings that are looked at and replayed"):
        results["looking"] = measure_looking(size.pods, size.nodes, _CHANGE_PACE)
    return results


def measure_outage(bench: Bench) -> Results:
    """Close the API server's port and every connection for a while; time until judging resumes."""
    with (
        bench.progress(f"an outage of the API server, {_OUTAGE_S:g} s"),
        load_server(SIZES["small"]) as server,
        controller(SIZES["small"], bench.folders["tmpfs"] / "outage", server=server) as ours,
    ):
        return {
            "outage_s": _OUTAGE_S,
            "runs": [
                ours.ask("resume", back_ns=server.ask("outage", seconds=_OUTAGE_S)["back_ns"])
                for _ in range(bench.size.outages)
            ],
        }


def measure_scrapes(bench: Bench) -> Results:
    """Scrape a controller with as many series of evictions as it keeps, each under two names."""
    runs: list[Results] = []
    floors: list[Results] = []
    with (
        bench.progress("scrapes"),
        controller(SIZES["small"], bench.folders["tmpfs"] / "scrape", "--holds") as ours,
        metrics_floor(2 * MAX_SERIES) as least,
    ):
        for _ in range(bench.size.syncs):
            runs.append(ours.ask("scrape"))
            floors.append(least.ask("scrape"))
    return {"runs": runs, "floor": floors}


def measure_soak(bench: Bench) -> Results:
    """Keep a controller busy for `bench.minutes`; see `bench.measure.soak`."""
    within_s = 120 * bench.minutes + 600
    with (
        bench.progress(f"a soak of {bench.minutes:g} minutes"),
        bench.controller("soak") as ours,
    ):
        return ours.ask_within(within_s, "soak", minutes=bench.minutes)


def measure_starts(bench: Bench) -> Results:
    """Start the commands."""
    with bench.progress("start"):
        return dict(measure_start(_START_ROUNDS))


PARTS: Mapping[str, Callable[[Bench], Results]] = {
    "sync": measure_sync,
    "watch": measure_watch,
    "react": measure_reactions,
    "recording": measure_recording,
    "outage": measure_outage,
    "judge": measure_judging,
    "balance": measure_balance,
    "start": measure_starts,
    "scrape": measure_scrapes,
    "soak": measure_soak,
}

BY_NAME_ONLY = frozenset({"soak"})
"""The parts that take too long to be measured with all others."""


def failures(results: Results) -> Iterator[str]:
    """Yield what no speed excuses."""
    pods = results["size"]["pods"]
    sync = results.get("sync", {"runs": (), "floor": ()})
    for run in (*sync["runs"], *sync["floor"]):
        if run["pods"] != pods:
            yield f"{run['pods']} of {pods} pods were synced"
    if "judge" in results and results["judge"]["polling"]["pods"] < pods:
        yield "the polling peer did not see every pod"
    if "balance" in results:
        yield from _balance_failures(results["balance"], pods)
    if "recording" in results and results["recording"]["changes"]["changes"] < _CHANGES:
        yield f"{results['recording']['changes']['changes']} of {_CHANGES} changes were recorded"
    for pod in results.get("soak", {"lost": ()})["lost"]:
        yield f"soak: not evicted: {pod}"
    for what, run in reaction_runs(results):
        if not run.get("unsettled") and (run["evicted"] != run["expected"] or run.get("twice")):
            counts = f"{run['evicted']} of {run['expected']} evicted, {run.get('twice', 0)} twice"
            yield f"{what}: {counts}; {run.get('why_lost', '')}"


def _balance_failures(balance: Results, pods: int) -> Iterator[str]:
    for what in ("pods", "naive"):
        seen = balance[what] if what == "pods" else balance[what]["pods"]
        if seen != pods:
            yield f"balance, {what}: {seen} of {pods} pods were seen"
    if evicted := balance["evicted"] + balance["sweep"]["evicted"]:
        yield f"balance: {evicted} pods were evicted from a balanced cluster"


def reaction_runs(results: Results) -> Iterator[tuple[str, Results]]:
    """Yield every run that ended in evictions, with its name."""
    named = {
        f"reactions, {name}": runs
        for name, runs in results.get("react", {}).items()
        if name != "saturation"
    }
    for name, runs in results.get("recording", {"reactions": {}})["reactions"].items():
        named[f"reactions, {name}"] = runs
    named["outage"] = results.get("outage", {"runs": ()})["runs"]
    for what, runs in named.items():
        yield from ((what, run) for run in runs)
