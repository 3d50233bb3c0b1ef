"""Puts what was measured beside its floor and the goals, for eyes; the JSON file has everything."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.processes import Results
from bench.record import rows as record
from bench.row import Row
from bench.start import WANTED as STARTS_WANTED

_PER_PLUGIN_US = 20.0
_LARGE = 1000
_OF_FLOOR = "× floor"  # noqa: RUF001  # the sign is meant
_QUIET_LOAD = 0.5


def rows(results: Results) -> Iterator[Row]:
    """Yield every figure of the parts that were measured, in the order of a change's way."""
    if "sync" in results:
        yield from _sync_rows(results["sync"])
    if "watch" in results:
        yield from _watch_rows(results["watch"])
    if "react" in results:
        yield from _reaction_rows(results["react"])
    if "judge" in results:
        yield from _judging_rows(results["judge"])
    if "start" in results:
        yield from _start_rows(results["start"])


def _middle(runs: Sequence[Results], *path: str) -> float:
    return float(median(_at(run, path) for run in runs))


def _at(run: Results, path: Sequence[str]) -> float:
    value = run
    for name in path:
        value = value[name]
    return float(value)  # type: ignore[arg-type]  # the last one is a number


def _sync_rows(sync: Results) -> Iterator[Row]:
    runs, floors = sync["runs"], sync["floor"]
    figures: tuple[tuple[str, str, str, float | None, float | None], ...] = (
        ("first sync, client CPU", "cpu_s", "s", None, 1.15),
        ("first sync, wall", "wall_s", "s", None, None),
        ("resident memory after it", "rss_mb", "MB", 240, None),
        ("peak resident memory", "peak_rss_mb", "MB", None, None),
        ("memory per pod", "bytes_per_pod", "B", 1500, None),
    )
    for what, name, unit, goal, of_floor in figures:
        least = _middle(floors, name)
        yield Row(what, _middle(runs, name), goal, unit, floor=least, goal_of_floor=of_floor)
    held = sync["held"]["holds"]["longest_ms"]
    yield Row("longest hold of the loop, first sync (CPU)", held, 2, "ms")


def _watch_rows(watch: Results) -> Iterator[Row]:
    name = "events_per_core_s"
    yield Row(
        "watch events, one core",
        _middle(watch["runs"], name),
        unit="/s",
        at_least=True,
        best=max(_at(run, (name,)) for run in watch["runs"]),
        floor=_middle(watch["floor"], name),
        goal_of_floor=0.8,
    )
    yield Row(
        "CPU of one watch event",
        _middle(watch["runs"], "us_per_event"),
        unit="µs",
        floor=_middle(watch["floor"], "us_per_event"),
    )
    what = "watch events that taint a node, each with 30 pods to judge"
    yield Row(what, _middle(watch["taints"], name), None, "/s")
    held = watch["held"]["holds"]["longest_ms"]
    yield Row("longest hold of the loop, steady (CPU)", held, 2, "ms")
    yield Row("CPU at idle", watch["idle"]["cpu_percent"], None, "%")


_REACTIONS: tuple[tuple[str, str, float | None], ...] = (
    ("pods_200", "pods, 200/s", 1000),
    ("pods_1000", "pods, 1,000/s", 1000),
    ("nodes_200", "nodes, 200/s", 1000),
    ("nodes_1000", "nodes, 1,000/s", 1000),
    ("storm_200", "nodes, 200/s beside 4,000 status/s", 3000),
    ("relist_200", "nodes, during a relist of all pods", 3000),
)


def _reaction_rows(react: Results) -> Iterator[Row]:
    for medium in ("tmpfs", "disk"):
        for name, what, p99 in _REACTIONS:
            runs = react[medium][name]
            invalid = next((run["unsettled"] for run in runs if run["unsettled"]), "")
            floors = react["floor"].get(name)
            for quantile, goal in (("p50", None), ("p99", p99)):
                path = ("change_to_request_us", quantile)
                yield Row(
                    f"change to request {quantile} ({what}; journal on {medium})",
                    _middle(runs, *path),
                    goal,
                    "µs",
                    floor=_middle(floors, *path) if floors else None,
                    goal_of_floor=1.6 if _is_promised(medium, name, quantile) else None,
                    invalid=invalid,
                )
    for name, what, _ in _REACTIONS[:4]:
        for quantile, goal in (("p50", 50), ("p99", 150)):
            taken = _middle(react["tmpfs"][name], "frame_to_decision_us", quantile)
            yield Row(f"frame to decision {quantile}, {what}", taken, goal, "µs")


