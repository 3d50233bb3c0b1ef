"""Every record reaches its sink once, or is accounted for."""

from pathlib import Path

import anyio
import pytest
import trio

from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.sinks.sink_runner import UP, SinkRunner
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.text.causes import NO_ANSWER_YET
from tests.support.dead_letters import read_dead_letters
from tests.support.entries import eviction_entries
from tests.support.scripted_sink import SinkRunnerHarness, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_sink_gets_every_record_once_and_in_order(here: SinkRunnerHarness) -> None:
    here.record(700)
    async with here.running():
        await here.caught_up()
        here.record(3)
        await here.caught_up()

    assert here.sink.delivered == list(range(1, 704))
    assert here.runner.delivered == 703


async def test_what_a_sink_leaves_of_a_delivery_comes_next(here: SinkRunnerHarness) -> None:
    here.sink.script = [2, 1]
    here.record(5)
    async with here.running():
        await here.caught_up()

    assert here.sink.delivered == [1, 2, 3, 4, 5]
    assert [seq for _, seq in here.sink.attempts] == [1, 3, 4]


async def test_an_event_that_is_never_taken_goes_to_the_dead_letters(
    here: SinkRunnerHarness,
) -> None:
    here.sink.poison_seq = 3
    here.record(5)
    async with here.running():
        await here.caught_up()

    assert here.sink.delivered == [1, 2, 4, 5]
    (letter,) = read_dead_letters(here.dead_letters.path("shop"))
    assert (letter.sequence, letter.reason) == (3, "too large")
    assert letter.event.encode() == eviction_entries(5)[2].raw
    assert (here.runner.dead_letters, here.runner.delivered) == (1, 4)
    told = here.logger.values_of("the sink rejected an event for good: moved to the dead letters")
    assert [line["sequence"] for line in told] == [3]


async def test_of_many_dead_letters_some_have_a_line_of_the_log_and_the_others_are_counted(
    here: SinkRunnerHarness,
) -> None:
    here.sink.always_raise = EventRejected("too large")
    here.record(25)
    async with here.running():
        await here.caught_up()
        await anyio.sleep(60)
        here.record(1)
        await here.caught_up()

    assert (here.runner.dead_letters, here.runner.last_rejection) == (26, "too large")
    assert len(list(read_dead_letters(here.dead_letters.path("shop")))) == 26
    told = here.logger.values_of("the sink rejected an event for good: moved to the dead letters")
    assert [line["sequence"] for line in told] == [*range(1, 11), 26]
    assert [line["without_a_line"] for line in told] == [0] * 10 + [15]


async def test_while_dead_letters_cannot_be_written_nothing_is_passed_over(
    here: SinkRunnerHarness,
) -> None:
    here.sink.poison_seq = 2
    here.dead_letters.fault = OSError(28, "No space left on device")
    here.record(3)
    async with here.running():
        await wait_until(lambda: bool(here.runner.error))
        await anyio.sleep(30)
        assert here.sink.delivered == [1]
        assert "No space left" in here.runner.error
        here.dead_letters.fault = None
        await here.caught_up()

    assert here.sink.delivered == [1, 3]
    assert [letter.sequence for letter in read_dead_letters(here.dead_letters.path("shop"))] == [2]


async def test_records_that_were_removed_are_counted_as_lost(tmp_path: Path) -> None:
    here = SinkRunnerHarness(tmp_path, kept=4, removed=20)
    here.record(2)
    async with here.running():
        await here.caught_up()

    assert here.sink.delivered == [21, 22]
    assert here.runner.lost == 16
    (told,) = here.logger.values_of("records were removed before the sink had them")
    assert (told["first"], told["resumes_at"]) == (5, 21)


async def test_lag_is_counted_and_timed_from_when_a_record_was_written(
    here: SinkRunnerHarness,
) -> None:
    assert here.runner.lag_records == 0
    here.sink.always_raise = SinkUnavailable("away")
    async with here.running():
        here.record(3)
        await wait_until(lambda: bool(here.sink.attempts))
        await anyio.sleep(50)
        lag_s = here.runner.lag_s
        assert here.runner.lag_records == 3
        assert lag_s == pytest.approx(trio.current_time())
        here.sink.always_raise = None
        await here.caught_up()
        await anyio.sleep(0.1)
        assert (here.runner.lag_records, here.runner.lag_s) == (0, 0.0)


async def test_flushing_ends_when_everything_is_there(here: SinkRunnerHarness) -> None:
    async with here.running():
        here.sink.script = [1, SinkUnavailable("away", 7.0)]
        here.record(2)
        assert await here.runner.drained(8)
        assert here.sink.delivered == [1, 2]


async def test_flushing_ends_when_time_is_up(here: SinkRunnerHarness) -> None:
    here.sink.always_raise = SinkUnavailable("away")
    here.record(1)
    async with here.running():
        began = trio.current_time()
        assert not await here.runner.drained(8)
        assert trio.current_time() - began == pytest.approx(8)


async def test_a_sink_that_has_answered_nothing_yet_is_not_well(here: SinkRunnerHarness) -> None:
    """Its first attempt may take as long as its time-outs: connections that nothing answers."""
    here.sink.always_take_s = 60
    here.record(1)
    async with here.running():
        await anyio.sleep(30)
        assert (here.runner.error, ups_of(here.runner)) == (NO_ANSWER_YET, [0])
        await here.caught_up()
        assert (here.runner.error, ups_of(here.runner)) == ("", [1])


async def test_a_sink_that_rejects_its_first_record_has_answered(here: SinkRunnerHarness) -> None:
    here.sink.poison_seq = 1
    here.record(1)
    async with here.running():
        await here.caught_up()

    assert (here.runner.error, here.runner.dead_letters) == ("", 1)


def ups_of(runner: SinkRunner) -> list[object]:
    return [
        value for each in runner.collect() if each.family is UP for value in each.samples.values()
    ]


async def test_metrics_show_the_state_of_each_sink(here: SinkRunnerHarness) -> None:
    metrics = MetricsRegistry()
    metrics.register(here.runner)
    here.sink.poison_seq = 1
    here.sink.script = [SinkUnavailable("away")]
    here.record(3)
    async with here.running():
        await here.caught_up()
        here.sink.always_raise = SinkUnavailable("away")
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
