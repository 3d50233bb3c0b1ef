from typing import Any

import msgspec
import pytest

from reactive_desched.gate.evictor import EvictorFilters
from reactive_desched.gate.filters import pod_filters
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    Annotations,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodStatus,
    PriorityClass,
)
from reactive_desched.model.wakes import WakeOnPdb
from reactive_desched.policy.evictor import DefaultEvictorArgs, NoEvictionPolicy
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.owners import WakeOnOwner
from reactive_desched.testing.builders import pod

NOW_S = 100_000.0
FAILED = PodStatus("Failed")


def change(thing: Pod, **fields: Any) -> Pod:  # any field of a pod
    return msgspec.structs.replace(thing, **fields)


def with_spec(thing: Pod, **fields: Any) -> Pod:  # any field of a spec
    return change(thing, spec=msgspec.structs.replace(thing.spec, **fields))


def decision(args: dict[str, Any], candidate: Pod, *others: Any) -> Refuse | None:  # as written
    state = ClusterState()
    for thing in (candidate, *others):
        state.upsert(thing)
    view = ClusterView(state, lambda: NOW_S)
    evictor = DefaultEvictorArgs.model_validate(args)
    gate = EvictorFilters(
        pod_filters(evictor),
        view,
        mandatory_no_eviction=evictor.no_eviction is NoEvictionPolicy.MANDATORY,
    )
    return gate.check(Finding(candidate, "Test", "why"), 0)


PLAIN = pod("web", on="n1")
BARE = pod("bare", on="n1", owner=None)
STORED = with_spec(PLAIN, has_local_storage=True)
DAEMON = pod("agent", on="n1", owner="DaemonSet/agent")
MIRROR = change(PLAIN, annotations=Annotations(mirror="x", config_source="api"))
STATIC = change(PLAIN, annotations=Annotations(config_source="file"))
CLAIMING = change(PLAIN, pvc_names=("data",))
DEVICE = with_spec(PLAIN, has_resource_claims=True)
TWO_OWNERS = change(
    PLAIN, owners=(OwnerReference("Job", "a", "o1"), OwnerReference("Job", "b", "o2"))
)


def evict_me(thing: Pod) -> Pod:
    return change(thing, annotations=msgspec.structs.replace(thing.annotations, evict="false"))


def prio(value: int) -> Pod:
    return with_spec(PLAIN, priority=value)


def started(ago_s: int | None) -> Pod:
    return change(
        PLAIN, start_delay_s=None if ago_s is None else int(NOW_S) - ago_s - PLAIN.created_s
    )


CRITICAL, THRESHOLD = {"evictSystemCriticalPods": True}, {"priorityThreshold": {"value": 800}}
OFF, ON = "defaultDisabled", "extraEnabled"


def protect(where: str, name: str) -> dict[str, Any]:
    return {"podProtections": {where: (name,)}}


def classes(*names: str) -> dict[str, Any]:
    listed = tuple({"name": name} for name in names)
    return {
        "podProtections": {
            "extraEnabled": ("PodsWithPVC",),
            "config": {"PodsWithPVC": {"protectedStorageClasses": listed}},
        }
    }


