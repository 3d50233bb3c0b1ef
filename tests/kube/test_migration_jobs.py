"""How migration jobs are read, and what placeholders are made of."""

import json
from contextlib import suppress
from typing import Any

import pytest

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.placeholders import make_room, placeholder
from reactive_desched.kube.client.session import Session
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.labels import Requirement
from reactive_desched.model.migration_jobs import (
    JobCondition,
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
)
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import HostPort
from reactive_desched.policy.migration import PlaceholderSettings
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.pod_migration_job import POD_MIGRATION_JOB
from reactive_desched.testing.builders import pod, with_spec
from tests.support.scripted_api import ScriptedApi, ScriptedReply

JOB: dict[str, Any] = {
    "metadata": {
        "name": "move-web-0",
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": "1970-01-01T00:01:00Z",
        "annotations": {
            "descheduler.koordinator.sh/passed-arbitration": "true",
            "koordinator.sh/evict-trigger": "LowNodeLoad",
            "koordinator.sh/evict-reason": "node is overutilized",
        },
    },
    "spec": {
        "mode": "EvictDirectly",
        "ttl": "5m0s",
        "paused": True,
        "podRef": {"kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "p1"},
    },
    "status": {
        "phase": "Running",
        "status": "Eviction",
        "nodeName": "n2",
        "conditions": [
            {
                "type": "Eviction",
                "status": "False",
                "reason": "Evicting",
                "lastProbeTime": None,
                "lastTransitionTime": "1970-01-01T00:02:00Z",
            }
        ],
    },
}


def read(**changes: Any) -> MigrationJob:
    codec = ResourceCodec(POD_MIGRATION_JOB, InternTables())
    return codec.decode_object(json.dumps(JOB | changes).encode())


def test_a_job_is_read_with_its_annotations_and_its_status() -> None:
    assert read() == MigrationJob(
        name="move-web-0",
        uid="u1",
        pod=PodReference("shop", "web-0", "p1"),
        resource_version=7,
        created_s=60,
        has_passed=True,
        trigger="LowNodeLoad",
        cause="node is overutilized",
        mode="EvictDirectly",
        ttl_s=300.0,
        is_paused=True,
        status=JobStatus(
            Phase.RUNNING,
            "Eviction",
            node="n2",
            conditions=(
                JobCondition(
                    "Eviction", "False", "Evicting", last_transition_time="1970-01-01T00:02:00Z"
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("status", "phase"),
    [({}, Phase.NONE), ({"phase": "Pending"}, Phase.PENDING), ({"phase": "Odd"}, Phase.ABORTED)],
)
def test_a_job_in_a_phase_that_is_not_known_counts_as_ended(
    status: dict[str, Any], phase: Phase
) -> None:
    assert read(status=status).phase is phase


@pytest.mark.parametrize(("ttl", "seconds"), [("", 0.0), ("soon", 0.0), ("-5m", 0.0), ("90s", 90)])
def test_a_time_to_live_that_is_none_never_ends(ttl: str, seconds: float) -> None:
    assert read(spec={"ttl": ttl}).ttl_s == seconds


def made(
    spec: dict[str, Any],
    host_ports: tuple[HostPort, ...] = (),
    selectors: tuple[NodeSelector, ...] = (),
    **settings: Any,
) -> dict[str, Any]:
    requests = {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "1"}
    moved = with_spec(pod("web-0", on="n1", requests=requests), host_ports=host_ports)
    written = {"metadata": {"uid": moved.uid, "labels": {"app": "web"}}, "spec": spec}
    return placeholder(written, read(), moved, selectors, PlaceholderSettings(**settings))


def test_a_placeholder_requests_what_the_pod_does_and_no_service_selects_it() -> None:
    kept = {"schedulerName": "other", "tolerations": [{"key": "gpu"}], "nodeSelector": {"a": "b"}}
    body = made({**kept, "hostNetwork": True, "volumes": [{}]}, priority_class_name="low")

    assert body["metadata"]["labels"] == {
        "reactive-desched/placeholder-of": "u1",
        "reactive-desched/placeholder-for": "owner-web",
        "reactive-desched/placeholder-for-kind": "ReplicaSet",
    }
    assert body["metadata"]["annotations"] == {"reactive-desched/do-not-evict": "true"}
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("PodMigrationJob", "u1")
    spec = body["spec"]
    assert {key: spec[key] for key in kept} == kept
    assert not {"hostNetwork", "volumes", "nodeName"} & spec.keys()
    assert (spec["priorityClassName"], spec["activeDeadlineSeconds"]) == ("low", 300)
    [container] = spec["containers"]
    gpu = {"example.com/gpu": "1"}
    requests = {"cpu": "1500m", "memory": str(2**30), **gpu}
    assert container["resources"] == {"requests": requests, "limits": gpu}


def test_a_placeholder_has_the_limits_that_each_container_has_and_none_below_its_requests() -> None:
    limits = [{"cpu": "1", "memory": "2Gi"}, {"cpu": "250m"}]
    [container] = made({"containers": [{"resources": {"limits": each}} for each in limits]})[
        "spec"
    ]["containers"]

    assert container["resources"]["limits"] == {"cpu": "1500m", "example.com/gpu": "1"}


def test_a_placeholder_leaves_out_the_overhead_that_its_runtime_class_adds() -> None:
    overhead = {"cpu": "500m", "memory": "1Gi"}
    [container] = made({"runtimeClassName": "kata", "overhead": overhead})["spec"]["containers"]

    assert container["resources"]["requests"] == {"cpu": "1000m", "example.com/gpu": "1"}


def test_a_placeholder_keeps_the_host_ports_of_the_pod() -> None:
    [container] = made({}, host_ports=(HostPort(53, "UDP", "10.0.0.1"),))["spec"]["containers"]

    assert container["ports"] == [
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}
    ]


def test_a_placeholder_keeps_away_from_the_pods_node_by_each_term() -> None:
    not_there = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    disk = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    anti = {"podAntiAffinity": {required: [{"topologyKey": "zone"}]}}
    affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": [zone, disk]}}, **anti}

    assert made({})["spec"]["affinity"] == {
        "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchFields": [not_there]}]}}
    }
    assert made({"affinity": affinity})["spec"]["affinity"] == {
        "nodeAffinity": {
            required: {
                "nodeSelectorTerms": [
                    {**zone, "matchFields": [not_there]},
                    {**disk, "matchFields": [not_there]},
                ]
            }
        },
        **anti,
    }


