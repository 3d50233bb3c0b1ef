"""Puts what was measured beside its floor and the goals, for eyes; the JSON file has everything."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.measure.slopes import FLAT
from bench.parts import reaction_runs
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
    for part, make in _ROWS.items():
        if part in results:
            yield from make(results[part])


def figures(results: Results) -> list[Results]:
    """Return every row of the tables as plain values, for the JSON file."""
    every = list(rows(results))
    if "record" in results:
        every += record.rows(results["record"])
    return [asdict(row) | {"result": row.result} for row in every]


def _middle(runs: Sequence[Results], *path: str) -> float:
    return float(median(_at(run, path) for run in runs))


def _beside(
    what: str,
    path: Sequence[str],
    unit: str,
    runs: Sequence[Results],
    floors: Sequence[Results] | None,
    best: Callable[[Iterable[float]], float] = min,
) -> Row:
    """Return a figure beside its floor, both medians, with the median of the ratios in pairs."""
    values = [_at(run, path) for run in runs]
    row = Row(what, median(values), unit=unit, best=best(values))
    if not floors:
        return row
    least = [_at(run, path) for run in floors]
    ratios = [value / under for value, under in zip(values, least, strict=True) if under]
    return replace(row, floor=median(least), of_floor=median(ratios) if ratios else None)


def _at(run: Results, path: Sequence[str]) -> float:
    """Return one number of a run; a run without any eviction has no quantiles."""
    *tables, name = path
    for table in tables:
        run = run[table]
    return float(run.get(name, "nan"))


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
        yield replace(_beside(what, (name,), unit, runs, floors), goal=goal, goal_of_floor=of_floor)
    yield from _hold_rows("first sync", sync["held"]["holds"])


def _hold_rows(what: str, holds: Results) -> Iterator[Row]:
    yield Row(f"longest hold of the loop, {what} (CPU)", holds["longest_ms"], 2, "ms")
    if (same := holds.get("same_work")) is not None:
        longest = f"the same work after each turn, {what}: the longest (CPU)"
        yield Row(longest, same["longest_ms"], None, "ms")


def _watch_rows(watch: Results) -> Iterator[Row]:
    runs, bare, floors = watch["runs"], watch["bare"], watch["floor"]
    name = "events_per_core_s"
    row = _beside("watch events, one core", (name,), "/s", runs, floors, best=max)
    yield replace(row, at_least=True, goal_of_floor=0.8)
    yield _beside("CPU of one watch event", ("us_per_event",), "µs", runs, floors)
    for what, other in (
        ("the floor on uvloop", watch["uvloop"]),
        ("the floor without an HTTP library", bare),
    ):
        yield _beside(what, (name,), "/s", other, floors, best=max)
    what = "watch events that taint a node, each with 30 pods to judge"
    yield Row(what, _middle(watch["taints"], name), None, "/s")
    yield from _hold_rows("steady", watch["held"]["holds"])
    yield Row("CPU at idle", watch["idle"]["cpu_percent"], None, "%")


_REACTIONS: tuple[tuple[str, str], ...] = (
    ("pods", "a bound pod, 200/s"),
    ("pods_disk", "a bound pod, 200/s, journal on disk"),
    ("nodes", "a taint, 200/s"),
    ("storm", "a taint, 200/s beside 4,000 status/s"),
    ("relist", "a taint during a relist of all pods, whose end is waited for"),
)
"""The kinds of runs. By design (ADR 9) nothing is evaluated while a list is incomplete, so the last
one is as long as the list takes."""


_OTHER_FLOORS = {
    "uvloop": "on uvloop",
    "recorded": "that writes a durable record first, in its event loop",
    "recorded_in_thread": "that writes a durable record first, in a thread",
}


def _reaction_rows(react: Results) -> Iterator[Row]:
    for name, what in _REACTIONS:
        goal = 1.6 if name == "pods" else None
        yield from _requests(what, react[name], react.get(f"{name}_floor"), goal)
        if f"{name}_floor" in react:
            yield _cpu(what, react[name], react[f"{name}_floor"])
        for kind, which in _OTHER_FLOORS.items():
            if (floors := react.get(f"{name}_{kind}_floor")) is not None:
                label = f"the same beside a floor {which}"
                yield replace(
                    _beside(label, _P50, "µs", react[name], floors), invalid=_invalid(react[name])
                )
    saturation, half = react["saturation"], react["half"]
    what = f"pods bound per second at saturation of the {saturation['limit']}"
    yield Row(what, saturation["pace"], None, "/s")
    what = f"a bound pod, {saturation['pace'] / 2:,.0f}/s: half of saturation"
    yield from _requests(what, half, react["half_floor"], None)
    yield _cpu(what, half, react["half_floor"])
    spread = float(median(_at(run, _P99) / _at(run, _P50) for run in half))
    yield Row("  of which p99 : p50", spread, 5, invalid=_invalid(half))
    for name, pace in (("pods", "200/s"), ("half", "half of saturation")):
        for quantile, limit in (("p50", 50), ("p99", 150)):
            taken = _middle(react[name], "frame_to_decision_us", quantile)
            yield Row(f"frame to decision {quantile}, a bound pod, {pace}", taken, limit, "µs")


_P50, _P99 = ("change_to_request_us", "p50"), ("change_to_request_us", "p99")


def _requests(
    what: str, runs: Sequence[Results], floors: Sequence[Results] | None, goal: float | None
) -> Iterator[Row]:
    for path, of_floor in ((_P50, goal), (_P99, None)):
        row = _beside(f"change to request {path[-1]} ({what})", path, "µs", runs, floors)
        yield replace(row, goal_of_floor=of_floor, invalid=_invalid(runs))


def _cpu(what: str, runs: Sequence[Results], floors: Sequence[Results]) -> Row:
    label = f"CPU of one change to its outcome ({what})"
    return _beside(label, ("cpu_us_per_change",), "µs", runs, floors)


def _invalid(runs: Sequence[Results]) -> str:
    return next((str(run["unsettled"]) for run in runs if run["unsettled"]), "")


_DAY_OF_CHANGES, _PICTURES_A_DAY = 50 * 86_400, 4


def _recording_rows(recording: Results) -> Iterator[Row]:
    """Yield what a recording costs beside none, by the medians of the ratios of runs in turn."""
    events, reactions = recording["events"], recording["reactions"]
    rate = _of_plain(events, ("events_per_core_s",))
    yield Row("recording: watch events, of those without", rate, 0.95, at_least=True)
    for path, goal in ((_P50, 1.05), (_P99, None)):
        what = f"recording: change to request {path[-1]}, of that without"
        invalid = _invalid([*reactions["recorded"], *reactions["plain"]])
        yield Row(what, _of_plain(reactions, path), goal, invalid=invalid)
    memory, pictures = recording["memory"], recording["pictures"]
    more_mb = memory["recorded"]["rss_mb"] - memory["plain"]["rss_mb"]
    yield Row("recording: memory more than without", more_mb, 10, "MB")
    picture_mb = _middle(pictures, "bytes") / 1e6
    yield Row("a picture of everything, on disk", picture_mb, 25, "MB")
    yield Row("  its CPU in other threads", _middle(pictures, "outside_cpu_s"), 3, "s")
    yield Row("  its CPU in slices of the loop", _middle(pictures, "loop_cpu_s"), None, "s")
    change = recording["changes"]["bytes_per_change"]
    yield Row("a recorded change of a pod, 50/s", change, None, "B")
    day_mb = (change * _DAY_OF_CHANGES) / 1e6 + _PICTURES_A_DAY * picture_mb
    yield Row("a day of 50 changes a second, with its pictures", day_mb, 300, "MB")
    looking = recording["looking"]
    at = f"--at, {looking['behind_h']:g} h of that behind a picture: CPU"
    for command in ("nodes", "status"):
        yield Row(f"{command} {at}", looking[command], 10, "s")
    yield Row("replay of that: times real time", looking["speed"], 500, at_least=True)
    yield Row("replay of a day of 50 nodes: CPU", looking["replay"], 20, "s")
    yield Row("policy diff of it: CPU", looking["policy_diff"], 20, "s")


def _of_plain(runs: Results, path: Sequence[str]) -> float:
    pairs = zip(runs["recorded"], runs["plain"], strict=True)
    return float(median(_at(one, path) / _at(other, path) for one, other in pairs))


def _outage_rows(outage: Results) -> Iterator[Row]:
    what = f"API server back after {outage['outage_s']:g} s: evaluating again"
    yield Row(what, _middle(outage["runs"], "back_to_resumed_s"), 3, "s")


def _scrape_rows(scrape: Results) -> Iterator[Row]:
    runs, floors = scrape["runs"], scrape["floor"]
    what = f"/metrics, {floors[0]['series']:,} series"
    held = _beside(f"{what}: longest hold of the loop (CPU)", ("hold_ms",), "ms", runs, floors)
    yield replace(held, goal=3)
    yield _beside(f"{what}: CPU of the loop", ("loop_cpu_ms",), "ms", runs, floors)
    yield _beside(f"{what}: the scraper's time", ("scrape_ms",), "ms", runs, floors)


def _soak_rows(soak: Results) -> Iterator[Row]:
    grown, samples = soak["settled"], soak["samples"]
    at_from = next(each for each in samples if each["at_s"] >= grown["from_s"])
    label = f"after {grown['from_s'] / 60:.0f} minutes"
    yield Row("memory before the first eviction", samples[0]["rss_mb"], unit="MB")
    yield Row(f"memory {label}", at_from["rss_mb"], unit="MB")
    yield Row(f"memory at the end, {soak['evicted']:,} evictions", samples[-1]["rss_mb"], unit="MB")
    yield Row("pods whose eviction took longer than a minute", len(soak["waited"]), unit="pods")
    for what, (name, unit, most) in FLAT.items():
        yield Row(f"{name}, slope {label}", grown[what], most, f"{unit} an hour")
    left = soak["descriptors_left_an_hour"]
    yield Row("descriptors left open, counted at rest", left, 10, "more an hour")


def _judging_rows(judge: Results) -> Iterator[Row]:
    for what, cost in judge["one_change"].items():
        tenth = judge["tenth"][what]["us"]
        label = f"{what}, {cost['subjects']:g} subjects; at a tenth of the size {tenth} µs"
        yield Row(label, cost["us"], _PER_PLUGIN_US, "µs", best=cost["warm_us"])
    yield Row("every plugin over everything, CPU", judge["full_pass"]["cpu_s"], 3, "s")
    yield Row("longest hold meanwhile (CPU)", judge["full_pass"]["longest_hold_ms"], 2, "ms")


_CHANGED = {
    "pods": ("a pod bound or deleted", 50, None),
    "taints": ("a node's taints changed", None, 1000),
    "labels": ("a node's labels changed", None, 1000),
}
"""What it says, and the goals in microseconds: to the enqueued subjects, and to the decisions."""


def _balance_rows(balance: Results) -> Iterator[Row]:
    for name, (what, apply_us, judged_us) in _CHANGED.items():
        yield Row(f"{what}: upkeep of every plugin", _added_us(balance, name), apply_us, "µs")
        judged = _added_us(balance, name, "with_evaluation_us")
        yield Row("  and what it enqueues, evaluated", judged, judged_us, "µs")
    for source, cost in balance["usage"].items():
        yield Row(f"new samples of every node, {source}", cost["cpu_ms"], 50, "ms")
        yield Row("  of which the longest step", cost["longest_step_ms"], 2, "ms")
    yield Row("a sweep with every plugin, CPU", balance["sweep"]["cpu_s"], 8, "s")
    yield Row("what every plugin keeps of a pod", balance["bytes_per_pod"], 512, "B")


def _added_us(balance: Results, change: str, figure: str = "apply_us") -> float:
    """Return what the plugins add to the cost of a change."""
    costs = balance["costs"]
    return float(costs["all"][change][figure]) - float(costs["none"][change][figure])


def _start_rows(start: Results) -> Iterator[Row]:
    for command, wanted in STARTS_WANTED.items():
        runs, floors = start[command], start["floor"]
        row = _beside(f"start of {command}, CPU", ("cpu_s",), "s", runs, floors)
        yield replace(row, goal_of_floor=wanted)


_ROWS: dict[str, Callable[[Results], Iterator[Row]]] = {
    "sync": _sync_rows,
    "watch": _watch_rows,
    "react": _reaction_rows,
    "recording": _recording_rows,
    "outage": _outage_rows,
    "judge": _judging_rows,
    "balance": _balance_rows,
    "start": _start_rows,
    "scrape": _scrape_rows,
    "soak": _soak_rows,
}
"""The rows of each part, in the order of a change's way."""