@pytest.mark.parametrize(
    ("args", "candidate", "gate"),
    [
        pytest.param({}, change(BARE, status=FAILED), "FailedBarePods", id="a failed bare pod"),
        pytest.param(
            {"evictFailedBarePods": True}, BARE, "FailedBarePods", id="a bare pod that runs"
        ),
        pytest.param(
            {"evictFailedBarePods": True}, change(BARE, status=FAILED), None, id="failed, allowed"
        ),
        pytest.param({}, PLAIN, None, id="an ordinary pod may go"),
        pytest.param({}, evict_me(BARE), None, id="the evict annotation beats bareness"),
        pytest.param({}, evict_me(STORED), None, id="the evict annotation beats local storage"),
        pytest.param({}, evict_me(DAEMON), None, id="the evict annotation beats a daemon set"),
        pytest.param({}, evict_me(MIRROR), None, id="the evict annotation beats a mirror"),
        pytest.param(
            {}, evict_me(prio(2_000_000_000)), None, id="the evict annotation beats priority"
        ),
        pytest.param(
            {},
            change(evict_me(PLAIN), deletion_s=1),
            None,
            id="the evict annotation beats leaving, as upstream",
        ),
        pytest.param(
            {},
            change(PLAIN, annotations=Annotations(prefer_no_eviction="")),
            None,
            id="a preference not to go is only a preference",
        ),
        pytest.param(
            {"noEvictionPolicy": "Mandatory"},
            change(PLAIN, annotations=Annotations(prefer_no_eviction="")),
            "NoEvictionPolicy",
            id="unless the policy makes it binding",
        ),
        pytest.param(
            {"noEvictionPolicy": "Mandatory"},
            change(PLAIN, annotations=Annotations(prefer_no_eviction="", evict="")),
            None,
            id="and still the evict annotation wins",
        ),
        pytest.param({}, STORED, "PodsWithLocalStorage", id="local storage"),
        pytest.param({"evictLocalStoragePods": True}, STORED, None, id="local storage, allowed"),
        pytest.param(
            protect(OFF, "PodsWithLocalStorage"), STORED, None, id="local storage, unprotected"
        ),
        pytest.param({}, DAEMON, "DaemonSetPods", id="a daemon set's pod"),
        pytest.param(protect(OFF, "DaemonSetPods"), DAEMON, None, id="daemon sets unprotected"),
        pytest.param({}, MIRROR, "MirrorPods", id="a mirror pod"),
        pytest.param({}, STATIC, "StaticPods", id="a static pod"),
        pytest.param({}, change(PLAIN, deletion_s=1), "TerminatingPods", id="a leaving pod"),
        pytest.param({}, prio(2_000_000_000), "SystemCriticalPods", id="system critical"),
        pytest.param(CRITICAL, prio(2_000_000_000), None, id="system critical, allowed"),
        pytest.param(THRESHOLD, prio(900), "PriorityThreshold", id="above the threshold"),
        pytest.param(THRESHOLD, prio(800), "PriorityThreshold", id="at the threshold"),
        pytest.param(THRESHOLD, prio(799), None, id="below the threshold"),
        pytest.param(THRESHOLD, PLAIN, None, id="no priority is below any threshold"),
        pytest.param(
            {**THRESHOLD, **CRITICAL}, prio(900), None, id="the threshold goes with the protection"
        ),
        pytest.param({}, CLAIMING, None, id="claims do not protect by default"),
        pytest.param({"ignorePvcPods": True}, CLAIMING, "PodsWithPVC", id="claims protect"),
        pytest.param(protect(ON, "PodsWithPVC"), CLAIMING, "PodsWithPVC", id="claims protect, new"),
        pytest.param(
            protect(ON, "PodsWithResourceClaims"), DEVICE, "PodsWithResourceClaims", id="devices"
        ),
        pytest.param({}, DEVICE, None, id="devices do not protect by default"),
        pytest.param(
            {"labelSelector": {"matchLabels": {"tier": "front"}}},
            PLAIN,
            "LabelSelector",
            id="outside the label selector",
        ),
        pytest.param({"labelSelector": {}}, PLAIN, None, id="an empty selector leaves none out"),
        pytest.param({"minPodAge": "50m"}, started(600), "MinPodAge", id="too young"),
        pytest.param({"minPodAge": "50m"}, started(3600), None, id="old enough"),
        pytest.param({"minPodAge": "50m"}, started(None), "MinPodAge", id="never started"),
    ],
)
def test_which_pods_are_protected(args: dict[str, Any], candidate: Pod, gate: str | None) -> None:
    refusal = decision(args, candidate)

    assert (refusal.gate if refusal else None) == gate


def test_min_replicas_counts_the_owners_pods_in_any_phase() -> None:
    sibling = pod("web-2", on="n2", status=FAILED)

    assert decision({"minReplicas": 2}, PLAIN, sibling) is None
    refusal = decision({"minReplicas": 3}, PLAIN, sibling)
    assert refusal is not None
    assert refusal.reason == "MinReplicas"
    assert "2 pods" in refusal.message
    assert WakeOnOwner("owner-web") in refusal.wake_on


def test_min_replicas_lets_pods_of_several_owners_pass() -> None:
    assert decision({"minReplicas": 2}, TWO_OWNERS) is None


def test_pods_without_a_budget_are_protected_when_asked() -> None:
    covering = PodDisruptionBudget("default", "all", selector=LabelSelector())
    elsewhere = PodDisruptionBudget("bank", "all", selector=LabelSelector())
    selecting_nobody = PodDisruptionBudget("default", "none", selector=None)
    args = {"ignorePodsWithoutPDB": True}

    assert decision(args, PLAIN, covering) is None
    refusal = decision(args, PLAIN, elsewhere, selecting_nobody)
    assert refusal is not None
    assert refusal.gate == "PodsWithoutPDB"
    assert WakeOnPdb("default") in refusal.wake_on


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        pytest.param(
            PersistentVolumeClaim("default", "data", storage_class="fast"),
            "ProtectedStorageClass",
            id="a listed class",
        ),
        pytest.param(
            PersistentVolumeClaim("default", "data", storage_class="slow"), None, id="another class"
        ),
        pytest.param(
            PersistentVolumeClaim("default", "data"),
            "StorageClassUnknown",
            id="no class",
        ),
        pytest.param(
            PersistentVolumeClaim("bank", "data", storage_class="slow"),
            "PvcNotFound",
            id="no such claim",
        ),
    ],
)
def test_protected_storage_classes_narrow_the_protection(
    claim: PersistentVolumeClaim, reason: str | None
) -> None:
    refusal = decision(classes("fast"), CLAIMING, claim)

    assert (refusal.reason if refusal else None) == reason


def test_a_threshold_by_name_follows_the_priority_class() -> None:
    args = {"priorityThreshold": {"name": "high"}}

    assert decision(args, prio(900), PriorityClass("high", value=1000)) is None
    assert decision(args, prio(900), PriorityClass("high", value=900)) is not None
    missing = decision(args, prio(900))
    assert missing is not None
    assert missing.reason == "PriorityClassNotFound"


def test_a_young_pod_is_judged_again_when_it_is_old_enough() -> None:
    refusal = decision({"minPodAge": "50m"}, started(600))

    assert refusal is not None
    assert refusal.retry_at_s == 2400
