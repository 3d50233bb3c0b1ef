"""Puts what was measured beside the goals, for eyes; the JSON file has everything."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.record import rows as record
from bench.row import Row
from bench.runner import Found

_PER_PLUGIN_US = 20.0
_LARGE = 1000


def rows(found: Found) -> Iterator[Row]:
    """Yield every number about the cluster with its goal, in the order of the design's table."""
    syncs, whole = found["syncs"], found["whole"]
    yield Row("first sync, client CPU", _middle(syncs, "cpu_s"), 6, "s")
    yield Row("first sync, wall", _middle(syncs, "wall_s"), None, "s")
    yield Row("resident memory after it", _middle(syncs, "rss_mb"), 300, "MB")
    yield Row("peak resident memory", _middle(syncs, "peak_rss_mb"), None, "MB")
    yield Row("memory per pod", _middle(syncs, "bytes_per_pod"), 1500, "B")
    updates, taints = whole["status_events"], whole["taint_events"]
    yield Row("watch events", updates["events_per_core_s"], 20_000, "/s", at_least=True)
    what = "watch events that taint a node, each with 30 pods to judge"
    yield Row(what, taints["events_per_core_s"], None, "/s")
    yield from _reactions(found)
    yield from _floors(found)
    yield from _changes(found)
    yield Row("every plugin over everything, CPU", whole["full_pass"]["cpu_s"], 3, "s")
    yield Row("longest hold meanwhile", whole["full_pass"]["longest_hold_ms"], 2, "ms")
    yield Row("longest hold of the loop, first sync", _longest(syncs), 2, "ms")
    yield Row("longest hold, steady", whole["steady_holds"]["longest_ms"], 2, "ms")
    yield Row("CPU at idle", whole["idle"]["cpu_percent"], None, "%")


def _middle(runs: Sequence[Found], name: str) -> float:
    return float(median(run[name] for run in runs))


def _longest(syncs: Sequence[Found]) -> float:
    return float(median(run["holds"]["longest_ms"] for run in syncs))


_REACTIONS: tuple[tuple[str, str, float | None, float], ...] = (
    ("pods_200", "pods, 200/s", 300, 1000),
    ("pods_1000", "pods, 1,000/s", 300, 1000),
    ("nodes_200", "nodes, 200/s", 300, 1000),
    ("nodes_1000", "nodes, 1,000/s", 300, 1000),
    ("storm_200", "nodes, 200/s beside 4,000 status/s", 300, 3000),
    ("relist_200", "nodes, during a relist of all pods", None, 3000),
)


def _reactions(found: Found) -> Iterator[Row]:
    for name, what, *_ in _REACTIONS[:4]:
        decided = found["reactions"]["tmpfs"][name]["frame_to_decision_us"]
        yield Row(f"frame to decision p50, {what}", decided["p50"], 50, "µs")
        yield Row(f"frame to decision p99, {what}", decided["p99"], 150, "µs")
    for journal, runs in found["reactions"].items():
        for name, what, p50, p99 in _REACTIONS:
            asked = runs[name]["change_to_request_us"]
            label = f"({what}; journal on {journal})"
            yield Row(f"change to request p50 {label}", asked["p50"], p50, "µs")
            yield Row(f"change to request p99 {label}", asked["p99"], p99, "µs")


def _floors(found: Found) -> Iterator[Row]:
    for name, what, *_ in _REACTIONS:
        if floor := found["floor"].get(name):
            yield Row(f"p50 of the machine and transport alone ({what})", floor["p50"], None, "µs")
            yield Row(f"p99 of the machine and transport alone ({what})", floor["p99"], None, "µs")


def _changes(found: Found) -> Iterator[Row]:
    tenth = found["tenth"]["one_change"]
    for what, cost in found["whole"]["one_change"].items():
        others = f"{cost['warm_us']} µs warm; {tenth[what]['us']} µs at a tenth of the size"
        subjects = f"{cost['subjects']:g} subjects"
        yield Row(f"one change, {what}: {subjects}; {others}", cost["us"], _PER_PLUGIN_US, "µs")


def ratios(found: Found) -> Iterator[tuple[str, float]]:
    """Yield how many times more the polling peer spends on the same news, and the record's part."""
    whole = found["whole"]
    one_change_s = whole["taint_events"]["us_per_event"] / 1e6
    in_memory, naive = whole["full_pass"]["cpu_s"], whole["polling"]["cpu_s"]
    yield "a pass over our own picture : one changed node", in_memory / one_change_s
    yield "a naive pass (list, parse, judge) : one changed node", naive / one_change_s
    yield "a naive pass : our first sync", naive / _middle(found["syncs"], "cpu_s")
    what = "change to request, p50: with the whole record : without findings and verdicts"
    yield what, _request(found, "recorded") / _request(found, "unrecorded")


def _request(found: Found, which: str) -> float:
    runs = found["recording"][which]
    return float(median(run["change_to_request_us"]["p50"] for run in runs))


def show(found: Found, console: Console) -> None:
    """Print the tables and the ratios."""
    full = found["size"]["name"] == "full"
    title = "" if full else "a small size: the goals are for the full one"
    if "whole" in found:
        console.print(_table(rows(found), title, full=full))
        for what, ratio in ratios(found):
            console.print(f"{what}: {_number(ratio)} to 1")
    if "record" in found:
        console.print(_table(record.rows(found["record"]), title, full=full))
        for remark in record.remarks(found["record"]):
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
