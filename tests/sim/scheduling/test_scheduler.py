"""Pods find nodes, wait when there is none, and are tried again when it helps."""

from unittest.mock import patch

import pytest

from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.scheduling.scheduler import nodes_to_find
from tests.support.golden import Golden, verbatim
from tests.support.sim_world import HOSTNAME, SimulatedCluster


@pytest.mark.parametrize(
    ("nodes", "enough"),
    [
        (50, 50),
        (99, 99),
        (100, 100),
        (300, 144),
        (1000, 420),
        (3000, 780),
        (5000, 500),
        (6000, 300),
    ],
)
def test_big_clusters_are_searched_in_part(nodes: int, enough: int) -> None:
    assert nodes_to_find(nodes) == enough


def test_the_next_search_begins_where_the_last_one_ended() -> None:
    names = [f"n{number:03}" for number in range(1, 151)]
    world = SimulatedCluster().nodes(*names)
    for name in names[:100]:
        world.pod(f"holder-{name}", nodeName=name, cpu="1")

    world.pod("first", cpu="1")
    world.pod("second", cpu="1")

    places = world.nodes_of_pods()
    assert (places["first"], places["second"]) == ("n001", "n101")


def test_a_bound_pod_says_so_in_condition_and_event() -> None:
    world = SimulatedCluster().nodes("n1")

    world.pod("p")

    condition = find_condition(world.get("pods", "p"), "PodScheduled")
    assert condition is not None
    assert condition["status"] == "True"
    assert world.events("Scheduled") == ["Successfully assigned default/p to n1"]


def test_a_pod_that_fits_nowhere_says_why() -> None:
    world = SimulatedCluster().nodes("n1").nodes("n2", "n3", cpu="1")
    world.edit("nodes", "n1", unschedulable=True)

    world.pod("p", cpu="2")

    why = verbatim(
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. "
        "no new claims to deallocate, preemption: "
        "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    condition = find_condition(world.get("pods", "p"), "PodScheduled")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == why
    assert world.events("FailedScheduling") == [why]


def test_a_pod_that_waits_is_refused_again_without_a_look_at_the_nodes() -> None:
    world = SimulatedCluster().nodes("n1", cpu="1")
    world.pod("p", cpu="2")
    scheduler = world.cluster.scheduler

    with patch.object(scheduler, "_feasible", wraps=scheduler._feasible) as looks:
        world.advance(3600)
        assert looks.call_count == 0
        (event,) = world.store.list("events")
        assert event["count"] == 13, "the pod is refused every five minutes"

        world.edit("nodes", "n1", unschedulable=True)
        world.advance(3600)

    assert looks.call_count == 1, "a change has every node looked at"


def test_a_new_node_is_noticed_after_the_back_off() -> None:
    world = SimulatedCluster()
    world.pod("p")

    world.nodes("n1")
    assert world.nodes_of_pods() == {"p": ""}
    world.advance(1)

    assert world.nodes_of_pods() == {"p": "n1"}


@pytest.mark.parametrize("freeing", ["delete the holder", "grow the node", "uncordon"])
def test_what_could_help_is_noticed(freeing: str) -> None:
    world = SimulatedCluster().nodes("n1", pods="1")
    world.pod("holder")
    world.advance(2)
    if freeing == "uncordon":
        world.delete("pods", "holder", grace_period_seconds=0)
        world.edit("nodes", "n1", unschedulable=True)
    world.pod("p")
    world.advance(2)
    assert world.nodes_of_pods()["p"] == ""

    if freeing == "delete the holder":
        world.delete("pods", "holder", grace_period_seconds=0)
    elif freeing == "uncordon":
        world.edit("nodes", "n1", unschedulable=False)
    else:
        status = world.status("nodes", "n1")
        larger = {**status, "allocatable": {**status["allocatable"], "pods": "2"}}
        world.store.modify(
            "nodes", "", "n1", lambda node: {**node, "status": larger}, subresource="status"
        )
        world.cluster.settle()

    world.advance(2)
    assert world.nodes_of_pods()["p"] == "n1"


def test_a_matching_neighbour_that_arrives_helps_a_pod_that_seeks_it() -> None:
    world = SimulatedCluster().nodes("n1")
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
    seek = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.pod("web", affinity=seek)
    world.advance(2)
    assert world.nodes_of_pods() == {"web": ""}

    world.pod("db")
    world.advance(5)

    assert world.nodes_of_pods() == {"web": "n1", "db": "n1"}


def test_the_more_important_pod_is_placed_first() -> None:
    world = SimulatedCluster()
    world.store.create("priorityclasses", {"metadata": {"name": "high"}, "value": 100})
    world.pod("low")
    world.pod("high", priorityClassName="high")

    world.nodes("n1", pods="1").advance(2)

    assert world.nodes_of_pods() == {"low": "", "high": "n1"}


def test_gated_and_foreign_pods_are_left_alone() -> None:
    world = SimulatedCluster().nodes("n1")

    world.pod("gated", schedulingGates=[{"name": "wait"}])
    world.pod("foreign", schedulerName="other")
    assert world.nodes_of_pods() == {"gated": "", "foreign": ""}
    world.edit("pods", "gated", schedulingGates=[])

    assert world.nodes_of_pods() == {"gated": "n1", "foreign": ""}


def test_a_pod_whose_rules_cannot_be_read_says_so_and_stops_no_other(golden: Golden) -> None:
    world = SimulatedCluster().nodes("n1")

    world.pod("broken", affinity={"nodeAffinity": "yes"})
    world.pod("fine")

    condition = find_condition(world.get("pods", "broken"), "PodScheduled")
    assert condition is not None
    assert golden() in condition["message"]
    assert world.nodes_of_pods()["fine"] == "n1"


def test_a_pod_that_names_a_node_that_is_gone_says_so_as_if_all_were_searched() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    field = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    world.pod("p", affinity=affinity)

    assert world.events("FailedScheduling") == [
        verbatim(
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
            "no new claims to deallocate, preemption: "
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
    ]
