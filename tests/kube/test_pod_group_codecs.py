"""PodGroups and Workloads of each system, as the API server tells them."""

import json
from typing import Any

import pytest

from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.gangs import Gang
from reactive_desched.model.pod_groups import GroupRule
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import GANG_RESOURCES, WATCHED_KINDS

METADATA = {"name": "train", "uid": "u1", "resourceVersion": "7", "namespace": "shop"}
GANG: Any = {"gang": {"minCount": 3}}
ALPHA = "podgroups.scheduling.k8s.io"
BETA = "podgroups.v1beta1.scheduling.k8s.io"


def rules(resource: str, **members: Any) -> dict[Gang, GroupRule]:
    codec = ResourceCodec(WATCHED_KINDS[resource], InternTables())
    record = codec.decode_object(json.dumps({"metadata": METADATA} | members).encode())
    return dict(record.rules)


@pytest.mark.parametrize(
    ("resource", "system"),
    [
        ("podgroups.scheduling.x-k8s.io", "the coscheduling plugin"),
        ("podgroups.scheduling.sigs.k8s.io", "koordinator, and the coscheduling plugin before"),
        ("podgroups.scheduling.volcano.sh", "Volcano"),
        ("podgroups.scheduling.run.ai", "KAI Scheduler"),
    ],
)
def test_a_group_of_another_scheduler_says_how_many_run_together(
    resource: str, system: str
) -> None:
    gang = Gang("shop", system, "train")

    assert rules(resource, spec={"minMember": 3}) == {gang: GroupRule(3)}
    for unsaid in ({}, {"minMember": 0}, {"minMember": -1}, {"minMember": None}):
        assert rules(resource, spec=unsaid) == {gang: GroupRule(None)}


@pytest.mark.parametrize(
    ("resource", "mode", "said"),
    [
        (ALPHA, "Pod", "Single"),
        (ALPHA, "PodGroup", "All"),
        (ALPHA, None, ""),
        (ALPHA, "Nonsense", ""),
        (BETA, {"single": {}}, "Single"),
        (BETA, {"all": {}}, "All"),
        (BETA, {}, ""),
    ],
)
def test_a_group_of_kubernetes_says_how_its_pods_are_disrupted(
    resource: str, mode: object, said: Any
) -> None:
    gang = Gang("shop", "Kubernetes", "train")

    found = rules(resource, spec={"schedulingPolicy": GANG, "disruptionMode": mode})

    assert found == {gang: GroupRule(3, disruption=said)}


@pytest.mark.parametrize("resource", [ALPHA, BETA])
def test_a_basic_group_is_a_gang_only_where_it_is_disrupted_as_one(resource: str) -> None:
    [alone] = rules(resource, spec={"schedulingPolicy": {"basic": {}}}).values()
    all_of_it = "PodGroup" if resource == ALPHA else {"all": {}}
    [whole] = rules(
        resource, spec={"schedulingPolicy": {"basic": {}}, "disruptionMode": all_of_it}
    ).values()
    [unsaid] = rules(resource, spec={}).values()

    assert not alone.is_gang
    assert whole.is_gang
    assert unsaid.is_gang


def test_a_workload_of_1_35_has_the_rules_of_its_groups() -> None:
    groups = [
        {"name": "workers", "policy": GANG},
        {"name": "driver", "policy": {"basic": {}}},
    ]

    assert rules("workloads.scheduling.k8s.io", spec={"podGroups": groups}) == {
        Gang("shop", "Kubernetes", "train/workers"): GroupRule(3),
        Gang("shop", "Kubernetes", "train/driver"): GroupRule(is_basic=True),
    }
    later = {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": GANG}]}
    assert rules("workloads.scheduling.k8s.io", spec=later) == {}


def test_each_kind_has_the_path_at_which_its_group_serves_it() -> None:
    assert {WATCHED_KINDS[each].path for each in GANG_RESOURCES} == {
        "/apis/scheduling.k8s.io/v1alpha1/workloads",
        "/apis/scheduling.k8s.io/v1alpha2/podgroups",
        "/apis/scheduling.k8s.io/v1beta1/podgroups",
        "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
        "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
        "/apis/scheduling.run.ai/v2alpha2/podgroups",
    }
