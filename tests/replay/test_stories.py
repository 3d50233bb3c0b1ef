"""A story that a controller recorded is decided the same again, and not by another program.

`python -m tests.safety` has every story of its seeds decided again, restarts and crashes included:
here is what it does not play.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.controller.asked_evaluations import AskedEvaluation
from reactive_desched.controller.controller import Controller
from reactive_desched.model.evaluation import EvictionResult
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.recording import recorder
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import (
    Item,
    NodeSeen,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
)
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.recording_file import write_file
from reactive_desched.recording.segments import ignore_damage, recording_paths
from reactive_desched.replay.replaying import ReplayOptions, ReplayReport, replay_recording
from tests.safety import story
from tests.safety.__main__ import replayed
from tests.safety.mutations import mutated
from tests.safety.story import ACTIONS, UNBROKEN, play_story
from tests.safety.world import World

ENABLED = "enabled: [RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity]"


def play(seed: int, folder: Path, steps: int = 15) -> ReplayReport:
    play_story(Random(seed), folder, steps=steps, records=True, actions=UNBROKEN)
    return replayed(folder)


def expect_the_same(report: ReplayReport) -> None:
    assert report.equal > 3
    assert report.differences == ()
    assert (report.not_compared, report.damages) == ((), ())


def shuffled(items: Iterable[Item], rng: Random) -> Iterator[Item]:
    """Yield items with the objects of each picture in another order.

    What changed while the picture was made stays behind the objects that it stood behind.
    """
    for _, run in groupby(items, key=lambda item: isinstance(item, ObjectFound | NodeSeen)):
        there = list(run)
        found = [each for each in there if isinstance(each, ObjectFound)]
        rest = iter(rng.sample(found, len(found)))
        for item in there:
            yield replace(next(rest), at=item.at) if isinstance(item, ObjectFound) else item


@pytest.mark.parametrize("seed", [9, 48, 105])
def test_the_order_of_the_objects_in_a_picture_decides_nothing(seed: int, tmp_path: Path) -> None:
    play_story(Random(seed), tmp_path, steps=40, records=True)
    whole = replayed(tmp_path)
    items = list(read_items(recording_paths(tmp_path / RECORDING_FOLDER), ignore_damage))
    for number in range(2):
        file = tmp_path / f"{number}.rdrec"
        write_file(shuffled(items, Random(number)), file)
        options = ReplayOptions(recording=file, journal=tmp_path)
        report = replay_recording(options, plugin_registry())

        assert report.differences == ()
        assert report.equal == whole.equal > 3


def test_what_persons_ask_for_is_evaluated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float]] = []
    evaluate = Controller.evaluate

    def note(self: Controller, *arguments: Any) -> AskedEvaluation:
        found = evaluate(self, *arguments)
        asked.append((str(found.scope), round(found.asked_at, 3)))
        return found

    monkeypatch.setattr(Controller, "evaluate", note)
    actions = (*UNBROKEN, *("evaluate",) * len(UNBROKEN))
    play_story(Random(301), tmp_path, steps=30, records=True, actions=actions)
    there = list(asked)
    asked.clear()

    expect_the_same(replayed(tmp_path))

    assert len(there) > 5
    assert asked == there


@pytest.mark.parametrize("seed", range(400, 403))
def test_what_is_observed_beside_what_is_evicted_is_decided_the_same_again(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = story.policy_text

    def with_a_plugin_that_observes(rng: Random) -> str:
        plugins = "{RemovePodsViolatingNodeTaints: {mode: observe}}"
        text = written(rng).replace("enabled: [RemovePodsViolatingNodeTaints]", ENABLED)
        return f"{text}profiles: {{safety: {{plugins: {plugins}}}}}\n"

    observed: list[str] = []
    settle = Controller.settle

    def note(self: Controller, result: EvictionResult) -> None:
        if result.intent.is_observed:
            observed.append(result.outcome.result)
        settle(self, result)

    monkeypatch.setattr(story, "policy_text", with_a_plugin_that_observes)
    monkeypatch.setattr(Controller, "settle", note)
    play_story(Random(seed), tmp_path, steps=25, records=True, actions=UNBROKEN)
    there = list(observed)
    observed.clear()

    expect_the_same(replayed(tmp_path))

    assert "dry_run" in there
    assert observed == there


SICK = """\
  - name: RemovePodsViolatingNodeConditions
    args: {conditions: [{type: KernelDeadlock, for: 9s, lapse: 20s}]}
  plugins:
