"""Which jobs koordinator let through, held back and refused, our arbitration does as well.

The recordings stand beside the repository; where they do not, one test is skipped and says so.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from reactive_desched.migration.arbitration import (
    ArbitrationResult,
    Arbitrator,
    Forbidden,
    Held,
    Passed,
)
from reactive_desched.migration.limits import WorkloadSize
from reactive_desched.migration.settings import ArbitrationSettings
from reactive_desched.model.findings import YieldPoint
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.migration_jobs import JobStatus, MigrationJob, Phase, PodReference
from reactive_desched.model.objects import Pod, controller_of
from reactive_desched.plan.input_objects import InputObject
from reactive_desched.plan.snapshot import Snapshot, SnapshotBuilder
from reactive_desched.state.cluster import ClusterView
from tests.support.conformance import FOLDER, Case, RecordedCase, case_parameters, check
from tests.test_conformance import answered

FILE = FOLDER / "migration" / "MigrationArbitration.jsonl"

RECORDED = case_parameters(FILE)


def settings_of(case: Case) -> ArbitrationSettings:
    """Read the arguments that arbitration goes by from a recorded policy."""
    (profile,) = yaml.safe_load(case["policy"])["profiles"]
    (config,) = profile["pluginConfig"]
    return msgspec.convert(config["args"], ArbitrationSettings)


def job_of(item: Mapping[str, Any]) -> MigrationJob:
    """Read a PodMigrationJob."""
    metadata, annotations = item["metadata"], item["metadata"].get("annotations", {})
    return MigrationJob(
        name=metadata["name"],
        uid=metadata["uid"],
        pod=msgspec.convert(item["spec"]["podRef"], PodReference),
        created_s=int(datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()),
        status=JobStatus(Phase(item.get("status", {}).get("phase", ""))),
        trigger=annotations.get("koordinator.sh/evict-trigger", ""),
    )


def snapshot_of(case: Case) -> Snapshot:
    """Read the nodes and pods."""
    builder = SnapshotBuilder()
    for item in case["objects"]:
        if item["kind"] in ("Node", "Pod", "Namespace"):
            raw = msgspec.Raw(msgspec.json.encode(item))
            builder.add_input(InputObject(item["kind"], item["apiVersion"], raw), "case")
    return builder.build()


def arbitrate(case: Case) -> list[ArbitrationResult]:
    """Run one round over the recorded cluster."""
    snapshot = snapshot_of(case)
    pods = {(pod.namespace, pod.name): pod for pod in snapshot.pods}
    pods_of: dict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        for owner in pod.owners:
            pods_of[owner.uid].append(pod)
    replicas = {
        item["metadata"]["uid"]: item["spec"]["replicas"]
        for item in case["objects"]
        if item["kind"] == "ReplicaSet"
    }

    def size_of(pod: Pod) -> WorkloadSize:
        controller = controller_of(pod.owners)
        assert controller is not None
        return WorkloadSize(replicas[controller.uid], pods_of[controller.uid])

    arbitrator = Arbitrator(
        settings_of(case),
        ClusterView(snapshot.build_state(EVERYTHING), lambda: 0.0),
        lambda job: pods.get((job.pod.namespace, job.pod.name)),
        size_of,
    )
    for item in case["objects"]:
        if item["kind"] == "PodMigrationJob":
            arbitrator.follow(job_of(item))
    return [each for each in arbitrator.run_round() if not isinstance(each, YieldPoint)]


def names(results: list[ArbitrationResult], kind: type[ArbitrationResult]) -> list[str]:
    """Name the pods that have a result of a kind, in order."""
    return [str(each.pod) for each in results if isinstance(each, kind) and each.pod is not None]


def expected(case: Case, which: str) -> list[str]:
    """Name the pods that koordinator decided so about."""
    return [f"{each['namespace']}/{each['name']}" for each in case["expect"].get(which, ())]


@pytest.mark.parametrize("recorded", RECORDED)
def test_a_round_decides_as_koordinator_did(recorded: RecordedCase) -> None:
    case = recorded.read()

    results = arbitrate(case)

    assert names(results, Passed) == expected(case, "evicted")
    assert sorted(names(results, Held)) == sorted(expected(case, "deferred"))
    assert sorted(names(results, Forbidden)) == sorted(expected(case, "refused"))


@pytest.mark.parametrize("recorded", RECORDED)
def test_a_round_does_not_depend_on_the_order_of_objects(recorded: RecordedCase) -> None:
    case = recorded.read()
    turned = {**case, "objects": case["objects"][::-1]}

    assert arbitrate(turned) == arbitrate(case)


@pytest.mark.parametrize("recorded", RECORDED)
def test_jobs_whose_pod_is_gone_pass_before_all_others(recorded: RecordedCase) -> None:
    case = recorded.read()

    gone = [isinstance(each, Passed) and each.pod is None for each in arbitrate(case)]

    assert gone == sorted(gone, reverse=True)
    assert sum(gone) == len(case["expect"].get("passed_without_pod", ()))


@pytest.mark.parametrize("recorded", RECORDED)
def test_what_was_recorded_is_what_plan_says_of_the_jobs(
    recorded: RecordedCase, tmp_path: Path
) -> None:
    comparing = check()

    assert comparing.compare(recorded.read(), *answered(comparing, recorded, tmp_path)) == []
