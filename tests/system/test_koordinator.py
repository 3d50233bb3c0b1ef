"""A file of koordinator's descheduler runs on a simulated cluster as it is."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

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
    program.wait_for("the cluster is synced")
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
    assert 'node="node-1"' in _evictions(program, "RemovePodsViolatingNodeTaints")


def test_the_job_of_another_program_counts_under_the_trigger_that_it_names(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(migration_controller(ARGS), encoding="utf-8")
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    pod = next(
        each
        for each in cluster.call("GET", "/api/v1/pods")["items"]
        if each["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    )
    cluster.call("POST", JOBS, _job_on(pod, "rebalancer"), "application/json")

    wait_until(lambda: _succeeded(cluster), program)

    namespace = pod["metadata"]["namespace"]
    assert f'namespace="{namespace}"' in _evictions(program, "rebalancer")


def _job_on(pod: Any, trigger: str) -> dict[str, Any]:
    about = {key: pod["metadata"][key] for key in ("namespace", "name", "uid")}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "job", "annotations": {"koordinator.sh/evict-trigger": trigger}},
        "spec": {"podRef": about, "mode": "EvictDirectly", "ttl": "5m"},
    }


def _evictions(program: Any, strategy: str) -> str:
    """Return the labels of one sample of koordinator's metric with this strategy."""
    with urlopen(program.url + "/metrics", timeout=60) as answer:
        text = answer.read().decode()
    ends = rf'result="success",strategy="{strategy}"'
    found = re.findall(rf"^descheduler_pods_evicted{{(.*{ends})}} \d+$", text, re.MULTILINE)
    assert found, text
    return str(found[0])


def _succeeded(cluster: Any) -> Any:
    jobs = cluster.call("GET", JOBS)["items"]
    ended = (each for each in jobs if each.get("status", {}).get("phase") == "Succeeded")
    return next(ended, None)
