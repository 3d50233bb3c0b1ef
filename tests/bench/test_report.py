"""What was not measured is left out of the report, and ratios say what they say."""

from io import StringIO
from typing import Any

from rich.console import Console

from bench.report import print_report, ratios


def requests(*medians_us: float) -> list[dict[str, Any]]:
    return [{"change_to_request_us": {"p50": us}} for us in medians_us]


def test_a_report_without_measurements_has_no_tables() -> None:
    printed = StringIO()

    print_report({"size": {"name": "full"}}, Console(file=printed))

    assert printed.getvalue() == ""


def test_the_ratio_of_the_record_is_of_the_middle_runs() -> None:
    found = {
        "whole": {
            "taint_events": {"us_per_event": 100.0},
            "full_pass": {"cpu_s": 0.5},
            "polling": {"cpu_s": 30.0},
        },
        "syncs": [{"cpu_s": 10.0}],
        "recording": {
            "recorded": requests(900.0, 1200.0, 5000.0),
            "unrecorded": requests(400.0, 1000.0, 1100.0),
        },
    }

    named = dict(ratios(found))

    (of_record,) = (ratio for what, ratio in named.items() if "record" in what)
    assert of_record == 1.2
    assert named["a naive pass : our first sync"] == 3.0
