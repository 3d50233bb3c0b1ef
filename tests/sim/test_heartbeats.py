"""Nodes show that they are there."""

from reactive_desched.sim.clock import parse_time
from tests.support.sim_world import START_S, SimulatedCluster


def renewed(world: SimulatedCluster, node: str) -> float:
    """Return how many seconds after the start a node's Lease was last renewed."""
    lease = world.store.get("leases", "kube-node-lease", node)
    assert lease is not None
    return parse_time(lease["spec"]["renewTime"]) - START_S


def test_a_lease_is_renewed_every_ten_seconds() -> None:
    world = SimulatedCluster(heartbeats=True).nodes("n1")
    assert renewed(world, "n1") == 0

    world.advance(35)

    assert renewed(world, "n1") == 30


def test_a_stopped_node_falls_silent_until_it_starts_again() -> None:
    world = SimulatedCluster(heartbeats=True).nodes("n1")
    world.advance(15)
    world.cluster.stop_node("n1")
    world.advance(30)
    assert renewed(world, "n1") == 10

    world.cluster.start_node("n1")
    world.advance(1)

    assert renewed(world, "n1") == 45


def test_the_lease_of_a_deleted_node_goes_with_it() -> None:
    world = SimulatedCluster(heartbeats=True).nodes("n1")

    world.delete("nodes", "n1")
    world.advance(20)

    assert world.store.list("leases") == []


def test_no_leases_are_written_unless_asked() -> None:
    assert SimulatedCluster().nodes("n1").advance(30).store.list("leases") == []
