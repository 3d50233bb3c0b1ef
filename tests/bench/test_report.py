"""What was not measured is left out of the report, and ratios say what they say."""

import math
from io import StringIO
from typing import Any

from rich.console import Console

from bench.parts import failures
from bench.report import _requests, figures, print_report, ratios, rows, warnings
from tests.support.golden import Golden


def requests(*medians_us: float) -> list[dict[str, Any]]:
    return [{"change_to_request_us": {"p50": us}} for us in medians_us]


def test_a_report_without_measurements_has_no_tables() -> None:
    printed = StringIO()

    quiet = {"size": {"name": "full"}, "machine": {"load": [0.1]}}
    print_report(quiet, Console(file=printed))

    assert printed.getvalue() == ""


def measured_watch() -> dict[str, Any]:
    runs = [{"events_per_core_s": rate, "us_per_event": 1e6 / rate} for rate in (900, 1600, 1500)]
    floors = [
        {"events_per_core_s": rate, "us_per_event": 1e6 / rate} for rate in (1500, 2000, 2000)
    ]
    return {
        "runs": runs,
        "floor": floors,
        "bare": runs,
        "uvloop": floors,
        "taints": [{"events_per_core_s": 10_000, "us_per_event": 100.0}],
        "held": {"holds": {"longest_ms": 1.5}},
        "idle": {"cpu_percent": 0.3},
    }


def test_the_ratio_of_the_record_is_of_the_middle_runs(golden: Golden) -> None:
    found = {
        "watch": measured_watch(),
        "judge": {"full_pass": {"cpu_s": 0.5}, "polling": {"cpu_s": 30.0}},
        "sync": {"runs": [{"cpu_s": 10.0}]},
        "react": {
            "recorded": requests(900.0, 1200.0, 5000.0),
            "unrecorded": requests(400.0, 1000.0, 1100.0),
        },
    }

    named = dict(ratios(found))

    (of_record,) = (ratio for what, ratio in named.items() if "record" in what)
    assert of_record == 1.2
    assert named[golden()] == 3.0


def test_a_rate_is_the_middle_run_and_its_ratio_the_middle_one_of_the_pairs() -> None:
    row = next(rows({"watch": measured_watch()}))

    assert (row.measured, row.best, row.floor, row.of_floor) == (1500, 1600, 2000, 0.75)
    assert row.result == "missed"


def test_the_file_has_the_ratio_to_the_floor_of_every_row() -> None:
    figure = figures({"watch": measured_watch()})[0]

    assert (figure["of_floor"], figure["floor"], figure["goal_of_floor"]) == (0.75, 2000, 0.8)


def test_a_run_that_did_not_end_is_invalid_and_its_evictions_are_not_called_lost() -> None:
    run = {
        "expected": 10,
        "evicted": 8,
        "unsettled": "2 evictions had no outcome after 30 s",
        "change_to_request_us": {"p50": 1.0},
    }
    found = {
        "size": {"pods": 0},
        "machine": {"load": [0.1]},
        "react": {"pods_disk": [run]},
    }

    assert list(failures(found)) == []
    (warning,) = warnings(found)
    assert "pods_disk: invalid: 2 evictions" in warning


def test_an_eviction_that_never_came_is_broken() -> None:
    run = {"expected": 10, "evicted": 8, "unsettled": "", "why_lost": []}

    (failure,) = failures({"size": {"pods": 0}, "react": {"pods_disk": [run]}})

    assert "8 of 10 evicted" in failure


def test_a_run_without_any_eviction_has_no_figures_and_breaks_no_table() -> None:
    run = {"unsettled": "5 evictions had no outcome after 30 s", "change_to_request_us": {"n": 0}}

    (p50, _) = _requests("a bound pod", [run], [{"change_to_request_us": {"p50": 2.0}}], 1.6)

    assert math.isnan(p50.measured)
    assert p50.result == "invalid"


def test_a_reaction_stands_beside_the_floor_that_evicts_at_once_and_beside_those_that_record() -> (
    None
):
    def run(us: float) -> list[dict[str, Any]]:
        reaction = {"p50": us, "p99": us}
        return [
            {
                "change_to_request_us": reaction,
                "frame_to_decision_us": reaction,
                "cpu_us_per_change": us,
                "unsettled": "",
            }
        ]

    names = ("pods", "pods_disk", "nodes", "storm", "relist", "half")
    react: dict[str, Any] = {name: run(1200.0) for name in names}
    react |= {"pods_floor": run(500.0), "half_floor": run(500.0)}
    react |= {"pods_uvloop_floor": run(400.0)}
    react |= {"pods_recorded_floor": run(600.0), "pods_recorded_in_thread_floor": run(800.0)}
    react["saturation"] = {"pace": 700, "limit": "controller"}

    found = {row.what: row for row in rows({"react": react})}

    bare = found["change to request p50 (a bound pod, 200/s)"]
    assert (bare.of_floor, bare.result) == (2.4, "missed")
    assert [row.of_floor for what, row in found.items() if "on uvloop" in what] == [3.0]
    recorded = [row.of_floor for what, row in found.items() if "durable record" in what]
    assert recorded == [2.0, 1.5]


def test_a_machine_that_is_not_quiet_is_named() -> None:
    (warning,) = warnings({"machine": {"load": [2.5, 1.0, 1.0]}})

    assert "2.5" in warning
