"""The report names what is missing, and what is wrong however fast it was."""

from typing import Any

import pytest

from bench.record.rows import failures, remarks, rows
from tests.support.golden import Golden


def spread(value: float) -> dict[str, float]:
    return {"n": 1, "min": value, "p50": value, "p99": value, "max": value}


def written(*rates: float) -> dict[str, Any]:
    costs = {"cpu_us_per_record": 20.0, "records_per_write": 100.0}
    return {"runs": [{"records_per_s": rate, **costs} for rate in rates]}


def timed(durable_ms: float) -> dict[str, Any]:
    return {"to_durable_ms": spread(durable_ms), "write_ms": spread(2.0), "cpu_share": 0.2}


def streamed() -> dict[str, Any]:
    return {
        "cut": 2,
        "sent_per_s": 1,
        "cpu_share": 0.5,
        "loop_late_ms": spread(5.0),
        "holds": {"longest_ms": 3.0},
        "to_durable_ms": spread(9.0),
        "clients": {"readers": 5, "behind": 0, "gaps": 0, "delivered_ms": spread(50.0)},
    }


def audited() -> dict[str, Any]:
    return {
        "verified": {"runs": [{"ok": True, "records": 1001, "records_per_s": 250_000}]},
        "queried": {"ms": spread(0.5), "records_each": [4]},
        "command_ms": spread(90.0),
    }


@pytest.fixture
def record() -> dict[str, Any]:
    """Everything that is measured, on a machine without a real broker."""
    relayed = {
        "records_per_s": 30_000,
        "cpu_us_per_record": 30.0,
        "arrived": 100,
        "loop_late_ms": spread(2.0),
        "holds": {"longest_ms": 3.0},
    }
    return {
        "extent": {"records": 1000, "relayed": 100, "silent": 2},
        "writing": {
            "disk": written(18_000, 25_000, 30_000),
            "tmpfs": written(40_000),
            "followed": {"disk": written(15_000)},
        },
        "paced": {"disk": {"runs": [timed(9.0), timed(12.0), timed(14.0)]}},
        "streamed": streamed(),
        "streamed_apart": streamed(),
        "relayed": {"mock": {"runs": [relayed]}, "real": {"missing": "Java"}},
        "indexed": {"records": 1001, "records_per_s": 70_000, "bytes_per_record": 160},
        "plain": audited(),
        "gzip": audited(),
        "compressed": {"ratio": 11.0, "mb_per_s": 60.0},
    }


def test_of_several_runs_the_median_counts_and_the_best_is_reported(
    record: dict[str, Any],
) -> None:
    (row,) = (row for row in rows(record) if row.what == "journal on disk")

    assert (row.measured, row.best, row.result) == (25_000, 30_000, "met")


def test_goals_that_are_missed_are_reported(record: dict[str, Any], golden: Golden) -> None:
    missed = [row.what for row in rows(record) if row.result == "missed"]

    assert missed == [golden()]


def test_a_part_that_is_not_there_is_named_and_has_no_numbers(record: dict[str, Any]) -> None:
    (remark,) = remarks(record)

    assert "real Kafka" in remark
    assert "Java" in remark
    assert not any("real" in row.what for row in rows(record))


def test_nothing_is_broken_when_every_record_is_where_it_belongs(record: dict[str, Any]) -> None:
    assert list(failures(record)) == []


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        pytest.param("plain.verified.runs.0.ok", False, "verify, plain", id="not whole"),
        pytest.param("gzip.verified.runs.0.records", 999, "verify, gzip", id="too few verified"),
        pytest.param("plain.queried.records_each.0", 0, "query, plain", id="a pod not found"),
        pytest.param("relayed.mock.runs.0.arrived", 99, "99 of 100", id="lost on the way"),
        pytest.param("relayed.mock.runs.0.arrived", 101, "101 of 100", id="sent twice"),
        pytest.param("streamed.clients.gaps", 1, "1 gaps", id="a gap"),
        pytest.param("streamed.clients.behind", 1, "1 clients were behind", id="behind"),
        pytest.param("streamed_apart.clients.gaps", 1, "apart: 0 clients", id="a gap, apart"),
        pytest.param("streamed.cut", 1, "1 were cut, 2 never read", id="not cut"),
    ],
)
def test_what_no_speed_excuses_is_named(
    record: dict[str, Any], path: str, value: object, word: str
) -> None:
    *way, last = (int(part) if part.isdecimal() else part for part in path.split("."))
    place: Any = record
    for part in way:
        place = place[part]
    place[last] = value

    (complaint,) = failures(record)

    assert word in complaint