def test_a_placeholder_is_where_the_volumes_can_be_reached_by_each_term() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    disk = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": [zone, disk]}}}
    rack = Requirement("rack", "In", ("r1", "r2"))
    selectors = (NodeSelector((NodeSelectorTerm((rack,)),)),)

    terms = made({"affinity": affinity}, selectors=selectors)["spec"]["affinity"]
    assert terms["nodeAffinity"][required]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                *term["matchExpressions"],
                {"key": "rack", "operator": "In", "values": ("r1", "r2")},
            ],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
        }
        for term in (zone, disk)
    ]


@pytest.mark.anyio
async def test_the_successor_is_nominated_for_the_node_before_the_placeholder_is_deleted(
    api: ScriptedApi, session: Session
) -> None:
    api.answer_next("PATCH", ScriptedReply(200))
    api.answer_next("DELETE", ScriptedReply(200))

    await make_room(session, pod("place", on="n3"), pod("web-next"))

    nominated, deleted = api.requests
    assert (nominated.kind, nominated.path) == (
        "PATCH",
        "/api/v1/namespaces/default/pods/web-next/status",
    )
    assert json.loads(nominated.body) == {
        "metadata": {"uid": "web-next"},
        "status": {"nominatedNodeName": "n3"},
    }
    assert (deleted.kind, deleted.path) == ("DELETE", "/api/v1/namespaces/default/pods/place")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "asked"),
    [(403, ["PATCH", "DELETE"]), (422, ["PATCH", "DELETE"]), (500, ["PATCH"])],
)
async def test_without_the_right_to_nominate_or_for_a_pod_with_a_node_the_placeholder_makes_room(
    api: ScriptedApi, session: Session, status: int, asked: list[str]
) -> None:
    api.answer_next("PATCH", ScriptedReply(status, b"{}"))
    api.answer_next("DELETE", ScriptedReply(200))

    with suppress(RequestRejected):
        await make_room(session, pod("place", on="n3"), pod("web-next"))
    assert [each.kind for each in api.requests] == asked
