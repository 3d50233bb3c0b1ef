"""How koordinator's Reservations are read, and what those of jobs are made of."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.kube.client.reservations import reservation
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.migration.actions import CreateReservation
from reactive_desched.model.labels import Requirement
from reactive_desched.model.migration_jobs import MigrationJob, PodReference
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.reservations import Reservation, ReservationPhase
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.reservation import RESERVATION
from reactive_desched.testing.builders import pod as moved

CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w"}
SCHEDULED = {"type": "Scheduled", "status": "True", "reason": "Scheduled"}
WRITTEN: dict[str, Any] = {
    "metadata": {
        "name": "job-1",
        "uid": "r1",
        "resourceVersion": "9",
        "labels": {
            "app.kubernetes.io/created-by": "reactive-desched",
            "scheduling.koordinator.sh/reservation-order": "5",
        },
    },
    "spec": {"template": {}, "owners": [{"controller": {**CONTROLLER, "namespace": "shop"}}]},
    "status": {
        "phase": "Available",
        "nodeName": "n3",
        "allocatable": {"cpu": "1500m", "memory": "1Gi"},
        "conditions": [SCHEDULED, {"type": "Ready", "status": "True", "reason": "Available"}],
    },
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "p0",
        "labels": {"app": "web"},
        "ownerReferences": [{**CONTROLLER, "controller": True}],
        "managedFields": [{}],
    },
    "spec": {"nodeName": "n1", "schedulerName": "koord-scheduler", "containers": [{"name": "c"}]},
    "status": {"phase": "Running"},
}
JOB = MigrationJob(name="move", uid="j1", pod=PodReference("shop", "web-0", "p0"), ttl_s=300.0)
STEP = CreateReservation(JOB, moved("web-0", on="n1"))


def read(**changes: Any) -> Reservation:
    codec = ResourceCodec(RESERVATION, InternTables())
    return codec.decode_object(json.dumps(WRITTEN | changes).encode())


def test_a_reservation_that_keeps_room_is_read() -> None:
    assert read() == Reservation(
        name="job-1",
        uid="r1",
        resource_version=9,
        phase=ReservationPhase.AVAILABLE,
        node="n3",
        requests={"cpu": 1500, "memory": 2**30, "pods": 1},
        is_scheduled=True,
        is_ours=True,
        has_order=True,
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": {}}, {"phase": ReservationPhase.NONE, "is_scheduled": False}),
        (
            {
                "status": {
                    "phase": "Pending",
                    "conditions": [
                        {**SCHEDULED, "status": "False", "reason": "Unschedulable", "message": "no"}
                    ],
                }
            },
            {"is_pending": True, "unschedulable": "no", "is_scheduled": False},
        ),
        (
            {
                "status": {
                    "phase": "Failed",
                    "conditions": [{"type": "Ready", "status": "False", "reason": "Expired"}],
                }
            },
            {"is_expired": True, "keeps_room": False},
        ),
        (
            {"status": {"phase": "Succeeded", "currentOwners": [{"namespace": "a", "name": "b"}]}},
            {"taken_by": PodReference("a", "b")},
        ),
        ({"status": {"phase": "Strange"}}, {"phase": ReservationPhase.WAITING}),
        ({"spec": {"owners": [{"object": {"name": "web-0"}}]}}, {"is_for_pod": True}),
        (
            {"spec": {"owners": [{"object": {"name": "web-0"}, "labelSelector": {}}]}},
            {"is_for_pod": False},
        ),
        ({"metadata": {"name": "theirs", "uid": "t"}}, {"is_ours": False, "has_order": False}),
        (
            {"metadata": {"name": "x", "uid": "x", "deletionTimestamp": "1970-01-01T00:02:00Z"}},
            {"is_terminating": True},
        ),
    ],
)
def test_what_decides_is_read(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    found = read(**changes)

    assert {name: getattr(found, name) for name in expected} == expected


def test_the_reservation_of_a_job_is_for_the_successor_of_its_pod_on_another_node() -> None:
    made = reservation(STEP, {}, POD, 1234)

    assert made["metadata"] == {
        "name": "j1",
        "labels": {
            "app.kubernetes.io/created-by": "reactive-desched",
            "scheduling.koordinator.sh/reservation-order": "1234",
        },
        "ownerReferences": [
            {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "PodMigrationJob",
                "name": "move",
                "uid": "j1",
            }
        ],
    }
    not_there = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [not_there]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert made["spec"] == {
        "template": {
            "metadata": {
                "namespace": "shop",
                "labels": {"app": "web"},
                "ownerReferences": [{**CONTROLLER, "controller": True}],
            },
            "spec": {
                "schedulerName": "koord-scheduler",
                "containers": [{"name": "c"}],
                "affinity": affinity,
            },
        },
        "owners": [{"controller": {**CONTROLLER, "controller": True, "namespace": "shop"}}],
        "allocateOnce": True,
        "ttl": "300s",
    }


def test_a_reservation_has_no_claim_that_only_the_pod_may_have_but_is_where_its_volume_is() -> None:
    rack = NodeSelector((NodeSelectorTerm((Requirement("rack", "In", ("r1",)),)),))
    data, more = (
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "more")
    )
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}
    mounting = {**POD, "spec": {**POD["spec"], "volumes": [data, more, scratch]}}
    step = replace(STEP, selectors=(rack,), without=("data",))

    spec = reservation(step, {}, mounting, 1)["spec"]["template"]["spec"]

    assert spec["volumes"] == [more]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    assert [each["key"] for each in term["matchExpressions"]] == ["rack"]
    assert [each["values"] for each in term["matchFields"]] == [["n1"]]
    assert mounting["spec"]["volumes"] == [data, more, scratch]


def test_a_reservation_avoids_the_nodes_that_are_emptied() -> None:
    made = reservation(replace(STEP, avoided=("n8", "n9")), {}, POD, 1)

    by_node = made["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [term] = by_node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [each["values"] for each in term["matchFields"]] == [["n1"], ["n8"], ["n9"]]


def test_a_template_of_the_job_comes_first() -> None:
    template: dict[str, Any] = {
        "metadata": {"name": "mine", "labels": {"a": "b"}},
        "spec": {
            "owners": [{"labelSelector": {"matchLabels": {"x": "y"}}}],
            "expires": "2030-01-01T00:00:00Z",
            "allocateOnce": False,
            "template": {"spec": {"nodeName": "n9", "containers": []}},
        },
    }
    made = reservation(STEP, template, POD, 1)

    assert (made["metadata"]["name"], made["metadata"]["labels"]["a"]) == ("mine", "b")
    assert made["spec"]["owners"] == template["spec"]["owners"]
    assert (made["spec"]["expires"], made["spec"]["allocateOnce"]) == ("2030-01-01T00:00:00Z", True)
    assert "ttl" not in made["spec"]
    assert "nodeName" not in made["spec"]["template"]["spec"]


def test_of_a_pod_that_waits_for_a_node_the_pod_itself_is_the_owner() -> None:
    unscheduled = [{"type": "PodScheduled", "status": "False"}]
    waiting = {
        **POD,
        "spec": {"containers": []},
        "status": {"phase": "Pending", "conditions": unscheduled},
    }

    owner = {"kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "p0"}
    assert reservation(STEP, {}, waiting, 1)["spec"]["owners"] == [{"object": owner}]
