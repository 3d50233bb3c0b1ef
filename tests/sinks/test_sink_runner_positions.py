"""Where a sink is in the journal is kept, and a restart goes on from there."""

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import SinkUnavailable
from tests.support.scripted_sink import Following, ScriptedSink, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_position_is_kept_once_a_second_and_at_the_end(here: Following) -> None:
    async with here.running():
        for _ in range(40):
            here.record(1)
            await anyio.sleep(0.1)
        await here.caught_up()

    moments = [datetime.fromisoformat(kept.time) for kept in here.positions.kept]
    gaps = [after - before for before, after in pairwise(moments[:-1])]
    assert all(gap >= timedelta(seconds=0.999) for gap in gaps)
    assert 3 <= len(moments) <= 7
    assert here.positions.last == 40


async def test_a_position_is_kept_soon_even_if_nothing_follows(here: Following) -> None:
    async with here.running():
        here.record(2)
        await here.caught_up()
        await eventually(lambda: here.positions.last == 2)


async def test_a_restart_goes_on_behind_the_kept_position(here: Following) -> None:
    here.record(5)
    async with here.running():
        await here.caught_up()
    here.record(2)
    here.again()
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 3, 4, 5, 6, 7]


async def test_a_sink_of_news_begins_at_the_end_and_misses_nothing_across_a_crash(
    tmp_path: Path,
) -> None:
    here = Following(tmp_path, ScriptedSink(from_start=False))
    here.record(5)
    async with here.running():
        await eventually(lambda: here.positions.last == 5)
    here.record(2)
    here.again()
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [6, 7]


async def test_where_a_sink_of_news_began_is_kept_before_its_first_delivery(
    tmp_path: Path,
) -> None:
    here = Following(tmp_path, ScriptedSink(from_start=False))
    here.sink.always = SinkUnavailable("away")
    here.record(5)
    async with here.running():
        here.record(2)
        await anyio.sleep(1)
        assert here.positions.last == 5


@pytest.mark.parametrize("from_start", [True, False], ids=["from the start", "news"])
async def test_when_its_position_cannot_be_read_a_sink_gets_all_there_is_again(
    tmp_path: Path, *, from_start: bool
) -> None:
    here = Following(tmp_path, ScriptedSink(from_start=from_start))
    here.positions.is_damaged = True
    here.record(3)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 3]
    [told] = [line.values for line in here.book.lines if "cannot be read" in line.event]
    assert told == {"sink": "shop", "begins_behind": 0}


async def test_where_a_sink_without_a_position_begins_is_told(tmp_path: Path) -> None:
    here = Following(tmp_path, ScriptedSink(from_start=False))
    here.record(3)
    async with here.running():
        await eventually(lambda: here.positions.last == 3)

    assert here.book.told("the sink has no position yet") == [{"sink": "shop", "begins_behind": 3}]


@pytest.mark.parametrize(
    ("from_start", "got"), [(True, [1, 2, 3]), (False, [3])], ids=["from the start", "news"]
)
async def test_with_the_position_of_another_journal_a_sink_starts_over(
    tmp_path: Path, *, from_start: bool, got: list[int]
) -> None:
    here = Following(tmp_path, ScriptedSink(from_start=from_start), kept=900)
    here.record(2)
    async with here.running():
        await eventually(lambda: here.positions.last != 900)
        here.record(1)
        await here.caught_up()

    assert here.sink.got == got
    assert here.relay.lost == 0


async def test_positions_that_cannot_be_kept_stop_nothing_and_are_told_once_a_minute(
    here: Following,
) -> None:
    here.positions.fault = OSError(5, "Input/output error")
    async with here.running():
        for _ in range(200):
            here.record(1)
            await anyio.sleep(1)
        await here.caught_up()
        here.positions.fault = None
        await eventually(lambda: here.positions.last == 200)

    text = "position of a sink cannot be kept: after a crash, more is sent again"
    assert here.sink.got == list(range(1, 201))
    assert here.positions.tries > 20
    assert len(here.book.told(text)) <= 5
    assert "Input/output error" in here.book.told(text)[0]["reason"]
