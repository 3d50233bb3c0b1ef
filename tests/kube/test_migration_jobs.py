"""How migration jobs are read, and what placeholders are made of."""

import json
from contextlib import suppress
from typing import Any

import pytest

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.placeholders import keep_place, make_room, placeholder
from reactive_desched.kube.client.session import Session
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.migration.actions import CreatePlaceholder
from reactive_desched.model.labels import Requirement
from reactive_desched.model.migration_jobs import (
    JobCondition,
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
)
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.policy.settings.migration import PlaceholderSettings
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.pod_migration_job import POD_MIGRATION_JOB
from reactive_desched.testing.builders import pod
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
    selectors: tuple[NodeSelector, ...] = (),
    requests: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    spread_keys: tuple[str, ...] = (),
    avoided: tuple[str, ...] = (),
    owner: str = "ReplicaSet/web",
    **settings: Any,
) -> dict[str, Any]:
    moved = pod("web-0", on="n1", requests=requests or {}, owner=owner)
    written = {"metadata": {"uid": moved.uid, "labels": labels or {"app": "web"}}, "spec": spec}
    step = CreatePlaceholder(read(), moved, selectors, spread_keys, avoided)
    return placeholder(written, step, PlaceholderSettings(**settings))


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


def like(name: str, cpu: str, **fields: Any) -> dict[str, Any]:
    """Return a container as the API server has it."""
    return {"name": name, "image": "app", "resources": {"requests": {"cpu": cpu}}, **fields}


