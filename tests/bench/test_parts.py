"""Saturation is found, a phase ends before the next, and every process does what it is asked."""

import hashlib
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.floor.bare import BareWatch
from bench.measure.live import RunningController
from bench.parts import failures, find_saturation
from bench.processes import Size, balance, controller, floor, load_server
from bench.wire import WATCH_HEAD, chunk
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import Damage, ObjectFound, PictureEnded
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.segments import ignore_damage, recording_paths

PODS = 600
SIZE = Size("test", 20, PODS, events=50, reactions=5, runs=1, syncs=1, ramp_s=0.1, outages=1)


def machine(controller_limit: float, server_limit: float = 1e9) -> Any:
    """Return a run that sends and requests as fast as these limits allow."""

    def react(pace: float) -> dict[str, Any]:
        sent = min(pace, server_limit)
        return {
            "sent_per_s": sent,
            "requests_per_s": min(sent, controller_limit),
            "unsettled": "",
        }

    return react


@pytest.mark.parametrize("limit", [30, 130, 200, 700, 1_234, 9_000])
def test_saturation_is_found_to_about_a_tenth(limit: float) -> None:
    found = find_saturation(machine(limit))

    assert limit * 0.85 < found["pace"] <= limit / 0.95
    assert found["limit"] == "controller"


def test_a_pace_that_fails_once_is_tried_again() -> None:
    tries = dict[float, int]()

    def react(pace: float) -> dict[str, Any]:
        tries[pace] = tries.get(pace, 0) + 1
        run: dict[str, Any] = machine(0 if tries[pace] == 1 else 700)(pace)
        return run

    assert 700 * 0.85 < find_saturation(react)["pace"] <= 700 / 0.95


def test_a_load_server_that_cannot_send_so_fast_is_named() -> None:
    found = find_saturation(machine(controller_limit=5_000, server_limit=1_000))

    assert found["limit"] == "load server"
    assert found["pace"] <= 1_000 / 0.95


def test_a_run_that_does_not_end_is_beyond_saturation() -> None:
    def react(pace: float) -> dict[str, Any]:
        run: dict[str, Any] = machine(1e9)(pace)
        return run | {"unsettled": "" if pace <= 300 else "3 evictions had no outcome after 30 s"}

    assert find_saturation(react)["pace"] <= 300


@pytest.mark.parametrize("portion", [1, 7, 100, 1 << 20])
def test_the_bare_watch_finds_every_line_wherever_the_system_cuts_the_stream(portion: int) -> None:
    lines = [b'{"n":%d}\n' % number * (number + 1) for number in range(20)]
    data, found = WATCH_HEAD + b"".join(map(chunk, lines)), list[bytes]()
    watch = BareWatch("/", lambda line: found.append(bytes(line)))

    for begin in range(0, len(data), portion):
        part = data[begin : begin + portion]
        watch.get_buffer(-1)[: len(part)] = part
        watch.buffer_updated(len(part))

    assert found == lines


def running(*, evicting: int = 0, due: bool = False, pods: tuple[str, ...] = ()) -> Any:
    due_s = 0.0 if due else None
    core = SimpleNamespace(
        evaluator=SimpleNamespace(next_due=lambda _: due_s),
        state=SimpleNamespace(pods=dict.fromkeys(pods, "a pod")),
    )
    return RunningController(
        pipeline=SimpleNamespace(controller=core),  # type: ignore[arg-type]  # as much as is read
        stamps=SimpleNamespace(evicting=evicting),  # type: ignore[arg-type]  # as above
        metrics=SimpleNamespace(journals=[]),  # type: ignore[arg-type]  # as above
        director=None,  # type: ignore[arg-type]  # not read
        target=None,  # type: ignore[arg-type]  # not read
        url="",
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("live", "reason"),
    [
        pytest.param(running(), "", id="nothing is left"),
        pytest.param(running(pods=("stays",)), "", id="another pod stays"),
        pytest.param(running(evicting=2), "2 evictions had no outcome", id="evictions"),
        pytest.param(running(due=True), "subjects were due", id="subjects"),
        pytest.param(running(pods=("a",)), "1 evicted pods were not gone", id="a pod"),
    ],
)
async def test_a_phase_ends_when_nothing_is_left_of_it(live: Any, reason: str) -> None:
    found = await live.settle(0.0, without=("a", "b"))

    assert found == (f"{reason} after 0 s" if reason else "")


