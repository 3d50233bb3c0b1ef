"""Reservations of koordinator: places that the simulated scheduler keeps for later pods."""

from typing import Any

import pytest

from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.scheduling.reservations import ALLOCATED, KOORDINATOR_SCHEDULER
from tests.support.sim_world import SimulatedCluster


def world(*nodes: str) -> SimulatedCluster:
    """Return a cluster whose nodes have room for one pod of 2 CPUs each."""
    return SimulatedCluster().nodes(*nodes, cpu="3")


def reserve(cluster: SimulatedCluster, name: str, owner: dict[str, Any], **spec: Any) -> None:
    """Make a Reservation for a pod of 2 CPUs."""
    containers = [
        {"name": name, "resources": {"requests": {"cpu": "1"}}} for name in ("main", "sidecar")
    ]
    template = {"metadata": {"namespace": "default"}, "spec": {"containers": containers}}
    cluster.create("reservations", name, {"template": template, "owners": [owner], **spec})


def order(cluster: SimulatedCluster, name: str, number: str) -> None:
    """Set koordinator's order label of a Reservation."""
    labels = {"scheduling.koordinator.sh/reservation-order": number}

    def labelled(current: Obj) -> Obj:
        return {**current, "metadata": {**current["metadata"], "labels": labels}}

    cluster.store.modify("reservations", "", name, labelled)


def late(cluster: SimulatedCluster, name: str, **fields: Any) -> None:
    """Make a pod of 2 CPUs that koordinator's scheduler places."""
    cluster.pod(name, cpu="2", schedulerName=KOORDINATOR_SCHEDULER, **fields)


FOR_LATE = {"object": {"kind": "Pod", "namespace": "default", "name": "late"}}


def test_a_place_is_kept_for_its_owner_and_used_up_by_it() -> None:
    cluster = world("n1")
    reserve(cluster, "r", FOR_LATE)
    kept = cluster.status("reservations", "r")
    assert (kept["phase"], kept["nodeName"], kept["allocatable"]) == (
        "Available",
        "n1",
        {"cpu": "2000m"},
    )
    reasons = [(each["type"], each["reason"]) for each in kept["conditions"]]
    assert reasons == [("Scheduled", "Scheduled"), ("Ready", "Available")]

    late(cluster, "other")
    assert cluster.nodes_of_pods() == {"other": ""}

    late(cluster, "late")
    used = cluster.status("reservations", "r")
    assert cluster.nodes_of_pods() == {"other": "", "late": "n1"}
    assert (used["phase"], used["currentOwners"][0]["name"]) == ("Succeeded", "late")
    assert '"name": "r"' in cluster.get("pods", "late")["metadata"]["annotations"][ALLOCATED]


def test_pods_of_a_controller_or_with_labels_are_owners_and_the_first_in_order_serves() -> None:
    cluster = world("n1", "n2")
    selector = {"labelSelector": {"matchLabels": {"app": "late"}}}
    reserve(cluster, "a", selector)
    reserve(cluster, "b", selector)
    for name, number in (("a", "2000"), ("b", "1000")):
        order(cluster, name, number)

    late(cluster, "late", labels={"app": "late"})

    assert cluster.status("reservations", "b")["phase"] == "Succeeded"
    assert cluster.status("reservations", "a")["phase"] == "Available"


def test_without_room_it_waits_and_says_why() -> None:
    cluster = world("n1")
    late(cluster, "holder")
    reserve(cluster, "r", FOR_LATE)

    waiting = cluster.get("reservations", "r")
    condition = find_condition(waiting, "Scheduled")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."

    cluster.delete("pods", "holder", grace_period_seconds=0)
    cluster.advance(2)
    assert cluster.status("reservations", "r")["phase"] == "Available"


@pytest.mark.parametrize("how", ["time", "node"])
def test_one_whose_time_is_over_or_whose_node_is_gone_gives_its_room_back(how: str) -> None:
    cluster = world("n1")
    reserve(cluster, "r", FOR_LATE, ttl="60s")
    if how == "node":
        cluster.delete("nodes", "n1")
        cluster.nodes("n2", cpu="3")
    cluster.advance(61 if how == "time" else 1)

    ended = cluster.get("reservations", "r")
    ready = find_condition(ended, "Ready")
    assert ready is not None
    assert (ended["status"]["phase"], ready["reason"]) == ("Failed", "Expired")
    late(cluster, "other")
    assert cluster.nodes_of_pods()["other"] == ("n1" if how == "time" else "n2")
