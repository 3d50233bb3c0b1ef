"""Which pods sit where, and whose they are."""

from reactive_desched.sim.objects import name_of
from tests.support.sim_world import SimulatedCluster


def test_pods_are_found_by_their_node_and_their_owner_while_they_exist() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.create("replicasets", "web", world.deployment("other", 0)["spec"] | {"replicas": 2})
    uid = world.get("replicasets", "web")["metadata"]["uid"]
    index = world.cluster.index
    mine = {name_of(pod) for pod in index.owned_by(uid)}
    assert len(mine) == 2
    assert mine == {name_of(pod) for node in ("n1", "n2") for pod in index.on_node(node)}

    world.edit("replicasets", "web", replicas=0)
    world.advance(5)

    assert index.owned_by(uid) == []
    assert list(index.on_node("n1")) == []
