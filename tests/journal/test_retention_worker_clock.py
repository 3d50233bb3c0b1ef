"""No clock that is set wrong for a while costs the journal its history."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from reactive_desched.journal.upkeep import trusted_clock
from reactive_desched.policy.recording import RetentionSettings
from tests.support.kept_journal import DAY_S, RetainedJournal, size_limits

pytestmark = pytest.mark.anyio

MONTH_S = 30 * DAY_S
CLOCK = "clock.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "journal"
    made.mkdir()
    return made


@pytest.fixture
def writer(folder: Path) -> RetainedJournal:
    """A journal of three closed segments, each a day old."""
    return RetainedJournal(folder, 3)


async def begun(
    writer: RetainedJournal, max_age_s: float = MONTH_S
) -> Callable[[], Awaitable[None]]:
    """Begin the life of a keeper; return how to have its next round."""
    keeper = writer.retention_worker(RetentionSettings(max_age_s=max_age_s))
    await keeper.prepare()
    await keeper.run_once()
    return keeper.run_once


async def steady(
    writer: RetainedJournal, max_age_s: float = MONTH_S
) -> Callable[[], Awaitable[None]]:
    """Begin one whose clock has held its course for a day."""
    tidy = await begun(writer, max_age_s)
    writer.pass_time(DAY_S)
    await tidy()
    return tidy


async def test_what_is_too_old_goes_as_soon_as_the_clock_has_held_its_course_for_a_day(
    writer: RetainedJournal,
) -> None:
    tidy = await begun(writer, max_age_s=1.5 * DAY_S)
    writer.pass_time(DAY_S - 1)
    await tidy()
    assert writer.first_seqs() == [1, 11, 21, 31]

    writer.pass_time(1)
    await tidy()

    assert writer.first_seqs() == [31]


@pytest.mark.parametrize("ahead_s", [60.0, DAY_S - 60.0])
async def test_a_clock_a_month_ahead_for_less_than_a_day_removes_nothing(
    writer: RetainedJournal, ahead_s: float
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

    assert writer.first_seqs() == [1, 11, 21, 31]


async def test_a_jump_is_warned_of_once_and_its_end_is_told(writer: RetainedJournal) -> None:
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
    assert (during, writer.log.infos[0]) == ([], trusted_clock.TRUSTED_AGAIN)


async def test_a_jump_after_the_clock_was_believed_again_is_warned_of_too(
    writer: RetainedJournal,
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
    writer = RetainedJournal(folder, 3, kafka=12)
    keeper = writer.retention_worker(size_limits(4, 4))
    writer.wall += MONTH_S

    await keeper.run_once()

    assert writer.first_seqs() == [31]
    assert writer.losses() == [("kafka", 13, 30)]


async def test_what_would_go_by_age_is_compressed_while_the_clock_is_in_doubt(
    writer: RetainedJournal,
) -> None:
    keeper = writer.retention_worker(RetentionSettings(max_age_s=60.0), compress=True)

    await keeper.run_once()

    assert keeper.stats.compressed == 3


async def test_a_restart_does_not_begin_the_day_anew(writer: RetainedJournal) -> None:
    await steady(writer)

    writer.pass_time(600.0)
    await begun(writer, max_age_s=1.5 * DAY_S)

    assert writer.first_seqs() == [31]


async def test_a_clock_that_was_set_ahead_while_nobody_ran_removes_nothing_at_the_start(
    writer: RetainedJournal,
) -> None:
    await steady(writer)

    writer.wall += 2 * MONTH_S
    await begun(writer)

    assert writer.first_seqs() == [1, 11, 21, 31]
    assert writer.log.infos == [trusted_clock.MOVED_WHILE_DOWN]


async def test_restarts_do_not_end_the_doubt_about_a_clock_that_stays_ahead(
    writer: RetainedJournal,
) -> None:
    tidy = await steady(writer)
    writer.wall += 2 * MONTH_S
    await tidy()

    for _ in range(20):
        writer.pass_time(3600.0)
        await begun(writer)

    assert writer.first_seqs() == [1, 11, 21, 31]


async def test_after_a_long_pause_age_counts_a_day_later(writer: RetainedJournal) -> None:
    await steady(writer)

    writer.wall += 2 * MONTH_S
    tidy = await begun(writer)
    writer.pass_time(DAY_S)
    await tidy()

    assert writer.first_seqs() == [31]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b'{"wall":1e999,"heldS":1e999}'])
async def test_a_note_that_is_damaged_is_as_good_as_none(
    writer: RetainedJournal, raw: bytes
) -> None:
    await steady(writer)

    (writer.folder / CLOCK).write_bytes(raw)
    await begun(writer, max_age_s=60.0)

    assert writer.first_seqs() == [1, 11, 21, 31]


async def test_the_course_is_noted_every_ten_minutes(writer: RetainedJournal) -> None:
    tidy, seen = await begun(writer), set()

    for _ in range(30):
        writer.pass_time(60.0)
        await tidy()
        seen.add((writer.folder / CLOCK).read_bytes())

    assert len(seen) == 4
