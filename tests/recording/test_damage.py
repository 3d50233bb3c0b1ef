"""Whatever happens to the bytes of a recording: what is read of it is what was recorded."""

import fcntl
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.errors import NotRecorded
from reactive_desched.plan.recorded_moment import read_moment
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.frames import segment_paths
from reactive_desched.recording.items import Damage, Item, RecordingInterrupted
from reactive_desched.recording.reader import read_items, state_at
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.recorder import ClusterName
from reactive_desched.recording.segments import recording_paths
from reactive_desched.testing.builders import node, pod
from tests.support.golden import Golden
from tests.support.recorded_cluster import BOUNDS, Recorded, fail_on_damage, holding, virtual


async def play(recorded: Recorded) -> None:
    recorded.state.upsert(node("n1"))
    for number in range(4):
        recorded.state.upsert(pod(f"p{number}", on="n1", labels={"n": str(number % 2)}))
        await anyio.sleep(20)
    recorded.state.remove(pod("p1"))
    await anyio.sleep(20)


class Original:
    """A recording of three segments, and its items and states."""

    def __init__(self, folder: Path) -> None:
        virtual(play, folder, replace(BOUNDS, segment_age_s=45.0))
        self.names = [path.name for path in segment_paths(folder)]
        self.segments = [path.read_bytes() for path in segment_paths(folder)]
        self.items = list(read_items(recording_paths(folder), fail_on_damage))
        state = RecordedState()
        self.states: list[Mapping[str, Any]] = []
        for item in self.items:
            state.apply(item)
            self.states.append({name: dict(each) for name, each in holding(state).items()})

    def check(self, folder: Path, segments: Sequence[bytes]) -> tuple[list[Item], list[Damage]]:
        """Write these segments; check that what is read of them is true, and return it."""
        folder.mkdir(exist_ok=True)
        for name, content in zip(self.names, segments, strict=True):
            (folder / name).write_bytes(content)
        damages: list[Damage] = []
        found = list(read_items(recording_paths(folder), damages.append))
        state, at = RecordedState(), 0
        for item in found:
            state.apply(item)
            if isinstance(item, RecordingInterrupted) and item not in self.items:
                continue
            at = self.items.index(item, at)  # raises ValueError for an item that never was
            if not state.missing:
                assert holding(state) == self.states[at]
            at += 1
        self.check_questions(folder)
        return found, damages

    def check_questions(self, folder: Path) -> None:
        """Check that each question has an answer that is true, or none."""
        try:
            summary = summarize_recording(folder)
            assert summary.segments <= len(self.names)
            middle = self.items[len(self.items) // 2]
            state, _ = state_at(folder, middle.at.wall_s, lambda _: None)
        except NotRecorded:
            return
        assert holding(state) in self.states


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    found = Original(tmp_path_factory.mktemp("original"))
    assert len(found.segments) == 3
    return found


def interruptions(found: list[Item]) -> int:
    """Count what is said to be missing, with the end of the recording."""
    return len([item for item in found if isinstance(item, RecordingInterrupted)])


def places(content: bytes) -> list[int]:
    """Return every place of the first frame's header, and a share of those behind it."""
    return [*range(48), *range(48, len(content), 5)]


def with_second(original: Original, content: bytes) -> list[bytes]:
    return [original.segments[0], content, original.segments[2]]


def test_a_byte_that_is_flipped_anywhere_is_noticed_and_nothing_wrong_is_read(
    original: Original, tmp_path: Path
) -> None:
    content = original.segments[1]
    for place in places(content):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        _, damages = original.check(tmp_path, with_second(original, bytes(flipped)))
        assert damages, place
        assert {each.file for each in damages} == {original.names[1]}


def test_a_segment_that_is_cut_off_anywhere_is_noticed_and_nothing_wrong_is_read(
    original: Original, tmp_path: Path
) -> None:
    content = original.segments[1]
    for place in places(content):
        found, _ = original.check(tmp_path, with_second(original, content[:place]))
        assert interruptions(found) >= 2, place


def test_a_part_that_is_cut_out_is_noticed_and_nothing_wrong_is_read(
    original: Original, tmp_path: Path
) -> None:
    content = original.segments[1]
    for place in places(content):
        without = content[:place] + content[place + 1 + place % 97 :]
        found, _ = original.check(tmp_path, with_second(original, without))
        assert interruptions(found) >= 2, place


def test_a_segment_that_is_gone_is_noticed(
    original: Original, tmp_path: Path, golden: Golden
) -> None:
    _, damages = original.check(tmp_path, with_second(original, b""))
    assert "\n".join(map(str, damages)) == golden("emptied")
    assert summarize_recording(tmp_path).damages == tuple(damages)
    (tmp_path / original.names[1]).unlink()
    said: list[Damage] = []

    found = list(read_items(recording_paths(tmp_path), said.append))

    assert interruptions(found) == 2
    assert "\n".join(map(str, said)) == golden()
    assert summarize_recording(tmp_path).damages == tuple(said)


@pytest.mark.parametrize("length", [0, 12], ids=["emptied", "cut to its head"])
def test_a_last_segment_that_was_emptied_is_named_unless_it_is_being_written(
    length: int, original: Original, tmp_path: Path
) -> None:
    *_, content = original.segments
    name = original.names[-1]
    _, damages = original.check(tmp_path, [*original.segments[:-1], content[:length]])
    assert [each.file for each in damages] == [name]
    assert summarize_recording(tmp_path).damages == tuple(damages)
    with pytest.raises(NotRecorded, match=name):
        read_moment(tmp_path, summarize_recording(tmp_path).last_s + 10)

    with (tmp_path / name).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert summarize_recording(tmp_path).damages == ()


def test_segments_of_two_recordings_in_one_folder_are_refused_by_their_names(
    original: Original, tmp_path: Path
) -> None:
    original.check(tmp_path, original.segments)
    number = original.names[1].partition("-")[0]
    of_another = tmp_path / f"{number}-29990101T000000Z.rdrec"
    of_another.write_bytes(original.segments[0])

    with pytest.raises(NotRecorded) as refused:
        recording_paths(tmp_path)

    assert original.names[1] in str(refused.value)
    assert of_another.name in str(refused.value)


def test_recordings_of_two_clusters_in_one_folder_are_refused_by_their_names(
    tmp_path: Path,
) -> None:
    mine, theirs, unnamed = (tmp_path / name for name in ("mine", "theirs", "unnamed"))
    virtual(play, mine, cluster=ClusterName("prod", "uid-1"))
    virtual(play, theirs, cluster=ClusterName("test", "uid-2"))
    virtual(play, unnamed, cluster=ClusterName())
    for number, folder in enumerate((unnamed, theirs), start=2):
        (segment,) = segment_paths(folder)
        shutil.copy(segment, mine / segment.name.replace("00000001", f"{number:08}"))
        if folder is unnamed:
            assert len(recording_paths(mine)) == number

    first, _, last = segment_paths(mine)
    with pytest.raises(NotRecorded) as refused:
        recording_paths(mine)
    for name in (first.name, "prod (uid-1)", last.name, "test (uid-2)"):
        assert name in str(refused.value)


def test_nothing_is_recorded_into_the_recording_of_another_cluster(tmp_path: Path) -> None:
    virtual(play, tmp_path, cluster=ClusterName("prod", "uid-1"))
    (recorded,) = segment_paths(tmp_path)
    before = recorded.read_bytes()

    async def look(other: Recorded) -> None:
        await play(other)
        for name in ("prod (uid-1)", "test (uid-2)", "recording.directory"):
            assert name in other.recorder.fault

    virtual(look, tmp_path, cluster=ClusterName("test", "uid-2"))
    assert segment_paths(tmp_path) == [recorded]
    assert recorded.read_bytes() == before

    virtual(play, tmp_path, cluster=ClusterName("prod", "uid-1"))
    assert len(segment_paths(tmp_path)) == 2


edits = st.tuples(
    st.integers(0, 2), st.floats(0, 1), st.integers(0, 60), st.binary(max_size=8), st.booleans()
)


@given(st.lists(edits, min_size=1, max_size=5))
def test_whatever_happens_to_its_bytes_nothing_wrong_is_read(
    original: Original,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[int, float, int, bytes, bool]],
) -> None:
    segments = list(original.segments)
    for number, share, length, put, repeats in drawn:
        content = segments[number]
        place = int(share * len(content)) or repeats  # a segment that is there twice is whole
        rest = content[place:] if repeats else content[place + length :]
        segments[number] = content[:place] + put + rest
        if repeats:
            segments[number] += content[place : place + 20 * length]

    original.check(tmp_path_factory.mktemp("damaged"), segments)


def test_damage_is_said_by_its_file_place_and_what_it_is(
    original: Original, tmp_path: Path, golden: Golden
) -> None:
    content = original.segments[1]
    flipped = content[:30] + bytes([content[30] ^ 4]) + content[31:]
    said = [
        str(damage)
        for each in (content[:-1], content[:20], content[:5], b"x" + content[1:], flipped)
        for damage in original.check(tmp_path, with_second(original, each))[1]
    ]
    newer = content[:7] + b"\x02" + content[8:]
    said += [str(each) for each in original.check(tmp_path, with_second(original, newer))[1]]
    assert "\n".join(said) == golden()
