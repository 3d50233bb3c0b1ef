"""What the referee takes for a place of a pod that moves as one of a set."""

from typing import Any

from tests.safety.knowledge import Knowledge
from tests.safety.sets import Places

Obj = dict[str, Any]  # a Kubernetes object as JSON


def node(name: str, *taints: Obj, cpu: str = "4", **spec: Any) -> Obj:
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": {"cpu": cpu}},
    }


def pod(name: str, on: str, cpu: str = "1", *tolerates: str) -> Obj:
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {
            "nodeName": on,
            "containers": [{"resources": {"requests": {"cpu": cpu}}}],
            "tolerations": [{"key": key} for key in tolerates],
        },
    }


def places(*objects: Obj, of_set: str = "a") -> Places:
    told = Knowledge()
    for each in objects:
        kind = "pods" if "containers" in each["spec"] else "nodes"
        told.of(kind)[each["metadata"]["uid"]] = each
    return Places(told, {of_set})


HARD = {"key": "x", "effect": "NoSchedule"}
SOFT = {"key": "x", "effect": "PreferNoSchedule"}


def test_a_place_is_on_another_open_node_with_room() -> None:
    mover = pod("a", "n1")

    assert places(node("n1"), node("n2"), mover).fits(mover)
    assert places(node("n1"), node("n2", SOFT), mover).fits(mover)
    assert not places(node("n1"), mover).fits(mover), "its own node is none"
    assert not places(node("n1"), node("n2", HARD), mover).fits(mover)
    assert not places(node("n1"), node("n2", unschedulable=True), mover).fits(mover)
    full = pod("full", "n2", "3500m")
    assert not places(node("n1"), node("n2"), mover, full).fits(mover)


def test_a_toleration_opens_a_node() -> None:
    mover = pod("a", "n1", "1", "x")

    assert places(node("n1"), node("n2", HARD), mover).fits(mover)


def test_the_room_of_all_nodes_but_those_of_the_set_counts_together() -> None:
    found = places(node("n1"), node("n2"), node("n3"), pod("b", "n2", "3"), pod("c", "n3", "5"))

    assert found.free_cpu({"n1"}) == 1000, "a node that is too full has none to give away"
