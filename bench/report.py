"""Puts what was measured beside the goals, for eyes; the JSON file has everything."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.record import rows as record
from bench.row import Row
from bench.runner import Results

_PER_PLUGIN_US = 20.0
_LARGE = 1000


def rows(results: Results) -> Iterator[Row]:
    """Yield every number about the cluster with its goal, in the order of the design's table."""
    syncs, full_run = results["syncs"], results["whole"]
    yield Row("first sync, client CPU", _median(syncs, "cpu_s"), 6, "s")
    yield Row("first sync, wall", _median(syncs, "wall_s"), None, "s")
    yield Row("resident memory after it", _median(syncs, "rss_mb"), 300, "MB")
    yield Row("peak resident memory", _median(syncs, "peak_rss_mb"), None, "MB")
    yield Row("memory per pod", _median(syncs, "bytes_per_pod"), 1500, "B")
    updates, taints = full_run["status_events"], full_run["taint_events"]
    yield Row("watch events", updates["events_per_core_s"], 20_000, "/s", at_least=True)
    what = "watch events that taint a node, each with 30 pods to judge"
    yield Row(what, taints["events_per_core_s"], None, "/s")
    yield from _reactions(results)
    yield from _floors(results)
    yield from _changes(results)
    yield Row("every plugin over everything, CPU", full_run["full_pass"]["cpu_s"], 3, "s")
    yield Row("longest hold meanwhile", full_run["full_pass"]["longest_hold_ms"], 2, "ms")
    yield Row("longest hold of the loop, first sync", _slowest_sync(syncs), 2, "ms")
    yield Row("longest hold, steady", full_run["steady_holds"]["longest_ms"], 2, "ms")
    yield Row("CPU at idle", full_run["idle"]["cpu_percent"], None, "%")


def _median(runs: Sequence[Results], name: str) -> float:
    return float(median(run[name] for run in runs))


def _slowest_sync(syncs: Sequence[Results]) -> float:
    return float(median(run["holds"]["longest_ms"] for run in syncs))


_REACTIONS: tuple[tuple[str, str, float | None, float], ...] = (
    ("pods_200", "pods, 200/s", 300, 1000),
    ("pods_1000", "pods, 1,000/s", 300, 1000),
    ("nodes_200", "nodes, 200/s", 300, 1000),
    ("nodes_1000", "nodes, 1,000/s", 300, 1000),
    ("storm_200", "nodes, 200/s beside 4,000 status/s", 300, 3000),
    ("relist_200", "nodes, during a relist of all pods", None, 3000),
)


def _reactions(results: Results) -> Iterator[Row]:
    for name, what, *_ in _REACTIONS[:4]:
        decided = results["reactions"]["tmpfs"][name]["frame_to_decision_us"]
        yield Row(f"frame to decision p50, {what}", decided["p50"], 50, "µs")
        yield Row(f"frame to decision p99, {what}", decided["p99"], 150, "µs")
    for journal, runs in results["reactions"].items():
        for name, what, p50, p99 in _REACTIONS:
            asked = runs[name]["change_to_request_us"]
            label = f"({what}; journal on {journal})"
            yield Row(f"change to request p50 {label}", asked["p50"], p50, "µs")
            yield Row(f"change to request p99 {label}", asked["p99"], p99, "µs")


def _floors(results: Results) -> Iterator[Row]:
    for name, what, *_ in _REACTIONS:
        if floor := results["floor"].get(name):
            yield Row(f"p50 of the machine and transport alone ({what})", floor["p50"], None, "µs")
            yield Row(f"p99 of the machine and transport alone ({what})", floor["p99"], None, "µs")


def _changes(results: Results) -> Iterator[Row]:
    tenth = results["tenth"]["one_change"]
    for what, cost in results["whole"]["one_change"].items():
        rest = f"{cost['warm_us']} µs warm; {tenth[what]['us']} µs at a tenth of the size"
        subjects = f"{cost['subjects']:g} subjects"
        yield Row(f"one change, {what}: {subjects}; {rest}", cost["us"], _PER_PLUGIN_US, "µs")


def ratios(results: Results) -> Iterator[tuple[str, float]]:
    """Yield how many times more the polling peer spends on the same news, and the record's part."""
    full_run = results["whole"]
    one_change_s = full_run["taint_events"]["us_per_event"] / 1e6
    in_memory, naive = full_run["full_pass"]["cpu_s"], full_run["polling"]["cpu_s"]
    yield "a pass over our own picture : one changed node", in_memory / one_change_s
    yield "a naive pass (list, parse, judge) : one changed node", naive / one_change_s
    yield "a naive pass : our first sync", naive / _median(results["syncs"], "cpu_s")
    what = "change to request, p50: with the whole record : without findings and verdicts"
    yield what, _request(results, "recorded") / _request(results, "unrecorded")


def _request(results: Results, which: str) -> float:
    runs = results["recording"][which]
    return float(median(run["change_to_request_us"]["p50"] for run in runs))


def print_report(results: Results, console: Console) -> None:
    """Print the tables and the ratios."""
    full = results["size"]["name"] == "full"
    title = "" if full else "a small size: the goals are for the full one"
    if "whole" in results:
        console.print(_table(rows(results), title, full=full))
        for what, ratio in ratios(results):
            console.print(f"{what}: {_number(ratio)} to 1")
    if "record" in results:
        console.print(_table(record.rows(results["record"]), title, full=full))
        for remark in record.remarks(results["record"]):
            console.print(remark)


def _table(every: Iterable[Row], title: str, *, full: bool) -> Table:
    table = Table("what", "measured", "best", "goal", "", title=title)
    for row in every:
        goal = "" if row.goal is None else f"{'≥' if row.at_least else '≤'} {row.goal:,g}"
        verdict = row.verdict if full else ""
        best = "" if row.best is None else f"{_number(row.best)} {row.unit}"
        table.add_row(row.what, f"{_number(row.measured)} {row.unit}", best, goal, verdict)
    return table


def _number(value: float) -> str:
    return f"{value:,.{0 if value >= _LARGE else 2}f}"
