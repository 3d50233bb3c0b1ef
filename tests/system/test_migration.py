"""Migration jobs in a simulated cluster: by hand, by findings, and over a controller that dies."""

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import (
    EVICTION_SUCCEEDED,
    EVICTION_UNKNOWN,
    FINDING_MADE,
    DecisionMade,
)
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from tests.support.limits import UNLIMITED
from tests.system.conftest import POLICY, wait_until

JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
LIMITS = "migration: {maxMigratingPerNode: 3, maxMigratingPerWorkload: 9, "
SETTINGS = UNLIMITED + LIMITS + "maxUnavailablePerWorkload: 9, skipCheckExpectedReplicas: true}\n"
BY_JOBS = SETTINGS + "evictions: {evictor: migration}\n"
PLACE_FIRST = BY_JOBS.replace(
    LIMITS, LIMITS + "defaultJobMode: ReservationFirst, placeholder: {}, "
)
BY_DELETION = BY_JOBS.replace(LIMITS, LIMITS + "evictionPolicy: Delete, ")


def write(path: Path, settings: str) -> Path:
    policy = path / "policy.yaml"
    policy.write_text(POLICY + settings, encoding="utf-8")
    return policy


def movable_pods(cluster: Any, node: str) -> dict[str, str]:
    """Return the uids of the pods of a node that a ReplicaSet has, with their names."""
    items = cluster.call("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={node}")["items"]
    return {
        pod["metadata"]["uid"]: f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in items
        if pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    }


def uids(cluster: Any) -> set[str]:
    return {pod["metadata"]["uid"] for pod in cluster.call("GET", "/api/v1/pods")["items"]}