def ratios(results: Results) -> Iterator[tuple[str, float]]:
    """Yield what the polling peer spends as a multiple of ours, and what the record adds."""
    if "judge" in results and "watch" in results:
        one_change_s = _middle(results["watch"]["taints"], "us_per_event") / 1e6
        in_memory = results["judge"]["full_pass"]["cpu_s"]
        naive = results["judge"]["polling"]["cpu_s"]
        yield "a pass over our own state : one changed node", in_memory / one_change_s
        yield "a naive pass (list, parse, judge) : one changed node", naive / one_change_s
        if "sync" in results:
            yield "a naive pass : our first sync", naive / _middle(results["sync"]["runs"], "cpu_s")
    if "balance" in results:
        balance = results["balance"]
        naive_s = balance["naive"]["cpu_s"]
        for name, (what, *_) in _CHANGED.items():
            added_s = _added_us(balance, name, "with_evaluation_us") / 1e6
            yield f"a naive pass (parse, judge) : {what}, every plugin", naive_s / added_s
        yield (
            "a naive pass (parse, judge) : a sweep with every plugin",
            (naive_s / balance["sweep"]["cpu_s"]),
        )
    if "react" in results:
        react = results["react"]
        what = "change to request, p50: with the whole record : without findings and decisions"
        yield what, _middle(react["recorded"], *_P50) / _middle(react["unrecorded"], *_P50)


def warnings(results: Results) -> Iterator[str]:
    """Yield what makes the figures doubtful: a machine that is not quiet, a run without an end."""
    load = results["machine"]["load"][0]
    if load > _QUIET_LOAD:
        yield (
            f"the load was {load:.1f} at the start: other processes share the machine;"
            " a ratio of CPU to its floor bears that, a reaction time does not"
        )
    for what, run in reaction_runs(results):
        if run.get("unsettled"):
            yield f"{what}: invalid: {run['unsettled']}"
        if run.get("late"):
            yield f"{what}: {run['late']} evictions of an earlier run came, and are not counted"


def print_report(results: Results, console: Console) -> None:
    """Print the tables, the ratios and the warnings."""
    full = results["size"]["name"] == "full"
    title = "" if full else f"{results['size']['name']}: the goals are for the full size"
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
            row.result if full or row.invalid else "",
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
