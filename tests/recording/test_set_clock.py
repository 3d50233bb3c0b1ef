"""A moment whose time the clock showed twice, or never, as the time of day was set."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.model.objects import Pod
from reactive_desched.plan.recorded_moment import read_moment
from reactive_desched.recording.coverage import covered_times
from reactive_desched.recording.reader import items_between, read_items, times_of_frames
from reactive_desched.recording.recorder import RecorderBounds
from reactive_desched.recording.recording_file import write_file
from reactive_desched.recording.segments import recording_paths
from reactive_desched.testing.builders import pod
from tests.support.recorded_cluster import WALL_S, Recorded, fail_on_damage, virtual

WEB = pod("web", on="n0")
SHORT, LONG = (RecorderBounds(2**24, 1e9, 2**22, ends_s) for ends_s in (600.0, 1e6))


def record(folder: Path, bounds: RecorderBounds, *steps: tuple[float, float]) -> Path:
    """Record a pod that moves each minute for 4 h, to the node that is named for the second.

    `steps` are the seconds at which the time of day is set, and by how many seconds.
    """
    due = dict(steps)

    async def play(recorded: Recorded) -> None:
        for second in range(0, 4 * 3600, 60):
            if second in due:
                recorded.ahead_s += due[second]
            recorded.state.upsert(replace(WEB, node=f"n{second}", resource_version=second + 1))
            await anyio.sleep(60)

    virtual(play, folder, bounds)
    return folder


def second_at(recording: Path, wall_s: float) -> int:
    """Return the second of the story at which the pod came to its node."""
    state = read_moment(recording, WALL_S + wall_s).state
    (found,) = state.objects["pods"].values()
    assert isinstance(found, Pod)
    return int(found.node[1:])


def times(recording: Path) -> list[tuple[float, float]]:
    found = covered_times(recording, fail_on_damage)
    return [(round(a_s - WALL_S, -1), round(b_s - WALL_S, -1)) for a_s, b_s in found]


def test_what_comes_a_moment_later_behind_a_set_clock_is_not_of_the_moment_before(
    tmp_path: Path,
) -> None:
    async def play(recorded: Recorded) -> None:
        for second in (1, 2):  # of one frame
            await anyio.sleep(1 if second == 1 else 0.1)
            recorded.state.upsert(replace(WEB, node=f"n{second}", resource_version=second))
        await anyio.sleep(0.1)
        recorded.ahead_s -= 7200
        await anyio.sleep(0.02)
        recorded.state.upsert(replace(WEB, node="n3", resource_version=3))
        await anyio.sleep(30)

    virtual(play, tmp_path, LONG)

    assert second_at(tmp_path, 1.19) == 2


def test_a_clock_that_is_set_just_before_the_end_is_seen_in_the_times_of_frames(
    tmp_path: Path,
) -> None:
    async def play(recorded: Recorded) -> None:
        await anyio.sleep(60)
        for version in (1, 2):  # the first is written at once, the next one waits for others
            recorded.state.upsert(replace(WEB, node=f"n{version}", resource_version=version))
            await anyio.sleep(1)
        recorded.ahead_s += 30
        recorded.state.upsert(replace(WEB, node="n3", resource_version=3))
        await anyio.sleep(1)

    virtual(play, tmp_path, LONG)
    *before, last = times_of_frames(recording_paths(tmp_path))

    assert not any(each.is_step_to(before[0]) for each in before)
    assert before[-1].is_step_to(last)


Recordings = Callable[..., Path]
"""Returns a recording, which many may read, of 4 h in which the clock was set in these steps."""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    @cache
    def one(bounds: RecorderBounds, *steps: tuple[float, float]) -> Path:
        return record(tmp_path_factory.mktemp("recording"), bounds, *steps)

    return one


@pytest.fixture(params=["segments", "one segment", "a file"])
def recorded(request: pytest.FixtureRequest, recordings: Recordings, tmp_path: Path) -> Recordings:
    def one(*steps: tuple[float, float]) -> Path:
        folder = recordings(SHORT if request.param == "segments" else LONG, *steps)
        if request.param != "a file":
            return folder
        file = tmp_path / "exported.rdrec"
        write_file(read_items(recording_paths(folder), fail_on_damage), file)
        return file

    return one


def test_a_clock_that_was_ahead_by_an_hour_for_a_time(recorded: Recordings) -> None:
    path = recorded((1800, 3600), (7200, -3600))

    assert second_at(path, 905) == 900
    assert second_at(path, 2405) == 1740, "the clock never showed it: what was before"
    assert second_at(path, 6005) == 2400, "it showed it while it was ahead"
    assert second_at(path, 9005) == 9000, "and of times that came twice it is the last"
    assert second_at(path, 12005) == 12000
    assert [read_moment(path, WALL_S + at).shown for at in (905, 6005, 9005)] == [1, 1, 2]
    (note,) = read_moment(path, WALL_S + 9005).notes()
    assert "2 times" in note
    assert times(path)[-1][1] == 14400


def test_a_clock_that_was_behind_by_an_hour_for_a_time(recorded: Recordings) -> None:
    path = recorded((7200, -3600), (9000, 3600))

    assert second_at(path, 1805) == 1800
    assert second_at(path, 4505) == 8100, "shown twice: the last"
    assert second_at(path, 6305) == 6300, "and once, before"
    assert second_at(path, 7805) in (7140, 8940), "never shown: what was before, on either side"
    assert second_at(path, 9605) == 9600
    assert times(path) == [(0, 7200), (9000, 14400)]
    (note,) = read_moment(path, WALL_S + 7805).notes()
    assert "never showed" in note


@pytest.mark.parametrize("by_s", [-240, 240])
def test_a_clock_that_was_set_by_minutes_in_the_midst_of_a_segment(
    by_s: int, recorded: Recordings
) -> None:
    path = recorded((4980, by_s))

    for second in (60, 1020, 4680, *range(4980, 14000, 960)):
        at_s = second if second < 4980 else second + by_s
        assert second_at(path, at_s + 5) == second
    if by_s > 0:
        assert second_at(path, 5105) == 4920, "never shown"


def test_a_clock_that_was_far_ahead_or_behind_for_a_minute_hides_nothing(
    recorded: Recordings,
) -> None:
    year_s = 365 * 86400.0
    path = recorded((3000, year_s), (3120, -year_s), (6000, -year_s), (6120, year_s))

    for second in (60, 2940, 3120, 5940, 6120, 13980):
        assert second_at(path, second + 5) == second
    assert second_at(path, 3065 + year_s) == 3060
    assert second_at(path, 6065 - year_s) == 6060


def test_a_period_of_an_export_has_a_time_that_came_twice_both_times(
    recorded: Recordings,
) -> None:
    path = recorded((7200, -3600))
    found = list(items_between(path, WALL_S + 5000, WALL_S + 6000, fail_on_damage))

    assert found[0].at.monotonic_s == pytest.approx(5000, abs=65)
    assert found[-1].at.monotonic_s == pytest.approx(9600, abs=65)
