"""A file of koordinator's descheduler runs on a simulated cluster as it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.koordinator_files import migration_controller
from tests.system.conftest import wait_until

JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
ARGS = """\
defaultJobMode: EvictDirectly
defaultJobTTL: 7m
maxMigratingPerNode: 1
maxUnavailablePerWorkload: 100%
skipEvictionGates: [ExpectedReplicas]
objectLimiters: {workload: {duration: 0s}}
"""


def test_what_the_plugins_of_a_file_of_koordinators_find_is_moved_by_jobs(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(migration_controller(ARGS), encoding="utf-8")
    program = controller("--log-format", "json")
    program.wait_for('"synced"')
    before = cluster.pods_on("node-1")
    cluster.taint("node-1", "gpu")

    job = wait_until(lambda: _succeeded(cluster), program)

    assert job["metadata"]["annotations"]["koordinator.sh/evict-trigger"] == (
        "RemovePodsViolatingNodeTaints"
    )
    assert (job["spec"]["mode"], job["spec"]["ttl"]) == ("EvictDirectly", "420s")
    uid = job["spec"]["podRef"]["uid"]
    assert uid in before
    assert uid not in cluster.pods_on("node-1")


def _succeeded(cluster: Any) -> Any:
    jobs = cluster.call("GET", JOBS)["items"]
    ended = (each for each in jobs if each.get("status", {}).get("phase") == "Succeeded")
    return next(ended, None)
