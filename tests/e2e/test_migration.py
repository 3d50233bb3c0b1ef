"""Migration jobs on a real control plane: the real scheduler decides about places."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.e2e.conftest import SETTINGS
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import ControllerProcess, RunController
from tests.support.playground import E2ENamespace
from tests.support.real_jobs import create_job, has_not, placeholders, status

pytestmark = pytest.mark.real

OUTAGE_S = 2
TIGHT_CPU = "700m"  # of nodes with 8 cores: eleven pods, and no room for another


def settings(evictor: str) -> str:
    """Return settings with which one pod at a time moves, into a place that is kept."""
    retry = "retry: {initial: 1s, max: 5s}"
    one_at_a_time = (
        "migration: {defaultJobMode: ReservationFirst, placeholder: {}, maxMigratingPerNode: 9, "
        "maxMigratingPerWorkload: 1, maxUnavailablePerWorkload: 1}\n"
    )
    return SETTINGS.replace(retry, f"{retry}, evictor: {evictor}") + one_at_a_time


def test_twenty_pods_of_a_tight_cluster_move_one_after_the_other_into_kept_places(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck, tmp_path: Path
) -> None:
    jobs.add_nodes("n1", "n2")
    doomed = jobs.deploy("web", 20, cpu=TIGHT_CPU)
    jobs.settings = settings("migration")

    with (
        jobs.watch_health("web", tmp_path / "pods.log") as watch,
        run_controller(),
    ):
        jobs.add_nodes("n3", "n4")
        for name in ("n1", "n2"):
            jobs.taint(name, "gpu=yes:NoSchedule")
        jobs.await_healthy("web", 20, off="n1", within_s=120)
        moved = jobs.await_healthy("web", 20, off="n2", within_s=120)
        wait_until(lambda: not placeholders(jobs), within_s=60, what="no placeholder is left")

    assert doomed.keys().isdisjoint(moved)
    counts = watch.healthy_counts()
    assert min(counts[counts.index(20) :]) == 19
    assert {each.uid for each in referee.evicted()} == doomed.keys()


def test_in_a_full_cluster_nothing_is_evicted_and_nothing_is_left_behind(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    jobs.add_nodes("n1", "n2")
    before = jobs.deploy("web", 22, cpu=TIGHT_CPU)
    jobs.settings = settings("api")

    with run_controller():
        name = create_job(jobs, next(iter(before.values())).name, ttl="15s")
        wait_until(
            lambda: status(jobs, name).get("phase") == "Failed",
            within_s=60,
            what="the job has failed",
        )
        wait_until(lambda: not placeholders(jobs), within_s=60, what="no placeholder is left")

    assert jobs.pods("web") == before
    assert referee.evicted() == []
    conditions = {each["type"]: each["reason"] for each in status(jobs, name)["conditions"]}
    assert conditions == {
        "ReservationCreated": "ReservationCreated",
        "ReservationScheduled": "Unschedulable",
    }


def test_the_place_is_given_to_the_replacement_and_to_no_pod_that_waited_for_the_room_before(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    # The nomination of a pod that may preempt others is taken back when a pod ends just then
    # elsewhere, as the evicted one may (ADR 110): of these pods it stays.
    jobs.add_nodes("n1")
    before = jobs.deploy("web", 2, cpu="3500m", priorityClassName=jobs.add_patient_class())
    doomed = next(iter(before.values()))
    jobs.cordon("n1")
    jobs.add_nodes("n2")
    jobs.deploy("other", 1, cpu="3500m")
    jobs.create_pdb("web", 0)
    jobs.settings = settings("api")

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="2m")
        wait_until(
            lambda: not has_not(jobs, name, "ReservationScheduled"),
            within_s=60,
            what="the placeholder has a node",
        )
        jobs.deploy_each("rival", cpu="3500m")
        wait_until(lambda: jobs.pods("rival"), within_s=60, what="the rival waits")
        time.sleep(OUTAGE_S)
        jobs.delete_pdb("web")
        wait_until(referee.evicted, within_s=60, what="the pod is evicted")
        after = jobs.await_healthy("web", 2, within_s=60)

    assert {pod.node for pod in after.values()} == {jobs.node("n1"), jobs.node("n2")}
    assert [pod.node for pod in jobs.pods("rival").values()] == [None]
    assert [each.uid for each in referee.evicted()] == [doomed.uid]


Down = Callable[[], AbstractContextManager[None]]


@pytest.mark.parametrize("victim", ["API server", "kube-scheduler", "controller"])
def test_a_job_survives_kills_while_it_waits_for_a_place_for_the_eviction_and_for_the_pod(
    victim: str,
    jobs: E2ENamespace,
    control_plane: ControlPlane,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    jobs.add_nodes("n1", "n2")
    before = jobs.deploy("web", 2, cpu="5")
    doomed = next(pod for pod in before.values() if pod.node == jobs.node("n1"))
    hold(jobs, doomed.name)
    jobs.cordon("n1")  # while the kube-scheduler is down, the pod leaves room there
    jobs.settings = settings("api")

    with run_controller() as controller:
        down: Down = {
            "API server": control_plane.outage,
            "kube-scheduler": control_plane.without_scheduler,
            "controller": lambda: restarted(controller),
        }[victim]

        def kill_and(change: Callable[[], None]) -> None:
            if victim == "API server":
                with down():
                    pass
                change()
            else:
                with down():
                    change()

        name = create_job(jobs, doomed.name, ttl="5m")

        wait_until(lambda: placeholders(jobs), within_s=60, what="a placeholder waits for room")
        assert has_not(jobs, name, "ReservationScheduled")
        kill_and(lambda: time.sleep(OUTAGE_S))
        jobs.create_pdb("web", 0)
        jobs.add_nodes("n3")
        wait_until(
            lambda: not has_not(jobs, name, "ReservationScheduled"),
            within_s=60,
            what="the placeholder has a node",
        )

        assert referee.evicted() == []
        kill_and(lambda: jobs.delete_pdb("web"))
        wait_until(referee.evicted, within_s=60, what="the pod is evicted")
        wait_until(lambda: not placeholders(jobs), within_s=60, what="the placeholder made room")

        assert status(jobs, name)["phase"] == "Running"
        kill_and(lambda: let_go(jobs, doomed.name))
        after = jobs.await_healthy("web", 2, off="n1", within_s=90)
        wait_until(
            lambda: status(jobs, name).get("phase") == "Succeeded",
            within_s=60,
            what="the job has succeeded",
        )

    assert {pod.node for pod in after.values()} == {jobs.node("n2"), jobs.node("n3")}
    assert status(jobs, name)["nodeName"] == jobs.node("n3")
    assert [each.uid for each in referee.evicted()] == [doomed.uid]
    assert placeholders(jobs) == []


@contextlib.contextmanager
def restarted(controller: ControllerProcess) -> Iterator[None]:
    """Kill the controller; it starts again after the block."""
    controller.kill()
    yield
    controller.start()


def hold(playground: E2ENamespace, pod: str) -> None:
    """Keep a pod terminating from its deletion until `let_go`, by a finalizer."""
    _set_finalizers(playground, pod, ["e2e.reactive-desched.example/held"])


def let_go(playground: E2ENamespace, pod: str) -> None:
    """Let a pod that was held end."""
    _set_finalizers(playground, pod, [])


def _set_finalizers(playground: E2ENamespace, pod: str, finalizers: list[str]) -> None:
    patch = json.dumps({"metadata": {"finalizers": finalizers}})
    in_namespace = ("-n", playground.namespace)
    playground.kubectl.run("patch", "pod", pod, *in_namespace, "--type=merge", "-p", patch)
