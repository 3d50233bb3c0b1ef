"""Which pods a ReplicaSet gives up first."""

from typing import Any

import pytest

from reactive_desched.sim.controllers.victims import first_to_go

NOW = 1_800_000_000.0
AT = {0: "2027-01-15T07:00:00Z", 1: "2027-01-15T07:59:50Z"}


def pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: bool = True,
    cost: str = "",
    since: int = 0,
    restarts: int = 0,
    created: int = 0,
) -> dict[str, Any]:
    """Return a pod; times are 0 for long ago and 1 for just now."""
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": AT[since]}
    notes = {"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {}
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": AT[created],
            "annotations": notes,
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": [condition],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


@pytest.mark.parametrize(
    ("first", "other"),
    [
        pytest.param({"node": ""}, {"phase": "Pending"}, id="unscheduled before pending"),
        pytest.param({"phase": "Pending"}, {"ready": False}, id="pending before running"),
        pytest.param({"ready": False}, {"cost": "-9"}, id="unready before cheap"),
        pytest.param({"cost": "-9"}, {"since": 1}, id="cheap before young"),
        pytest.param({"since": 1}, {"restarts": 9}, id="newly ready before restarted"),
        pytest.param(
            {"ready": False, "restarts": 9},
            {"ready": False, "created": 1},
            id="restarted before newly made",
        ),
        pytest.param({"ready": False, "created": 1}, {"ready": False}, id="newly made before old"),
    ],
)
def test_what_is_least_use_goes_first(first: dict[str, Any], other: dict[str, Any]) -> None:
    pods = [pod("a", **other), pod("b", **first)]

    assert [p["metadata"]["name"] for p in first_to_go(pods, pods, 1, NOW)] == ["b"]


def test_the_fuller_node_gives_first() -> None:
    pods = [pod("a", node="n2"), pod("b"), pod("c")]

    assert [p["metadata"]["name"] for p in first_to_go(pods, pods, 1, NOW)] == ["b"]


def test_a_node_is_fuller_by_the_pods_of_other_sets_of_the_deployment() -> None:
    pods = [pod("a", node="n1"), pod("b", node="n2")]
    of_another_set = pod("c", node="n2")

    chosen = first_to_go(pods, [*pods, of_another_set], 1, NOW)

    assert [p["metadata"]["name"] for p in chosen] == ["b"]


def test_of_pods_that_are_ready_about_as_long_the_lower_uid_goes_first() -> None:
    pods = [pod("a", node="n1"), pod("b", node="n2", restarts=9)]
    pods[0]["metadata"]["uid"] = "2"
    pods[1]["metadata"]["uid"] = "1"

    assert [p["metadata"]["name"] for p in first_to_go(pods, pods, 1, NOW)] == ["b"]


def test_a_cost_that_is_no_number_counts_as_none() -> None:
    pods = [pod("a", cost="cheap"), pod("b", cost="-1")]

    assert [p["metadata"]["name"] for p in first_to_go(pods, pods, 1, NOW)] == ["b"]
