"""Jobs and their pods: what is read of them that says what an eviction costs."""

import json
from typing import Any

import pytest

from reactive_desched.model.gangs import KUEUE_SERVING, VOLCANO_MIN_MEMBER, gang_of
from reactive_desched.model.job_tries import UNLIMITED, FailureRule, JobTries
from reactive_desched.model.objects import Job, Pod
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import make_codecs

JSON = dict[str, Any]  # any JSON object
METADATA = {"name": "report", "namespace": "batch", "uid": "j1", "resourceVersion": "7"}


def read(spec: JSON | None, status: JSON | None = None, **metadata: Any) -> JobTries | None:
    obj: JSON = {"metadata": METADATA | metadata, "status": status or {}}
    if spec is not None:
        obj["spec"] = spec
    job: Job = make_codecs(InternTables()).jobs.decode_object(json.dumps(obj).encode())
    return job.tries


def pod(spec: JSON, status: JSON | None = None, annotations: dict[str, str] | None = None) -> Pod:
    metadata = {"name": "p", "namespace": "batch", "uid": "p1", "annotations": annotations or {}}
    obj = {"metadata": metadata, "spec": spec, "status": status or {}}
    found: Pod = make_codecs(InternTables()).pods.decode_object(json.dumps(obj).encode())
    return found


def test_without_a_spec_nothing_is_said_of_tries() -> None:
    assert read(None) is None


@pytest.mark.parametrize(
    ("spec", "status", "tries"),
    [
        pytest.param({"completions": 1}, {}, JobTries(6), id="the defaults of the API server"),
        pytest.param({"completions": 1, "backoffLimit": 0}, {}, JobTries(0), id="a limit"),
        pytest.param(
            {"completions": 3, "backoffLimitPerIndex": 1},
            {},
            JobTries(UNLIMITED, 1),
            id="a limit for each index",
        ),
        pytest.param(
            {"completions": 1, "backoffLimit": 4, "suspend": None},
            {"failed": 1, "uncountedTerminatedPods": {"failed": ["a", "b"], "succeeded": ["c"]}},
            JobTries(4, failed=3),
            id="failures, also those that are not added up yet",
        ),
        pytest.param(
            {"completions": 1, "activeDeadlineSeconds": 100},
            {"startTime": "1970-01-01T00:01:00Z"},
            JobTries(deadline_s=160),
            id="a deadline",
        ),
        pytest.param(
            {"completions": 1, "activeDeadlineSeconds": 100}, {}, JobTries(), id="not begun"
        ),
    ],
)
def test_a_job_says_how_often_its_pods_may_fail_and_did(
    spec: JSON, status: JSON, tries: JobTries
) -> None:
    assert read(spec, status) == tries


@pytest.mark.parametrize(
    ("kind", "status", "is_over"),
    [
        ("Complete", "True", True),
        ("Failed", "True", True),
        ("FailureTarget", "True", True),
        ("SuccessCriteriaMet", "True", True),
        ("Failed", "False", False),
        ("Suspended", "True", False),
    ],
)
def test_a_condition_says_that_a_job_is_over(kind: str, status: str, is_over: bool) -> None:  # noqa: FBT001
    found = read({"completions": 1}, {"conditions": [{"type": kind, "status": status}]})

    assert found is not None
    assert found.is_over is is_over


def test_a_job_that_is_being_deleted_is_over() -> None:
    found = read({"completions": 1}, deletionTimestamp="2026-11-26T12:00:00Z")

    assert found is not None
    assert found.is_over


@pytest.mark.parametrize(
    ("spec", "status", "makes_pods"),
    [
        ({"completions": 2}, {"succeeded": 1}, True),
        ({}, {}, True),
        ({}, {"succeeded": 1}, False),
        ({"completions": 2, "suspend": True}, {}, False),
        ({"completions": 2, "suspend": False}, {}, True),
        ({"completions": 2, "managedBy": "kubernetes.io/job-controller"}, {}, True),
        ({"completions": 2, "managedBy": "kueue.x-k8s.io/multikueue"}, {}, False),
    ],
)
def test_a_job_says_whether_it_makes_new_pods(spec: JSON, status: JSON, makes_pods: bool) -> None:  # noqa: FBT001
    found = read(spec, status)

    assert found is not None
    assert found.makes_pods is makes_pods


