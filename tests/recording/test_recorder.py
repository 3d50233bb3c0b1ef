"""Tests of the recorder: the state as it was at any moment is read back, nothing waits for it."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from trio.testing import MockClock

from reactive_desched.errors import NotRecorded
from reactive_desched.kube.codec import make_codecs
from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.recording import recorder as recorder_module
from reactive_desched.recording import segment_file
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.frames import segment_paths
from reactive_desched.recording.items import (
    Instant,
    Item,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    RecordingInterrupted,
    ResourceDenied,
    Verb,
)
from reactive_desched.recording.reader import items_between, read_items
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.recorder import ClusterRecorder, RecorderBounds
from reactive_desched.recording.recording_file import write_file
from reactive_desched.recording.rows import RowWriter
from reactive_desched.recording.segment_file import SegmentFile
from reactive_desched.recording.segments import recording_paths
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import NODES, WATCHED_KINDS
from reactive_desched.telemetry.logs import logger
from reactive_desched.testing.builders import node, pod, pod_status
from tests.support.golden import Golden
from tests.support.recorded_cluster import (
    BOUNDS,
    WALL_S,
    Recorded,
    fail_on_damage,
    holding,
    virtual,
)


def size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


changed_pods = st.builds(
    pod,
    st.sampled_from(["p1", "p2", "p3"]),
    on=st.sampled_from([None, "n1", "n2"]),
    labels=st.sampled_from([{}, {"a": "b"}]),
    status=st.sampled_from([pod_status(), pod_status("Failed")]),
    version=st.integers(0, 3),
)
changed_nodes = st.builds(
    node,
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(["a:NoSchedule", "b:NoSchedule"]),
    unschedulable=st.booleans(),
    version=st.integers(0, 3),
).map(
    lambda each: replace(
        each,
        taints_added_s=(each.resource_version,),
        ready_since_s=5,
        conditions=(("KernelDeadlock", str(each.unschedulable)),),
        conditions_changed_s=(each.resource_version,),
    )
)
samples = st.builds(
    NodeUsage,
    st.just("KubernetesMetrics"),
    st.sampled_from(["n1", "n2"]),
    st.just({"cpu": 4}),
    st.integers(0, 5).map(float),
)
steps = st.tuples(st.booleans(), changed_pods | changed_nodes | samples, st.integers(0, 200))


@given(st.lists(steps, min_size=3, max_size=20))
def test_the_state_is_read_back_as_it_was_at_every_moment(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[bool, Any, int]]
) -> None:
    seen: list[tuple[float, dict[str, Any], dict[str, NodeUsage]]] = []

    async def play(recorded: Recorded) -> None:
        state = recorded.state
        for is_removed, obj, wait_s in changes:
            (state.remove if is_removed else state.upsert)(obj)
            await anyio.sleep(wait_s + 1)
            stored = {each.key: each for each in state.store(NodeUsage)}
            seen.append((recorded.wall() - 0.5, recorded.objects(), stored))
        await anyio.sleep(60)

    short = replace(BOUNDS, segment_age_s=150.0)
    recorded = virtual(play, tmp_path_factory.mktemp("recording"), short)

    for wall_s, objects, stored in seen:
        found = recorded.read(wall_s)
        assert without_versions(holding(found)) == without_versions(objects)
        assert found.samples == stored


@given(st.lists(steps, min_size=3, max_size=20), st.data())
def test_what_came_after_a_moment_leads_to_the_state_of_each_later_one(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[bool, Any, int]],
    data: st.DataObject,
) -> None:
    seen: list[tuple[float, dict[str, Any]]] = []

    async def play(recorded: Recorded) -> None:
        state = recorded.state
        for is_removed, obj, wait_s in changes:
            (state.remove if is_removed else state.upsert)(obj)
            await anyio.sleep(wait_s + 1)
            seen.append((recorded.wall() - 0.5, recorded.objects()))
        await anyio.sleep(60)

    short = replace(BOUNDS, segment_age_s=150.0)
    recorded = virtual(play, tmp_path_factory.mktemp("recording"), short)
    first = data.draw(st.integers(0, len(seen) - 1))

    state, period = RecordedState(), (seen[first][0], seen[-1][0])
    later = items_between(recorded.folder, *period, fail_on_damage)
    for wall_s, objects in seen[first:]:
        for item in later:
            if item.at.wall_s > wall_s:
                later = chain((item,), later)
                break
            state.apply(item)
        assert without_versions(holding(state)) == without_versions(objects)


@pytest.mark.parametrize("resource", WATCHED_KINDS)
def test_an_object_of_every_kind_that_comes_and_goes_is_read_back(
    resource: str, tmp_path: Path
) -> None:
    raw = {"metadata": {"name": "one", "namespace": "shop", "uid": "u1"}}
    obj = make_codecs(InternTables())[resource].decode_object(msgspec.json.encode(raw))
    seen: list[tuple[float, dict[str, Any]]] = []

    async def play(recorded: Recorded) -> None:
        for change in (recorded.state.upsert, recorded.state.remove):
            await anyio.sleep(30)  # the first picture has nothing
            change(obj)
            await anyio.sleep(30)
            seen.append((recorded.wall(), recorded.objects()))
        await anyio.sleep(60)

    recorded = virtual(play, tmp_path)

    assert [holding(recorded.read(wall_s)) for wall_s, _ in seen] == [each for _, each in seen]
    assert seen[0][1] != seen[1][1]


def without_versions(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return objects without what a heartbeat alone alters, which is not recorded."""
    return {
        name: {key: replace(each, resource_version=0) for key, each in of_kind.items()}
        for name, of_kind in found.items()
    }


