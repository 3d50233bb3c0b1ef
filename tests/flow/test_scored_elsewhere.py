"""A pod that prefers other nodes stays while the scheduler would send it to none of them."""

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.model.objects import ClusterObject
from reactive_desched.plugins.node_affinity import (
    PREFERRED,
    NodeAffinityArgs,
    NodeAffinityPlugin,
)
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.builders import node, pod, with_spec
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

OTHERS = tuple(name for name in GuardName if name is not GuardName.SCORED_ELSEWHERE)
GUARDED = GuardSettings(disabled=OTHERS)
SPOT = {"pool": "spot"}
WEB = pod("web", on="n1", prefers={"pool=spot": 1}, requests={"cpu": "500m", "memory": "1Gi"})
HERE, PLAIN = node("n1"), node("n2")
LIKED = node("n3", labels=SPOT)
SOFT = node("n3", "busy:PreferNoSchedule", labels=SPOT)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def controller(guards: GuardSettings = GUARDED) -> FakeEdgesController:
    plugin = NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(PREFERRED,)))
    return FakeEdgesController(plugin, guards=guards)


async def evicted(*objects: ClusterObject, guards: GuardSettings = GUARDED) -> list[str]:
    async with controller(guards).running() as flow:
        flow.sync_and_resume(*objects)
        await anyio.sleep(60)
    return flow.evicted_names


async def test_a_soft_taint_of_the_preferred_node_holds_the_pod_until_it_is_gone(
    golden: Golden,
) -> None:
    async with controller().running() as flow:
        flow.sync_and_resume(HERE, PLAIN, SOFT, WEB)
        await anyio.sleep(60)
        assert flow.evicted_names == []
        decision = flow.observer.evaluations[-1].decision
        assert getattr(decision, "reason", "") == "ScoredElsewhere"
        assert getattr(decision, "message", "") == golden()

        flow.deliver(LIKED)
        await anyio.sleep(5)

    assert flow.evicted_names == ["web"]


async def test_what_the_scheduler_would_do_is_looked_at_again_as_pods_come_and_go() -> None:
    siblings = [replace(WEB, name=f"s{n}", uid=f"s{n}", node="n3") for n in range(5)]
    async with controller().running() as flow:
        flow.sync_and_resume(HERE, PLAIN, LIKED, WEB, *siblings)
        await anyio.sleep(60)
        assert flow.evicted_names == []

        for sibling in siblings:
            flow.delete(sibling)
        await anyio.sleep(300)

    assert flow.evicted_names == ["web"]


async def test_a_preferred_node_that_is_busier_than_others_is_still_chosen() -> None:
    busy = pod("busy", on="n3", owner="ReplicaSet/busy", requests={"cpu": "3", "memory": "6Gi"})

    assert await evicted(HERE, PLAIN, LIKED, busy, WEB) == ["web"]


async def test_a_switched_off_guard_another_scheduler_and_a_tolerated_taint_hold_nothing() -> None:
    no_guards = GuardSettings(disabled=tuple(GuardName))
    assert await evicted(HERE, PLAIN, SOFT, WEB, guards=no_guards) == ["web"]
    assert await evicted(HERE, PLAIN, SOFT, with_spec(WEB, scheduler_name="mine")) == ["web"]
    tolerant = pod("web", on="n1", prefers={"pool=spot": 1}, tolerates=["busy"])
    assert await evicted(HERE, PLAIN, SOFT, tolerant) == ["web"]


async def test_where_no_preferred_node_has_room_node_fit_says_so() -> None:
    full = pod("full", on="n3", owner="ReplicaSet/full", requests={"cpu": "4"})
    async with controller().running() as flow:
        flow.sync_and_resume(HERE, PLAIN, SOFT, full, WEB)
        await anyio.sleep(60)

    decision = flow.observer.evaluations[-1].decision
    assert getattr(decision, "reason", "") == "NoTargetNodeFits"
