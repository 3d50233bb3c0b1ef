"""Which of the possible nodes is best."""

from typing import Any

import pytest

from reactive_desched.sim.scheduling.filters import Candidate
from reactive_desched.sim.scheduling.needs import PodNeeds
from reactive_desched.sim.scheduling.scheduler_cache import NodeRoom, SchedulerCache
from reactive_desched.sim.scheduling.scores import (
    MOST_ALLOCATED,
    balanced_allocation,
    least_allocated,
    most_allocated,
)
from tests.support.sim_world import HOSTNAME, ZONE, SimulatedCluster, node

GI = 2**30


def room(cpu: str = "4", memory: str = "8Gi") -> NodeRoom:
    """Return an empty node."""
    made = NodeRoom("n1")
    shape = node("n1", cpu=cpu, memory=memory)
    made.describe({**shape, "status": {"allocatable": shape["status"]["capacity"]}})
    return made


def asks(cpu_m: int, memory: int) -> Candidate:
    """Return a pod that requests this much."""
    requests = {"cpu": cpu_m, "memory": memory}
    needs = PodNeeds(requests=requests, scored_cpu_m=cpu_m, scored_memory=memory)
    return Candidate("default", "p", needs)


@pytest.mark.parametrize(
    ("cpu_m", "memory", "points"),
    [
        pytest.param(1000, 2 * GI, 75, id="a quarter of both"),
        pytest.param(3000, 2 * GI, 50, id="three quarters and a quarter"),
        pytest.param(5000, 2 * GI, 37, id="more than there is counts as none left"),
    ],
)
def test_least_allocated(cpu_m: int, memory: int, points: int) -> None:
    assert least_allocated(asks(cpu_m, memory), [room()], SchedulerCache()) == [points]


@pytest.mark.parametrize(
    ("cpu_m", "memory", "points"),
    [
        pytest.param(1000, 2 * GI, 25, id="a quarter of both"),
        pytest.param(3000, 2 * GI, 50, id="three quarters and a quarter"),
        pytest.param(5000, 2 * GI, 62, id="more than there is counts as full"),
    ],
)
def test_most_allocated(cpu_m: int, memory: int, points: int) -> None:
    assert most_allocated(asks(cpu_m, memory), [room()], SchedulerCache()) == [points]


def test_a_scheduler_that_packs_fills_one_node_first() -> None:
    world = SimulatedCluster(scoring=MOST_ALLOCATED).nodes("n1", "n2")
    for number in range(9):
        world.pod(f"p{number}", cpu="500m", memory="1Gi")

    assert sorted(world.nodes_of_pods().values()) == ["n1"] * 8 + ["n2"]


@pytest.mark.parametrize(
    ("cpu_m", "memory", "points"),
    [
        pytest.param(2000, 4 * GI, 75, id="alike"),
        pytest.param(3000, 2 * GI, 62, id="three quarters and a quarter"),
        pytest.param(0, 0, 0, id="a pod without requests does not care"),
    ],
)
def test_balanced_allocation(cpu_m: int, memory: int, points: int) -> None:
    assert balanced_allocation(asks(cpu_m, memory), [room()], SchedulerCache()) == [points]


def chosen(world: SimulatedCluster, **template: Any) -> str:
    """Return the node that a pod of this template is given."""
    world.pod("new", **template)
    return world.nodes_of_pods()["new"]


def test_the_emptier_node_wins() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.pod("holder", nodeName="n1", cpu="1", memory="1Gi")

    assert chosen(world, cpu="1", memory="1Gi") == "n2"


def test_a_soft_taint_is_avoided_but_not_forbidden() -> None:
    world = (
        SimulatedCluster()
        .nodes("n1", taints=({"key": "a", "effect": "PreferNoSchedule"},))
        .nodes("n2")
    )

    assert chosen(world) == "n2"
    world.edit("nodes", "n2", unschedulable=True)
    world.pod("late")
    assert world.nodes_of_pods()["late"] == "n1"


def test_preferred_node_affinity_is_followed() -> None:
    world = SimulatedCluster().nodes("n1").nodes("n2", labels={"disk": "ssd"})
    wish = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    terms = [{"weight": 1, "preference": wish}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}

    assert chosen(world, affinity=affinity) == "n2"


@pytest.mark.parametrize(("side", "expected"), [("podAffinity", "n2"), ("podAntiAffinity", "n1")])
def test_preferred_affinity_attracts_and_preferred_anti_affinity_repels(
    side: str, expected: str
) -> None:
    world = SimulatedCluster().nodes("n1/a", "n2/b")
    world.pod("db", nodeName="n2")
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
    wish = {"weight": 100, "podAffinityTerm": term}

    affinity = {side: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}

    assert chosen(world, affinity=affinity) == expected


def test_pods_of_one_owner_spread_over_nodes_and_zones() -> None:
    world = SimulatedCluster().nodes("n1/a", "n2/a", "n3/b")
    world.deployment("web", 2)

    zones = {
        world.get("nodes", place)["metadata"]["labels"][ZONE]
        for place in world.nodes_of_pods().values()
    }

    assert zones == {"a", "b"}


def test_schedule_anyway_prefers_the_emptier_domain() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    for number in range(3):
        world.pod(f"old-{number}", labels={"app": "web"}, nodeName="n1")
    rule = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }

    spread = chosen(world, labels={"app": "web"}, topologySpreadConstraints=[rule])

    assert spread == "n2"


def test_equal_nodes_are_taken_by_name() -> None:
    assert chosen(SimulatedCluster().nodes("n3", "n1", "n2")) == "n1"


def test_a_node_that_has_the_image_is_taken_if_the_image_is_large_and_others_have_it() -> None:
    world = SimulatedCluster().nodes("n1", "n2", "n3", cpu="64", memory="256Gi")

    def bring(name: str, megabytes: int) -> None:
        image = {"names": ["example/task:1"], "sizeBytes": megabytes * 2**20}
        world.store.modify(
            "nodes",
            "",
            name,
            lambda node: {**node, "status": {**node["status"], "images": [image]}},
            subresource="status",
        )

    container = {"name": "main", "image": "example/task:1"}
    taken = list[str | None]()
    for megabytes in (30, 900):
        for name in ("n2", "n3"):
            bring(name, megabytes)
        world.pod(f"p{megabytes}", containers=[container])
        taken.append(world.nodes_of_pods()[f"p{megabytes}"])

    assert taken == ["n1", "n2"]
