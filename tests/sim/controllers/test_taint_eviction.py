"""NoExecute taints: who goes, and when."""

from typing import Any

import pytest

from reactive_desched.model.taints import Taint, Toleration
from reactive_desched.sim.controllers.taint_eviction import patience
from tests.support.sim_world import SimulatedCluster

GONE = {"key": "gone", "effect": "NoExecute"}


def tolerate(seconds: int | None = None, key: str = "gone") -> dict[str, Any]:
    """Return a toleration, for ever unless seconds are given."""
    bearing = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return bearing if seconds is None else {**bearing, "tolerationSeconds": seconds}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], 0, id="untolerated: not at all"),
        pytest.param([("a", None)], 0, id="one of two tolerated is not enough"),
        pytest.param([("a", None), ("b", None)], None, id="both tolerated: for ever"),
        pytest.param([("a", 30), ("b", 60)], 30, id="the shorter one counts"),
        pytest.param([("a", 30), ("b", None)], 30, id="for ever does not stretch the other"),
        pytest.param([("a", -5), ("b", 60)], 0, id="a negative time is none"),
        pytest.param([("a", 30), ("a", 5), ("b", 60)], 30, id="the first match is the one used"),
    ],
)
def test_how_long_a_pod_may_stay(
    tolerations: list[tuple[str, int | None]], expected: float | None
) -> None:
    taints = [Taint("a", "NoExecute"), Taint("b", "NoExecute")]
    listed = [Toleration(k, "Exists", toleration_seconds=s) for k, s in tolerations]

    assert patience(listed, taints) == expected


def test_pods_go_when_their_time_on_the_tainted_node_is_up() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("never", tolerations=[tolerate()])
    world.pod("minute", tolerations=[tolerate(60)])
    world.pod("none")
    world.advance(5)

    world.edit("nodes", "n1", taints=[GONE])
    assert world.phases() == {"never": "Ready", "minute": "Ready", "none": "Terminating"}
    world.advance(59)
    assert world.phases() == {"never": "Ready", "minute": "Ready"}
    world.advance(1)

    assert world.phases() == {"never": "Ready", "minute": "Terminating"}
    (condition,) = [
        c for c in world.status("pods", "minute")["conditions"] if c["type"] == "DisruptionTarget"
    ]
    assert condition["reason"] == "DeletionByTaintManager"


def test_taking_the_taint_away_cancels_the_deletion() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("minute", tolerations=[tolerate(60)])
    world.advance(5)
    world.edit("nodes", "n1", taints=[GONE])
    world.advance(30)

    world.edit("nodes", "n1", taints=[])
    world.advance(100)

    assert world.phases() == {"minute": "Ready"}
    assert world.events("TaintManagerEviction") == ["Cancelling deletion of Pod default/minute"]


def test_a_deadline_once_set_is_not_moved_by_another_taint() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", tolerations=[tolerate(60), tolerate(300, key="slow")])
    world.advance(5)
    world.edit("nodes", "n1", taints=[GONE])
    world.advance(30)

    world.edit("nodes", "n1", taints=[GONE, {"key": "slow", "effect": "NoExecute"}])
    world.advance(29)
    assert world.phases() == {"p": "Ready"}
    world.advance(1)

    assert world.phases() == {"p": "Terminating"}


def test_a_budget_does_not_protect_from_taints() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 1)
    world.pdb("web", maxUnavailable=0)
    world.advance(5)
    (old,) = world.names()

    world.edit("nodes", "n1", taints=[GONE])

    assert world.phases()[old] == "Terminating"


def test_a_pod_bound_to_a_tainted_node_by_name_goes_too() -> None:
    world = SimulatedCluster().nodes("n1", taints=(GONE,))

    world.pod("late", nodeName="n1")
    world.advance(5)

    assert world.names() == set()
