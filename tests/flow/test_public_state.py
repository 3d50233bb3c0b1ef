"""What the controller says that it does, in one word, and what each brake says of itself."""

import re
from collections.abc import Awaitable, Callable, Mapping

import anyio
import pytest
import trio.testing

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.health import build_health
from reactive_desched.app.status import POLL_INTERVAL_S, STABLE_POLLS, log_states
from reactive_desched.controller.public_state import ControllerState, PublicState
from reactive_desched.controller.readiness import CLUSTER as ANOTHER_CLUSTER
from reactive_desched.controller.readiness import JOURNAL, LEADER, STARTUP, STOPPING, sync_pause
from reactive_desched.model.brakes import CLUSTER, PENDING, STORM, ZONE, BrakeState
from reactive_desched.policy.settings.limits import EvictionRateLimits
from tests.flow.test_brakes import NODES, braked, one_each, tainted, zone_nodes
from tests.flow.test_brakes import pending as unplaced
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def state(flow: FakeEdgesController) -> PublicState:
    return flow.pipeline.description.state()


def gauge(flow: FakeEdgesController) -> set[str]:
    """Return the states of which the metric is 1."""
    for metric in flow.pipeline.description.collect():
        if metric.family.name == "state":
            samples: Mapping[tuple[str, ...], object] = metric.samples
            assert {labels[0] for labels in samples} == {each.value for each in ControllerState}
            return {labels[0] for labels, value in samples.items() if value}
    raise AssertionError("no gauge")


def brake(flow: FakeEdgesController) -> BrakeState:
    [found] = flow.pipeline.description.brake_states()
    return found


async def test_a_controller_that_nothing_holds_evaluates() -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(1)
        assert state(flow) == PublicState(
            ControllerState.EVALUATING, "good", "nothing holds evictions", hold=""
        )
        assert gauge(flow) == {"evaluating"}


async def test_while_a_storm_holds_the_cluster_the_state_says_so(golden: Golden) -> None:
    async with braked(storm={"pods": 5, "releaseAfter": "10m"}).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:10]))
        await anyio.sleep(100)
        flow.deliver(*map(tainted, NODES[:10]))
        await anyio.sleep(60)

        assert state(flow).name is ControllerState.BRAKED
        assert state(flow).severity == "bad"
        assert state(flow).summary == golden("summary")
        assert state(flow).hold.startswith("storm: ")
        assert state(flow).hold.endswith(brake(flow).release)
        assert gauge(flow) == {"braked"}
        found = brake(flow)
        assert (found.name, found.scope) == (STORM, CLUSTER)
        assert found.message == golden("with what was found since")
        assert 100 <= found.since_s <= 105
        assert found.until_s is not None
        assert 700 <= found.until_s <= 705
        assert found.release == golden("release")

        await anyio.sleep(650)  # it says the truth: by then it has released itself
        assert state(flow).name is ControllerState.EVALUATING
        assert not any(flow.pipeline.description.brake_states())


async def test_a_storm_that_only_a_person_ends_names_no_time(golden: Golden) -> None:
    async with braked(storm={"pods": 5, "releaseAfter": None}).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:8]))
        flow.deliver(*map(tainted, NODES[:8]))
        await anyio.sleep(60)
        assert brake(flow).until_s is None
        assert brake(flow).release == golden()


async def test_a_storm_goes_on_over_a_restart_since_when_it_began() -> None:
    async with braked(storm={"pods": 3}).running() as before:
        before.sync_and_resume(*NODES, *one_each(NODES[:5]))
        await anyio.sleep(5)
        before.deliver(*map(tainted, NODES[:5]))
        await anyio.sleep(10)
        since_s = brake(before).since_s
        saved = before.controller.pauses.saved_brakes()
    await anyio.sleep(1000)
    async with braked(storm={"pods": 3}).running() as flow:
        flow.controller.pauses.restore(saved)
        flow.sync_and_resume(*NODES)
        await anyio.sleep(1)
        assert brake(flow).since_s == since_s
        assert flow.controller.pauses.saved_brakes() == saved


async def test_a_pause_says_who_holds_everything_and_until_when(golden: Golden) -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(5)
        flow.controller.pauses.pause("ann", "upgrade", 3600)
        assert state(flow).name is ControllerState.PAUSED
        assert state(flow).summary == golden()
        assert (brake(flow).since_s, brake(flow).until_s) == (5, 3605)
        flow.controller.pauses.set_pause_file("true")
        assert brake(flow).release == golden("two pauses")
        flow.controller.pauses.resume("ann", "")
        assert brake(flow).release == golden("a file")


async def test_a_brake_of_one_zone_slows_and_names_the_zone(golden: Golden) -> None:
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*zone_nodes("a", 3), *zone_nodes("b", 9))
        await anyio.sleep(1)
        flow.deliver(*zone_nodes("a", 0, 3))
        await anyio.sleep(1)
        assert (state(flow).name, state(flow).severity) == (ControllerState.EVALUATING, "warn")
        assert state(flow).hold == ""
        assert (brake(flow).name, brake(flow).scope) == (ZONE, "zone a")
        assert state(flow).summary == golden()


