"""What a preview of the controller says where findings make migration jobs."""

from typing import Any

from reactive_desched.plan.report import PlanReport
from tests.plan.test_assumed_cluster import UNPACED, evictions, preview, with_room

JOBS = (
    "evictions: {evictor: migration}\n"
    "migration: {maxMigratingPerNode: 0, skipEvictionGates: [MaxMigratingPerWorkload, "
    "MaxUnavailablePerWorkload, ExpectedReplicas], "
)
AT_ONCE = f"{UNPACED}{JOBS}}}\n"
ONE_BY_ONE = f"{UNPACED}{JOBS}maxMigratingGlobally: 1}}\n"
PLACE_FIRST = f"{UNPACED}{JOBS}defaultJobMode: ReservationFirst, placeholder: {{}}}}\n"


RESERVED = PLACE_FIRST.replace("placeholder: {}", "schedulerNames: [KNOWS]")


def moved(report: PlanReport) -> dict[str, float | None]:
    """Return when each pod is evicted."""
    return {each.pod.name: each.in_seconds for each in evictions(report)}


def pods(world: Any, number: int) -> list[Any]:
    return [world.pod(f"web-{each}", on="n1") for each in range(number)]


def test_a_job_evicts_the_pod_that_a_finding_is_about(world: Any) -> None:
    objects = (world.node("n1", "gpu"), world.node("n2"), *pods(world, 3))

    by_jobs = preview(world, *objects, settings=AT_ONCE)
    directly = preview(world, *objects)

    assert moved(by_jobs).keys() == moved(directly).keys() == {"web-0", "web-1", "web-2"}
    assert {each.action for each in by_jobs.decisions} == {"Evict"}, "nothing waits at the end"
    assert {each.plugin for each in by_jobs.decisions} == {"RemovePodsViolatingNodeTaints"}


def test_jobs_wait_for_each_other_as_their_limits_say(world: Any) -> None:
    objects = (world.node("n1", "gpu"), world.node("n2"), *pods(world, 3))

    report = preview(world, *objects, settings=ONE_BY_ONE, ready_after_s=10.0)

    first, second, third = moved(report).values()
    assert first is not None
    assert second is not None
    assert third is not None
    assert second - first > 10
    assert third - second > 10


def test_a_job_that_keeps_a_place_evicts_only_where_there_is_one(world: Any) -> None:
    objects = (world.node("n1", "gpu"), *pods(world, 2))
    room, full = with_room(world.node("n2"), 10), with_room(world.node("n2"), 0)

    assert len(moved(preview(world, *objects, room, settings=PLACE_FIRST))) == 2
    without = preview(world, *objects, full, settings=PLACE_FIRST)
    assert moved(without) == {}
    assert {each.reason for each in without.decisions} == {"MigrationJobFailed"}
    assert len(moved(preview(world, *objects, full, settings=AT_ONCE))) == 2


def test_a_place_is_reserved_for_the_pods_of_schedulers_that_know_reservations(
    world: Any,
) -> None:
    objects = (world.node("n1", "gpu"), world.node("n2"), *pods(world, 2))

    for scheduler, number in (("default-scheduler", 2), ("koord-scheduler", 0)):
        settings = RESERVED.replace("KNOWS", scheduler)
        assert len(moved(preview(world, *objects, settings=settings))) == number


def test_nothing_is_evicted_by_a_job_that_arbitration_forbids(world: Any) -> None:
    objects = (world.node("n1", "gpu"), world.node("n2"), *pods(world, 2))
    settings = AT_ONCE.replace(JOBS, JOBS + "namespaces: {exclude: [shop]}, ")

    [one, two] = preview(world, *objects, settings=settings).decisions

    assert one.reason == two.reason == "NamespaceNotSelected"


def test_no_job_is_made_while_a_schedule_lets_no_pod_go(world: Any) -> None:
    objects = (world.node("n1", "gpu"), world.node("n2"), *pods(world, 2))
    closed = "plugin: null, schedules: [{schedule: 0 0 * * *, duration: 24h, evictions: 0}]}"

    report = preview(world, *objects, settings=AT_ONCE.replace("plugin: null}", closed))

    assert {each.reason for each in report.decisions} == {"ScheduleAllowsNone"}
    assert {each.profile for each in report.decisions} == {"all"}, "the finding waits, not a job"


def job(pod: str, phase: str = "", **spec: Any) -> Any:
    """Return a job that a person made a minute ago on a pod of the shop."""
    status = {"status": {"phase": phase}} if phase else {}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {
            "name": f"move-{pod}",
            "uid": f"move-{pod}",
            "creationTimestamp": "2026-05-01T11:59:00Z",
        },
        "spec": {"podRef": {"namespace": "shop", "name": pod}, "ttl": "1h", **spec},
        **status,
    }


def test_jobs_of_the_cluster_evict_their_pods_but_for_those_that_ended_or_are_paused(
    world: Any,
) -> None:
    objects = (world.node("n1"), world.node("n2"), *pods(world, 4))
    jobs = (job("web-0"), job("web-1", paused=True), job("web-2", "Succeeded"))

    report = preview(world, *objects, *jobs, settings=AT_ONCE)

    assert moved(report).keys() == {"web-0"}
    assert {each.plugin for each in evictions(report)} == {"MigrationJobs"}
    assert moved(preview(world, *objects, *jobs, settings=UNPACED)) == {}, "jobs are off"


def test_a_job_of_the_cluster_counts_against_the_limits(world: Any) -> None:
    objects = (world.node("n1", "gpu"), world.node("n2"), *pods(world, 2))
    running = job("web-0", "Running", paused=True)

    assert moved(preview(world, *objects, running, settings=ONE_BY_ONE)) == {}
    assert moved(preview(world, *objects, settings=ONE_BY_ONE)).keys() == {"web-0", "web-1"}


def test_a_job_of_the_cluster_that_keeps_a_place_first_waits_where_there_is_none(
    world: Any,
) -> None:
    objects = (world.node("n1"), *pods(world, 1))
    first = job("web-0", mode="ReservationFirst")
    room, full = with_room(world.node("n2"), 10), with_room(world.node("n2"), 0)

    assert moved(preview(world, *objects, room, first, settings=PLACE_FIRST)).keys() == {"web-0"}
    assert moved(preview(world, *objects, full, first, settings=PLACE_FIRST)) == {}