"""


@pytest.mark.parametrize("seed", [602, 604, 608])
def test_conditions_that_come_and_go_are_decided_the_same_again(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = story.policy_text
    settle = Controller.settle
    left: list[str] = []

    def with_conditions(rng: Random) -> str:
        both = "enabled: [RemovePodsViolatingNodeConditions, RemovePodsViolatingNodeTaints"
        text = written(rng).replace("  plugins:\n", SICK)
        text = text.replace("{includePref", "{includedTaints: [none], includePref")
        return text.replace("enabled: [RemovePodsViolatingNodeTaints", both)

    def note(self: Controller, result: EvictionResult) -> None:
        left.append(result.intent.plugin)
        settle(self, result)

    flips = Random(seed)

    async def flip(world: World) -> None:
        for stored in world.store.list("nodes"):
            is_sick = bool(stored["spec"].get("taints")) and flips.random() < 0.8
            report(world, stored["metadata"]["name"], str(is_sick))
        await anyio.sleep(flips.choice([1, 4, 9]))

    monkeypatch.setattr(story, "policy_text", with_conditions)
    monkeypatch.setattr(Controller, "settle", note)
    rng, actions = Random(seed), UNBROKEN
    play_story(rng, tmp_path, steps=30, records=True, actions=actions, after_step=flip)

    expect_the_same(replayed(tmp_path))
    assert "RemovePodsViolatingNodeConditions" in left


def report(world: World, name: str, status: str) -> None:
    """Give a node the condition with a status."""

    def change(stored: Any) -> Any:
        others = [c for c in stored["status"]["conditions"] if c["type"] != "KernelDeadlock"]
        conditions = [*others, {"type": "KernelDeadlock", "status": status}]
        return {**stored, "status": {**stored["status"], "conditions": conditions}}

    world.store.modify("nodes", "", name, change, subresource="status")


@pytest.mark.parametrize("seed", range(500, 502))
def test_what_persons_approve_is_decided_the_same_again(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = story.policy_text
    monkeypatch.setattr(story, "policy_text", lambda rng: f"{written(rng)}mode: propose\n")
    approved = 0

    async def approve(world: World) -> None:
        nonlocal approved
        approved += world.approve_everything()

    rng, actions = Random(seed), UNBROKEN
    world = play_story(rng, tmp_path, steps=30, records=True, actions=actions, after_step=approve)
    report = replayed(tmp_path)

    assert report.differences == ()
    assert (report.not_compared, report.damages) == ((), ())
    assert approved > 0
    assert world.referee.evictions


@pytest.mark.parametrize("seed", range(200, 204))
def test_a_process_that_had_one_list_after_the_other_is_decided_the_same_again(
    seed: int, tmp_path: Path
) -> None:
    rng = Random(seed)
    play_story(rng, tmp_path, steps=8, records=True, lists_in_turn=True, actions=UNBROKEN)
    report = replayed(tmp_path)

    assert report.equal > 2
    assert report.differences == ()


@pytest.mark.parametrize("lists_in_turn", [False, True])
@pytest.mark.parametrize("seed", [30, 52, 57])
def test_what_changes_while_the_first_picture_is_written_is_decided_the_same_again(
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    lists_in_turn: bool,
) -> None:
    """It takes a while where the cluster is large: here each object has a slice of its own."""
    slices = {"_SLICE_S": 0.0, "_NOTES_PER_LOOK": 1, "_PAUSE_S": 0.3}
    for name, value in slices.items():
        monkeypatch.setattr(recorder, name, value)
    how: dict[str, Any] = {"records": True, "actions": UNBROKEN, "lists_in_turn": lists_in_turn}
    play_story(Random(seed), tmp_path, steps=15, **how)

    expect_the_same(replayed(tmp_path))
    assert changes_in_first_pictures(tmp_path) > 20


def changes_in_first_pictures(folder: Path) -> int:
    """Count the changes that stand within pictures which continue nothing."""
    changes, is_in_one = 0, False
    for item in read_items(recording_paths(folder / RECORDING_FOLDER), ignore_damage):
        if isinstance(item, PictureBegun):
            is_in_one = not item.is_continued
        elif isinstance(item, PictureEnded):
            is_in_one = False
        changes += is_in_one and isinstance(item, ObjectChanged)
    return changes


@pytest.mark.parametrize(("seed", "takes_over"), [(1001, False), (2, True), (12, True)])
def test_what_a_busy_machine_has_late_is_decided_the_same_again(
    seed: int,
    takes_over: bool,  # noqa: FBT001 -- what is compared
    tmp_path: Path,
) -> None:
    how: dict[str, Any] = {"busy_s": 0.05, "takes_over": takes_over}
    play_story(Random(seed), tmp_path, steps=15, records=True, actions=UNBROKEN, **how)

    expect_the_same(replayed(tmp_path))


@pytest.mark.parametrize("seed", [1, 5])
def test_a_process_that_starves_between_any_two_looks_at_a_clock_decides_the_same_again(
    seed: int, tmp_path: Path
) -> None:
    play_story(Random(seed), tmp_path, steps=40, records=True, actions=UNBROKEN, starves_s=30)
    report = replayed(tmp_path)

    assert report.equal > 3
    assert report.differences == ()
    assert (report.not_compared, report.damages) == ((), ())


@pytest.mark.parametrize(("seed", "steps"), [(2001, 20), (5, 80), (53, 80)])
def test_so_does_one_that_ends_and_begins_again_meanwhile(
    seed: int, steps: int, tmp_path: Path
) -> None:
    play_story(Random(seed), tmp_path, steps=steps, records=True, actions=ACTIONS, starves_s=30)
    report = replayed(tmp_path)

    assert report.differences == ()
    assert report.damages == ()


def test_a_recording_that_begins_in_the_midst_of_a_process_is_compared_later(
    tmp_path: Path,
) -> None:
    play_story(Random(1), tmp_path, steps=60, records=True, actions=UNBROKEN)
    for segment in sorted((tmp_path / "recording").glob("*.rdrec"))[:2]:
        segment.unlink()
    report = replayed(tmp_path)

    assert report.equal > 10
    assert len(report.differences) * 20 <= report.equal  # what it had in memory is not recorded
    (text,) = report.not_compared
    assert "midst of a process" in text


@pytest.mark.parametrize(
    ("rules", "seed"),
    [
        (["guard SafeToEvict"], 0),
        (["rate per plugin", "in flight"], 2),
        (["moving per namespace"], 9),
        (["zone brake"], 17),
    ],
)
def test_a_program_without_a_rule_decides_otherwise(
    rules: list[str], seed: int, tmp_path: Path
) -> None:
    expect_the_same(play(seed, tmp_path))

    for rule in rules:
        with mutated(rule):
            report = replayed(tmp_path)
        assert report.differences, rule
