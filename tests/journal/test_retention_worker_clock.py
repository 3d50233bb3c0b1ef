"""No clock that is set wrong for a while costs the journal its history."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from reactive_desched.journal.upkeep import trusted_clock
from reactive_desched.policy.recording import Retention
from tests.support.kept_journal import DAY_S, KeptJournal, within

pytestmark = pytest.mark.anyio

MONTH_S = 30 * DAY_S
CLOCK = "clock.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "journal"
    made.mkdir()
    return made


@pytest.fixture
def writer(folder: Path) -> KeptJournal:
    """A journal of three closed segments, each a day old."""
    return KeptJournal(folder, 3)


async def begun(writer: KeptJournal, max_age_s: float = MONTH_S) -> Callable[[], Awaitable[None]]:
    """Begin the life of a keeper; return how to have its next round."""
    keeper = writer.keeper(Retention(max_age_s=max_age_s))
    await keeper.begin()
    await keeper.tidy()
    return keeper.tidy


async def steady(writer: KeptJournal, max_age_s: float = MONTH_S) -> Callable[[], Awaitable[None]]:
    """Begin one whose clock has held its course for a day."""
    tidy = await begun(writer, max_age_s)
    writer.pass_time(DAY_S)
    await tidy()
    return tidy


async def test_what_is_too_old_goes_as_soon_as_the_clock_has_held_its_course_for_a_day(
    writer: KeptJournal,
) -> None:
    tidy = await begun(writer, max_age_s=1.5 * DAY_S)
    writer.pass_time(DAY_S - 1)
    await tidy()
    assert writer.firsts() == [1, 11, 21, 31]

    writer.pass_time(1)
    await tidy()

    assert writer.firsts() == [31]


@pytest.mark.parametrize("ahead_s", [60.0, DAY_S - 60.0])
async def test_a_clock_a_month_ahead_for_less_than_a_day_removes_nothing(
    writer: KeptJournal, ahead_s: float
) -> None:
    tidy = await steady(writer)

    writer.wall += MONTH_S
    await tidy()
    writer.pass_time(ahead_s)
    await tidy()
    writer.wall -= MONTH_S
    await tidy()
    writer.pass_time(DAY_S)
    await tidy()

    assert writer.firsts() == [1, 11, 21, 31]


async def test_a_jump_is_warned_of_once_and_its_end_is_told(writer: KeptJournal) -> None:
    tidy = await steady(writer)

    for jump in (MONTH_S, -MONTH_S, 2 * MONTH_S):
        writer.wall += jump
        await tidy()
        await tidy()
    during = list(writer.log.infos)
    writer.pass_time(DAY_S)
    await tidy()

    [(event, values)] = writer.log.warnings
    assert (event, values["jump_s"]) == (trusted_clock.JUMPED, MONTH_S)
    assert "NTP" in values["remedy"]
    assert (during, writer.log.infos[0]) == ([], trusted_clock.STEADY)


async def test_a_jump_after_the_clock_was_believed_again_is_warned_of_too(
    writer: KeptJournal,
) -> None:
    tidy = await steady(writer)

    for _ in range(2):
        writer.wall += MONTH_S
        await tidy()
        writer.pass_time(DAY_S)
        await tidy()

    told = [event for event, _ in writer.log.warnings]
    assert told == [trusted_clock.JUMPED, trusted_clock.JUMPED]


async def test_sizes_bound_the_folder_whatever_the_clock_does(folder: Path) -> None:
    writer = KeptJournal(folder, 3, kafka=12)
    keeper = writer.keeper(within(4, 4))
    writer.wall += MONTH_S

    await keeper.tidy()

    assert writer.firsts() == [31]
    assert writer.losses() == [("kafka", 13, 30)]


async def test_what_would_go_by_age_is_compressed_while_the_clock_is_in_doubt(
    writer: KeptJournal,
) -> None:
    keeper = writer.keeper(Retention(max_age_s=60.0), compress=True)

    await keeper.tidy()

    assert keeper.numbers.compressed == 3


async def test_a_restart_does_not_begin_the_day_anew(writer: KeptJournal) -> None:
    await steady(writer)

    writer.pass_time(600.0)
    await begun(writer, max_age_s=1.5 * DAY_S)

    assert writer.firsts() == [31]


async def test_a_clock_that_was_set_ahead_while_nobody_ran_removes_nothing_at_the_start(
    writer: KeptJournal,
) -> None:
    await steady(writer)

    writer.wall += 2 * MONTH_S
    await begun(writer)

    assert writer.firsts() == [1, 11, 21, 31]
    assert writer.log.infos == [trusted_clock.ASTRAY]


async def test_restarts_do_not_end_the_doubt_about_a_clock_that_stays_ahead(
    writer: KeptJournal,
) -> None:
    tidy = await steady(writer)
    writer.wall += 2 * MONTH_S
    await tidy()

    for _ in range(20):
        writer.pass_time(3600.0)
        await begun(writer)

    assert writer.firsts() == [1, 11, 21, 31]


async def test_after_a_long_pause_age_counts_a_day_later(writer: KeptJournal) -> None:
    await steady(writer)

    writer.wall += 2 * MONTH_S
    tidy = await begun(writer)
    writer.pass_time(DAY_S)
    await tidy()

    assert writer.firsts() == [31]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b'{"wall":1e999,"heldS":1e999}'])
async def test_a_note_that_is_damaged_is_as_good_as_none(writer: KeptJournal, raw: bytes) -> None:
    await steady(writer)

    (writer.folder / CLOCK).write_bytes(raw)
    await begun(writer, max_age_s=60.0)

    assert writer.firsts() == [1, 11, 21, 31]


async def test_the_course_is_noted_every_ten_minutes(writer: KeptJournal) -> None:
    tidy, seen = await begun(writer), set()

    for _ in range(30):
        writer.pass_time(60.0)
        await tidy()
        seen.add((writer.folder / CLOCK).read_bytes())

    assert len(seen) == 4
