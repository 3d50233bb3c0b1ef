"""Where a recording or a journal is damaged a replay says so, and what it left out for that."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from reactive_desched.errors import NotRecorded
from reactive_desched.journal.segments import list_segments
from reactive_desched.recording.frames import NO_FRAME, pack_begin, segment_paths
from tests.safety.__main__ import replayed
from tests.safety.story import play_story
from tests.support.golden import Golden

SEED = 5
"""A story with four processes, and decisions in each of them."""

WITHOUT_DECISIONS = {5, 8, 9}
"""Nothing was decided in these segments of the story's recording."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("story")
    play_story(Random(SEED), folder, steps=60, records=True)
    return folder


@pytest.fixture(scope="module")
def whole(story: Path) -> int:
    """Return how many decisions are equal where nothing is damaged."""
    return replayed(story).equal


@pytest.fixture
def folder(story: Path, tmp_path: Path) -> Path:
    """Return a copy of the story's journal and recording."""
    return Path(shutil.copytree(story, tmp_path / "copy"))


def empty(segment: Path) -> None:
    segment.write_bytes(b"")


def cut_to_head(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[: len(pack_begin(NO_FRAME))])


@pytest.mark.parametrize("number", range(1, 10))
@pytest.mark.parametrize("lose", [Path.unlink, empty], ids=["gone", "emptied"])
def test_decisions_of_a_lost_segment_are_no_differences_and_are_said_to_be_left_out(
    lose: Callable[[Path], None], number: int, folder: Path, whole: int
) -> None:
    lost = segment_paths(folder / "recording")[number]
    following = segment_paths(folder / "recording")[number + 1]
    lose(lost)
    named = lost if lost.exists() else following

    report = replayed(folder)

    assert report.differences == ()
    assert (report.equal < whole) == (number not in WITHOUT_DECISIONS)
    said = [*map(str, report.damages), *report.not_compared]
    assert any(named.name in each or "of the journal" in each for each in said), said


@pytest.mark.parametrize("lose", [empty, cut_to_head])
def test_so_it_is_with_the_last_segment_that_was_emptied(
    lose: Callable[[Path], None], folder: Path, whole: int
) -> None:
    *_, last = segment_paths(folder / "recording")
    lose(last)

    report = replayed(folder)

    assert report.differences == ()
    assert report.equal < whole
    assert [each.file for each in report.damages] == [last.name]


def test_a_process_that_was_killed_before_it_wrote_leaves_the_next_one_compared(
    folder: Path, whole: int
) -> None:
    head, number, killed = pack_begin(NO_FRAME), 100, 0
    for segment in segment_paths(folder / "recording"):
        _, _, time = segment.name.partition("-")
        if segment.read_bytes().startswith(head):
            segment.with_name(f"{number:08}-{time}").write_bytes(head)
            number, killed = number + 1, killed + 1
        segment.rename(segment.with_name(f"{number:08}-{time}"))
        number += 1

    report = replayed(folder)

    assert len({each.file for each in report.damages}) >= killed > 1
    assert [str(e)[:200] for e in report.damages if not e.is_torn_end] == []
    assert (report.differences, report.equal) == ((), whole)


def test_a_record_that_is_gone_from_the_journal_is_named_and_so_is_a_line_that_is_damaged(
    folder: Path, golden: Golden
) -> None:
    (segment,) = list_segments(folder)
    lines = segment.path.read_bytes().splitlines(keepends=True)
    segment.path.write_bytes(b"".join([*lines[:10], lines[10][:-9] + b"\n", *lines[40:]]))

    said = [
        str(each).partition(", byte ")[2].partition(": ")[2] for each in replayed(folder).damages
    ]

    assert "\n".join(said) == golden()


def test_one_record_that_is_gone_is_named(folder: Path) -> None:
    (segment,) = list_segments(folder)
    lines = segment.path.read_bytes().splitlines(keepends=True)
    segment.path.write_bytes(b"".join([*lines[:10], *lines[11:]]))

    (damage,) = replayed(folder).damages

    assert damage.message.startswith("record 11 is missing before it: ")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_the_end_of_a_journal_that_was_cut_behind_a_whole_line_is_said_to_be_missing(
    share: float, folder: Path
) -> None:
    (segment,) = list_segments(folder)
    lines = segment.path.read_bytes().splitlines(keepends=True)
    kept = int(len(lines) * share)
    segment.path.write_bytes(b"".join(lines[:kept]))

    (damage,) = replayed(folder).damages

    assert damage.file == segment.path.name
    assert damage.message.startswith(f"records {kept + 1} to ")

    report = replayed(folder)
    assert report.differences == ()
    assert any(" of the replay: " in each for each in report.not_compared)


def torn(line: bytes) -> bytes:
    return line[:-9] + b"\n"


def gone(_: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("lose", [torn, gone])
@pytest.mark.parametrize("number", [0, 1, 2, -1])
def test_a_decision_that_the_journal_has_lost_is_no_difference(
    lose: Callable[[bytes], bytes], number: int, folder: Path, whole: int
) -> None:
    (segment,) = list_segments(folder)
    lines = segment.path.read_bytes().splitlines(keepends=True)
    decisions = [at for at, line in enumerate(lines) if b".decision.refuse." in line]
    lines[decisions[number]] = lose(lines[decisions[number]])
    segment.path.write_bytes(b"".join(lines))

    report = replayed(folder)

    assert report.differences == ()
    assert report.equal < whole
    assert report.damages


@pytest.mark.parametrize("lose", [Path.unlink, empty], ids=["gone", "emptied"])
def test_a_journal_that_is_lost_is_said_and_makes_no_differences(
    lose: Callable[[Path], None], folder: Path
) -> None:
    (segment,) = list_segments(folder)
    lose(segment.path)

    report = replayed(folder)

    assert report.differences == ()
    assert report.damages
    assert any(" of the replay: " in each for each in report.not_compared)


def test_another_decision_beside_one_that_is_lost_is_a_difference(folder: Path) -> None:
    (segment,) = list_segments(folder)
    lines = segment.path.read_bytes().splitlines(keepends=True)
    decisions = [at for at, line in enumerate(lines) if b".decision.refuse." in line]
    altered = decisions[-2:]
    lines[altered[0]] = lines[altered[0]].replace(b'"reason":"', b'"reason":"Not', 1)
    lines[altered[1]] = b""
    segment.path.write_bytes(b"".join(lines))

    assert [each.is_of_journal for each in replayed(folder).differences][:1] == [True]


def test_a_segment_of_another_recording_is_refused_and_not_replayed(folder: Path) -> None:
    paths = segment_paths(folder / "recording")
    other = paths[4].with_name(f"{paths[2].name.partition('-')[0]}-20990101T000000Z.rdrec")
    shutil.copy(paths[4], other)

    with pytest.raises(NotRecorded, match=other.name):
        replayed(folder)
