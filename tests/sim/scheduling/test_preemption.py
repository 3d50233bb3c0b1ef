"""Pods of high priority take the room of others, as the kube-scheduler's DefaultPreemption does."""

from typing import Any

import pytest

from reactive_desched.sim.conditions import find_condition
from tests.support.golden import verbatim
from tests.support.sim_world import HOSTNAME, SimulatedCluster

CLASSES = {"low": 10, "middle": 100, "high": 1000}


def prioritized(**options: Any) -> SimulatedCluster:
    """Return a cluster with three priority classes, and `polite`, which preempts nobody."""
    world = SimulatedCluster(**options)
    for name, value in CLASSES.items():
        world.store.create("priorityclasses", {"metadata": {"name": name}, "value": value})
    polite = {"metadata": {"name": "polite"}, "value": 1000, "preemptionPolicy": "Never"}
    world.store.create("priorityclasses", polite)
    return world


def filled(*nodes: str, priority: str = "low", cpu: str = "3") -> SimulatedCluster:
    """Return a cluster whose nodes of four cores each have one pod: `on-n1` on n1."""
    world = prioritized().nodes(*nodes)
    for node in nodes:
        world.pod(f"on-{node}", cpu=cpu, priorityClassName=priority, nodeName=node)
    return world.advance(5)


def message_of(world: SimulatedCluster, pod: str) -> str:
    """Return why a pod waits."""
    condition = find_condition(world.get("pods", pod), "PodScheduled")
    assert condition is not None
    return str(condition["message"])


def test_a_pod_of_higher_priority_is_nominated_waits_for_its_victim_and_gets_its_room() -> None:
    world = filled("n1")
    victim = world.get("pods", "on-n1")

    world.pod("urgent", cpu="3", priorityClassName="high")

    urgent = world.get("pods", "urgent")
    assert urgent["status"]["nominatedNodeName"] == "n1"
    assert message_of(world, "urgent") == "0/1 nodes are available: 1 Insufficient cpu."
    mark = find_condition(world.get("pods", "on-n1"), "DisruptionTarget")
    assert mark is not None
    assert (mark["status"], mark["reason"], mark["message"]) == (
        "True",
        "PreemptionByScheduler",
        verbatim("default-scheduler: preempting to accommodate a higher priority pod"),
    )
    assert world.phases() == {"on-n1": "Terminating", "urgent": "Pending"}
    uid = urgent["metadata"]["uid"]
    assert world.events("Preempted") == [f"Preempted by pod {uid} on node n1"]

    world.advance(5)

    assert world.nodes_of_pods() == {"urgent": "n1"}
    assert "nominatedNodeName" not in world.status("pods", "urgent")
    assert victim["metadata"]["uid"] != uid


@pytest.mark.parametrize(
    ("priority", "why"),
    [
        pytest.param(
            "low",
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            id="==",
        ),
        pytest.param("polite", "not eligible due to preemptionPolicy=Never.", id="never"),
    ],
)
def test_a_pod_that_may_not_preempt_says_why(priority: str, why: str) -> None:
    world = filled("n1")

    world.pod("p", cpu="3", priorityClassName=priority)

    expected = (
        verbatim(
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        )
        + why
    )
    assert message_of(world, "p") == expected
    assert world.phases()["on-n1"] == "Ready"


