"""Every record reaches its sink once, or is accounted for."""

from pathlib import Path

import anyio
import pytest
import trio

from reactive_desched.errors import SinkUnavailable
from reactive_desched.sinks.dead_letters import letters
from reactive_desched.telemetry.metrics import Metrics
from tests.support.entries import evictions
from tests.support.scripted_sink import Following, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_sink_gets_every_record_once_and_in_order(here: Following) -> None:
    here.record(700)
    async with here.running():
        await here.caught_up()
        here.record(3)
        await here.caught_up()

    assert here.sink.got == list(range(1, 704))
    assert here.relay.delivered == 703


async def test_what_a_sink_leaves_of_a_delivery_comes_next(here: Following) -> None:
    here.sink.script = [2, 1]
    here.record(5)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 3, 4, 5]
    assert [seq for _, seq in here.sink.asked] == [1, 3, 4]


async def test_an_event_that_is_never_taken_goes_to_the_dead_letters(here: Following) -> None:
    here.sink.poison = 3
    here.record(5)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [1, 2, 4, 5]
    (letter,) = letters(here.graves.path("shop"))
    assert (letter.sequence, letter.reason) == (3, "too large")
    assert letter.event.encode() == evictions(5)[2].raw
    assert (here.relay.dead_letters, here.relay.delivered) == (1, 4)
    told = here.book.told("event will never be taken: it is with the dead letters")
    assert [line["sequence"] for line in told] == [3]


async def test_while_dead_letters_cannot_be_written_nothing_is_passed_over(
    here: Following,
) -> None:
    here.sink.poison = 2
    here.graves.fault = OSError(28, "No space left on device")
    here.record(3)
    async with here.running():
        await eventually(lambda: bool(here.relay.trouble))
        await anyio.sleep(30)
        assert here.sink.got == [1]
        assert "No space left" in here.relay.trouble
        here.graves.fault = None
        await here.caught_up()

    assert here.sink.got == [1, 3]
    assert [letter.sequence for letter in letters(here.graves.path("shop"))] == [2]


async def test_records_that_were_removed_are_counted_as_lost(tmp_path: Path) -> None:
    here = Following(tmp_path, kept=4, removed=20)
    here.record(2)
    async with here.running():
        await here.caught_up()

    assert here.sink.got == [21, 22]
    assert here.relay.lost == 16
    (told,) = here.book.told("records were removed before the sink had them")
    assert (told["first"], told["goes_on_at"]) == (5, 21)


async def test_lag_is_counted_and_timed_from_when_a_record_was_written(here: Following) -> None:
    assert here.relay.lag_records == 0
    here.sink.always = SinkUnavailable("away")
    async with here.running():
        here.record(3)
        await eventually(lambda: bool(here.sink.asked))
        await anyio.sleep(50)
        lag_s = here.relay.lag_s
        assert here.relay.lag_records == 3
        assert lag_s == pytest.approx(trio.current_time())
        here.sink.always = None
        await here.caught_up()
        await anyio.sleep(0.1)
        assert (here.relay.lag_records, here.relay.lag_s) == (0, 0.0)


async def test_flushing_ends_when_everything_is_there(here: Following) -> None:
    async with here.running():
        here.sink.script = [1, SinkUnavailable("away", 7.0)]
        here.record(2)
        assert await here.relay.flushed(8)
        assert here.sink.got == [1, 2]


async def test_flushing_ends_when_time_is_up(here: Following) -> None:
    here.sink.always = SinkUnavailable("away")
    here.record(1)
    async with here.running():
        began = trio.current_time()
        assert not await here.relay.flushed(8)
        assert trio.current_time() - began == pytest.approx(8)


async def test_metrics_tell_how_each_sink_fares(here: Following) -> None:
    metrics = Metrics()
    metrics.sources.sinks = {"shop": here.relay}
    here.sink.poison = 1
    here.sink.script = [SinkUnavailable("away")]
    here.record(3)
    async with here.running():
        await here.caught_up()
        here.sink.always = SinkUnavailable("away")
        here.record(2)
        await anyio.sleep(1)
        text = metrics.exposition("")[0].decode()

    name = "reactive_desched_sink_"
    assert f'{name}delivered_total{{sink="shop"}} 2.0' in text
    assert f'{name}dead_letters_total{{sink="shop"}} 1.0' in text
    assert f'{name}lost_total{{sink="shop"}} 0.0' in text
    assert f'{name}lag_records{{sink="shop"}} 2.0' in text
    assert f'{name}up{{sink="shop"}} 0.0' in text
    assert f'{name}retries_total{{sink="shop"}}' in text
    assert f'{name}lag_seconds{{sink="shop"}}' in text