async def test_of_a_large_zone_that_is_slowed_the_brake_says_that_pods_go_on_leaving(
    golden: Golden,
) -> None:
    async with braked(zones={"large_zone_nodes": 8}).running() as flow:
        flow.sync_and_resume(*zone_nodes("a", 9), *zone_nodes("b", 3))
        await anyio.sleep(1)
        flow.deliver(*zone_nodes("a", 3, 6))
        await anyio.sleep(1)
        assert brake(flow).message == golden()
        assert brake(flow).message in state(flow).summary
        flow.deliver(*zone_nodes("a", 0, 9))
        await anyio.sleep(1)
        assert brake(flow).message == golden("none is Ready")


async def test_no_ready_node_anywhere_holds_the_cluster() -> None:
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*zone_nodes("a", 3))
        flow.deliver(*zone_nodes("a", 0, 3))
        await anyio.sleep(1)
        assert state(flow).name is ControllerState.BRAKED
        assert brake(flow).scope == CLUSTER


async def test_too_many_pending_pods_hold_the_cluster_until_there_are_fewer(
    golden: Golden,
) -> None:
    waiting = [unplaced(f"w{i}") for i in range(3)]
    async with braked(pending={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, *waiting)
        await anyio.sleep(70)
        assert state(flow).name is ControllerState.BRAKED
        assert brake(flow).name == PENDING
        assert brake(flow).release == golden()


async def test_the_warm_up_slows_and_says_until_when() -> None:
    limits = EvictionRateLimits.model_validate({"warmUp": {"duration": "100s", "fromPercent": 20}})
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        flow.controller.gates.rate_limiter.reconfigure(limits, anyio.current_time(), ())
        await anyio.sleep(50)
        assert (state(flow).name, state(flow).severity) == (ControllerState.EVALUATING, "warn")
        assert "60%" in state(flow).summary
        assert "full in 50s" in state(flow).summary
        await anyio.sleep(60)
        assert state(flow).severity == "good"


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        pytest.param([STOPPING, "manual"], ControllerState.STOPPING, id="it stops"),
        pytest.param([STARTUP, JOURNAL], ControllerState.STARTING, id="it starts"),
        pytest.param([JOURNAL, "manual"], ControllerState.FAULT, id="the journal's fault"),
        pytest.param(["anything new"], ControllerState.FAULT, id="one that no state names"),
        pytest.param([sync_pause("pods")], ControllerState.OUT_OF_SYNC, id="a watch is down"),
        pytest.param([sync_pause("pods"), "manual"], ControllerState.OUT_OF_SYNC, id="both"),
        pytest.param([LEADER], ControllerState.FAULT, id="a term that ended"),
    ],
)
async def test_each_pause_has_its_state(pauses: list[str], expected: ControllerState) -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(1)
        for name in pauses:
            flow.controller.readiness._pauses[name] = flow.controller.readiness._pauses[LEADER]
            flow.controller.readiness.pause(name, f"because of {name}")
        found = state(flow)
        assert found.name is expected
        assert not found.name.evicts
        assert pauses[0] in found.hold
        assert gauge(flow) == {expected.value}


async def test_a_standby_says_that_another_replica_acts() -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        flow.controller.pauses.leadership.stand_by("controller-1 holds the Lease")
        assert state(flow).name is ControllerState.STANDBY
        assert state(flow).severity == "warn"


async def test_a_standby_whose_address_led_to_another_cluster_has_a_fault() -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        flow.controller.pauses.leadership.stand_by("controller-1 holds the Lease")
        flow.controller.readiness.pause(ANOTHER_CLUSTER, "it led to another cluster")
        assert state(flow).name is ControllerState.FAULT
        assert "it led to another cluster" in state(flow).summary


async def test_what_every_watch_met_is_said_once(golden: Golden) -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        for kind, path in (("pods", "api/v1/pods"), ("nodes", "api/v1/nodes")):
            flow.controller.readiness.pause(sync_pause(kind), f"GET /{path}: no route to host")
        assert state(flow).summary.count("no route to host") == 1
        assert "sync/nodes, sync/pods: no route to host" in state(flow).hold
        assert state(flow).summary == golden()
        for kind in ("jobs", "namespaces", "statefulsets"):
            flow.controller.readiness.pause(sync_pause(kind), f"GET /{kind}: no route to host")
        assert state(flow).summary == golden("of many kinds")
        for kind in ("jobs", "namespaces", "statefulsets"):
            flow.controller.readiness.resume(sync_pause(kind))
        health = build_health(flow.pipeline, ActiveConfig(flow.config), dry_run=False)
        text = health.readyz().text(verbose=True)
        assert text.count("no route to host") == 1
        assert "[-]sync/pods failed: the same as sync/nodes" in text
        flow.controller.readiness.pause(sync_pause("pods"), "GET /api/v1/pods: 403 Forbidden")
        assert "403 Forbidden" in health.readyz().text(verbose=True)


