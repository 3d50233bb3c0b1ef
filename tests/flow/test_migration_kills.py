"""The process is killed before and after each single request of a migration job's life.

Each story is told once without a kill, which counts its requests; then once for each of them, with
the process killed while that request is on its way, and once more while its answer is.
"""

from typing import Final

import anyio
import pytest
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.migration_jobs import ENDED, PLACEHOLDER_OF, Mode, Phase
from reactive_desched.model.objects import Pod, PodSpec
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.migration import MigrationJobSettings, PlaceholderSettings
from reactive_desched.testing.builders import node, pod
from tests.support.migrating import EFFECT_TIMEOUT_S, JobServer, MigratingController, job_on

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NODES = [node("n1", "gpu:NoSchedule"), node("n2"), node("n3")]
LIFE_S: Final = 300 + 300 + EFFECT_TIMEOUT_S + 60
"""A job's time to live, how long it is kept afterwards, and some more."""


class Way(Struct, frozen=True):
    """How pods are moved, and some of the requests that one move takes."""

    settings: MigrationJobSettings
    spec: PodSpec
    requests: set[str]


WAYS: Final = {
    "directly": Way(
        MigrationJobSettings(), PodSpec(), {"PassArbitration", "SetStatus", "Eviction"}
    ),
    "placeholder": Way(
        MigrationJobSettings(
            default_job_mode=Mode.RESERVATION_FIRST, placeholder=PlaceholderSettings()
        ),
        PodSpec(),
        {"CreatePlaceholder", "Eviction", "DeletePlaceholder"},
    ),
    "Reservation": Way(
        MigrationJobSettings(
            default_job_mode=Mode.RESERVATION_FIRST, scheduler_names=("koord-scheduler",)
        ),
        PodSpec(scheduler_name="koord-scheduler"),
        {"CreateReservation", "Eviction"},
    ),
}


class Kill:
    """Stops the request that passes a point of a story, so that its process can be killed there."""

    def __init__(self, at: int | None) -> None:
        self.points: list[str] = []
        self.is_reached = anyio.Event()
        self._at = at

    async def __call__(self, point: str) -> None:
        """Take note of a point; the one that is meant is never left."""
        self.points.append(point)
        if self._at == len(self.points) - 1:
            self.is_reached.set()
            await anyio.sleep_forever()


@pytest.mark.parametrize("made_by", ["a person", "a plugin"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_kill_before_or_after_any_request_leaves_the_move_to_the_next_process(
    way: Way, made_by: str
) -> None:
    story, faults = await _tell(way, made_by, None)
    assert not faults
    assert way.requests <= {point.split()[-1] for point in story}

    wrong = {}
    for at, point in enumerate(story):
        _, faults = await _tell(way, made_by, at)
        if faults:
            wrong[f"{at}: {point}"] = faults
    assert not wrong


async def _tell(way: Way, made_by: str, kill_at: int | None) -> tuple[list[str], list[str]]:
    """Move one pod, kill the process at one point, let the next one run; return what is wrong."""
    server = JobServer()
    server.replaces = True
    web = [replace(pod(f"web-{number}", on=f"n{number + 1}"), spec=way.spec) for number in range(3)]
    server.pods = {each.uid: each for each in web}
    server.on_request = kill = Kill(kill_at)
    plugins = (NodeTaintsPlugin(NodeTaintsArgs()),) if made_by == "a plugin" else ()
    first = MigratingController(server, way.settings, *plugins)
    async with first.running(*NODES):
        if not plugins:
            first.fed.deliver(server.put(job_on(web[0], "by-hand")))
        with anyio.move_on_after(LIFE_S):
            await kill.is_reached.wait()
        server.on_request = Kill(None)
    past, pending = _evictions_of(first)
    second = MigratingController(server, way.settings, *plugins)
    async with second.running(*NODES, past=past, pending=pending):
        await anyio.sleep(LIFE_S)
    return kill.points, _faults(server)


def _evictions_of(process: MigratingController) -> tuple[list[str], list[str]]:
    """Return the pods with and without an outcome of their evictions, as the journal has them."""
    store = process.fed.intent_store
    ended = [name for what, name, _ in store.lines if what == "outcome"]
    return ended, [each.pod.uid for each in store.intents if each.pod.name not in ended]


def _faults(server: JobServer) -> list[str]:
    """Say what is not as one move of web-0 leaves it."""
    ends = [(name, phase) for name, phase, _ in server.history if phase in ENDED]
    faults = [] if server.evictions == ["web-0"] else [f"evicted: {server.evictions}"]
    if [phase for _, phase in dict.fromkeys(ends)] != [Phase.SUCCEEDED]:
        faults.append(f"jobs ended: {ends}")
    if server.jobs:
        faults.append(f"jobs are left: {list(server.jobs)}")
    if left := [each.name for each in server.pods.values() if _keeps_place(each)]:
        faults.append(f"placeholders are left: {left}")
    if "web-0x" not in server.pods:
        faults.append("the pod was not replaced")
    if len(server.placeholders) > 1 or len(server.reservations) > 1:
        faults.append("more than one place was kept")
    return faults


def _keeps_place(each: Pod) -> bool:
    return PLACEHOLDER_OF in each.labels
