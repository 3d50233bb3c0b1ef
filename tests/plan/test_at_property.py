"""What is asked of a controller's cluster is answered later, with --at, as it was answered then."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from reactive_desched.app.node_overview import overview
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.pending import PendingList, PendingQuery
from reactive_desched.errors import NotRecorded
from reactive_desched.model.consolidation import EMPTY, EMPTYING, consolidation_of
from reactive_desched.model.objects import Node, Pod
from reactive_desched.plan.command import build_report
from reactive_desched.plan.controller_run import run_controller
from reactive_desched.plan.inputs import LookedAt, PlanOptions, look
from reactive_desched.plan.mode import RunBounds
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.recorded_moment import RecordedMoment, read_moment
from reactive_desched.plan.report import PlannedDecision
from reactive_desched.plan.snapshot import Snapshot, SnapshotBuilder
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import NothingChanged
from reactive_desched.replay.replaying import controller_at
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.text.times import format_timestamp
from reactive_desched.why.offline import explain
from tests.safety.story import SET_ACTIONS, STEADY, play_story
from tests.safety.world import World
from tests.support.quick_plans import seek_plans_briefly
from tests.support.recorded_cluster import holding
from tests.support.sim_world import workload

NEVER_AGAIN_S = 0.00037
"""Nothing else happens at a moment that is so much later than another."""


def cluster_of(controller: Controller) -> Snapshot:
    """Return what a list of everything would return that equals the controller's own state."""
    builder = SnapshotBuilder()
    for resource, kind in WATCHED_KINDS.items():
        for obj in controller.state.store(kind.record):
            builder.add(resource, obj)
    return builder.build()


def without_versions(objects: Iterable[Any]) -> list[Any]:  # objects of any kind
    """Return objects without what a heartbeat alone alters, which is not recorded."""
    return [replace(each, resource_version=0) for each in objects]


EVERYTHING = PendingQuery(all="true")


def waiting(found: PendingList) -> list[tuple[str, ...]]:
    """Return which findings wait, and what each waits for."""
    return sorted(
        (each.namespace, each.pod, each.plugin, each.gate, each.reason) for each in found.findings
    )


class Asked(msgspec.Struct):
    at: str
    decisions: tuple[PlannedDecision, ...]
    question: dict[str, str]
    why: object
    pods: Sequence[Pod]
    pending: list[tuple[str, ...]]
    status: dict[str, object]
    nodes: object


async def condition(
    controller: Controller, description: ControllerDescription
) -> dict[str, object]:
    """Return what `status` says of the controller itself: its state, brakes, moves and sizes."""
    return {
        "state": description.state().name,
        "hold": description.state().hold,
        "brakes": sorted(each.name for each in description.brake_states()),
        "moving": sorted(each.origin.pod_uid for each in controller.ledger),
        "size": controller.state.size(),
        "waiting": (await description.pending_summary()).total,
    }


async def ask(world: World, asked: list[Asked]) -> None:
    """Ask now, if what a controller sees is recorded.

    It is noted that the clock showed this time: where it is set back before anything else is
    recorded, nothing else says so.
    """
    await anyio.sleep(NEVER_AGAIN_S)
    life = world.life
    if life is None or life.cluster_recorder is None or life.cluster_recorder.fault:
        return
    now_s = round(world.wall_now(), 6)
    life.cluster_recorder.note(NothingChanged)
    snapshot = cluster_of(life.controller)
    result = run_controller(world.config, snapshot, now_s, RunBounds(), Progress())
    moment = datetime.fromtimestamp(now_s, UTC)
    looked_at = LookedAt(world.config, snapshot, moment, (), (), ())
    pod = world.rng.choice(snapshot.pods)
    question = {"pod": f"{pod.namespace}/{pod.name}"}
    why = explain(looked_at, question)
    at = format_timestamp(moment)
    pending = waiting(await life.pipeline.description.pending(EVERYTHING))
    status = await condition(life.controller, life.pipeline.description)
    nodes = await overview(life.controller, {})
    asked.append(Asked(at, result.decisions, question, why, snapshot.pods, pending, status, nodes))
    await anyio.sleep(NEVER_AGAIN_S)


@pytest.mark.parametrize("seed", range(8))
def test_a_moment_is_answered_later_as_it_was_then(seed: int, tmp_path: Path) -> None:
    asked: list[Asked] = []

    async def after_step(world: World) -> None:
        await ask(world, asked)

    play_story(
        Random(seed), tmp_path, steps=12, records=True, actions=STEADY, after_step=after_step
    )

    assert answered_again(asked, tmp_path) > 3


SETS_CALMLY = tuple(each for each in SET_ACTIONS if "clock" not in each)


def test_so_is_one_while_pods_move_as_sets(tmp_path: Path) -> None:
    asked: list[Asked] = []
    seen: set[str | None] = set()

    async def after_step(world: World) -> None:
        before = len(asked)
        await ask(world, asked)
        if world.life is not None and len(asked) > before:
            seen.update(map(consolidation_of, world.life.controller.state.store(Node)))

    play_story(
        Random(10), tmp_path, steps=20, records=True, actions=SETS_CALMLY, after_step=after_step
    )

    assert answered_again(asked, tmp_path) > 3
    assert seen >= {EMPTYING, EMPTY}