@pytest.fixture
def policy(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return write(tmp_path, getattr(request, "param", SETTINGS))


def test_a_person_moves_a_pod_by_command(
    cluster: Any,
    controller: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    (uid, pod), (_, other_pod), *_ = movable_pods(cluster, "node-1").items()
    kubeconfig = ("--kubeconfig", str(cluster.kubeconfig))

    assert main(["migrate", pod, "--by", "ada", "--reason", "too loud", *kubeconfig]) == 0
    name = capsys.readouterr().out.split()[1]
    job = wait_until(lambda: _ended(cluster, name), program)

    assert job["status"]["phase"] == "Succeeded", job
    assert job["spec"]["podRef"]["uid"] == uid
    assert "mode" not in job["spec"], "the settings say it"
    assert uid not in uids(cluster)
    assert main(["migrations", "--server", program.url]) == 0
    _, head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["JOB", "POD", "NODE", "MADE", "BY", "PHASE", "AGE", "MESSAGE"]
    assert {name, pod, "ada", "Succeeded"} <= set(row.split())
    assert main(["migrations", "--server", program.url, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["byPhase"] == {"Succeeded": 1}
    assert main(["migrate", "--abort", "no-such-job", *kubeconfig]) == 1
    assert "no-such-job" in capsys.readouterr().err
    for verb, words, paused in (("pause", "is paused", True), ("resume", "goes on", False)):
        assert main(["migrate", f"--{verb}", name, *kubeconfig]) == 0
        assert capsys.readouterr().out == f"podmigrationjob {name} {words}\n"
        assert cluster.call("GET", f"{JOBS}/{name}")["spec"]["paused"] is paused
    assert main(["migrate", "a/b/c", *kubeconfig]) == 2
    made = len(cluster.call("GET", JOBS)["items"])
    assert main(["migrate", other_pod, pod, *kubeconfig]) == 2, "it is gone"
    assert f'no pod "{pod}"' in capsys.readouterr().err
    assert len(cluster.call("GET", JOBS)["items"]) == made
    assert main(["migrate", other_pod, "--mode", "ReservationFirst", *kubeconfig]) == 0
    other = capsys.readouterr().out.split()[1]
    assert cluster.call("GET", f"{JOBS}/{other}")["spec"]["mode"] == "ReservationFirst"


def _ended(cluster: Any, name: str) -> Any:
    job = cluster.call("GET", f"{JOBS}/{name}")
    return job if job.get("status", {}).get("phase") in ("Succeeded", "Failed") else None


@pytest.mark.parametrize("policy", [BY_JOBS, PLACE_FIRST, BY_DELETION], indirect=True)
def test_findings_make_jobs_and_a_controller_that_dies_leaves_them_to_the_next(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    before = movable_pods(cluster, "node-1") | movable_pods(cluster, "node-2")
    cluster.taint("node-1", "gpu")
    cluster.taint("node-2", "gpu")
    program.wait_for("decided to evict")
    program.stop(signal.SIGKILL)
    program = controller("--log-format", "json")

    wait_until(lambda: not before.keys() & uids(cluster) or None, program)
    wait_until(lambda: _all_ended(cluster), program)

    jobs = cluster.call("GET", JOBS)["items"]
    assert {job["spec"]["podRef"]["uid"] for job in jobs} == before.keys()
    assert {job["status"]["phase"] for job in jobs} == {"Succeeded"}
    evicted = Counter(
        event.data.who.uid
        for event in read_events(tmp_path / "journal")
        if event.type in (EVICTION_SUCCEEDED, EVICTION_UNKNOWN)
    )
    assert set(evicted.values()) == {1}, "no pod is evicted twice"
    names = {pod["metadata"]["name"] for pod in cluster.call("GET", "/api/v1/pods")["items"]}
    assert not [name for name in names if name.startswith("placeholder")]


RESERVED = BY_JOBS.replace(
    LIMITS, LIMITS + "defaultJobMode: ReservationFirst, schedulerNames: [koord-scheduler], "
)
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"


def koordinated(replicas: int) -> dict[str, Any]:
    """Return a Deployment whose pods koordinator's scheduler places."""
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    spec = {
        "schedulerName": "koord-scheduler",
        "containers": [{"name": "main", "image": "main", "resources": resources}],
    }
    labels = {"app": "koordinated"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "koordinated", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def pods_of_koordinator(cluster: Any) -> dict[str, str]:
    """Return the nodes of the Deployment's Ready pods by name."""
    items = cluster.call("GET", "/api/v1/namespaces/default/pods?labelSelector=app%3Dkoordinated")
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
        for pod in items["items"]
        if any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in pod.get("status", {}).get("conditions", ())
        )
        and "deletionTimestamp" not in pod["metadata"]
    }


@pytest.mark.parametrize("policy", [RESERVED], indirect=True, ids=["reserved"])
def test_koordinators_reservations_keep_the_places_also_over_a_controller_that_dies(
    cluster: Any, controller: Callable[..., Any]
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    cluster.create("/apis/apps/v1/namespaces/default/deployments", koordinated(6))
    wait_until(lambda: len(pods_of_koordinator(cluster)) == 6 or None, program)
    before = pods_of_koordinator(cluster)
    node = max(set(before.values()), key=[*before.values()].count)
    doomed = {name for name, at in before.items() if at == node}
    cluster.taint(node, "gpu")
    program.wait_for("made a Reservation")
    program.stop(signal.SIGKILL)
    program = controller("--log-format", "json")

    wait_until(lambda: not doomed & pods_of_koordinator(cluster).keys() or None, program)
    wait_until(lambda: _all_ended(cluster), program)

    jobs = cluster.call("GET", JOBS)["items"]
    assert {job["status"]["phase"] for job in jobs} == {"Succeeded"}
    assert {job["spec"]["podRef"]["name"] for job in jobs} == doomed
    after = pods_of_koordinator(cluster)
    for job in jobs:
        assert after[job["status"]["podRef"]["name"]] == job["status"]["nodeName"] != node
    kept = cluster.call("GET", RESERVATIONS)["items"]
    assert {each["status"]["phase"] for each in kept} == {"Succeeded"}
    assert len(kept) == len(jobs)


TWO_PROFILES = """\
- name: others
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  - name: RemovePodsViolatingNodeTaints
    args: {excludedTaints: [], includedTaints: [other]}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
"""


def test_each_profile_has_its_own_evictor(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    before, after = (POLICY + SETTINGS).split("---\n", 1)
    one = before.replace(
        "args: {nodeFit: true}",
        "args: {nodeFit: true}\n  - name: RemovePodsViolatingNodeTaints\n"
        "    args: {includedTaints: [gpu]}",
    )
    evictors = "evictions: {perProfile: {test: migration}}\n"
    text = f"{one}{TWO_PROFILES}---\n{after}{evictors}"
    (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    by_job, directly = movable_pods(cluster, "node-1"), movable_pods(cluster, "node-2")
    cluster.taint("node-1", "gpu")
    cluster.taint("node-2", "other")

    moved = by_job.keys() | directly.keys()
    wait_until(lambda: not moved & uids(cluster) or None, program)

    jobs = cluster.call("GET", JOBS)["items"]
    assert {job["spec"]["podRef"]["uid"] for job in jobs} == by_job.keys()
    wait_until(lambda: _all_ended(cluster), program)
    for uid in by_job:
        assert_one_story(uid, tmp_path / "journal")


def assert_one_story(uid: str, journal: Path) -> None:
    """Check that all records of a pod are one case: found, moved by a job, evicted, once."""
    events = [
        event
        for event in read_events(journal)
        if (who := getattr(event.data, "who", None)) is not None and who.uid == uid
    ]
    assert len({event.correlationid for event in events}) == 1
    types = [event.type for event in events]
    assert types[0] == FINDING_MADE
    assert types.count(FINDING_MADE) == types.count(EVICTION_SUCCEEDED) == 1
    reasons = [
        event.data.decision.reason for event in events if isinstance(event.data, DecisionMade)
    ]
    assert reasons[0] == "MovedByMigrationJob"


def _all_ended(cluster: Any) -> bool | None:
    jobs = cluster.call("GET", JOBS)["items"]
    ended = [job.get("status", {}).get("phase") in ("Succeeded", "Failed") for job in jobs]
    return all(ended) or None
