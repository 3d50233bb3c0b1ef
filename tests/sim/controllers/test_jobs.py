"""A Job runs pods until enough of them have succeeded."""

from typing import Any

import pytest

from tests.support.sim_world import SimulatedCluster, pod_template

FAILING = {"sim.reactive-desched/exit-code": "1", "sim.reactive-desched/run-seconds": "3"}


def job(world: SimulatedCluster, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    """Create a Job called task whose pods run for 30 seconds."""
    template = pod_template("task", annotations=annotations, restartPolicy="Never")
    world.create("jobs", "task", {"template": template, **spec})


def finished(world: SimulatedCluster) -> dict[str, str]:
    """Return the job's final conditions and their reasons."""
    found = world.status("jobs", "task").get("conditions") or ()
    return {c["type"]: c.get("reason", "") for c in found if c["status"] == "True"}


def test_no_more_than_the_allowed_pods_run_side_by_side() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, completions=3, parallelism=2)
    assert len(world.names()) == 2

    world.advance(40)
    assert world.status("jobs", "task")["active"] == 1
    world.advance(40)

    status = world.status("jobs", "task")
    assert (status["succeeded"], finished(world)) == (3, {"Complete": ""})
    assert status["completionTime"]


def test_an_evicted_pod_is_replaced_without_a_pause() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world)
    world.advance(5)
    (old,) = world.names()

    world.evict(old)

    assert len(world.names() - {old}) == 1


DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget"}]}


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        pytest.param([], "BackoffLimitExceeded", id="a failure like any other"),
        pytest.param([{"action": "Ignore"} | DISRUPTED], None, id="ignored"),
        pytest.param([{"action": "FailJob"} | DISRUPTED], "PodFailurePolicy", id="the end"),
        pytest.param(
            [{"action": "Count"} | DISRUPTED, {"action": "Ignore"} | DISRUPTED],
            "BackoffLimitExceeded",
            id="the first rule counts",
        ),
        pytest.param(
            [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                {"action": "Ignore"} | DISRUPTED,
            ],
            None,
            id="another exit code",
        ),
    ],
)
def test_the_failure_policy_says_what_an_eviction_costs(
    rules: list[dict[str, Any]], reason: str | None
) -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, backoffLimit=0, podFailurePolicy={"rules": rules})
    world.advance(5)
    (old,) = world.names()

    world.evict(old)
    world.advance(10)

    assert finished(world).get("Failed") == reason
    assert bool(world.names() - {old}) is (reason is None)


def test_the_replacement_waits_for_the_end_if_the_policy_says_so() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, podReplacementPolicy="Failed")
    world.advance(5)
    (old,) = world.names()

    world.evict(old)
    assert world.names() == {old}
    world.advance(2)

    assert len(world.names() - {old}) == 1


def test_failures_are_retried_after_growing_pauses_until_the_limit() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, FAILING, backoffLimit=1)
    world.advance(6)
    assert len(world.names()) == 1
    world.advance(10)
    assert len(world.names()) == 2

    world.advance(30)

    assert len(world.names()) == 2
    assert finished(world) == {"Failed": "BackoffLimitExceeded"}


def test_a_job_that_takes_too_long_fails_and_its_pods_are_deleted() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, {"sim.reactive-desched/run-seconds": "600"}, activeDeadlineSeconds=60)
    world.advance(50)
    assert set(world.phases().values()) == {"Ready"}

    world.advance(20)

    assert world.names() == set()
    assert finished(world) == {"Failed": "DeadlineExceeded"}


def test_a_finished_job_goes_when_its_time_to_live_is_over_and_takes_its_pods_along() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, ttlSecondsAfterFinished=100)
    world.advance(40)
    assert finished(world) == {"Complete": ""}

    world.advance(110)

    assert world.store.list("jobs") == []
    assert world.names() == set()
