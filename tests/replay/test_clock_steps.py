"""A process whose time of day is set, by hours in both directions, is decided the same again."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import (
    STEP_S,
    STOPPED,
    Instant,
    PictureBegun,
    PictureEnded,
    RecordingInterrupted,
)
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.recorder import FLUSH_S, QUIET_S
from reactive_desched.recording.recording_file import write_file
from reactive_desched.recording.segments import ignore_damage, recording_paths
from reactive_desched.replay.driven_controller import RecordedClock
from reactive_desched.replay.process_clocks import ClockPiece, LifeClock, place
from reactive_desched.replay.recorded_decisions import EVICT, DecisionKey, MadeDecision
from reactive_desched.replay.replaying import ReplayOptions, ReplayReport, replay_recording
from tests.safety.__main__ import replayed
from tests.safety.story import ACTIONS, UNBROKEN, play_story
from tests.safety.world import World

WEB = DecisionKey("u1", "default", "NodeTaints")
FEW = settings(max_examples=max(4, settings().max_examples // 4))


def play(seed: int, actions: tuple[str, ...]) -> ReplayReport:
    with TemporaryDirectory() as folder:
        path = Path(folder)
        play_story(Random(seed), path, steps=20, records=True, actions=actions)
        return replayed(path)


@FEW
@given(st.integers(0, 10_000))
def test_a_process_whose_time_of_day_is_set_is_decided_the_same_again(seed: int) -> None:
    report = play(seed, (*UNBROKEN, *["step_clock"] * 8))

    assert report.differences == ()
    assert (report.not_compared, report.damages) == ((), ())
    assert len(report.lives) == 1


@FEW
@given(st.integers(0, 10_000))
def test_so_are_processes_that_end_meanwhile_or_begin_on_another_machine(seed: int) -> None:
    report = play(seed, (*ACTIONS, *["step_clock", "crash_where_clocks_differ"] * 4))

    assert report.differences == ()
    assert (report.not_compared, report.damages) == ((), ())


async def correct_clock(world: World) -> None:
    """Correct the time of day by less than what counts as a step, between two written times."""
    await anyio.sleep(QUIET_S + FLUSH_S)
    world.step_clock(STEP_S * 0.9)


@pytest.mark.parametrize("seed", [1, 3])
def test_corrections_too_small_for_a_step_add_up_to_one(seed: int, tmp_path: Path) -> None:
    play_story(
        Random(seed),
        tmp_path,
        steps=60,
        records=True,
        actions=UNBROKEN,
        after_step=correct_clock,
    )
    report = replayed(tmp_path)

    assert sum(each.comparison.equal for each in report.lives) > 0
    assert report.differences == ()
    assert (report.not_compared, report.damages) == ((), ())


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a story of seven processes, whose time of day is set back between them, too."""
    folder = tmp_path_factory.mktemp("several")
    steps = ("step_clock", "crash_where_clocks_differ") * 4
    play_story(Random(3), folder, steps=40, records=True, actions=(*ACTIONS, *steps))
    return folder


@pytest.mark.parametrize("number", range(1, 7))
def test_decisions_of_a_process_that_ended_in_its_first_picture_are_no_other_processes(
    number: int, several: Path, tmp_path: Path
) -> None:
    items = list(read_items(recording_paths(several / RECORDING_FOLDER), ignore_damage))
    starts = [
        at
        for at, item in enumerate(items)
        if isinstance(item, PictureBegun) and not item.is_continued
    ]
    first, following = (*starts, len(items))[number : number + 2]
    end = first + [type(item) for item in items[first:]].index(PictureEnded)
    killed = RecordingInterrupted(items[end - 1].at, STOPPED)
    file = tmp_path / "recording.rdrec"
    write_file([*items[:end], killed, *items[following:]], file)

    report = replay_recording(ReplayOptions(recording=file, journal=several), plugin_registry())

    assert report.differences == ()
    assert len(report.not_compared) == 1


def test_a_replay_that_does_not_follow_the_time_of_day_decides_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actions = (*UNBROKEN, *["step_clock"] * 8)
    monkeypatch.setattr(RecordedClock, "set_wall", lambda self, at: None)

    assert any(play(seed, actions).differences for seed in range(6))


# --- the records of a journal, which have the time of day alone ---


