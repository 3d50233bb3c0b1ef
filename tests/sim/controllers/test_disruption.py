"""The arithmetic of disruption budgets, and what their status says."""

from typing import Any

import pytest

from reactive_desched.sim.status import StatusError
from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster, pod_template


def numbers(world: SimulatedCluster, name: str = "web") -> tuple[int, int, int, int]:
    """Return allowed, healthy, desired and expected."""
    s = world.status("poddisruptionbudgets", name)
    healthy, desired = s["currentHealthy"], s["desiredHealthy"]
    return s["disruptionsAllowed"], healthy, desired, s["expectedPods"]


def reason(world: SimulatedCluster, name: str = "web") -> tuple[str, str]:
    """Return status and reason of the DisruptionAllowed condition."""
    (condition,) = world.status("poddisruptionbudgets", name)["conditions"]
    return condition["status"], condition["reason"]


ROWS = [
    ({"minAvailable": "50%"}, {1: 1, 3: 2, 7: 4, 10: 5}),
    ({"minAvailable": "30%"}, {1: 1, 3: 1, 7: 3, 10: 3}),
    ({"maxUnavailable": "30%"}, {1: 0, 3: 2, 7: 4, 10: 7}),
    ({"maxUnavailable": "10%"}, {1: 0, 3: 2, 7: 6, 10: 9}),
    ({"maxUnavailable": "1%"}, {1: 0, 3: 2, 7: 6, 10: 9}),
    ({"maxUnavailable": 2}, {1: 0, 3: 1, 7: 5, 10: 8}),
    ({"minAvailable": 4}, {1: 4, 3: 4, 7: 4, 10: 4}),
]


@pytest.mark.parametrize(
    ("spec", "scale", "desired"),
    [
        pytest.param(spec, scale, desired, id=f"{spec} of {scale}")
        for spec, columns in ROWS
        for scale, desired in columns.items()
    ],
)
def test_percentages_are_always_rounded_up(spec: dict[str, Any], scale: int, desired: int) -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", scale)
    world.pdb("web", **spec)

    world.advance(5)

    assert numbers(world) == (max(0, scale - desired), scale, desired, scale)


def test_what_is_expected_comes_from_the_owner_not_from_the_pods_there_are() -> None:
    world = SimulatedCluster().nodes("n1", pods="3")
    world.deployment("web", 10)
    world.pdb("web", maxUnavailable=5)

    world.advance(5)

    assert numbers(world) == (0, 3, 5, 10)


def test_a_fixed_minimum_counts_pods_without_an_owner() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("a", labels={"app": "web"})
    world.pod("b", labels={"app": "web"})
    world.pdb("web", minAvailable=1)

    world.advance(5)

    assert numbers(world) == (1, 2, 1, 2)


def test_pods_without_owner_do_not_count_towards_a_percentage() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 4)
    world.pod("bare", labels={"app": "web"})
    world.pdb("web", minAvailable="50%")

    world.advance(5)

    assert numbers(world) == (3, 5, 2, 4)


def test_pods_without_owner_can_never_be_disrupted_under_a_share() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("bare", labels={"app": "web"})
    world.pdb("web", maxUnavailable=1)

    world.advance(5)

    assert numbers(world) == (0, 1, 0, 0)


def test_daemon_sets_have_no_scale_so_a_percentage_fails_to_sync() -> None:
    world = SimulatedCluster().nodes("n1")
    template = pod_template("web")
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    world.create("daemonsets", "web", spec)
    world.pdb("web", maxUnavailable=1)
    world.pdb("count", {"app": "web"}, minAvailable=0)

    world.advance(5)

    assert reason(world) == ("False", "SyncFailed")
    (condition,) = world.status("poddisruptionbudgets", "web")["conditions"]
    assert condition["message"] == verbatim(
        "daemonsets.apps does not implement the scale subresource"
    )
    assert world.status("poddisruptionbudgets", "web")["disruptionsAllowed"] == 0
    assert numbers(world, "count") == (1, 1, 0, 1)


def test_a_budget_over_no_pods_allows_nothing() -> None:
    world = SimulatedCluster()
    world.pdb("web", maxUnavailable=1)

    assert numbers(world) == (0, 0, 0, 0)
    assert reason(world) == ("False", "InsufficientPods")


def test_an_eviction_spends_the_budget_until_the_replacement_is_ready() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    world.pdb("web", maxUnavailable=1)
    world.advance(5)
    first, second = sorted(world.names())
    assert reason(world) == ("True", "SufficientPods")

    world.evict(first)

    assert numbers(world) == (0, 1, 1, 2)
    with pytest.raises(StatusError, match="disruption budget"):
        world.evict(second)
    world.advance(5)
    assert numbers(world) == (1, 2, 1, 2)
    world.evict(second)


def test_scaling_the_owner_recounts_its_budgets() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    world.pdb("web", maxUnavailable=1)
    world.advance(5)

    world.edit("deployments", "web", replicas=4)

    assert numbers(world) == (0, 2, 3, 4)


def test_pods_that_were_there_before_the_budget_count() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 3)
    world.advance(5)

    world.pdb("web", maxUnavailable=1)

    assert numbers(world) == (1, 3, 2, 3)


def test_a_rollout_does_not_change_what_a_deployments_budget_expects() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 4)
    world.pdb("web", maxUnavailable="25%")
    world.advance(5)

    world.edit("deployments", "web", template=pod_template("web", labels={"v": "2"}))
    seen = set()
    for _ in range(20):
        seen.add(numbers(world)[2:])
        world.advance(0.5)

    assert seen == {(3, 4)}


def test_a_pod_that_is_relabelled_leaves_the_budget() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("a", labels={"app": "web"})
    world.pdb("web", minAvailable=0)
    world.advance(5)
    assert numbers(world) == (1, 1, 0, 1)

    def relabelled(pod: dict[str, Any]) -> dict[str, Any]:
        pod["metadata"]["labels"]["app"] = "other"
        return pod

    world.store.modify("pods", "default", "a", relabelled)
    world.cluster.settle()

    assert numbers(world) == (0, 0, 0, 0)


def test_an_eviction_that_never_began_is_forgiven_after_two_minutes() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("a", labels={"app": "web"})
    world.pdb("web", minAvailable=0)
    world.advance(5)

    def noted(budget: dict[str, Any]) -> dict[str, Any]:
        budget["status"] |= {"disruptedPods": {"a": "2027-01-15T08:00:05Z"}}
        return budget

    world.store.modify("poddisruptionbudgets", "default", "web", noted, subresource="status")
    world.advance(110)
    assert numbers(world) == (0, 0, 0, 1)
    world.advance(20)

    assert numbers(world) == (1, 1, 0, 1)
    assert "disruptedPods" not in world.status("poddisruptionbudgets", "web")
    assert len(world.events("NotDeleted")) == 1


def test_the_observed_generation_follows_the_spec() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    world.pdb("web", maxUnavailable=1)
    world.advance(5)

    world.edit("poddisruptionbudgets", "web", maxUnavailable=2)

    assert world.get("poddisruptionbudgets", "web")["metadata"]["generation"] == 2
    assert world.status("poddisruptionbudgets", "web")["observedGeneration"] == 2
    assert numbers(world) == (2, 2, 0, 2)