# --- every place --------------------------------------------------------------------------------


def readyz(flow: FakeEdgesController) -> str:
    """Return the word that /readyz?verbose says."""
    health = build_health(flow.pipeline, ActiveConfig(flow.config), dry_run=False)
    [found] = re.findall(
        r"^\[.\]state: ([a-z-]+)", health.readyz().text(verbose=True), re.MULTILINE
    )
    return str(found)


async def brake_all(flow: FakeEdgesController) -> None:
    flow.deliver(*zone_nodes("a", 0, 3))


async def pause(flow: FakeEdgesController) -> None:
    flow.controller.pauses.pause("ann", "upgrade", None)


async def stand_by(flow: FakeEdgesController) -> None:
    flow.controller.pauses.leadership.follow("controller-1")


async def stop(flow: FakeEdgesController) -> None:
    flow.controller.readiness.pause(STOPPING, "the controller is stopping")


async def lose_a_watch(flow: FakeEdgesController) -> None:
    flow.controller.readiness.pause(sync_pause("pods"), "the watch ended")


async def fill_the_disk(flow: FakeEdgesController) -> None:
    flow.controller.readiness.pause(JOURNAL, "no space left")


@pytest.mark.parametrize(
    ("begin", "word", "level"),
    [
        (brake_all, "braked", "warning"),
        (pause, "paused", "warning"),
        (stand_by, "standby", "info"),
        (stop, "stopping", "warning"),
        (lose_a_watch, "out-of-sync", "warning"),
        (fill_the_disk, "fault", "warning"),
    ],
)
async def test_log_metric_and_readyz_say_one_word_in_every_state(
    begin: Callable[[FakeEdgesController], Awaitable[None]], word: str, level: str
) -> None:
    log = RecordingLogger()
    second = (STABLE_POLLS + 1) * POLL_INTERVAL_S
    async with braked(zones={}).running() as flow, anyio.create_task_group() as tasks:
        tasks.start_soon(log_states, flow.pipeline, log)
        await anyio.sleep(second)
        assert {readyz(flow), *gauge(flow)} == {"starting"}
        flow.sync_and_resume(*zone_nodes("a", 3))
        await anyio.sleep(second)
        assert {readyz(flow), *gauge(flow)} == {"evaluating"}
        await begin(flow)
        await anyio.sleep(second)
        assert {state(flow).name.value, readyz(flow), *gauge(flow)} == {word}
        tasks.cancel_scope.cancel()

    assert [(line.level, line.event, line.values["state"]) for line in log.lines] == [
        ("info", "the controller is starting", "starting"),
        ("info", "the controller is evaluating", "evaluating"),
        (level, ControllerState(word).sentence, word),
    ]
    assert [line.values["before"] for line in log.lines] == [None, "starting", "evaluating"]
    assert log.lines[1].values["message"] is None
    assert log.lines[2].values["message"]


async def test_causes_that_still_grow_are_logged_once_in_one_line() -> None:
    log = RecordingLogger()
    async with braked().running() as flow, anyio.create_task_group() as tasks:
        flow.sync_and_resume(*NODES)
        tasks.start_soon(log_states, flow.pipeline, log)
        for resource in ("pods", "nodes", "namespaces"):
            await anyio.sleep(POLL_INTERVAL_S)
            flow.controller.readiness.pause(sync_pause(resource), "the watch ended")
        await anyio.sleep(20 * POLL_INTERVAL_S)
        flow.controller.readiness.resume(sync_pause("pods"))
        await anyio.sleep(20 * POLL_INTERVAL_S)
        tasks.cancel_scope.cancel()

    assert [(line.level, line.values["message"]) for line in log.lines] == [
        ("warning", "sync/namespaces, sync/nodes, sync/pods: the watch ended"),
        ("warning", "sync/namespaces, sync/nodes: the watch ended"),
    ]


async def test_a_state_of_less_than_a_second_is_not_logged() -> None:
    log = RecordingLogger()
    async with braked().running() as flow, anyio.create_task_group() as tasks:
        flow.sync_and_resume(*NODES)
        tasks.start_soon(log_states, flow.pipeline, log)
        await anyio.sleep(20 * POLL_INTERVAL_S)
        flow.controller.pauses.pause("ann", "", None)
        await anyio.sleep(1.5 * POLL_INTERVAL_S)
        flow.controller.pauses.resume("ann", "")
        await anyio.sleep(20 * POLL_INTERVAL_S)
        tasks.cancel_scope.cancel()

    assert [line.event for line in log.lines] == ["the controller is evaluating"]
