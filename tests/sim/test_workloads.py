"""A made-up cluster that resembles those in the wild."""

import random
from collections import Counter

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.cluster import SimCluster
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.pods import is_ready, node_of
from reactive_desched.sim.seed import seed
from reactive_desched.sim.store import Store
from reactive_desched.sim.workloads import populate
from tests.support.golden import Golden
from tests.support.sim_world import START_S, ZONE


def store() -> Store:
    """Return a store with what every cluster holds."""
    made = Store(VirtualClock(START_S), random.Random(1))
    seed(made)
    return made


def test_as_many_nodes_and_pods_as_asked_for_and_all_of_them_run() -> None:
    made = store()
    populate(made, nodes=20, pods=300, zones=3)
    SimCluster(made, random.Random(1)).advance(60)

    pods, nodes = made.list("pods"), made.list("nodes")

    assert len(nodes) == 20
    assert len(pods) == 300
    assert all(is_ready(pod) for pod in pods)
    assert Counter(node["metadata"]["labels"][ZONE] for node in nodes) == {
        "sim-1a": 7,
        "sim-1b": 7,
        "sim-1c": 6,
    }
    for kind in ("deployments", "statefulsets", "daemonsets", "poddisruptionbudgets"):
        assert made.list(kind)


def test_bare_pods_run_from_the_start_and_are_not_created_again() -> None:
    made = store()
    populate(made, nodes=20, pods=300, prescheduled=True)
    before = {pod["metadata"]["uid"] for pod in made.list("pods")}
    assert all(is_ready(pod) and node_of(pod) for pod in made.list("pods"))
    assert all(condition_status(node, "Ready") == "True" for node in made.list("nodes"))

    SimCluster(made, random.Random(1)).advance(60)

    after = made.list("pods")
    assert before <= {pod["metadata"]["uid"] for pod in after}
    agents = [p for p in after if p["metadata"]["uid"] not in before]
    assert {pod["metadata"]["labels"]["app"] for pod in agents} == {"node-agent", "log-shipper"}
    assert len(after) == 300
    for deployment in made.list("deployments"):
        assert deployment["status"]["availableReplicas"] == deployment["spec"]["replicas"]


def test_the_same_seed_makes_the_same_landscape_and_another_seed_another() -> None:
    def workloads(chance: int) -> list[object]:
        made = store()
        populate(made, nodes=5, pods=100, seed=chance)
        return [w["spec"] for w in made.list("deployments")]

    assert workloads(1) == workloads(1)
    assert workloads(1) != workloads(2)


@pytest.mark.parametrize(("nodes", "pods", "zones"), [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_numbers_that_make_no_sense_are_named(
    nodes: int, pods: int, zones: int, golden: Golden
) -> None:
    with pytest.raises(ConfigError) as caught:
        populate(store(), nodes=nodes, pods=pods, zones=zones)

    assert golden() in str(caught.value)


def test_agents_leave_at_least_half_of_the_pods_to_others() -> None:
    made = store()
    populate(made, nodes=10, pods=30)
    SimCluster(made, random.Random(1)).advance(60)

    assert [daemons["metadata"]["name"] for daemons in made.list("daemonsets")] == ["node-agent"]
    assert len(made.list("pods")) == 30


def test_more_zones_than_letters_still_differ() -> None:
    made = store()
    populate(made, nodes=60, pods=0, zones=60)

    assert len({node["metadata"]["labels"][ZONE] for node in made.list("nodes")}) == 60