def requested(containers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what each container requests of CPU, and check that none does anything."""
    assert {each["image"] for each in containers} <= {PlaceholderSettings().image}
    return {each["name"]: each["resources"]["requests"]["cpu"] for each in containers}


def test_a_placeholder_has_the_requests_and_limits_of_each_container() -> None:
    gpu = {"example.com/gpu": "1"}
    bounded = {"requests": {"cpu": "1", **gpu}, "limits": {"cpu": "2", **gpu}}
    claims = {"claims": [{"name": "x"}]}
    written = [{"name": "a", "image": "app", "resources": {**bounded, **claims}}, like("b", "2")]

    found = made({"containers": written}, requests={"cpu": "3"})["spec"]

    assert found["containers"][0]["resources"] == bounded
    assert requested(found["containers"]) == {"a": "1", "b": "2"}
    assert "initContainers" not in found


def test_a_placeholder_has_the_requests_that_a_pod_has_as_a_whole() -> None:
    whole = {"requests": {"cpu": "3"}}

    assert made({"containers": [], "resources": whole})["spec"]["resources"] == whole


def test_a_placeholder_leaves_out_the_overhead_that_its_runtime_class_adds() -> None:
    kata = {"runtimeClassName": "kata", "overhead": {"cpu": "500m"}}
    written = {"containers": [like("a", "1")], "initContainers": [like("first", "1")], **kata}

    spec = made(written, requests={"cpu": "1500m"})["spec"]

    assert requested(spec["containers"]) == {"a": "1"}
    assert "initContainers" not in spec
    assert "overhead" not in spec


def test_a_placeholder_has_the_sidecars_of_the_pod_and_what_runs_before_where_that_needs_more() -> (
    None
):
    sidecar = like("proxy", "1", restartPolicy="Always")
    written = {"containers": [like("a", "1")], "initContainers": [sidecar, like("first", "2")]}

    small, large = (made(written, requests={"cpu": cpu})["spec"] for cpu in ("2", "3"))

    assert requested(small["initContainers"]) == {"proxy": "1"}
    assert small["initContainers"][0]["restartPolicy"] == "Always"
    assert requested(large["initContainers"]) == {"proxy": "1", "first": "2"}


def test_a_placeholder_avoids_the_nodes_that_are_emptied() -> None:
    by_node = made({}, avoided=("n8", "n1", "n9"))["spec"]["affinity"]["nodeAffinity"]

    [term] = by_node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [each["values"] for each in term["matchFields"]] == [["n1"], ["n8"], ["n9"]]


BY_HOST, BY_ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def spread(spec: dict[str, Any] | None = None, **more: Any) -> list[tuple[Any, ...]]:
    """Return the key, the maxSkew, the kind and the selector of a placeholder's constraints."""
    found = made(spec or {}, **more)["spec"].get("topologySpreadConstraints", [])
    fields = "topologyKey", "maxSkew", "whenUnsatisfiable", "labelSelector"
    return [tuple(each[field] for field in fields) for each in found]


def test_a_placeholder_is_spread_as_the_kube_scheduler_spreads_the_pods_of_a_controller() -> None:
    keys, app = (BY_HOST, BY_ZONE), {"app": "web"}
    of_one = {
        "statefulset.kubernetes.io/pod-name": "web-0",
        "controller-revision-hash": "2",
        BY_ZONE: "a",
    }

    def expected(labels: dict[str, str]) -> list[tuple[Any, ...]]:
        selector = {"matchLabels": labels}
        return [(BY_HOST, 3, "ScheduleAnyway", selector), (BY_ZONE, 5, "ScheduleAnyway", selector)]

    assert spread(labels=app | {BY_ZONE: "a"}, spread_keys=keys) == expected(app)
    assert spread(labels=app, spread_keys=(BY_HOST,)) == expected(app)[:1]
    owned = spread(labels=app | of_one, spread_keys=keys, owner="StatefulSet/web")
    assert owned == expected(app)
    assert spread(labels=app, spread_keys=keys, owner="Job/web") == []
    assert spread(labels=of_one, spread_keys=keys) == []


@pytest.mark.parametrize("key", ["pod-template-hash", "rollouts-pod-template-hash"])
def test_the_siblings_in_a_replica_set_are_selected_by_the_hash_of_its_template(key: str) -> None:
    [found] = spread(labels={"app": "web", "canary": "yes", key: "1"}, spread_keys=(BY_ZONE,))

    assert found[3] == {"matchLabels": {key: "1"}}


def test_a_placeholder_has_the_constraints_of_the_pod_and_no_others() -> None:
    selector = {"matchLabels": {"app": "web"}}
    own = {"topologyKey": BY_ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    constraint = {**own, "labelSelector": selector, "matchLabelKeys": ["version", "gone"]}

    [found] = spread(
        {"topologySpreadConstraints": [constraint]},
        labels={"app": "web", "version": "2"},
        spread_keys=(BY_HOST, BY_ZONE),
    )

    version = {"key": "version", "operator": "In", "values": ["2"]}
    assert found == (
        *(BY_ZONE, 1, "DoNotSchedule"),
        {**selector, "matchExpressions": [version]},
    )


def test_a_placeholder_keeps_the_host_ports_of_the_pod() -> None:
    port = {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}
    ports = [{"name": "dns", **port}, {"name": "http", "containerPort": 80}]

    [container] = made({"containers": [like("a", "1", ports=ports)]})["spec"]["containers"]

    assert container["ports"] == [port]


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


@pytest.mark.anyio
async def test_a_successor_that_has_a_node_is_nominated_for_none(
    api: ScriptedApi, session: Session
) -> None:
    api.answer_next("DELETE", ScriptedReply(200))

    await make_room(session, pod("place", on="n3"), pod("web-next", on="n2"))
    assert [each.kind for each in api.requests] == ["DELETE"]


@pytest.mark.anyio
async def test_a_login_page_has_deleted_no_placeholder(api: ScriptedApi, session: Session) -> None:
    kept = pod("placeholder-u1", uid="place", on="n2", namespace="shop")
    api.answer_next("DELETE", ScriptedReply(200, b"<html>Sign in</html>"))

    with pytest.raises(RequestRejected, match="web page"):
        await make_room(session, kept, None)


@pytest.mark.anyio
async def test_of_a_pod_that_is_gone_no_placeholder_is_made(
    api: ScriptedApi, session: Session
) -> None:
    gone = pod("web-0", uid="p1", on="n1", namespace="shop")
    api.answer_next("GET", ScriptedReply(404, b'{"reason":"NotFound"}'))

    assert not await keep_place(session, CreatePlaceholder(read(), gone), None)
    assert api.count("POST") == 0
