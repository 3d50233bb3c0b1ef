"""Profiles with nodes of their own: each evicts there, under limits of all together."""

import dataclasses

import anyio
import pytest
import trio.testing

from reactive_desched.model.labels import parse_selector
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import node, pod
from tests.flow.test_modes import Moded, taints
from tests.support.configurations import UNLIMITED_MOVES, make_configuration, make_profile_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def controller(rates: dict[str, TokenRate | None] | None, *pools: str) -> Moded:
    """Build one with a profile for the nodes of each pool, named as it."""
    profiles = tuple(
        dataclasses.replace(
            make_profile_of(pool, (taints(),)), node_selector=parse_selector(f"pool={pool}")
        )
        for pool in pools
    )
    return Moded(make_configuration(profiles, moves=UNLIMITED_MOVES, rates=rates))


POOLS = ("blue", "red", "grey")
PODS = [pod(pool, on=pool, owner=f"ReplicaSet/{pool}") for pool in POOLS]


async def test_each_profile_evicts_from_its_nodes_and_a_node_may_come_to_another_one() -> None:
    flow = controller(None, "blue", "red")
    flow.sync_and_resume(
        node("free"), *(node(name, labels={"pool": name}) for name in POOLS), *PODS
    )
    async with flow.running():
        for name in POOLS:
            flow.deliver(node(name, "gpu:NoSchedule", labels={"pool": name}))
        await anyio.sleep(5)
        assert flow.intents == [("blue", "blue", False), ("red", "red", False)]
        flow.deliver(node("grey", "gpu:NoSchedule", labels={"pool": "red"}))
        await anyio.sleep(5)

    assert flow.intents[1] == ("grey", "red", False)


async def test_limits_count_all_profiles_together() -> None:
    flow = controller({"cluster": TokenRate(per_second=1 / 600, burst=1)}, "blue", "red")
    flow.sync_and_resume(
        node("free"), *(node(name, labels={"pool": name}) for name in POOLS), *PODS
    )
    async with flow.running():
        await anyio.sleep(700)
        for name in POOLS:
            flow.deliver(node(name, "gpu:NoSchedule", labels={"pool": name}))
        await anyio.sleep(100)

    assert len(flow.evicted_names) == 1
