"""What guards and the record read of workloads, annotations, nodes and pods."""

import json
from typing import Any

import pytest

from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.objects import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.job import JOB
from reactive_desched.state.kinds.kind import WatchedKind
from reactive_desched.state.kinds.namespace import NAMESPACE
from reactive_desched.state.kinds.node import NODE
from reactive_desched.state.kinds.owners import REPLICA_SET
from reactive_desched.state.kinds.pdb import PDB
from reactive_desched.state.kinds.pod import POD
from reactive_desched.state.kinds.workloads import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, UNOBSERVED

Json = dict[str, Any]  # any JSON object
NAME = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}
OPT_OUT = {"reactive-desched/do-not-evict": "true", "example.com/other": "x"}
EVEN = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3}


def read(kind: WatchedKind[Any, Any], /, **members: object) -> Any:  # a record of the kind
    metadata = NAME | {"generation": 2} | members.pop("metadata", {})  # type: ignore[operator]  # JSON
    text = json.dumps({"metadata": metadata, **members}).encode()
    return ResourceCodec(kind, InternTables()).decode_object(text)


@pytest.mark.parametrize(
    ("spec", "replicas"), [({"replicas": 3}, 3), ({"replicas": 0}, 0), ({}, 1), (None, 1)]
)
def test_a_workload_has_its_size_and_its_opt_out(spec: Json | None, replicas: int) -> None:
    members = {"metadata": {"annotations": OPT_OUT}, "status": EVEN}
    if spec is not None:
        members["spec"] = spec
    expected = ("shop", "web", "u1", 7, replicas, "", "true")

    assert read(DEPLOYMENT, **members) == Deployment(*expected)
    assert read(STATEFUL_SET, **members) == StatefulSet(*expected)


@pytest.mark.parametrize(
    ("status", "rolls_out"),
    [
        pytest.param(EVEN, False, id="at rest"),
        pytest.param(EVEN | {"observedGeneration": 1}, True, id="not observed yet"),
        pytest.param({}, True, id="no status yet"),
        pytest.param(EVEN | {"replicas": 4}, True, id="a pod of the old template is left"),
        pytest.param(EVEN | {"replicas": 2, "updatedReplicas": 2}, False, id="a pod is missing"),
        pytest.param(
            EVEN
            | {
                "replicas": 4,
                "conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}],
            },
            False,
            id="given up",
        ),
    ],
)
def test_a_deployment_rolls_out_as_kubectl_says(status: Json, *, rolls_out: bool) -> None:
    assert bool(read(DEPLOYMENT, spec={"replicas": 3}, status=status).rollout) is rolls_out


@pytest.mark.parametrize(("replicas", "words"), [(4, "1 pod of"), (5, "2 pods of")])
def test_it_says_how_many_pods_are_left(replicas: int, words: str) -> None:
    status = EVEN | {"replicas": replicas}
    assert read(DEPLOYMENT, spec={"replicas": 3}, status=status).rollout.startswith(words)


def test_a_deployment_that_is_paused_rolls_nothing_out() -> None:
    status = EVEN | {"replicas": 4}

    assert read(DEPLOYMENT, spec={"replicas": 3, "paused": True}, status=status).rollout == ""
    unobserved = status | {"observedGeneration": 1}
    assert read(DEPLOYMENT, spec={"replicas": 3, "paused": True}, status=unobserved).rollout


SCHEDULED = {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3}


@pytest.mark.parametrize(
    ("strategy", "status", "rollout"),
    [
        pytest.param("RollingUpdate", {}, "", id="at rest"),
        pytest.param("RollingUpdate", {"observedGeneration": 1}, UNOBSERVED, id="not observed yet"),
        pytest.param(
            "RollingUpdate",
            {"updatedNumberScheduled": 1},
            "1 of 3",
            id="under way",
        ),
        pytest.param(
            "RollingUpdate",
            {"updatedNumberScheduled": None},
            "0 of 3",
            id="just begun",
        ),
        pytest.param("OnDelete", {"updatedNumberScheduled": 1}, "", id="on delete"),
    ],
)
def test_a_daemon_set_wants_a_pod_on_each_node_that_it_counted(
    strategy: str, status: Json, rollout: str
) -> None:
    spec = {"updateStrategy": {"type": strategy}}
    metadata = {"annotations": OPT_OUT}
    found = read(DAEMON_SET, spec=spec, status=SCHEDULED | status, metadata=metadata)

    assert found.rollout.startswith(rollout)
    assert bool(found.rollout) is bool(rollout)
    assert found == DaemonSet("shop", "web", "u1", 7, 3, found.rollout, "true")


REVISIONS = {"currentRevision": "a", "updateRevision": "a"}


@pytest.mark.parametrize(
    ("strategy", "status", "rolls_out"),
    [
        pytest.param({}, REVISIONS, False, id="at rest"),
        pytest.param({}, REVISIONS | {"observedGeneration": 1}, True, id="not observed yet"),
        pytest.param({}, REVISIONS | {"updateRevision": "b"}, True, id="another revision"),
        pytest.param(
            {"type": "OnDelete"}, REVISIONS | {"updateRevision": "b"}, False, id="on delete"
        ),
        pytest.param(
            {"rollingUpdate": {"partition": 2}},
            REVISIONS | {"updateRevision": "b", "updatedReplicas": 1},
            False,
            id="down to its partition",
        ),
        pytest.param(
            {"rollingUpdate": {"partition": 1}},
            REVISIONS | {"updateRevision": "b", "updatedReplicas": 1},
            True,
            id="not yet down to its partition",
        ),
        pytest.param(
            {"rollingUpdate": {"partition": 0}}, REVISIONS, False, id="a partition of none"
        ),
    ],
)
def test_a_stateful_set_rolls_out_as_kubectl_says(
    strategy: Json, status: Json, *, rolls_out: bool
) -> None:
    spec = {"replicas": 3, "updateStrategy": strategy}
    found = read(STATEFUL_SET, spec=spec, status=EVEN | status)

    assert bool(found.rollout) is rolls_out


