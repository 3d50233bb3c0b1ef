"""How much of a time that was asked for a recording has."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from reactive_desched.recording.coverage import RecordingSummary, summarize_recording
from reactive_desched.recording.items import (
    STOPPED,
    Instant,
    Item,
    NothingChanged,
    PictureBegun,
    PictureEnded,
    RecordingInterrupted,
)
from reactive_desched.recording.recording_file import write_file

HOUR_S = 3600.0
FIRST_S = 1_800_000_000.0


def summary(*gaps: tuple[float, float], hours: float = 1.0) -> RecordingSummary:
    return RecordingSummary(
        first_s=FIRST_S,
        last_s=FIRST_S + hours * HOUR_S,
        bytes=0,
        segments=1,
        version="",
        cluster="",
        interruptions=tuple((FIRST_S + begins, FIRST_S + ends) for begins, ends in gaps),
        damages=(),
    )


@pytest.mark.parametrize(
    ("since_s", "until_s", "gaps", "said"),
    [
        pytest.param(None, None, (), "", id="all, and nothing is missing"),
        pytest.param(0, 3600, (), "", id="what is recorded"),
        pytest.param(600, 1200, ((1800, 2400),), "", id="beside a gap"),
        pytest.param(-59, 3600, (), "", id="less than a minute more"),
        pytest.param(-9 * 3600, None, (), "1 h of the 10 h", id="since before it begins"),
        pytest.param(None, 3 * 3600, (), "1 h of the 3 h", id="until after it ends"),
        pytest.param(None, None, ((600, 1200),), "50 min of the 1 h", id="a gap"),
        pytest.param(900, None, ((600, 1200),), "40 min of the 45 min", id="a part of a gap"),
        pytest.param(
            -3600, None, ((600, 1200), (1800, 2400)), "40 min of the 2 h", id="begin and gaps"
        ),
        pytest.param(-7200, -3600, (), "", id="nothing of it, which commands say themselves"),
    ],
)
def test_how_much_of_what_was_asked_for_is_recorded(
    since_s: float | None,
    until_s: float | None,
    gaps: tuple[tuple[float, float], ...],
    said: str,
) -> None:
    since_s = None if since_s is None else FIRST_S + since_s
    until_s = None if until_s is None else FIRST_S + until_s

    text = summary(*gaps).shortfall(since_s, until_s)

    assert text.partition(" asked for")[0] == said


def test_a_gap_that_the_clock_was_set_back_over_takes_no_time() -> None:
    assert list(summary((1200, 600)).gaps_between(FIRST_S, FIRST_S + HOUR_S)) == []


def at(wall_s: float, monotonic_s: float) -> Instant:
    return Instant(FIRST_S + wall_s, monotonic_s)


def lived(began: Instant, lasts_s: int) -> Iterator[Item]:
    """Yield what a process records that lives so long and is stopped in order."""

    def after(seconds: int) -> Instant:
        return Instant(began.wall_s + seconds, began.monotonic_s + seconds)

    yield PictureBegun(began)
    yield PictureEnded(began)
    for seconds in range(10, lasts_s, 10):
        yield NothingChanged(after(seconds))
    yield RecordingInterrupted(after(lasts_s), STOPPED)


def gaps_of(tmp_path: Path, *lives: Iterable[Item]) -> list[tuple[float, float]]:
    """Return the gaps of an exported file, in seconds after its beginning."""
    path = tmp_path / "file.rdrec"
    write_file(chain.from_iterable(lives), path)
    found = summarize_recording(path).interruptions
    return [(since_s - FIRST_S, until_s - FIRST_S) for since_s, until_s in found]


def test_a_file_says_until_when_each_process_recorded(tmp_path: Path) -> None:
    lives = lived(at(0, 0), 100), lived(at(130, 5), 100), lived(at(300, 9), 100)

    assert gaps_of(tmp_path, *lives) == [(100, 130), (230, 300)]


def test_what_was_recorded_before_the_clock_was_set_back_is_in_no_gap(tmp_path: Path) -> None:
    set_back = lived(at(-600, 5), 100)
    lives = lived(at(0, 0), 100), lived(at(130, 5), 100), set_back, lived(at(240, 9), 100)

    assert gaps_of(tmp_path, *lives) == [(-500, 0), (100, 130), (230, 240)]
