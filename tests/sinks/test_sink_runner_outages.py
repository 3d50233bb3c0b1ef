"""While a sink is away the relay tries again, ever less often, and says so now and then."""

from itertools import pairwise

import anyio
import pytest

from reactive_desched.errors import SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.sinks.sink_runner import MAX_RETRY_AFTER_S
from tests.support.golden import Golden
from tests.support.scripted_sink import SinkRunnerHarness, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_after_a_failure_the_same_records_come_again(here: SinkRunnerHarness) -> None:
    here.sink.script = [2, SinkUnavailable("away"), SinkUnavailable("away")]
    here.record(4)
    async with here.running():
        await here.caught_up()

    assert here.sink.delivered == [1, 2, 3, 4]
    assert [seq for _, seq in here.sink.attempts] == [1, 3, 3, 3]
    assert here.runner.retries == 2


async def test_waits_double_from_a_fifth_of_a_second_to_half_a_minute(
    here: SinkRunnerHarness,
) -> None:
    here.sink.always_raise = SinkUnavailable("away")
    here.record(1)
    async with here.running():
        await anyio.sleep(400)

    moments = [at for at, _ in here.sink.attempts]
    waits = [after - before for before, after in pairwise(moments)]
    bases = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15, 15, 15]
    shares = [wait / base for wait, base in zip(waits[: len(bases)], bases, strict=True)]
    assert all(1 <= share < 2 for share in shares)
    assert len({round(share, 3) for share in shares[:3]}) == 3, "each wait is drawn anew"


async def test_a_sink_that_says_when_to_come_back_is_obeyed(here: SinkRunnerHarness) -> None:
    here.sink.script = [SinkUnavailable("busy", 90.0), SinkUnavailable("busy", 1e9)]
    here.record(1)
    async with here.running():
        assert await here.runner.drained(10_000)

    (first, _), (second, _), (third, _) = here.sink.attempts
    assert second - first == pytest.approx(90)
    assert third - second == pytest.approx(MAX_RETRY_AFTER_S)


async def test_an_outage_is_logged_as_it_doubles_then_each_minute_and_when_over(
    here: SinkRunnerHarness,
) -> None:
    here.sink.always_raise = SinkUnavailable("no broker", 0.1)
    here.record(1)
    async with here.running():
        await anyio.sleep(300)
        assert here.runner.error == "no broker"
        here.sink.always_raise = None
        await here.caught_up()

    assert here.runner.error == ""
    told = here.logger.times_of("the sink is unavailable")
    spans = [after - told[0] for after in told]
    assert spans[0] == 0
    for before, after in pairwise(spans[1:]):
        assert 2 * before <= after or after - before >= 60
    assert 8 <= len(spans) <= 12
    assert here.logger.values_of("the sink is unavailable")[-1]["message"] == "no broker"
    assert len(here.logger.values_of("the sink is available again")) == 1


async def test_another_reason_is_logged_at_once(here: SinkRunnerHarness) -> None:
    here.sink.script = [SinkUnavailable("no answer") for _ in range(8)]
    here.sink.script += [SinkUnavailable("answered 410 Gone")]
    here.record(1)
    async with here.running():
        await here.caught_up()

    told = here.logger.values_of("the sink is unavailable")
    assert (told[-1]["message"], told[-1]["attempts"]) == ("answered 410 Gone", 9)


async def test_a_bug_in_a_sink_is_logged_by_its_type_and_does_not_end_the_sink_runner(
    here: SinkRunnerHarness,
) -> None:
    here.sink.script = [ValueError("hunter2"), 99]
    here.record(3)
    async with here.running():
        await here.caught_up()

    assert here.sink.delivered[-3:] == [1, 2, 3]
    reasons = [line["message"] for line in here.logger.values_of("the sink is unavailable")]
    assert "ValueError" in reasons[0]
    assert "deliver" in reasons[0]
    assert "hunter2" not in str(here.logger.lines)
    assert here.runner.retries == 2  # 99 of 3 records cannot be there


async def test_a_journal_that_cannot_be_read_is_trouble_until_it_can(
    here: SinkRunnerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(seq: int, most: int = 500) -> list[JournalRecord]:
        raise OSError(5, "Input/output error")

    here.record(2)
    with monkeypatch.context() as patched:
        patched.setattr(here.tail, "read_after", fails)
        async with here.running():
            await anyio.sleep(1)
            assert "Input/output error" in here.runner.error
            patched.undo()
            await here.caught_up()

    assert here.sink.delivered == [1, 2]


async def test_what_is_removed_while_a_sink_is_away_counts_as_lost_at_once(
    here: SinkRunnerHarness,
) -> None:
    here.sink.always_raise = SinkUnavailable("away")
    here.record(500)
    async with here.running():
        await wait_until(lambda: bool(here.sink.attempts))
        here.record(9_500)
        line = [here.runner.lost]
        for oldest in (400, 2_001, 9_001):
            here.tail.set_oldest(oldest)
            line.append(here.runner.lost)
        assert line == [0, 0, 1_500, 8_500], "the first 500 are with the runner"
        assert here.runner.error == "away"

        here.sink.always_raise = None
        while here.runner.cursor < here.tail.last_seq:
            await anyio.sleep(0.01)
            line.append(here.runner.lost)

    assert here.sink.delivered == [*range(1, 501), *range(9_001, 10_001)]
    assert set(line[3:]) == {8_500}


async def test_stopping_closes_the_sink_and_keeps_the_position_in_the_middle_of_an_outage(
    here: SinkRunnerHarness,
) -> None:
    here.sink.script = [2, *[SinkUnavailable("away", 3000)] * 5000]
    here.record(3)
    async with here.running():
        await here.runner.drained(1)

    assert here.sink.closed == 1
    assert here.cursors.last_seq == 2


@pytest.mark.parametrize("asked_s", [7.0, 600.0, 99_999.0])
async def test_a_long_wait_that_the_other_side_asks_for_is_said(
    here: SinkRunnerHarness, asked_s: float, golden: Golden
) -> None:
    here.sink.always_raise = SinkUnavailable("away", asked_s)
    here.record(1)
    async with here.running():
        await wait_until(lambda: bool(here.sink.attempts))
        await anyio.sleep(0.1)

    assert here.runner.error == golden()
