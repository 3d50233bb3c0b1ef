"""Where a sink is in the journal is kept, and a restart goes on from there."""

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import SinkUnavailable
from tests.support.golden import Golden
from tests.support.scripted_sink import ScriptedSink, SinkRunnerHarness, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_position_is_kept_once_a_second_and_at_the_end(here: SinkRunnerHarness) -> None:
    async with here.running():
        for _ in range(40):
            here.record(1)
            await anyio.sleep(0.1)
        await here.caught_up()

    moments = [datetime.fromisoformat(kept.time) for kept in here.cursors.saved]
    gaps = [after - before for before, after in pairwise(moments[:-1])]
    assert all(gap >= timedelta(seconds=0.999) for gap in gaps)
    assert 3 <= len(moments) <= 7
    assert here.cursors.last_seq == 40


async def test_a_position_is_kept_soon_even_if_nothing_follows(here: SinkRunnerHarness) -> None:
    async with here.running():
        here.record(2)
        await here.caught_up()
        await wait_until(lambda: here.cursors.last_seq == 2)


async def test_a_restart_continues_behind_the_kept_position(here: SinkRunnerHarness) -> None:
    here.record(5)
    async with here.running():
        await here.caught_up()
    here.record(2)
    here.restart()
    async with here.running():
        await here.caught_up()

    assert here.sink.delivered == [1, 2, 3, 4, 5, 6, 7]


async def test_a_sink_that_starts_at_the_end_misses_nothing_across_a_crash(
    tmp_path: Path,
) -> None:
    here = SinkRunnerHarness(tmp_path, ScriptedSink(from_start=False))
    here.record(5)
    async with here.running():
        await wait_until(lambda: here.cursors.last_seq == 5)
    here.record(2)
    here.restart()
    async with here.running():
        await here.caught_up()

    assert here.sink.delivered == [6, 7]


async def test_where_a_sink_that_starts_at_the_end_began_is_kept_before_its_first_delivery(
    tmp_path: Path,
) -> None:
    here = SinkRunnerHarness(tmp_path, ScriptedSink(from_start=False))
    here.sink.always_raise = SinkUnavailable("away")
    here.record(5)
    async with here.running():
        here.record(2)
        await anyio.sleep(1)
        assert here.cursors.last_seq == 5


@pytest.mark.parametrize("from_start", [True, False], ids=["from the start", "news"])
async def test_when_its_position_cannot_be_read_a_sink_gets_all_there_is_again(
    tmp_path: Path, *, from_start: bool
) -> None:
    here = SinkRunnerHarness(tmp_path, ScriptedSink(from_start=from_start))
    here.cursors.is_damaged = True
    here.record(3)
    async with here.running():
        await here.caught_up()

    assert here.sink.delivered == [1, 2, 3]
    [told] = [line.values for line in here.logger.lines if "cannot be read" in line.event]
    assert told == {"sink": "shop", "cursor": 0}


async def test_where_a_sink_without_a_position_begins_is_logged(
    tmp_path: Path, golden: Golden
) -> None:
    here = SinkRunnerHarness(tmp_path, ScriptedSink(from_start=False))
    here.record(3)
    async with here.running():
        await wait_until(lambda: here.cursors.last_seq == 3)

    assert here.logger.values_of(golden()) == [{"sink": "shop", "cursor": 3}]


@pytest.mark.parametrize(
    ("from_start", "got"), [(True, [1, 2, 3]), (False, [3])], ids=["from the start", "news"]
)
async def test_with_the_position_of_another_journal_a_sink_starts_over(
    tmp_path: Path, *, from_start: bool, got: list[int]
) -> None:
    here = SinkRunnerHarness(tmp_path, ScriptedSink(from_start=from_start), kept=900)
    here.record(2)
    async with here.running():
        await wait_until(lambda: here.cursors.last_seq != 900)
        here.record(1)
        await here.caught_up()

    assert here.sink.delivered == got
    assert here.runner.lost == 0


async def test_positions_that_cannot_be_kept_stop_nothing_and_are_logged_once_a_minute(
    here: SinkRunnerHarness,
) -> None:
    here.cursors.fault = OSError(5, "Input/output error")
    async with here.running():
        for _ in range(200):
            here.record(1)
            await anyio.sleep(1)
        await here.caught_up()
        here.cursors.fault = None
        await wait_until(lambda: here.cursors.last_seq == 200)

    text = "the position of a sink cannot be kept: after a crash, more is sent again"
    assert here.sink.delivered == list(range(1, 201))
    assert here.cursors.save_attempts > 20
    assert len(here.logger.values_of(text)) <= 5
    assert "Input/output error" in here.logger.values_of(text)[0]["message"]
