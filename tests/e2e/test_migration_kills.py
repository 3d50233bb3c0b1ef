"""Pods move into kept places while parts are killed and stopped at random: SEED says which, when.

Other seeds than the first are for hunting: `SEED=7 pytest tests/e2e/test_migration_kills.py`.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import SETTINGS
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import ControllerProcess, RunController
from tests.support.playground import E2ENamespace
from tests.support.real_jobs import placeholders

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SEED = int(os.environ.get("SEED", "1"))
PODS, KILLS = 10, 8
TIGHT_CPU = "1500m"  # of nodes with 8 cores: five pods
EVICT = (
    "migration: {defaultJobMode: ReservationFirst, placeholder: {}, maxMigratingPerNode: 2, "
    "maxMigratingPerWorkload: 2, maxUnavailablePerWorkload: 2}\n"
)


def test_whatever_is_killed_each_pod_moves_once_and_nothing_is_left(
    jobs: E2ENamespace,
    control_plane: ControlPlane,
    run_controller: RunController,
    referee: AuditCrosscheck,
    tmp_path: Path,
) -> None:
    chance = random.Random(SEED)
    jobs.add_nodes("n1", "n2")
    doomed = jobs.deploy("web", PODS, cpu=TIGHT_CPU)
    retry = "retry: {initial: 1s, max: 5s}"
    jobs.settings = SETTINGS.replace(retry, f"{retry}, evictor: migration") + EVICT

    with jobs.watch_health("web", tmp_path / "pods.log") as watch, run_controller() as controller:
        jobs.add_nodes("n3", "n4")
        for name in ("n1", "n2"):
            jobs.taint(name, "gpu=yes:NoSchedule")
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.05, 2.5))
            disturb(chance, controller, control_plane)
        jobs.await_healthy("web", PODS, off="n1", within_s=240)
        moved = jobs.await_healthy("web", PODS, off="n2", within_s=240)
        wait_until(lambda: not placeholders(jobs), within_s=60, what="no placeholder is left")
        wait_until(lambda: not open_jobs(jobs), within_s=60, what="every job has ended")
        controller.await_ready()  # the one that was started last

    assert doomed.keys().isdisjoint(moved)
    evicted = [each.uid for each in referee.evicted()]
    assert len(evicted) == len(set(evicted)), "no pod is evicted twice"
    assert set(evicted) == doomed.keys()
    counts = watch.healthy_counts()
    assert min(counts[counts.index(PODS) :]) >= PODS - 2


def disturb(
    chance: random.Random, controller: ControllerProcess, control_plane: ControlPlane
) -> None:
    """Kill or stop one part for a while."""
    part = chance.choice(["kill", "kill", "kill", "stop", "freeze", "scheduler", "API server"])
    for_s = chance.uniform(0.0, 2.0)
    match part:
        case "kill" | "stop":
            controller.kill() if part == "kill" else controller.stop()
            time.sleep(for_s)
            controller.launch()
        case "freeze":
            controller.freeze()
            time.sleep(for_s)
            controller.thaw()
        case "scheduler":
            with control_plane.without_scheduler():
                time.sleep(for_s)
        case _:
            with control_plane.outage():
                time.sleep(for_s)


def open_jobs(playground: E2ENamespace) -> list[str]:
    """Name the jobs on pods of a playground that have not ended."""
    found = playground.kubectl.get("podmigrationjobs")
    ours = [job for job in found if job["spec"]["podRef"]["namespace"] == playground.namespace]
    return [
        job["metadata"]["name"]
        for job in ours
        if job.get("status", {}).get("phase") not in ("Succeeded", "Failed", "Aborted")
    ]
