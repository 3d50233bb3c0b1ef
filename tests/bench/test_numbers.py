"""What the benchmark prints follows from what it measured."""

import asyncio
import re
import time

import pytest

from bench.measure.loop import watch_loop_turns
from bench.measure.numbers import quantiles
from bench.row import Row


def test_a_spread_names_the_least_the_usual_quantiles_and_the_greatest() -> None:
    found = quantiles([float(n) for n in range(100, 0, -1)])

    assert found == {
        "n": 100,
        "min": 1.0,
        "p50": 51.0,
        "p90": 91.0,
        "p99": 100.0,
        "max": 100.0,
    }


def test_nothing_measured_is_no_error() -> None:
    assert quantiles([]) == {"n": 0}


@pytest.mark.parametrize(
    ("row", "result"),
    [
        pytest.param(Row("sync", 5, goal=6), "met", id="less than allowed"),
        pytest.param(Row("sync", 7, goal=6), "missed", id="more than allowed"),
        pytest.param(Row("rate", 7, goal=6, at_least=True), "met", id="more than asked for"),
        pytest.param(Row("rate", 5, goal=6, at_least=True), "missed", id="less than asked for"),
        pytest.param(Row("wall", 5), "", id="no goal"),
        pytest.param(Row("sync", 5, of_floor=1.25, goal_of_floor=1.3), "met", id="near its floor"),
        pytest.param(
            Row("sync", 5, of_floor=1.25, goal_of_floor=1.2), "missed", id="far from its floor"
        ),
        pytest.param(
            Row("rate", 7, of_floor=0.7, goal_of_floor=0.8, at_least=True),
            "missed",
            id="a low share",
        ),
        pytest.param(Row("sync", 5, goal=6, invalid="it did not end"), "invalid", id="invalid"),
    ],
)
def test_a_row_says_whether_its_goal_is_met_whichever_way_is_better(row: Row, result: str) -> None:
    assert row.result == result


def test_a_turn_that_holds_the_loop_is_named_and_others_are_counted() -> None:
    async def hog() -> None:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass

    async def several() -> None:
        await asyncio.sleep(0)
        await asyncio.create_task(hog())

    with watch_loop_turns() as holds:
        asyncio.run(several())

    assert holds.over_ms[10] == 1
    assert holds.turns > 3
    assert "hog" in holds.slowest[0][1]
    assert re.search(r"\(lost the core \d+ times, \d+ pages\)$", holds.slowest[0][1])
    assert holds.same_work is None


def test_the_same_work_after_each_turn_is_timed_apart_from_it() -> None:
    async def turns() -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    with watch_loop_turns(same_work=True) as holds:
        asyncio.run(turns())

    assert holds.same_work is not None
    assert holds.same_work.turns == holds.turns > 200
    assert holds.same_work.busy_ns > 3 * holds.busy_ns
    assert holds.summary()["same_work"] == holds.same_work.summary()