@pytest.mark.parametrize("closed", ["taint", "too small", "selector"])
def test_no_pod_ends_where_that_does_not_help(closed: str) -> None:
    world = filled("n1")
    template: dict[str, Any] = {"cpu": "3", "priorityClassName": "high"}
    if closed == "taint":
        world.edit("nodes", "n1", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    elif closed == "too small":
        template["cpu"] = "5"
    else:
        template["nodeSelector"] = {"disk": "tape"}

    world.pod("p", **template)

    assert message_of(world, "p").endswith(
        verbatim("preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
    )
    assert world.phases()["on-n1"] == "Ready"


def test_only_as_many_leave_as_must_the_least_important_first() -> None:
    world = prioritized().nodes("n1")
    for name, priority in (("a", "low"), ("b", "middle"), ("c", "low"), ("d", "middle")):
        world.pod(name, cpu="1", priorityClassName=priority, nodeName="n1")
        world.advance(5)

    world.pod("urgent", cpu="1", priorityClassName="high")

    leaving = {name for name, state in world.phases().items() if state == "Terminating"}
    assert leaving == {"c"}  # of the lowest priority the one that started last


@pytest.mark.parametrize(
    ("others", "chosen"),
    [
        pytest.param({"n1": ["middle"], "n2": ["low"]}, "n2", id="the lower highest priority"),
        pytest.param({"n1": ["low", "low"], "n2": ["low"]}, "n2", id="fewer of one priority"),
        pytest.param({"n1": ["middle"], "n2": ["low", "low"]}, "n2", id="priority before number"),
    ],
)
def test_the_node_with_the_cheapest_victims_is_taken(
    others: dict[str, list[str]], chosen: str
) -> None:
    world = prioritized().nodes(*others)
    for node, priorities in others.items():
        for number, priority in enumerate(priorities):
            cpu = f"{4000 // len(priorities)}m"
            world.pod(f"{node}-{number}", cpu=cpu, priorityClassName=priority, nodeName=node)
    world.advance(5)

    world.pod("urgent", cpu="4", priorityClassName="high")

    assert world.status("pods", "urgent")["nominatedNodeName"] == chosen


def test_of_equal_victims_those_that_started_last_leave() -> None:
    world = prioritized().nodes("n1", "n2")
    world.pod("older", cpu="4", priorityClassName="low", nodeName="n2")
    world.advance(10)
    world.pod("younger", cpu="4", priorityClassName="low", nodeName="n1")
    world.advance(10)

    world.pod("urgent", cpu="4", priorityClassName="high")

    assert world.status("pods", "urgent")["nominatedNodeName"] == "n1"


def test_a_disruption_budget_is_kept_where_another_node_has_victims_without_one() -> None:
    world = filled("n1", "n2")
    world.pdb("on-n1", minAvailable=1)
    world.advance(1)

    world.pod("urgent", cpu="3", priorityClassName="high")

    assert world.status("pods", "urgent")["nominatedNodeName"] == "n2"


def test_a_disruption_budget_does_not_stop_preemption_where_nothing_else_helps() -> None:
    world = filled("n1")
    world.pdb("on-n1", minAvailable=1)
    world.advance(1)

    world.pod("urgent", cpu="3", priorityClassName="high")

    assert world.phases()["on-n1"] == "Terminating"


def test_while_its_victim_ends_a_pod_preempts_no_other() -> None:
    world = prioritized().nodes("n1", "n2")
    for node in ("n1", "n2"):
        notes = {"sim.reactive-desched/shutdown-seconds": "25"}
        world.pod(f"on-{node}", cpu="3", priorityClassName="low", nodeName=node, annotations=notes)
    world.advance(5)
    world.pod("urgent", cpu="3", priorityClassName="high")

    world.edit("nodes", "n2", taints=[{"key": "noticed", "effect": "PreferNoSchedule"}])
    world.advance(12)

    assert world.phases() == {"on-n1": "Terminating", "on-n2": "Ready", "urgent": "Pending"}
    assert message_of(world, "urgent").endswith(
        verbatim("preemption: not eligible due to a terminating pod on the nominated node.")
    )


def test_the_room_is_kept_for_the_nominated_pod_but_not_from_a_higher_priority() -> None:
    world = filled("n1")
    world.pod("urgent", cpu="3", priorityClassName="middle")

    world.pod("other", cpu="2", priorityClassName="low")
    world.advance(5)
    assert world.nodes_of_pods() == {"urgent": "n1", "other": ""}

    world.pod("first", cpu="3", priorityClassName="high")
    world.pod("second", cpu="3", priorityClassName="high")
    assert world.phases()["urgent"] == "Terminating"
    world.advance(15)
    assert world.nodes_of_pods() == {"first": "n1", "second": "", "other": ""}


def test_who_is_displaced_from_a_nomination_is_nominated_no_more() -> None:
    world = filled("n1")
    notes = {"sim.reactive-desched/shutdown-seconds": "25"}
    world.pod("slow", cpu="1", priorityClassName="low", nodeName="n1", annotations=notes)
    world.advance(5)
    world.pod("middle", cpu="4", priorityClassName="middle")
    assert world.status("pods", "middle")["nominatedNodeName"] == "n1"

    world.pod("urgent", cpu="4", priorityClassName="high")

    assert world.status("pods", "urgent")["nominatedNodeName"] == "n1"
    assert "nominatedNodeName" not in world.status("pods", "middle")


def test_an_anti_affinity_is_a_reason_to_preempt() -> None:
    world = prioritized().nodes("n1")
    world.pod("loud", priorityClassName="low", nodeName="n1")
    world.advance(5)
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "loud"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    world.pod("quiet", priorityClassName="high", affinity=apart)
    world.advance(10)

    assert world.nodes_of_pods() == {"quiet": "n1"}


def test_a_replica_that_was_preempted_is_made_again_and_waits() -> None:
    world = prioritized().nodes("n1")
    world.deployment("web", 2, cpu="2", priorityClassName="low")
    world.advance(5)

    world.pod("urgent", cpu="2", priorityClassName="high")
    world.advance(20)

    nodes = world.nodes_of_pods()
    assert nodes.pop("urgent") == "n1"
    assert sorted(nodes.values()) == ["", "n1"]