@pytest.mark.parametrize(
    ("policy", "is_parallel"), [("Parallel", True), ("OrderedReady", False), (None, False)]
)
def test_a_stateful_set_creates_its_pods_in_order_unless_it_says_otherwise(
    policy: str | None, *, is_parallel: bool
) -> None:
    spec = {} if policy is None else {"podManagementPolicy": policy}

    assert read(STATEFUL_SET, spec=spec).is_parallel is is_parallel


@pytest.mark.parametrize(("kind", "record"), [(REPLICA_SET, ReplicaSet), (JOB, Job)])
def test_a_replica_set_or_job_has_its_opt_out(
    kind: WatchedKind[Any, Any], record: type[ReplicaSet] | type[Job]
) -> None:
    assert read(kind, metadata={"annotations": OPT_OUT}) == record("u1", 7, None, "true")
    assert read(kind) == record("u1", 7)


@pytest.mark.parametrize(
    ("spec", "status", "wanted"),
    [
        pytest.param({}, {}, 1, id="one is the default"),
        pytest.param({"parallelism": 3, "completions": 9}, {"succeeded": 6}, 3, id="many are left"),
        pytest.param({"parallelism": 3, "completions": 9}, {"succeeded": 7}, 2, id="two are left"),
        pytest.param(
            {"parallelism": 3, "completions": 9},
            {"succeeded": 7, "uncountedTerminatedPods": {"succeeded": ["u"]}},
            1,
            id="one has succeeded that is not counted yet",
        ),
        pytest.param({"parallelism": 0, "completions": 9}, {}, 0, id="none at a time"),
        pytest.param({"parallelism": 3}, {}, 3, id="a queue"),
        pytest.param({"parallelism": 3}, {"succeeded": 1}, None, id="a queue that is done"),
        pytest.param({"managedBy": "example.com/other"}, {}, None, id="managed by another"),
    ],
)
def test_a_job_wants_as_many_pods_as_run_at_a_time(
    spec: Json, status: Json, wanted: int | None
) -> None:
    assert read(JOB, spec=spec, status=status).replicas == wanted


def test_a_namespace_has_its_opt_out() -> None:
    assert read(NAMESPACE, metadata={"annotations": OPT_OUT}).do_not_evict == "true"
    assert read(NAMESPACE).do_not_evict is None


@pytest.mark.parametrize(
    "kind", [REPLICA_SET, JOB, DEPLOYMENT, STATEFUL_SET, DAEMON_SET, NAMESPACE]
)
def test_a_workload_or_namespace_has_its_answer_to_proposals(kind: WatchedKind[Any, Any]) -> None:
    annotations = {"reactive-desched/proposals": "approve until 2026-12-24T18:00:00Z"}

    assert read(kind, metadata={"annotations": annotations}).answer == (
        "approve until 2026-12-24T18:00:00Z"
    )
    assert read(kind).answer is None


def test_a_pod_has_its_answer_to_proposals() -> None:
    annotations = {"reactive-desched/proposals": "reject until 2026-12-24T18:00:00Z"}

    assert read(POD, metadata={"annotations": annotations}).annotations.answer == (
        "reject until 2026-12-24T18:00:00Z"
    )


def test_a_node_has_karpenters_opt_out_and_its_deletion() -> None:
    marked = read(
        NODE,
        metadata={
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
            "deletionTimestamp": "2026-11-22T18:00:00Z",
        },
    )
    assert (marked.do_not_disrupt, marked.is_terminating) == ("true", True)
    plain = read(NODE)
    assert (plain.do_not_disrupt, plain.is_terminating) == (None, False)
    assert plain.do_not_evict is None
    assert read(NODE, metadata={"annotations": OPT_OUT}).do_not_evict == "true"


def test_a_pod_has_the_annotations_of_all_three_and_the_node_it_is_nominated_for() -> None:
    annotations = {
        "reactive-desched/do-not-evict": "2h",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }
    pod = read(POD, metadata={"annotations": annotations}, status={"nominatedNodeName": "n1"})

    found = pod.annotations
    assert (found.do_not_evict, found.safe_to_evict, found.do_not_disrupt) == (
        "2h",
        "false",
        "true",
    )
    assert pod.status.nominated_node == "n1"


def test_a_pod_says_since_when_it_is_ready() -> None:
    created = {"metadata": {"creationTimestamp": "1970-01-01T00:00:10Z"}}

    def since(status: str, *moment: str) -> int | None:
        times = {"lastTransitionTime": moment[0]} if moment else {}
        conditions = [{"type": "Other", "status": "True"}, {"type": "Ready", "status": status}]
        conditions[1] |= times
        found: int | None = read(POD, **created, status={"conditions": conditions}).ready_since_s
        return found

    assert since("True", "1970-01-01T00:00:42Z") == 42
    assert since("False", "1970-01-01T00:00:42Z") is None
    assert since("True") is None


@pytest.mark.parametrize(
    ("expected_pods", "desired", "never"),
    [(3, 3, True), (1, 1, True), (3, 2, False), (0, 1, False), (2, 3, True)],
)
def test_a_budget_never_allows_one_where_it_wants_all_of_its_pods(
    expected_pods: int,
    desired: int,
    never: bool,  # noqa: FBT001 -- a row
) -> None:
    status = {"expectedPods": expected_pods, "desiredHealthy": desired, "observedGeneration": 2}

    assert read(PDB, status=status).never_allows is never
