"""What is under way counts: no pod leaves for a replacement that is only not bound yet."""

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.fit.reservations import RESERVATION_TTL_S
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.outcomes import PdbRefused
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.testing.builders import node
from reactive_desched.testing.topology_spread import spread_constraint, spread_pods
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

SOFT = "ScheduleAnyway"
NODES: list[ClusterObject] = [node("n1", zone="a"), node("n2", zone="b")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def spreading() -> FakeEdgesController:
    """Return a controller that restores soft constraints, which node fit knows nothing of."""
    return FakeEdgesController(TopologySpreadPlugin(TopologySpreadArgs(constraints=(SOFT,))))


def four(*, of: int = 4) -> list[Pod]:
    return spread_pods(of, 0, constraints=(spread_constraint(when_unsatisfiable=SOFT),))


def replacement(pod: Pod, on: str) -> Pod:
    return msgspec.structs.replace(pod, name=f"{pod.name}-new", uid=f"{pod.uid}-new", node=on)


async def test_a_replacement_counts_where_it_is_expected_until_that_takes_too_long() -> None:
    pods = four()
    async with spreading().running() as flow:
        flow.sync_and_resume(*NODES, *pods)
        await anyio.sleep(1)
        assert set(flow.evicted_names) == {"p02", "p03"}

        for pod in pods[2:]:
            flow.terminate(pod)
            await anyio.sleep(1)
            flow.delete(pod)
        await anyio.sleep(RESERVATION_TTL_S / 2)
        assert set(flow.evicted_names) == {"p02", "p03"}

        await anyio.sleep(RESERVATION_TTL_S)
        assert set(flow.evicted_names) == {"p01", "p02", "p03"}


async def test_a_replacement_that_is_bound_elsewhere_counts_there() -> None:
    pods = four()
    async with spreading().running() as flow:
        flow.sync_and_resume(*NODES, *pods)
        await anyio.sleep(1)
        flow.delete(*pods[2:])
        flow.deliver(replacement(pods[2], "n2"))
        await anyio.sleep(1)
        assert set(flow.evicted_names) == {"p02", "p03"}

        flow.deliver(replacement(pods[3], "n1"))
        await anyio.sleep(1)

    assert set(flow.evicted_names) == {"p02", "p03", "p03-new"}


async def test_a_pod_that_is_being_evicted_counts_no_longer_where_it_is() -> None:
    """A fifth pod of higher priority would be chosen instead of those that leave already."""
    pods = four()
    [like] = spread_pods(1, owner="ReplicaSet/db", priority=9)
    late = msgspec.structs.replace(like, name="late", uid="late")
    flow = spreading()
    flow.evictor.slow_s = 20.0
    async with flow.running():
        flow.sync_and_resume(*NODES, *pods)
        await anyio.sleep(1)
        flow.deliver(late)
        await anyio.sleep(10)

    assert set(flow.evicted_names) == {"p02", "p03"}


async def test_a_pod_whose_eviction_failed_counts_where_it_is_and_leaves_later() -> None:
    pods = four(of=2)
    flow = spreading()
    flow.evictor.script = {"p01": [PdbRefused("no", None)]}
    async with flow.running():
        flow.sync_and_resume(*NODES, *pods)
        await anyio.sleep(RESERVATION_TTL_S)

    assert flow.evicted_names == ["p01", "p01"]
