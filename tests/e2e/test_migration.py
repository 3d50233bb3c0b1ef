"""Migration jobs on a real control plane: the real scheduler decides about places."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import SETTINGS
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.playground import E2ENamespace

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "migration"
TIGHT_CPU = "700m"  # of nodes with 8 cores: eleven pods, and no room for another


@pytest.fixture
def jobs(playground: E2ENamespace) -> E2ENamespace:
    """A playground whose cluster has the kind, with the rights of deploy/migration."""
    for name in ("podmigrationjobs.yaml", "rbac.yaml", "placeholders/rbac.yaml"):
        playground.kubectl.run("apply", "-f", str(DEPLOY / name))
    definition = "crd/podmigrationjobs.scheduling.koordinator.sh"
    playground.kubectl.run("wait", "--for=condition=Established", definition, "--timeout=30s")
    return playground


def settings(evictor: str) -> str:
    """Return settings with which one pod at a time moves, into a place that is kept."""
    retry = "retry: {initial: 1s, max: 5s}"
    one_at_a_time = (
        "migration: {defaultJobMode: ReservationFirst, placeholder: {}, maxMigratingPerNode: 9, "
        "maxMigratingPerWorkload: 1, maxUnavailablePerWorkload: 1}\n"
    )
    return SETTINGS.replace(retry, f"{retry}, evictor: {evictor}") + one_at_a_time


def placeholders(playground: E2ENamespace) -> list[str]:
    pods = playground.kubectl.get("pods", "-n", playground.namespace)
    names = [pod["metadata"]["name"] for pod in pods]
    return [name for name in names if name.startswith("placeholder")]


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

    assert doomed.keys().isdisjoint(moved)
    counts = watch.healthy_counts()
    assert min(counts[counts.index(20) :]) == 19
    assert {each.uid for each in referee.evicted()} == doomed.keys()
    assert placeholders(jobs) == []


def test_in_a_full_cluster_nothing_is_evicted_and_nothing_is_left_behind(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    jobs.add_nodes("n1", "n2")
    before = jobs.deploy("web", 22, cpu=TIGHT_CPU)
    jobs.settings = settings("api")
    name = f"{jobs.namespace}-job"
    pod = next(iter(before.values())).name
    job = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": name},
        "spec": {"ttl": "15s", "podRef": {"namespace": jobs.namespace, "name": pod}},
    }

    with run_controller():
        jobs.kubectl.run("apply", "-f", "-", stdin=json.dumps(job))
        wait_until(lambda: placeholders(jobs), within_s=10, what="a placeholder waits for room")
        wait_until(lambda: _phase(jobs, name) == "Failed", within_s=40, what="the job has failed")
        wait_until(lambda: not placeholders(jobs), within_s=10, what="no placeholder is left")

    assert jobs.pods("web") == before
    assert referee.evicted() == []


def _phase(playground: E2ENamespace, name: str) -> str:
    jobs = playground.kubectl.get("podmigrationjobs")
    found = [job for job in jobs if job["metadata"]["name"] == name]
    return str(found[0].get("status", {}).get("phase", "")) if found else ""