def test_a_moment_before_the_recording_or_long_after_it_is_not_recorded(tmp_path: Path) -> None:
    async def play(recorded: Recorded) -> None:
        recorded.state.upsert(node("n1"))
        await anyio.sleep(100)

    recorded = virtual(play, tmp_path)

    for moment in (WALL_S - 1, WALL_S + 1000):
        with pytest.raises(NotRecorded):
            recorded.read(moment)


@pytest.mark.parametrize("since_s", [WALL_S - 5, WALL_S + 1, WALL_S + 2, WALL_S + 3])
def test_a_period_that_begins_within_the_first_picture_has_that_picture(
    since_s: float, tmp_path: Path
) -> None:
    first = [
        PictureBegun(Instant(WALL_S, 0.0)),
        ObjectFound(Instant(WALL_S, 0.0), NODES, node("n1")),
        ObjectFound(Instant(WALL_S + 2, 2.0), NODES, node("n2")),
        PictureEnded(Instant(WALL_S + 2.5, 2.5), {NODES: 2}),
    ]
    later = ObjectChanged(Instant(WALL_S + 9, 9.0), NODES, Verb.ADDED, node("n3"))
    write_file([*first, later], tmp_path / "short")
    state = RecordedState()

    for item in items_between(tmp_path / "short", since_s, WALL_S + 60, fail_on_damage):
        state.apply(item)

    assert (state.missing, sorted(holding(state)[NODES])) == ("", ["n1", "n2", "n3"])


def test_a_change_that_alters_nothing_but_the_version_is_not_recorded(tmp_path: Path) -> None:
    async def play(recorded: Recorded) -> None:
        await anyio.sleep(10)
        recorded.state.upsert(pod("a", version=1))
        recorded.state.upsert(pod("a", version=2))
        await anyio.sleep(10)

    assert virtual(play, tmp_path).recorder.recorded == 1


def test_what_holds_besides_the_objects_stands_in_the_picture_and_where_it_changes(
    tmp_path: Path,
) -> None:
    async def play(recorded: Recorded) -> None:
        recorded.pauses["manual"] = "ann: a change"
        await anyio.sleep(20)
        recorded.pauses["manual"] = ""
        await anyio.sleep(20)

    recorded = virtual(play, tmp_path)

    assert recorded.read(WALL_S + 10).pauses == {"manual": "ann: a change"}
    assert recorded.read(WALL_S + 30).pauses == {"manual": ""}


