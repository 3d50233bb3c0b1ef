"""DoNotSchedule: how uneven a spread may become."""

from typing import Any

import pytest

from tests.support.sim_world import HOSTNAME, ZONE, SimulatedCluster

UNEVEN = ("node(s) didn't match pod topology spread constraints",)
UNLABELLED = (f"{UNEVEN[0]} (missing required label)",)
WEB = {"matchLabels": {"app": "web"}}


def constraint(max_skew: int = 1, key: str = ZONE, **more: Any) -> dict[str, Any]:
    """Return a hard constraint over app=web."""
    return {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        **more,
    }


def world_with(**zones: int) -> SimulatedCluster:
    """Return one node per zone, holding that many pods labelled app=web."""
    world = SimulatedCluster()
    for zone, count in zones.items():
        world.nodes(f"n{zone}/{zone}")
        for number in range(count):
            world.pod(f"web-{zone}-{number}", labels={"app": "web"}, nodeName=f"n{zone}")
    return world


def verdicts(
    world: SimulatedCluster, *constraints: dict[str, Any], app: str = "web", **spec: Any
) -> dict[str, tuple[str, ...]]:
    """Return each node's reasons against a pod with these constraints."""
    pod = world.pod(
        "new",
        labels={"app": app},
        schedulerName="nobody",
        topologySpreadConstraints=list(constraints),
        **spec,
    )
    return world.cluster.scheduler.verdicts(pod)


def allowed(found: dict[str, tuple[str, ...]]) -> set[str]:
    """Return the nodes without reasons."""
    return {node for node, reasons in found.items() if not reasons}


@pytest.mark.parametrize(
    ("zones", "rule", "app", "expected"),
    [
        pytest.param({"a": 2, "b": 1}, constraint(1), "web", {"nb"}, id="2 1, skew 1"),
        pytest.param({"a": 2, "b": 1}, constraint(2), "web", {"na", "nb"}, id="2 1, skew 2"),
        pytest.param({"a": 2, "b": 4, "c": 5}, constraint(1), "web", {"na"}, id="2 4 5, skew 1"),
        pytest.param(
            {"a": 1, "b": 1}, constraint(1, minDomains=3), "web", set(), id="too few domains"
        ),
        pytest.param(
            {"a": 1, "b": 1},
            constraint(2, minDomains=3),
            "web",
            {"na", "nb"},
            id="too few domains, skew 2",
        ),
        pytest.param(
            {"a": 2, "b": 1}, constraint(1), "other", {"na", "nb"}, id="a pod that does not count"
        ),
        pytest.param(
            {"a": 9, "b": 0}, constraint(1, labelSelector={}), "web", {"na", "nb"}, id="empty"
        ),
        pytest.param(
            {"a": 9, "b": 0}, constraint(1, labelSelector=None), "web", {"na", "nb"}, id="absent"
        ),
    ],
)
def test_the_table(
    zones: dict[str, int], rule: dict[str, Any], app: str, expected: set[str]
) -> None:
    assert allowed(verdicts(world_with(**zones), rule, app=app)) == expected


def test_a_node_without_the_key_is_no_place() -> None:
    world = world_with(a=0).nodes("bare")

    assert verdicts(world, constraint()) == {"na": (), "bare": UNLABELLED}


def test_a_node_must_have_the_keys_of_all_constraints_to_count() -> None:
    world = world_with(a=1)
    world.nodes("nb/b", labels={"rack": "r1"})
    both = (constraint(), constraint(9, "rack"))

    # Zone a is no domain here: its only node has no rack.
    assert verdicts(world, *both) == {"na": UNLABELLED, "nb": ()}


def test_constraints_can_contradict_each_other() -> None:
    world = SimulatedCluster().nodes("n1/a", "n2/a", "n3/b")
    for number, place in enumerate(("n1", "n1", "n2", "n3", "n3")):
        world.pod(f"web-{number}", labels={"app": "web"}, nodeName=place)

    zone, host = constraint(), constraint(1, HOSTNAME)

    assert allowed(verdicts(world, zone)) == {"n3"}
    world.delete("pods", "new")
    assert allowed(verdicts(world, host)) == {"n2"}
    world.delete("pods", "new")
    assert allowed(verdicts(world, zone, host)) == set()


def test_terminating_pods_do_not_count() -> None:
    world = world_with(a=1, b=0).advance(5)
    assert allowed(verdicts(world, constraint())) == {"nb"}

    world.delete("pods", "web-a-0")

    assert world.phases()["web-a-0"] == "Terminating"
    new = world.get("pods", "new")
    assert allowed(world.cluster.scheduler.verdicts(new)) == {"na", "nb"}


def test_only_the_pods_own_namespace_counts() -> None:
    world = world_with(a=0, b=0)
    world.store.create("namespaces", {"metadata": {"name": "away"}})
    meta = {"name": "web", "namespace": "away", "labels": {"app": "web"}}
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "na"}
    world.store.create("pods", {"metadata": meta, "spec": spec})

    assert allowed(verdicts(world, constraint())) == {"na", "nb"}


@pytest.mark.parametrize(("policy", "expected"), [("Honor", {"na"}), ("Ignore", set())])
def test_nodes_outside_the_pods_affinity_make_no_domain(policy: str, expected: set[str]) -> None:
    world = world_with(b=0)
    world.nodes("na/a", labels={"pool": "x"})
    world.pod("web-a", labels={"app": "web"}, nodeName="na")

    found = verdicts(world, constraint(nodeAffinityPolicy=policy), nodeSelector={"pool": "x"})

    assert allowed(found) == expected


@pytest.mark.parametrize(("policy", "expected"), [("Honor", {"na"}), ("Ignore", set())])
def test_tainted_nodes_make_a_domain_by_default(policy: str, expected: set[str]) -> None:
    world = world_with(a=1, b=0)
    world.edit("nodes", "nb", taints=[{"key": "t", "effect": "NoSchedule"}])

    assert allowed(verdicts(world, constraint(nodeTaintsPolicy=policy))) == expected