def _is_promised(medium: str, name: str, quantile: str) -> bool:
    return (medium, name, quantile) == ("tmpfs", "pods_200", "p50")


def _judging_rows(judge: Results) -> Iterator[Row]:
    for what, cost in judge["one_change"].items():
        rest = f"{cost['warm_us']} µs warm; {judge['tenth'][what]['us']} µs at a tenth of the size"
        subjects = f"{cost['subjects']:g} subjects"
        yield Row(f"one change, {what}: {subjects}; {rest}", cost["us"], _PER_PLUGIN_US, "µs")
    yield Row("every plugin over everything, CPU", judge["full_pass"]["cpu_s"], 3, "s")
    yield Row("longest hold meanwhile (CPU)", judge["full_pass"]["longest_hold_ms"], 2, "ms")


def _start_rows(start: Results) -> Iterator[Row]:
    least = start["floor"]["cpu_s"]
    for command, wanted in STARTS_WANTED.items():
        taken = start[command]["cpu_s"]
        yield Row(f"start of {command}, CPU", taken, None, "s", floor=least, goal_of_floor=wanted)


def ratios(results: Results) -> Iterator[tuple[str, float]]:
    """Yield how many times more the polling peer spends on the same news, and the record's part."""
    if "judge" in results and "watch" in results:
        one_change_s = _middle(results["watch"]["taints"], "us_per_event") / 1e6
        in_memory = results["judge"]["full_pass"]["cpu_s"]
        naive = results["judge"]["polling"]["cpu_s"]
        yield "a pass over our own state : one changed node", in_memory / one_change_s
        yield "a naive pass (list, parse, judge) : one changed node", naive / one_change_s
        if "sync" in results:
            yield "a naive pass : our first sync", naive / _middle(results["sync"]["runs"], "cpu_s")
    if "react" in results:
        path = ("change_to_request_us", "p50")
        runs = results["react"]["tmpfs"]
        what = "change to request, p50: with the whole record : without findings and decisions"
        yield what, _middle(runs["recorded"], *path) / _middle(runs["unrecorded"], *path)


def warnings(results: Results) -> Iterator[str]:
    """Yield what makes the figures doubtful: a machine that is not quiet, a run without an end."""
    load = results["machine"]["load"][0]
    if load > _QUIET_LOAD:
        yield (
            f"the load was {load:.1f} at the start: other processes share the machine;"
            " a ratio of CPU to its floor bears that, a reaction time does not"
        )
    for medium, named in results.get("react", {}).items():
        for name, runs in named.items():
            for run in runs:
                if run.get("unsettled"):
                    yield f"{name}, journal on {medium}, is invalid: {run['unsettled']}"
                if run.get("late"):
                    yield f"{name}, journal on {medium}: {run['late']} evictions of an earlier run"


def print_report(results: Results, console: Console) -> None:
    """Print the tables, the ratios and the warnings."""
    full = results["size"]["name"] == "full"
    title = "" if full else "a small size: the goals are for the full one"
    if every := list(rows(results)):
        console.print(_table(every, title, full=full))
    for what, ratio in ratios(results):
        console.print(f"{what}: {_number(ratio)} to 1")
    if "record" in results:
        console.print(_table(record.rows(results["record"]), title, full=full))
        for remark in record.remarks(results["record"]):
            console.print(remark)
    for warning in warnings(results):
        console.print(f"warning: {warning}", style="yellow")


def _table(every: Iterable[Row], title: str, *, full: bool) -> Table:
    table = Table("what", "measured", "best", "floor", _OF_FLOOR, "goal", "", title=title)
    for row in every:
        table.add_row(
            row.what,
            _amount(row.measured, row.unit),
            _amount(row.best, row.unit),
            _amount(row.floor, row.unit),
            "" if row.of_floor is None else f"{row.of_floor:.2f}",
            _goal(row),
            row.verdict if full or row.invalid else "",
        )
    return table


def _goal(row: Row) -> str:
    sign = "≥" if row.at_least else "≤"
    if row.goal_of_floor is not None:
        return f"{sign} {row.goal_of_floor:g} {_OF_FLOOR}"
    return "" if row.goal is None else f"{sign} {row.goal:,g} {row.unit}".rstrip()


def _amount(value: float | None, unit: str) -> str:
    return "" if value is None else f"{_number(value)} {unit}".rstrip()


def _number(value: float) -> str:
    return f"{value:,.{0 if value >= _LARGE else 2}f}"
