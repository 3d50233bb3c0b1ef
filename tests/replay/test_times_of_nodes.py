"""A replay that begins in the midst of a process counts from when that process saw its nodes.

So it does with what else the process had begun to count before its recording.
"""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.eviction.recorder import NullRecorder
from reactive_desched.model.brakes import SavedBrakes, SavedStorm
from reactive_desched.model.evaluation import Intent
from reactive_desched.model.observer import Observer
from reactive_desched.model.taints import Taint
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.brakes import BrakeSettings, StormBrakeSettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.recording.items import (
    BrakesHeld,
    Instant,
    Item,
    NodesClosed,
    Worked,
)
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.segments import recording_paths
from reactive_desched.replay.driven_controller import DrivenController, Picture, RecordedClock
from reactive_desched.replay.lives import lives
from reactive_desched.state.resources import NODES
from reactive_desched.testing.builders import node
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.configurations import make_configuration, make_profile_of
from tests.support.recorded_cluster import BOUNDS, Recorded, fail_on_damage, virtual


class NothingElse:
    """Surroundings in which nothing happens."""

    def take(self, item: Item) -> bool:
        """Take no notice."""
        return False

    def send(self, intent: Intent) -> None:
        """Take no notice."""

    def next_due(self) -> float | None:
        """Return that nothing is due."""
        return None

    def advance(self) -> None:
        """Let nothing happen."""


async def play(recorded: Recorded) -> None:
    """Change a node at 10 s, 20 s and 30 s, and go on into a second segment."""
    sick, well = (("KernelDeadlock", "True"),), (("KernelDeadlock", "False"),)
    await anyio.sleep(10)
    recorded.state.upsert(replace(node("n1"), conditions=sick))
    await anyio.sleep(10)
    changed = node("n1", "gpu:NoSchedule", labels={"disk": "ssd"}, ready="False")
    recorded.state.upsert(replace(changed, conditions=well))
    await anyio.sleep(10)
    recorded.state.upsert(replace(changed, ready_status="True", conditions=sick))
    for number in range(30):
        await anyio.sleep(10)
        recorded.state.upsert(node(f"other-{number}"))


def test_the_times_of_a_node_are_those_of_the_recorded_process(tmp_path: Path) -> None:
    recorded = virtual(play, tmp_path, replace(BOUNDS, segment_age_s=150.0))
    later = recording_paths(recorded.folder)[1:]
    life = next(lives(read_items(later, fail_on_damage)))
    driven = DrivenController(
        make_configuration(()),
        RecordedClock(life.began),
        NullRecorder(),
        Observer(),
        Picture(life.picture.denied, life.objects, life.samples, life.nodes_seen),
        lambda *_: NothingElse(),
    )

    assert life.begins_in_midst
    seen = driven.controller.state.nodes.standing.seen("n1")
    assert seen is not None
    assert seen.conditions == {"KernelDeadlock": ((10, "True"), (20, "False"), (30, "True"))}
    assert seen.taints == {Taint("gpu", "NoSchedule"): 20}
    assert seen.labels == {"disk": (20, None)}
    assert (seen.known_since, seen.created, seen.ready_since) == (10, 10, 30)


@pytest.mark.parametrize(
    "saved", [SavedBrakes(storm="8 pods"), SavedBrakes(storms=(SavedStorm("shop", "8 pods"),))]
)
@pytest.mark.parametrize("ends_s", [77.5, None])
def test_a_storm_of_a_picture_ends_when_that_of_the_recorded_process_did(
    ends_s: float | None, saved: SavedBrakes
) -> None:
    """Its quiet time began before the recording, or the process had it from an earlier one."""
    began, ends = Instant(1e9, 50.0), () if ends_s is None else (ends_s,)
    driven = DrivenController(
        make_configuration((), brakes=BrakeSettings()),
        RecordedClock(began),
        NullRecorder(),
        Observer(),
        Picture((), {}, (), (), (BrakesHeld(began, saved, "", ends),)),
        lambda *_: NothingElse(),
    )
    pauses = driven.controller.pauses
    due_s = ends_s or 50.0 + (StormBrakeSettings().release_after_s or 0.0)

    driven.pass_to(due_s - 0.001)
    assert pauses.storm_ends == (due_s,)
    driven.pass_to(due_s)
    assert not pauses.storm_ends


def test_nodes_that_closed_before_a_picture_close_in_the_replay() -> None:
    began = Instant(1e9, 50.0)
    driven = DrivenController(
        make_configuration(()),
        RecordedClock(began),
        NullRecorder(),
        Observer(),
        Picture((), {}, ()),
        lambda *_: NothingElse(),
    )
    driven.start((NodesClosed(began, (("n1", 20.0), ("n2", 45.0))),))

    closings = driven.controller.state.nodes.closings
    assert list(closings.ages_s()) == [5.0, 30.0]


@pytest.mark.parametrize(("early_s", "evaluations"), [(0.0007, 1), (0.0015, 0)])
def test_a_slice_that_came_a_tick_before_its_timer_evaluates_what_was_due(
    early_s: float, evaluations: int
) -> None:
    """Times are rounded on their way into a recording, and timers ring on whole milliseconds."""
    began = Instant(1e9, 50.0)
    taints = plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs)
    profile = make_profile_of("p", (taints,), DefaultEvictorArgs())
    driven = DrivenController(
        make_configuration((profile,), debounce=DebounceConfig(1.0, 10.0)),
        RecordedClock(began),
        NullRecorder(),
        Observer(),
        Picture((), {NODES: {"n1": node("n1")}}, ()),
        lambda *_: NothingElse(),
    )
    driven.start(())
    controller = driven.controller
    driven.pass_to(60.0004)
    controller.apply(controller.state.upsert(node("n1", "gpu:NoSchedule")))
    before, due_s = controller.evaluator.evaluations, controller.next_due(60.0004)
    assert due_s is not None

    driven.take_in_turn(Worked(Instant(1e9 + 11, due_s - early_s)))

    assert controller.evaluator.evaluations - before == evaluations
