"""Where a preview reads the migration jobs of a cluster, and whose decisions on them it shows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from reactive_desched.errors import SnapshotUnavailable
from reactive_desched.plan import live_snapshot
from reactive_desched.plan.command import build_report
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.report import PlannedDecision
from reactive_desched.state.resources import MIGRATION_RESOURCES, OWNER_RESOURCES

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: first
  plugins: {deschedule: {enabled: [PodLifeTime]}, evict: {enabled: [MigrationController]}}
  pluginConfig:
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 31536000}}
  - {name: MigrationController, args: {defaultJobMode: EvictDirectly, maxMigratingPerNode: 1}}
- name: second
  plugins: {balance: {enabled: [RemoveDuplicates]}, evict: {enabled: [MigrationController]}}
  pluginConfig:
  - {name: MigrationController, args: {defaultJobMode: EvictDirectly, maxMigratingPerNode: 1}}
"""
DIRECTLY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles: [{name: first, plugins: {balance: {enabled: [RemoveDuplicates]}}}]
"""


def cluster(*triggers: str) -> list[dict[str, Any]]:
    """Return a workload of ten pods on a node, and a job on each of the first."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web"}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": "shop",
                "name": f"web-{number}",
                "uid": f"web-{number}",
                "creationTimestamp": f"2026-11-20T00:00:{10 + number}Z",
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for number in range(10)
    ]
    jobs = [
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": {
                "name": f"job-{number}",
                "uid": f"job-{number}",
                "creationTimestamp": "2026-11-21T00:00:00Z",
                "annotations": {"koordinator.sh/evict-trigger": trigger} if trigger else {},
            },
            "spec": {"podRef": {"namespace": "shop", "name": f"web-{number}"}},
        }
        for number, trigger in enumerate(triggers)
    ]
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for name in ("n1", "n2")
    ]
    workload = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"namespace": "shop", "name": "web", "uid": "web"},
        "spec": {"replicas": 10},
    }
    return [*nodes, workload, *pods, *jobs]


def decisions(folder: Path, policy: str, *triggers: str, mode: PlanMode) -> list[PlannedDecision]:
    """Return what a preview from files says of the pods that have jobs."""
    (folder / "policy.yaml").write_text(policy)
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": cluster(*triggers)}))
    options = PlanOptions(
        policy=str(folder / "policy.yaml"),
        files=(str(folder / "cluster.json"),),
        now="2026-11-21T00:00:05Z",
        mode=mode,
    )
    found = build_report(options, Progress()).decisions
    return [each for each in found if "PodMigrationJob" in each.finding]


def test_one_job_of_a_node_is_let_go_and_the_others_are_deferred_with_the_limit(
    tmp_path: Path,
) -> None:
    first, second = decisions(tmp_path, POLICY, "", "", mode=PlanMode.UPSTREAM)

    assert (first.action, first.pod.name) == ("Evict", "web-1"), "the newest pod goes first"
    assert (second.action, second.reason) == ("Defer", "MaxMigratingPerNode")


def test_a_decision_is_of_the_plugin_and_the_profile_that_had_the_job_made(tmp_path: Path) -> None:
    triggers = ("", "PodLifeTime", "RemoveDuplicates", "a person")

    found = decisions(tmp_path, POLICY, *triggers, mode=PlanMode.UPSTREAM)

    assert {(each.pod.name, each.plugin, each.profile) for each in found} == {
        ("web-0", "MigrationJobs", "first"),
        ("web-1", "PodLifeTime", "first"),
        ("web-2", "RemoveDuplicates", "second"),
        ("web-3", "a person", "first"),
    }


@pytest.mark.parametrize(
    ("policy", "mode"),
    [(DIRECTLY, PlanMode.UPSTREAM), (POLICY, PlanMode.ONCE)],
    ids=["without migration jobs", "of `run --once`, which carries none out"],
)
def test_other_previews_show_no_jobs(policy: str, mode: PlanMode, tmp_path: Path) -> None:
    assert decisions(tmp_path, policy, "", mode=mode) == []


@pytest.mark.parametrize(("policy", "reads"), [(POLICY, True), (DIRECTLY, False)])
def test_a_cluster_without_the_kind_can_be_previewed(
    policy: str, *, reads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Mapping[str, Any] = {}

    async def read(*given: Any, **named: Any) -> NoReturn:
        nonlocal asked
        asked = {"resources": set(given[2]), "optional": named["optional_resources"]}
        raise SnapshotUnavailable("enough")

    monkeypatch.setattr(live_snapshot, "read_live_snapshot", read)
    (tmp_path / "policy.yaml").write_text(policy)
    options = PlanOptions(policy=str(tmp_path / "policy.yaml"), mode=PlanMode.UPSTREAM)
    with pytest.raises(SnapshotUnavailable):
        build_report(options, Progress())

    assert (asked["resources"] >= MIGRATION_RESOURCES) == reads
    assert (asked["resources"] >= OWNER_RESOURCES) == reads
    assert asked["optional"] >= MIGRATION_RESOURCES | OWNER_RESOURCES
