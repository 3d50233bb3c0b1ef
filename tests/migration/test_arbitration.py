"""Which waiting jobs may begin: what counts as in progress, and what a pod's own job counts for."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

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
from reactive_desched.model.migration_jobs import (
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
    SkipGate,
)
from reactive_desched.model.objects import (
    Annotations,
    OwnerReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PriorityClass,
)
from reactive_desched.state.cluster import ClusterState, ClusterView

READY = PodStatus(phase="Running", conditions=(PodCondition("Ready", "True"),))
REPLICAS = 10
OFF = ArbitrationSettings(max_migrating_per_node=None, max_migrating_per_workload=9)
"""No limit that one other job reaches."""


def pod(name: str, owner: str = "web", **fields: Any) -> Pod:
    """Return a Ready pod of a workload, on node n1."""
    owners = (OwnerReference("ReplicaSet", owner, owner, controller=True),)
    made = Pod("shop", name, f"uid-{name}", node="n1", owners=owners, status=READY)
    return replace(made, **fields)


def job(of: Pod, phase: Phase = Phase.NONE, *, name: str = "", has_passed: bool = False) -> Any:
    """Return a job on a pod."""
    reference = PodReference(of.namespace, of.name, of.uid)
    name = name or of.name
    return MigrationJob(
        name=name, uid=name, pod=reference, status=JobStatus(phase), has_passed=has_passed
    )


def results(
    settings: ArbitrationSettings, pods: Sequence[Pod], jobs: Sequence[MigrationJob]
) -> dict[str, ArbitrationResult]:
    """Run a round in which every workload wants ten pods; return the results by job."""

    def find(of: MigrationJob) -> Pod | None:
        named = of.pod.namespace, of.pod.name
        return next((each for each in pods if (each.namespace, each.name) == named), None)

    def size_of(of: Pod) -> WorkloadSize:
        return WorkloadSize(REPLICAS, [each for each in pods if each.owners == of.owners])

    state = ClusterState(EVERYTHING)
    state.upsert(PriorityClass("high", "high", value=8))
    view = ClusterView(state, lambda: 0.0)
    arbitrator = Arbitrator(settings, view, find, size_of)
    for each in jobs:
        arbitrator.follow(each)
    found = (each for each in arbitrator.run_round() if not isinstance(each, YieldPoint))
    return {each.job.name: each for each in found}


LIMITS = [
    ("max_migrating_globally", "MaxMigratingGlobally"),
    ("max_migrating_per_node", "MaxMigratingPerNode"),
    ("max_migrating_per_namespace", "MaxMigratingPerNamespace"),
    ("max_migrating_per_workload", "MaxMigratingPerWorkload"),
    ("max_unavailable_per_workload", "MaxUnavailablePerWorkload"),
]


@pytest.mark.parametrize(("limit", "code"), LIMITS)
def test_one_other_job_reaches_a_limit_of_one(limit: str, code: str) -> None:
    a, b = pod("a"), pod("b")

    found = results(replace(OFF, **{limit: 1}), [a, b], [job(a, Phase.RUNNING), job(b)])

    assert isinstance(found["b"], Held)
    assert found["b"].rejection[0].code == code


@pytest.mark.parametrize(("limit", "_"), LIMITS[:-1])
def test_another_job_of_the_same_pod_does_not_count(limit: str, _: str) -> None:
    a = pod("a")
    jobs = [job(a, Phase.RUNNING), job(a, name="again")]

    assert isinstance(results(replace(OFF, **{limit: 1}), [a], jobs)["again"], Passed)


def test_a_job_that_names_its_pod_without_a_uid_counts_as_that_of_another_pod() -> None:
    a = pod("a")
    unnamed = replace(job(a, Phase.RUNNING), pod=PodReference("shop", "a"))
    settings = replace(OFF, max_migrating_per_workload=1)

    found = results(settings, [a], [unnamed, job(a, name="again")])

    assert isinstance(found["again"], Held)


@pytest.mark.parametrize(("limit", "_"), LIMITS[1:])
def test_a_job_elsewhere_does_not_count(limit: str, _: str) -> None:
    elsewhere = pod("a", "other", namespace="bank", node="n2")
    b = pod("b")
    jobs = [job(elsewhere, Phase.RUNNING), job(b)]

    assert isinstance(results(replace(OFF, **{limit: 1}), [elsewhere, b], jobs)["b"], Passed)


@pytest.mark.parametrize(("limit", "code"), LIMITS)
def test_its_gate_leaves_a_limit_out(limit: str, code: str) -> None:
    a, b = pod("a"), pod("b")
    settings = replace(OFF, **{limit: 1}, skip_eviction_gates=frozenset({SkipGate(code)}))

    assert isinstance(results(settings, [a, b], [job(a, Phase.RUNNING), job(b)])["b"], Passed)


def test_a_pending_job_counts_from_when_it_passed_and_is_not_decided_again() -> None:
    a, b = pod("a"), pod("b")
    jobs = [job(a, Phase.PENDING, has_passed=True), job(b)]

    found = results(replace(OFF, max_migrating_globally=1), [a, b], jobs)

    assert list(found) == ["b"]
    assert isinstance(found["b"], Held)


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED, Phase.ABORTED])
def test_a_job_that_has_ended_does_not_count(phase: Phase) -> None:
    a, b = pod("a"), pod("b")
    jobs = [job(a, phase, has_passed=True), job(b)]

    found = results(replace(OFF, max_migrating_globally=1), [a, b], jobs)

    assert isinstance(found["b"], Passed)


@pytest.mark.parametrize(
    "fields",
    [{"status": PodStatus(phase="Running")}, {"deletion_s": 1}, {"status": PodStatus("Failed")}],
    ids=["not Ready", "terminating", "ended"],
)
def test_a_pod_that_is_unavailable_counts_for_its_workload(fields: dict[str, Any]) -> None:
    found = results(
        replace(OFF, max_unavailable_per_workload=1),
        [pod("a", **fields), pod("b")],
        [job(pod("b"))],
    )

    assert isinstance(found["b"], Held)


def test_of_equal_pods_the_newest_is_first() -> None:
    old, new = pod("a", created_s=1), pod("b", created_s=2)

    assert list(results(OFF, [old, new], [job(old), job(new)])) == ["b", "a"]


PROTECTED: list[tuple[str, dict[str, Any], ArbitrationSettings, SkipGate | None]] = [
    ("DaemonSetPod", {"owners": (OwnerReference("DaemonSet", "d", "d"),)}, OFF, None),
    ("PodTerminating", {"deletion_s": 1}, OFF, None),
    ("NoController", {"owners": ()}, OFF, SkipGate.BARE_PODS),
    ("PvcPod", {"pvc_names": ("data",)}, replace(OFF, ignore_pvc_pods=True), SkipGate.PVC),
    ("LocalStorage", {"spec": PodSpec(has_local_storage=True)}, OFF, SkipGate.LOCAL_STORAGE),
    (
        "SystemCriticalPriority",
        {"spec": PodSpec(priority=2 * 10**9)},
        OFF,
        SkipGate.SYSTEM_CRITICAL,
    ),
    (
        "PriorityTooHigh",
        {"spec": PodSpec(priority=8)},
        replace(OFF, priority_class="high"),
        SkipGate.PRIORITY_THRESHOLD,
    ),
    (
        "PriorityClassNotFound",
        {"spec": PodSpec(priority=1)},
        replace(OFF, priority_class="low"),
        SkipGate.PRIORITY_THRESHOLD,
    ),
    (
        "PriorityTooHigh",
        {"spec": PodSpec(priority=7)},
        replace(OFF, priority_threshold=7),
        SkipGate.PRIORITY_THRESHOLD,
    ),
]


@pytest.mark.parametrize(("code", "fields", "settings", "gate"), PROTECTED)
def test_a_protected_pod_is_refused_unless_a_gate_leaves_that_out(
    code: str, fields: dict[str, Any], settings: ArbitrationSettings, gate: SkipGate | None
) -> None:
    protected = pod("a", **fields)

    found = results(settings, [protected], [job(protected)])["a"]

    assert isinstance(found, Forbidden)
    assert found.rejection[0].code == code
    if gate is not None:
        open_gate = replace(settings, skip_eviction_gates=frozenset({gate}))
        assert isinstance(results(open_gate, [protected], [job(protected)])["a"], Passed)


def test_the_evict_annotation_passes_every_check() -> None:
    marked = pod("a", deletion_s=1, annotations=Annotations(evict=""))

    assert isinstance(results(OFF, [marked], [job(marked)])["a"], Passed)


def test_an_evict_annotation_that_says_no_forbids_every_job_of_the_pod() -> None:
    marked = pod("a", annotations=Annotations(evict="false"))

    found = results(OFF, [marked], [job(marked)])["a"]

    assert isinstance(found, Forbidden)
    assert found.rejection[0].code == "EvictFalse"
