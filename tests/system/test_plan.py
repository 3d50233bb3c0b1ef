import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.fork_server import ForkServer
from tests.support.golden import Golden

NODE = "node-1"
LISTED = (
    *("/api/v1/namespaces", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    *("/apis/policy/v1/poddisruptionbudgets", "/api/v1/persistentvolumeclaims"),
    *("/api/v1/nodes", "/api/v1/pods", "/api/v1/persistentvolumes"),
    *("/apis/apps/v1/replicasets", "/apis/apps/v1/deployments"),
    *("/apis/apps/v1/statefulsets", "/apis/apps/v1/daemonsets"),
    *("/apis/batch/v1/jobs", "/apis/storage.k8s.io/v1/csinodes"),
)
NOW = ("--now", "2030-01-01T00:00:00Z")


def plan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reactive_desched", "plan", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def gone(answer: Any) -> set[str]:
    return {each["pod"]["uid"] for each in answer["decisions"] if each["action"] == "Evict"}


def test_a_live_cluster_and_its_files_give_the_same_answer_and_nothing_is_touched(
    cluster: Any, policy: Path, tmp_path: Path, fork_server: ForkServer
) -> None:
    cluster.taint(NODE, "gpu")
    before = cluster.pods_on(NODE)
    movable = {uid for uid, kind in before.items() if kind != "DaemonSet"}
    live = plan(
        *("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig), *NOW, "-o", "json")
    )
    for number, path in enumerate(LISTED):
        (tmp_path / "lists").mkdir(exist_ok=True)
        listed = json.dumps(cluster.call("GET", path))
        (tmp_path / "lists" / f"{number}.json").write_text(listed, encoding="utf-8")
    files = fork_server.run(
        "plan", "--policy", str(policy), "-f", str(tmp_path / "lists"), *NOW, "-o", "json"
    )

    assert (live.returncode, live.stderr) == (files.returncode, files.stderr) == (0, "")
    said, of_files = json.loads(live.stdout), json.loads(files.stdout)
    assert gone(said) == movable != set()
    assert said["decisions"] == of_files["decisions"]
    assert said["lookedAt"]["server"] == cluster.url
    assert said["lookedAt"]["whole"]
    assert said["lookedAt"]["pods"] == of_files["lookedAt"]["pods"] > 20
    assert cluster.pods_on(NODE) == before


def test_a_cluster_that_went_away_is_status_1_and_half_an_answer_is_never_given(
    cluster: Any, policy: Path, fork_server: ForkServer, golden: Golden
) -> None:
    cluster.program.stop()
    given = "plan", "--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig)
    ended = fork_server.run(*given, module="tests.support.impatient")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert golden() in ended.stderr
    assert "Traceback" not in ended.stderr