def make_pods(world: World, name: str, count: int, cpu: str) -> None:
    """Create a Deployment."""
    metadata, spec = {"name": name, "namespace": "jobs"}, workload(name, count, cpu=cpu)
    world.store.create("deployments", {"metadata": metadata, "spec": spec})


def test_so_is_one_at_which_room_is_made_for_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node has a pod that takes most of what is left there, and then a large one waits."""
    seek_plans_briefly(monkeypatch)
    asked: list[Asked] = []
    steps = count()

    async def after_step(world: World) -> None:
        match next(steps):
            case 0:
                make_pods(world, "filler", len(world.store.list("nodes")), "1500m")
                await anyio.sleep(30)
            case 1:
                make_pods(world, "big", 1, "3000m")
            case _:
                pass
        for _ in range(8):
            await anyio.sleep(1)
            if (
                world.life is not None
                and not asked
                and any(pod.status.nominated_node for pod in world.life.controller.state.store(Pod))
            ):
                await ask(world, asked)

    actions = ("wait", "wait", "taint", "untaint", "scale")
    play_story(Random(84), tmp_path, steps=5, records=True, actions=actions, after_step=after_step)

    assert any(pod.status.nominated_node for pod in asked[0].pods)
    assert answered_again(asked, tmp_path) == 1


def test_so_is_one_right_after_the_pause_file_changed_while_a_command_pauses_too(
    tmp_path: Path,
) -> None:
    asked: list[Asked] = []
    texts = iter(("", "maintenance", ""))

    async def after_step(world: World) -> None:
        if (text := next(texts, None)) is None:
            return
        world.pause()
        await anyio.sleep(10)
        world.write_pause_file(text)
        await ask(world, asked)

    play_story(Random(1), tmp_path, steps=3, records=True, actions=["wait"], after_step=after_step)

    assert answered_again(asked, tmp_path) == 3


@pytest.mark.parametrize("seed", range(3))
def test_so_is_one_about_which_the_time_of_day_was_set(seed: int, tmp_path: Path) -> None:
    asked: list[Asked] = []

    async def after_step(world: World) -> None:
        await ask(world, asked)

    play_story(
        Random(seed),
        tmp_path,
        steps=20,
        records=True,
        actions=(*STEADY, *["step_clock"] * 10),
        after_step=after_step,
    )
    once = [each for each in asked if shown(each, tmp_path) == 1]
    assert answered_again(once, tmp_path) > 3


def shown(asked: Asked, journal: Path) -> int:
    """Return how often the clock showed the time; 0 where a crash lost what was seen after it."""
    try:
        return read_moment(journal / RECORDING_FOLDER, at_s(asked)).shown
    except NotRecorded:
        return 0


def answered_again(asked: Sequence[Asked], journal: Path) -> int:
    """Ask with --at what was asked then, and compare; return how many answers there are."""
    answered = 0
    for then in asked:
        moment = read_moment(journal / RECORDING_FOLDER, at_s(then))
        if moment.recorded_s < moment.at_s:  # what a crash lost: the answer names it
            assert any("is not recorded" in note for note in moment.notes())
            continue
        options = PlanOptions(at=then.at, recording=str(journal))
        looked_at = replace(look(options, Progress()), past=(), ends=())
        assert without_versions(looked_at.snapshot.pods) == without_versions(then.pods)
        assert build_report(options, Progress()).decisions == then.decisions
        assert explain(looked_at, then.question) == then.why
        assert controller_of(moment, journal) == (then.pending, then.status, then.nodes)
        answered += 1
    return answered


def facts(moment: RecordedMoment) -> object:
    """Return what a recording has of a moment, without its damages."""
    state = moment.state
    held = {name: reason for name, reason in state.pauses.items() if reason}
    stands = state.samples, held, state.configuration, state.leads, state.denied
    objects = {
        name: {each.key: each for each in without_versions(of_kind.values())}
        for name, of_kind in holding(state).items()
    }
    return moment.recorded_s, moment.shown, moment.changed_s, objects, stands


def at_s(asked: Asked) -> float:
    return datetime.fromisoformat(asked.at).timestamp()


def controller_of(moment: RecordedMoment, journal: Path) -> tuple[object, object, object]:
    """Return the same of the controller as it was at a moment: what waits, status and nodes."""
    reached = controller_at(moment.path, moment.at_s, journal, plugin_registry())
    assert facts(reached.moment) == facts(moment), "the items before it are read once for both"
    run = reached.run
    description = ControllerDescription(run.controller, run.clock.monotonic, run.clock.wall)
    return (
        waiting(anyio.run(description.pending, EVERYTHING)),
        anyio.run(condition, run.controller, description),
        anyio.run(overview, run.controller, {}),
    )
