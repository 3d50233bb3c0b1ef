"""What a preview shows of work that an eviction would end, and of Jobs that have tries to spare."""

from typing import Any

from reactive_desched.plan.mode import PlanMode
from tests.plan.test_assumed_cluster import (
    POLICY,
    SETTINGS,
    UNPACED,
    asking_for,
    evictions,
    places,
    preview,
    with_room,
)

GUARDS_OFF = f"{UNPACED}guards: {{disabled: [JobTries, UnreplacedPods, UnreadyWorkloads]}}\n"
ONE_TRY_LEFT = f"{UNPACED}guards: {{disabled: [UnreadyWorkloads]}}\n"


def owned(pod: Any, kind: str, version: str, restarts: str = "Never") -> Any:
    owner = {"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    pod["spec"]["restartPolicy"] = restarts
    return pod


def job(limit: int, failed: int = 0, **spec: Any) -> Any:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "o", "namespace": "default", "uid": "o"},
        "spec": {"completions": 9, "backoffLimit": limit} | spec,
        "status": {"failed": failed},
    }


def nodes(world: Any) -> list[Any]:
    return [world.node("n1", "gpu"), world.node("n2")]


def test_nothing_takes_the_place_of_a_pod_that_is_run_once(world: Any) -> None:
    step = owned(world.pod("step"), "TaskRun", "tekton.dev/v1")

    assert places(preview(world, *nodes(world), step)) == {}
    assert places(preview(world, *nodes(world), step, settings=GUARDS_OFF)) == {"step": None}
    trusted = f"{UNPACED}guards: {{replacingOwners: [TaskRun]}}\n"
    assert places(preview(world, *nodes(world), step, settings=trusted)) == {"step": "n2"}


def test_what_moves_a_virtual_machine_makes_a_new_pod(world: Any) -> None:
    machine = owned(world.pod("vm"), "VirtualMachineInstance", "kubevirt.io/v1")
    mark = {"descheduler.alpha.kubernetes.io/request-evict-only": ""}
    machine["metadata"]["annotations"] = mark

    assert places(preview(world, *nodes(world), machine)) == {"vm": "n2"}


def test_the_next_pod_of_an_index_has_failed_once_more(world: Any) -> None:
    by_age = POLICY.replace("RemoveFailedPods", "PodLifeTime").replace(
        "  plugins:", "  - name: PodLifeTime\n    args: {maxPodLifeTimeSeconds: 60}\n  plugins:"
    )
    pod = owned(world.pod("report"), "Job", "batch/v1")
    cluster = world.file(
        world.listed([*nodes(world), pod, job(100, backoffLimitPerIndex=2, completions=1)])
    )
    report = world.look(cluster, mode=PlanMode.RUN, policy=by_age + SETTINGS + ONE_TRY_LEFT)

    assert [each.pod.name for each in evictions(report)] == ["report", "report-replacement"]


def test_nothing_takes_the_place_of_the_pod_of_a_job_that_fails_for_good(world: Any) -> None:
    pod = owned(world.pod("report"), "Job", "batch/v1")

    assert places(preview(world, *nodes(world), pod, job(0))) == {}
    for of in (job(0), job(6, suspend=True)):
        shown = places(preview(world, *nodes(world), pod, of, settings=GUARDS_OFF))
        assert shown == {"report": None}
    assert places(preview(world, *nodes(world), pod, job(1), settings=GUARDS_OFF)) == {
        "report": "n2"
    }


def test_a_job_counts_its_failures_as_the_preview_goes_on(world: Any) -> None:
    pods = [owned(world.pod(f"report-{number}"), "Job", "batch/v1") for number in range(4)]

    shown = places(preview(world, *nodes(world), *pods, job(2), settings=ONE_TRY_LEFT))

    assert list(shown.values()) == ["n2", "n2"]


def test_a_job_that_ignores_disruptions_counts_none(world: Any) -> None:
    pods = [owned(world.pod(f"report-{number}"), "Job", "batch/v1") for number in range(3)]
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    ignoring = job(0, podFailurePolicy={"rules": [rule]})

    shown = places(preview(world, *nodes(world), *pods, ignoring, settings=ONE_TRY_LEFT))

    assert shown == {"report-0": "n2", "report-1": "n2", "report-2": "n2"}


def test_a_job_may_wait_for_the_end_of_a_pod_before_it_makes_the_next(world: Any) -> None:
    by_age = POLICY.replace("RemoveFailedPods", "PodLifeTime").replace(
        "  plugins:", "  - name: PodLifeTime\n    args: {maxPodLifeTimeSeconds: 60}\n  plugins:"
    )
    small, busy = with_room(world.node("n1"), 1), world.node("n2")
    stays = asking_for(3, owned(world.pod("stays", on="n2"), "ReplicaSet", "apps/v1", "Always"))
    stays["metadata"]["annotations"] = {"reactive-desched/do-not-evict": "true"}
    pod = owned(world.pod("report"), "Job", "batch/v1")

    for policy, place in (("TerminatingOrFailed", "n2"), ("Failed", "n1")):
        of = job(1, podReplacementPolicy=policy)
        cluster = world.file(world.listed([small, busy, stays, pod, of]))
        text = by_age + SETTINGS + ONE_TRY_LEFT
        report = world.look(cluster, mode=PlanMode.RUN, policy=text)
        assert places(report) == {"report": place}


def test_jobs_that_were_not_given_are_named(world: Any) -> None:
    pod = owned(world.pod("report"), "Job", "batch/v1")
    report = preview(world, *nodes(world), pod)

    assert places(report) == {}
    assert [each for each in report.warnings if each.startswith("no jobs given")]