def lives_with_steps(rng: Random) -> Iterator[tuple[LifeClock, list[float]]]:
    """Yield the clock of each process, and when it wrote records."""
    monotonic_s, ahead_s, written = 1000.0, 1e9, 0
    for _ in range(rng.choice([1, 1, 2, 3])):
        pieces, moments, read = list[ClockPiece](), list[float](), written
        for _ in range(rng.choice([1, 2, 4])):
            first_s = monotonic_s
            for _ in range(rng.choice([0, 1, 5, 20])):
                monotonic_s += rng.uniform(0.01, rng.choice([1.0, 100.0, 4000.0]))
                moments.append(monotonic_s)
            here = [first_s, *(each for each in moments if each > first_s)]
            pieces.append(ClockPiece(ahead_s, first_s, here[-1], here))
            monotonic_s += rng.uniform(0.01, 100.0)
            ahead_s += rng.choice([-1, 1]) * rng.uniform(1.1, rng.choice([60.0, 8000.0]))
        written += len(moments)
        yield LifeClock(tuple(pieces), read), moments


@given(st.integers(0, 2**32))
def test_each_record_is_placed_where_it_was_written(seed: int) -> None:
    lives = list(lives_with_steps(Random(seed)))
    clocks = [clock for clock, _ in lives]
    written = [
        MadeDecision(Instant(each.ahead_s + at_s, 0.0), WEB, "shop/web", EVICT)
        for clock, moments in lives
        for each in clock.pieces
        for at_s in moments
        if each.first_s < at_s <= each.last_s
    ]
    placed = place(list(enumerate(written, start=1)), clocks)

    assert [[each.at.monotonic_s for each in found] for found in placed] == [
        pytest.approx(moments, abs=1e-5) for _, moments in lives
    ]


def test_a_record_that_waited_while_the_process_starved_is_no_step_of_the_clock() -> None:
    before = ClockPiece(1000.0, 0.0, 35.0, [0.0, 10.0, 20.0])
    behind = ClockPiece(970.0, 60.0, 100.0, [60.0, 62.0, 90.0])

    def record(wall_s: float, verdict: str) -> MadeDecision:
        return MadeDecision(Instant(wall_s, 0.0), WEB, "shop/web", verdict)

    written = [
        *(record(wall_s, EVICT) for wall_s in (1010.0, 1020.0, 1032.0)),
        *(record(wall_s, "delete Reservation") for wall_s in (1060.0, 1040.0)),
        record(1060.0, EVICT),
    ]
    (placed,) = place(list(enumerate(written, start=1)), [LifeClock((before, behind))])

    assert [each.at.monotonic_s for each in placed] == [10.0, 20.0, 62.0, 90.0, 70.0, 90.0]


def test_a_record_from_before_the_first_life_is_of_none() -> None:
    piece = ClockPiece(1000.0, 0.0, 10.0, [0.0, 10.0])
    entry = MadeDecision(Instant(1005.0, 0.0), WEB, "shop/web", EVICT)

    assert place([(7, entry)], [LifeClock((piece,), reads_up_to=7)]) == [[]]
    assert len(place([(8, entry)], [LifeClock((piece,), reads_up_to=7)])[0]) == 1


# --- periods ---


TWICE = LifeClock((ClockPiece(1000.0, 0.0, 100.0, [0.0]), ClockPiece(940.0, 101.0, 200.0, [101.0])))
"""The clock was set back by a minute at 100."""
LEFT_OUT = LifeClock(
    (ClockPiece(1000.0, 0.0, 100.0, [0.0]), ClockPiece(1060.0, 101.0, 200.0, [101.0]))
)
"""The clock was set forward by a minute at 100."""


def test_a_period_has_a_time_that_came_twice_both_times() -> None:
    assert (TWICE.first_at(1070.0), TWICE.last_at(1070.0)) == (70.0, 130.0)
    assert (TWICE.first_at(1030.0), TWICE.last_at(1030.0)) == (30.0, 30.0)
    assert TWICE.first_at(1120.0) == 180.0


def test_a_period_ends_or_begins_at_the_step_that_left_out_its_time() -> None:
    assert (LEFT_OUT.first_at(1130.0), LEFT_OUT.last_at(1130.0)) == (101.0, 100.0)
    assert LEFT_OUT.wall_of(50.0) == 1050.0
    assert LEFT_OUT.wall_of(150.0) == 1210.0
