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
    ends = (c for c in found if c["status"] == "True" and c["type"] in ("Complete", "Failed"))
    return {c["type"]: c["reason"] for c in ends}


def test_no_more_than_the_allowed_pods_run_side_by_side() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, completions=3, parallelism=2)
    assert len(world.names()) == 2

    world.advance(40)
    assert world.status("jobs", "task")["active"] == 1
    world.advance(40)

    status = world.status("jobs", "task")
    assert (status["succeeded"], finished(world)) == (3, {"Complete": "CompletionsReached"})
    assert status["completionTime"]


def test_an_evicted_pod_counts_as_failed_at_once_and_is_replaced_after_a_pause() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world)
    world.advance(5)
    (old,) = world.names()

    world.evict(old)
    assert world.status("jobs", "task")["failed"] == 1
    world.advance(9)
    assert world.names() == set()
    world.advance(2)

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
    world.advance(20)

    assert finished(world).get("Failed") == reason
    assert bool(world.names() - {old}) is (reason is None)


def test_the_replacement_waits_for_the_end_if_the_policy_says_so() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, podReplacementPolicy="Failed")
    world.advance(5)
    (old,) = world.names()

    world.evict(old)
    assert "failed" not in world.status("jobs", "task")
    assert world.names() == {old}
    world.advance(2)
    assert world.status("jobs", "task")["failed"] == 1
    world.advance(10)

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
    assert finished(world) == {"Complete": "CompletionsReached"}

    world.advance(110)

    assert world.store.list("jobs") == []
    assert world.names() == set()


INDEX = "batch.kubernetes.io/job-completion-index"


def ends(world: SimulatedCluster, index: int, phase: str) -> None:
    """Have the pod of an index end."""
    (pod,) = (
        pod
        for pod in world.store.list("pods")
        if pod["metadata"]["labels"][INDEX] == str(index) and pod["status"]["phase"] == "Running"
    )
    key = (pod["metadata"]["namespace"], pod["metadata"]["name"])

    def change(current: dict[str, Any]) -> dict[str, Any]:
        return {**current, "status": {**current["status"], "phase": phase}}

    world.store.modify("pods", *key, change, subresource="status")
    world.advance(5)


def test_each_index_runs_until_it_has_succeeded_once() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, completions=5, parallelism=3, completionMode="Indexed")
    world.advance(5)

    for index in (0, 2, 1):
        ends(world, index, "Succeeded")

    at_work = {
        pod["metadata"]["annotations"][INDEX]
        for pod in world.store.list("pods")
        if pod["status"]["phase"] == "Running"
    }
    assert at_work == {"3", "4"}
    assert world.status("jobs", "task")["completedIndexes"] == "0-2"
    world.advance(60)
    assert finished(world) == {"Complete": "CompletionsReached"}


def test_an_index_that_failed_too_often_is_given_up_and_the_others_go_on() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    world.advance(5)

    ends(world, 0, "Failed")
    assert world.status("jobs", "task")["failedIndexes"] == ""
    world.advance(12)
    ends(world, 0, "Failed")
    assert world.status("jobs", "task")["failedIndexes"] == "0"
    ends(world, 1, "Succeeded")

    assert finished(world) == {"Failed": "FailedIndexes"}
    assert world.status("jobs", "task")["completedIndexes"] == "1"


def test_a_success_policy_ends_the_job_before_all_indexes_have() -> None:
    world = SimulatedCluster().nodes("n1")
    rules = [{"succeededIndexes": "0,2-3", "succeededCount": 1}]
    job(
        world,
        completions=4,
        parallelism=4,
        completionMode="Indexed",
        successPolicy={"rules": rules},
    )
    world.advance(5)

    ends(world, 1, "Succeeded")
    assert finished(world) == {}
    ends(world, 3, "Succeeded")

    assert finished(world) == {"Complete": "SuccessPolicy"}
    assert world.status("jobs", "task")["succeeded"] == 2


def test_pods_of_a_deleted_job_do_not_stay() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world, parallelism=2, completions=2)
    world.advance(5)

    world.store.delete("jobs", "default", "task")
    world.advance(40)

    assert world.names() == set()


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    world = SimulatedCluster().nodes("n1")
    job(world)
    world.advance(5)

    def suspend(*, yes: bool) -> None:
        world.store.modify(
            "jobs",
            "default",
            "task",
            lambda job: {**job, "spec": {**job["spec"], "suspend": yes}},
        )
        world.advance(5)

    suspend(yes=True)
    assert world.names() == set()
    assert "failed" not in world.status("jobs", "task")
    suspend(yes=False)

    assert len(world.names()) == 1
    conditions = world.status("jobs", "task")["conditions"]
    assert [(each["type"], each["status"]) for each in conditions] == [("Suspended", "False")]
