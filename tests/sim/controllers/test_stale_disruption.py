"""A threat that nobody carries out is withdrawn."""

from typing import Any

from reactive_desched.sim.conditions import condition_status, with_condition
from tests.support.sim_world import SimulatedCluster


def test_a_disruption_that_never_came_is_taken_back_after_two_minutes() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p")
    world.advance(5)
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}

    def threaten(pod: dict[str, Any]) -> dict[str, Any]:
        conditions = with_condition(pod["status"]["conditions"], mark, "2027-01-15T08:00:05Z")
        return {**pod, "status": {**pod["status"], "conditions": conditions}}

    world.store.modify("pods", "default", "p", threaten, subresource="status")
    world.advance(119)
    assert condition_status(world.get("pods", "p"), "DisruptionTarget") == "True"
    world.advance(1)

    assert condition_status(world.get("pods", "p"), "DisruptionTarget") == "False"


def test_the_mark_stays_on_a_pod_that_is_going() -> None:
    world = SimulatedCluster().nodes("n1")
    slow = {"sim.reactive-desched/shutdown-seconds": "200"}
    world.pod("p", annotations=slow, terminationGracePeriodSeconds=300)
    world.advance(5)

    world.evict("p")
    world.advance(150)

    assert world.phases() == {"p": "Terminating"}
    assert condition_status(world.get("pods", "p"), "DisruptionTarget") == "True"
