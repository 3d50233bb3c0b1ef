"""A CronJob starts a Job whenever its schedule says so."""

from typing import Any

import pytest

from tests.support.sim_world import SimulatedCluster, pod_template

STAYS = {"sim.reactive-desched/run-seconds": "9000"}


def cron_job(
    world: SimulatedCluster, annotations: dict[str, str] | None = None, **spec: Any
) -> None:
    """Create a CronJob called tick, each ten minutes, whose pods run for 30 seconds."""
    template = pod_template("task", annotations=annotations, restartPolicy="Never")
    made = {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": template}}, **spec}
    world.create("cronjobs", "tick", made)


def jobs(world: SimulatedCluster) -> list[str]:
    return [job["metadata"]["name"] for job in world.store.list("jobs")]


def test_each_start_is_a_job_named_for_its_minute_and_the_last_three_are_kept() -> None:
    world = SimulatedCluster().nodes("n1")
    cron_job(world)
    began = int(world.clock.now()) // 60

    world.advance(601)
    (first,) = jobs(world)
    world.advance(4 * 600 + 60)

    assert began < int(first.removeprefix("tick-")) <= began + 10
    minute = int(first.removeprefix("tick-"))
    assert jobs(world) == [f"tick-{minute + 10 * later}" for later in (2, 3, 4)]
    status = world.status("cronjobs", "tick")
    assert status["lastSuccessfulTime"] > status["lastScheduleTime"]
    assert "active" not in status


@pytest.mark.parametrize(("policy", "left"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
def test_the_policy_says_what_becomes_of_a_job_that_still_runs(policy: str, left: int) -> None:
    world = SimulatedCluster().nodes("n1")
    cron_job(world, STAYS, concurrencyPolicy=policy)
    world.advance(601)
    (first,) = jobs(world)

    world.advance(1200)

    assert len(jobs(world)) == left
    assert (first in jobs(world)) is (policy != "Replace")
    active = world.status("cronjobs", "tick")["active"]
    assert [each["name"] for each in active] == jobs(world)


def test_a_suspended_one_starts_nothing_and_makes_up_for_the_last_start() -> None:
    world = SimulatedCluster().nodes("n1")
    cron_job(world, suspend=True)
    world.advance(1900)
    assert jobs(world) == []

    world.edit("cronjobs", "tick", suspend=False)
    world.advance(1)

    assert len(jobs(world)) == 1


@pytest.mark.parametrize(
    ("schedule", "starts"), [("@every 5m", 6), ("@hourly", 1), ("@yearly", 0), ("nonsense", 0)]
)
def test_short_forms_of_schedules(schedule: str, starts: int) -> None:
    world = SimulatedCluster().nodes("n1")
    cron_job(world, schedule=schedule, successfulJobsHistoryLimit=100)

    world.advance(3600 if schedule == "@hourly" else 1801)

    assert len(jobs(world)) == starts


def test_a_question_mark_is_a_star() -> None:
    world = SimulatedCluster().nodes("n1")
    cron_job(world, schedule="*/1 * * * ?")
    world.advance(130)
    assert len(jobs(world)) == 2