def test_a_resource_that_the_api_server_denies_is_recorded(tmp_path: Path) -> None:
    async def play(recorded: Recorded) -> None:
        recorded.state.set_readable("csinodes", readable=False)
        await anyio.sleep(20)
        recorded.state.upsert(pod("a"))
        recorded.state.set_readable("csinodes", readable=True)
        recorded.state.set_readable("csinodes", readable=True)
        recorded.state.set_readable("leases", readable=False)
        await anyio.sleep(0.01)
        recorded.state.upsert(pod("b"))
        await anyio.sleep(20)

    recorded = virtual(play, tmp_path)

    assert recorded.read(WALL_S + 10).denied == {"csinodes"}
    assert recorded.read(WALL_S + 30).denied == {"leases"}
    found = read_items(recording_paths(recorded.folder), fail_on_damage)
    seen = [
        item.resource if isinstance(item, ResourceDenied) else item.obj.key
        for item in found
        if isinstance(item, ResourceDenied | ObjectChanged)
    ]
    assert seen == [pod("a").key, "csinodes", "leases", pod("b").key], "in their order"


def test_a_disk_that_takes_nothing_interrupts_the_recording_which_begins_again(
    tmp_path: Path,
) -> None:
    async def play(recorded: Recorded) -> None:
        recorded.state.upsert(pod("a"))
        await anyio.sleep(20)
        recorded.before_write = full
        recorded.state.upsert(pod("b"))
        await anyio.sleep(20)
        faults.append(recorded.recorder.fault)
        recorded.before_write = anyio.lowlevel.checkpoint
        recorded.state.upsert(pod("c"))
        await anyio.sleep(70)
        faults.append(recorded.recorder.fault)

    async def full() -> None:
        raise OSError(28, "No space left on device")

    faults: list[str] = []
    recorded = virtual(play, tmp_path)

    assert faults == [f"{tmp_path}: No space left on device", ""]
    assert set(recorded.read(WALL_S + 15).objects["pods"]) == {"a"}
    assert set(recorded.read(WALL_S + 105).objects["pods"]) == {"a", "b", "c"}
    with pytest.raises(NotRecorded):
        recorded.read(WALL_S + 75)


def test_a_disk_that_hangs_interrupts_the_recording_and_holds_nothing(
    tmp_path: Path, golden: Golden
) -> None:
    async def play(recorded: Recorded) -> None:
        await anyio.sleep(20)
        recorded.before_write = anyio.sleep_forever
        recorded.state.upsert(pod("a"))
        await anyio.sleep(60)
        faults.append(recorded.recorder.fault)

    faults: list[str] = []
    virtual(play, tmp_path)

    assert faults == [golden()]


def test_a_disk_that_hangs_before_the_first_segment_ends_nothing_but_the_recording(
    tmp_path: Path, golden: Golden
) -> None:
    async def play(recorded: Recorded) -> None:
        recorded.before_write = anyio.sleep_forever
        await anyio.sleep(30)
        faults.append(recorded.recorder.fault)
        recorded.before_write = anyio.lowlevel.checkpoint
        await anyio.sleep(70)
        faults.append(recorded.recorder.fault)

    faults: list[str] = []
    virtual(play, tmp_path)

    assert faults == [golden(), ""]


def test_a_process_that_does_not_run_while_the_disk_writes_records_on(tmp_path: Path) -> None:
    async def starve() -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        clock.jump(300)
        await anyio.lowlevel.checkpoint()

    async def play(recorded: Recorded) -> None:
        await anyio.sleep(20)
        recorded.before_write = starve
        recorded.state.upsert(pod("a"))
        await anyio.sleep(900)
        recorded.before_write = anyio.lowlevel.checkpoint
        recorded.state.upsert(pod("b"))
        await anyio.sleep(20)

    recorded = virtual(play, tmp_path)

    assert not recorded.recorder.interruptions
    items = list(read_items(recording_paths(tmp_path), fail_on_damage))
    assert {each.obj.key for each in items if isinstance(each, ObjectChanged)} == {
        pod("a").key,
        pod("b").key,
    }


def test_a_disk_that_fails_at_the_end_ends_nothing_but_the_recording(tmp_path: Path) -> None:
    async def play(recorded: Recorded) -> None:
        await anyio.sleep(20)
        recorded.before_write = full

    async def full() -> None:
        raise OSError(5, "Input/output error")

    assert virtual(play, tmp_path).recorder.fault


