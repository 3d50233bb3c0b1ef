"""A pod is in a state for moments, or has just ended: that is no reason to evict it yet."""

from typing import Any, Final

import anyio
import pytest

from reactive_desched.model.objects import ContainerStatus, Pod, PodCondition
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.plugins.pod_life_time import PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.plugins.too_many_restarts import TooManyRestartsArgs, TooManyRestartsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.builders import container, node, pod, pod_status
from tests.support.flow import FakeEdgesController

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

STATES: Final = ("CrashLoopBackOff", "ContainerCreating")
LIMIT_S, BEGINS_S = 600, 1000


def guards(on: GuardName) -> GuardSettings:
    return GuardSettings(disabled=tuple(set(GuardName) - {on}))


def life_time(**args: Any) -> PodLifeTimePlugin:
    given = {"maxPodLifeTimeSeconds": LIMIT_S, **args}
    return PodLifeTimePlugin(PodLifeTimeArgs.model_validate(given))


def old_pod(
    *, ready: bool, since_s: float, phase: str = "Running", app: ContainerStatus | None = None
) -> Pod:
    """Return a pod that was created at the beginning, and is or is not Ready since a moment."""
    condition = PodCondition("Ready", "True" if ready else "False")
    status = pod_status(phase, app or container(), conditions=(condition,))
    return pod("web", on="n1", status=status, changed={"Ready": int(since_s)})


async def leaves_after(plugin: Any, app: ContainerStatus, *, back_after_s: float) -> float | None:
    """Return after how many seconds a pod leaves that ceases to be Ready for a time."""
    flow = FakeEdgesController(plugin, guards=guards(GuardName.STANDING_TIME))
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), old_pod(ready=True, since_s=0))
        await anyio.sleep(BEGINS_S)
        began_s = anyio.current_time()
        flow.deliver(old_pod(ready=False, since_s=began_s, app=app))
        await anyio.sleep(back_after_s)
        if not flow.evictor.calls:
            flow.deliver(old_pod(ready=True, since_s=anyio.current_time()))
        await anyio.sleep(LIMIT_S)
    return round(flow.evictor.calls[0][1] - began_s) if flow.evictor.calls else None


@pytest.mark.parametrize("state", STATES)
async def test_an_old_pod_may_be_in_a_state_for_moments(state: str) -> None:
    plugin, app = life_time(states=STATES), container(waits=state)

    assert await leaves_after(plugin, app, back_after_s=100) is None
    assert await leaves_after(plugin, app, back_after_s=300) == 120


async def test_an_exit_code_counts_as_the_state_of_a_container_does() -> None:
    plugin, app = life_time(exitCodes=(137,)), container(ended="OOMKilled", code=137)

    assert await leaves_after(plugin, app, back_after_s=100) is None
    assert await leaves_after(plugin, app, back_after_s=300) == 120


async def test_a_condition_without_a_time_has_to_last() -> None:
    plugin = life_time(conditions=({"type": "Ready", "status": "False"},))

    assert await leaves_after(plugin, container(), back_after_s=100) is None
    assert await leaves_after(plugin, container(), back_after_s=300) == 120


async def test_a_condition_with_a_time_has_its_own() -> None:
    timed = {"type": "Ready", "status": "False", "minTimeSinceLastTransitionSeconds": 30}

    assert await leaves_after(life_time(conditions=(timed,)), container(), back_after_s=300) == 30


async def test_a_pod_that_runs_is_in_that_state_for_long() -> None:
    flow = FakeEdgesController(
        life_time(states=("Running",)), guards=guards(GuardName.STANDING_TIME)
    )
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), old_pod(ready=False, since_s=LIMIT_S))
        await anyio.sleep(LIMIT_S + 2)

    assert flow.evicted_names == ["web"]


async def test_pods_are_put_together_again_on_a_node_that_came_back() -> None:
    flow = FakeEdgesController(life_time(states=STATES), guards=guards(GuardName.STANDING_TIME))
    creating = container(waits="ContainerCreating")
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), old_pod(ready=True, since_s=0))
        await anyio.sleep(BEGINS_S)
        flow.deliver(node("n1", ready="False"))
        flow.deliver(old_pod(ready=False, since_s=BEGINS_S, app=creating))
        await anyio.sleep(200)
        flow.deliver(node("n1"))
        back_s = anyio.current_time()
        await anyio.sleep(300)

    assert [round(at_s - back_s) for _, at_s in flow.evictor.calls] == [120]


@pytest.mark.parametrize(
    "plugin",
    [
        FailedPodsPlugin(FailedPodsArgs(min_pod_lifetime_seconds=60)),
        life_time(states=("Failed",)),
        TooManyRestartsPlugin(TooManyRestartsArgs(pod_restart_threshold=1)),
    ],
)
async def test_a_pod_that_has_ended_is_there_for_a_minute(plugin: Any) -> None:
    flow = FakeEdgesController(plugin, guards=guards(GuardName.NEWLY_ENDED_PODS))
    restarted = container(restarts=1)
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), old_pod(ready=True, since_s=0))
        await anyio.sleep(BEGINS_S)
        ended = old_pod(ready=False, since_s=BEGINS_S, phase="Failed", app=restarted)
        flow.deliver(ended)
        await anyio.sleep(300)

    assert [round(at_s - BEGINS_S) for _, at_s in flow.evictor.calls] == [60]
