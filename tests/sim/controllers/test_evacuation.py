"""A program that moves pods in the background, as KubeVirt's: 429 first, and gone later."""

import pytest

from reactive_desched.model.opt_outs import EVICTION_IN_PROGRESS, REQUEST_EVICT_ONLY
from reactive_desched.sim.status import StatusError
from tests.support.sim_world import SimulatedCluster


def test_an_eviction_begins_a_move_that_ends_some_seconds_later() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("vm", 1, annotations={REQUEST_EVICT_ONLY: ""})
    world.advance(1)
    (name,) = world.names("vm")

    for _ in range(2):
        with pytest.raises(StatusError, match="Eviction triggered evacuation") as refused:
            world.evict(name)
        assert refused.value.code == 429
    assert EVICTION_IN_PROGRESS in world.get("pods", name)["metadata"]["annotations"]
    world.advance(4)
    assert world.names("vm") == {name}
    world.advance(2)

    assert name not in world.names("vm")
    assert len(world.names("vm")) == 1


def test_other_pods_are_evicted_at_once() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("plain")
    world.evict("plain")
    world.advance(40)

    assert world.names() == set()