def test_controller_and_floor_read_the_same_events_and_evict_the_same_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REACTIVE_DESCHED_BENCH_DATA", str(tmp_path / "data"))
    bound = {"script": "bound", "pace": 200, "count": 5}
    with (
        controller(SIZE, tmp_path / "journal") as ours,
        floor(SIZE, "--shape=bare") as bare,
        floor(SIZE, "--shape=requests") as evicting,
    ):
        assert ours.started["pods"] == bare.started["pods"] == PODS
        for process in (ours, bare):
            assert process.ask("events", script="status", count=50)["events"] == 50
        for process in (ours, evicting):
            for _ in range(2):
                run = process.ask("react", **bound)
                assert (run["evicted"], run["expected"], run.get("unsettled", "")) == (5, 5, "")
                assert run["change_to_request_us"]["n"] == 5


def test_a_controller_records_and_makes_pictures_when_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REACTIVE_DESCHED_BENCH_DATA", str(tmp_path / "data"))
    with controller(SIZE, tmp_path / "journal", "--recorded") as ours:
        picture = ours.ask("picture")
        assert picture["bytes"] > 0
        assert picture["outside_cpu_s"] >= 0
        assert ours.ask("memory")["rss_mb"] > 0
        deadline = time.monotonic() + 30
        while not has_picture(tmp_path / "journal" / RECORDING_FOLDER):
            assert time.monotonic() < deadline, "its own recording has no whole picture"
            time.sleep(0.1)

    paths = recording_paths(tmp_path / "journal" / RECORDING_FOLDER)
    found = [item for item in read_items(paths, raise_damage) if isinstance(item, ObjectFound)]
    assert len([item for item in found if item.resource == "pods"]) == PODS


def has_picture(folder: Path) -> bool:
    """Say whether a recording that is being written has a whole picture."""
    items = read_items(recording_paths(folder), ignore_damage)
    return any(isinstance(item, PictureEnded) for item in items)


def raise_damage(damage: Damage) -> None:
    raise AssertionError(str(damage))


@pytest.mark.parametrize("shape", ["recorded-requests", "recorded-requests-in-thread"])
def test_a_floor_that_records_has_three_chained_lines_for_every_eviction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    monkeypatch.setenv("REACTIVE_DESCHED_BENCH_DATA", str(tmp_path / "data"))
    file = tmp_path / "record" / "lines"
    with floor(SIZE, f"--shape={shape}", f"--journal={file}") as evicting:
        run = evicting.ask("react", script="bound", pace=200, count=5)

    lines = file.read_bytes().splitlines()
    records = [json.loads(line) for line in lines]
    assert run["evicted"] == 5
    assert [record["type"] for record in records] == ["finding", "decision", "request"] * 5
    digests = [hashlib.sha256(line).hexdigest() for line in lines]
    assert [record["prev"] for record in records] == ["0" * 64, *digests[:-1]]


def test_the_generated_cluster_is_balanced_by_every_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods, nodes = 6_000, 200
    monkeypatch.setenv("REACTIVE_DESCHED_BENCH_DATA", str(tmp_path / "data"))
    with balance(replace(SIZE, pods=pods, nodes=nodes)) as process:
        measured = process.started

    assert (measured["pods"], measured["naive"]["pods"]) == (pods, pods)
    assert list(failures({"size": {"pods": pods}, "balance": measured})) == []
    assert measured["costs"]["all"]["pods"]["apply_us"] > 0


def test_a_controller_evicts_again_after_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REACTIVE_DESCHED_BENCH_DATA", str(tmp_path / "data"))
    with (
        load_server(SIZE) as server,
        controller(SIZE, tmp_path / "journal", server=server) as ours,
    ):
        back_ns = server.ask("outage", seconds=0.5)["back_ns"]
        run = ours.ask("resume", back_ns=back_ns)

    assert run["back_to_resumed_s"] > 0
    assert (run["evicted"], run["expected"]) == (5, 5)