def test_a_kind_that_cannot_be_written_interrupts_the_recording_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(recorded: Recorded) -> None:
        await anyio.sleep(20)
        monkeypatch.setattr(RowWriter, "add_object", raise_error)
        recorded.state.upsert(pod("a"))
        await anyio.sleep(20)
        faults.append(recorded.recorder.fault)
        recorded.state.upsert(pod("b"))

    def raise_error(*_: object) -> None:
        raise ValueError("unwritable")

    faults: list[str] = []
    virtual(play, tmp_path)

    assert faults == ["ValueError: unwritable"]


def test_changes_that_come_faster_than_they_are_recorded_interrupt_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    async def play(recorded: Recorded) -> None:
        await anyio.sleep(20)
        for number in range(10):
            recorded.state.upsert(pod(f"p{number}"))
        await anyio.sleep(5)
        faults.append(recorded.recorder.fault)

    monkeypatch.setattr(recorder_module, "MAX_NOTES", 5)
    faults: list[str] = []
    recorded = virtual(play, tmp_path)

    assert faults == [golden()]
    items = list(read_items(recording_paths(tmp_path), fail_on_damage))
    assert any(isinstance(item, RecordingInterrupted) for item in items)
    with pytest.raises(NotRecorded):
        recorded.read(WALL_S + 24)


def test_the_oldest_segment_goes_first(tmp_path: Path) -> None:
    async def play(recorded: Recorded) -> None:
        for number in range(40):
            recorded.state.upsert(pod(f"p{number}", labels={"random": os.urandom(400).hex()}))
            await anyio.sleep(20)
        sizes.append(size_of(tmp_path))

    sizes: list[int] = []
    bounds = RecorderBounds(
        max_bytes=40_000, max_age_s=1e9, segment_bytes=2**20, segment_age_s=60.0
    )
    recorded = virtual(play, tmp_path, bounds)

    assert sizes[0] <= bounds.max_bytes
    assert not recorded.recorder.interruptions
    summary = summarize_recording(tmp_path)
    assert summary.first_s > WALL_S
    assert not summary.interruptions
    assert "p39" in recorded.read(WALL_S + 799).objects["pods"]


def test_what_is_left_of_a_full_disk_is_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(recorded: Recorded) -> None:
        await anyio.sleep(20)
        faults.append(recorded.recorder.fault)

    monkeypatch.setattr(segment_file, "SPARED_BYTES", 2**60)
    monkeypatch.setattr(os, "statvfs", lambda _: FullDisk())
    faults: list[str] = []
    virtual(play, tmp_path)

    assert "nearly full" in faults[0]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_records_into_is_left_to_it(
    tmp_path: Path, golden: Golden
) -> None:
    def of_process() -> SegmentFile:
        return SegmentFile(tmp_path, BOUNDS.max_bytes, BOUNDS.max_age_s, lambda _: 2**30)

    first, second = of_process(), of_process()
    at = Instant(WALL_S, 0.0)
    first.begin(at, is_continued=False)
    first.begin(at, is_continued=True)

    with pytest.raises(OSError, match="another process") as refused:
        second.begin(at, is_continued=False)

    assert refused.value.strerror == golden()
    assert len(segment_paths(tmp_path)) == 2
    first.close()
    second.begin(at, is_continued=False)
    assert len(segment_paths(tmp_path)) == 3
    second.close()


class FullDisk:
    """What statvfs says of a disk on which one block in a hundred is free."""

    f_blocks, f_frsize, f_bavail = 100, 4096, 1


@pytest.mark.anyio
async def test_a_thread_writes_the_recording(tmp_path: Path) -> None:
    state = ClusterState()
    state.upsert(pod("a"))
    picture_written = anyio.Event()

    def standing(at: Instant) -> Iterator[Item]:
        if not recorder.fault:  # it looks again once the picture is on the disk
            picture_written.set()
        return iter(())

    recorder = ClusterRecorder(
        state,
        tmp_path,
        BOUNDS,
        standing,
        moment=lambda: (anyio.current_time(), WALL_S),
        log=logger("test"),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        with anyio.fail_after(60):
            await picture_written.wait()
        tasks.cancel_scope.cancel()

    items = list(read_items(recording_paths(tmp_path), fail_on_damage))
    assert [type(item).__name__ for item in items] == [
        "PictureBegun",
        "ObjectFound",
        "PictureEnded",
        "RecordingInterrupted",
    ]
    assert isinstance(state.pods.get("a"), Pod)