@pytest.mark.parametrize(
    ("spec", "waits"),
    [
        ({}, False),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, False),
        ({"podReplacementPolicy": "Failed"}, True),
        ({"podFailurePolicy": {"rules": []}}, True),
        ({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"}, False),
    ],
)
def test_a_job_says_whether_a_new_pod_waits_for_the_end_of_the_last(
    spec: JSON,
    waits: bool,  # noqa: FBT001
) -> None:
    found = read({"completions": 1} | spec)

    assert found is not None
    assert found.waits_for_end is waits


def test_the_rules_about_failures_are_kept_in_order() -> None:
    rules = [
        {
            "action": "FailJob",
            "onExitCodes": {"operator": "In", "values": [42], "containerName": "main"},
        },
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}},
        {
            "action": "Ignore",
            "onPodConditions": [
                {"type": "DisruptionTarget"},
                {"type": "ConfigIssue", "status": "Unknown"},
            ],
        },
    ]
    found = read({"completions": 1, "podFailurePolicy": {"rules": rules}})

    assert found is not None
    assert found.rules == (
        FailureRule("FailJob", (42,), "In", "main"),
        FailureRule("Count", (1, 2), "NotIn"),
        FailureRule(
            "Ignore", conditions=(("DisruptionTarget", "True"), ("ConfigIssue", "Unknown"))
        ),
    )


@pytest.mark.parametrize(
    ("spec", "policy"),
    [({}, "Always"), *(({"restartPolicy": each}, each) for each in ("Always", "Never"))],
)
def test_a_pod_says_how_it_is_restarted(spec: JSON, policy: str) -> None:
    assert pod(spec).spec.restart_policy == policy


@pytest.mark.parametrize(
    ("spec", "group"),
    [
        ({}, ""),
        ({"schedulingGroup": {"podGroupName": "g"}}, "g"),
        ({"schedulingGroup": None, "workloadRef": None}, ""),
        ({"workloadRef": {"name": "w", "podGroup": "p"}}, "w/p/"),
        ({"workloadRef": {"name": "w", "podGroup": "p", "podGroupReplicaKey": "0"}}, "w/p/0"),
    ],
)
def test_a_pod_names_the_group_it_is_placed_with(spec: JSON, group: str) -> None:
    assert pod(spec).spec.scheduling_group == group


def test_pods_that_differ_in_one_of_these_alone_share_no_spec() -> None:
    made = make_codecs(InternTables()).pods
    specs: list[JSON] = [
        {},
        {"restartPolicy": "Never"},
        {"schedulingGroup": {"podGroupName": "a"}},
        {"workloadRef": {"name": "a", "podGroup": "b"}},
    ]
    decoded = [
        made.decode_object(json.dumps({"metadata": METADATA, "spec": spec}).encode())
        for spec in specs
    ]

    assert len({id(each.spec) for each in decoded}) == len(specs)


def test_the_annotations_of_groups_and_failures_of_an_index_are_read() -> None:
    found = pod(
        {},
        annotations={
            "batch.kubernetes.io/job-index-failure-count": "2",
            "scheduling.k8s.io/group-name": "g",
            "pod-group-name": "k",
            "other": "x",
        },
    ).annotations

    assert found.job_index_failures == 2
    assert found.groups == (("scheduling.k8s.io/group-name", "g"), ("pod-group-name", "k"))
    count = "batch.kubernetes.io/job-index-failure-count"
    assert pod({}, annotations={count: "many"}).annotations.job_index_failures == 0


@pytest.mark.parametrize(
    "key",
    [
        "scheduling.volcano.sh/group-name",
        "scheduling.k8s.io/group-name",
        "gang.scheduling.koordinator.sh/name",
        "kueue.x-k8s.io/pod-group-name",
        "yunikorn.apache.org/task-group-name",
        "armadaproject.io/gangId",
        "godel.bytedance.com/pod-group-name",
        "pod-group-name",
    ],
)
def test_what_a_system_writes_into_annotations_names_a_gang(key: str) -> None:
    found = gang_of(pod({}, annotations={key: "g"}))

    assert found is not None
    assert found.name == "g"


@pytest.mark.parametrize(
    "mark",
    [
        {"scheduling.k8s.io/group-name": "podgroup-1", VOLCANO_MIN_MEMBER: "1"},
        {"kueue.x-k8s.io/pod-group-name": "g", KUEUE_SERVING: "true"},
    ],
    ids=["Volcano's groups of one", "replicas that serve"],
)
def test_what_makes_a_group_one_in_name_only_is_read_as_well(mark: dict[str, str]) -> None:
    assert gang_of(pod({}, annotations=mark)) is None


def test_a_claim_that_the_scheduler_made_is_seen_in_the_status() -> None:
    claim = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []}}

    assert pod({}, claim).has_resource_claims
    assert pod({"resourceClaims": [{"name": "gpu"}]}).has_resource_claims
    assert not pod({}, {"phase": "Running"}).has_resource_claims
