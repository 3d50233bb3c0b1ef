"""Each plugin needs each change that it follows: a case shows what it misses without it.

The steps that a property draws may never be the one that a plugin follows a change for: the
property would hold without it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.devices import (
    Device,
    DeviceAllocation,
    DeviceAlternatives,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    NodeScope,
    PoolName,
    ResourceClaim,
    ResourceSlice,
)
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    Annotations,
    ClusterObject,
    CSINode,
    Namespace,
    Node,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    PodStatus,
)
from reactive_desched.model.pod_groups import GroupRule, KubernetesPodGroup
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.indexes.unschedulable_pods import UNSCHEDULABLE
from reactive_desched.testing.anti_affinity import (
    REGION,
    anti_affinity_term,
    db_pod,
    main_node,
    pod_avoiding_db,
    with_anti_affinity,
)
from reactive_desched.testing.builders import (
    container,
    node,
    pod,
    pod_status,
    term,
    tolerations,
    with_spec,
)
from reactive_desched.testing.scenario import AnyPlugin, Scenario
from reactive_desched.testing.topology_spread import spread_constraint, spread_pods

REGISTRY = plugin_registry()
PLUGINS: Mapping[str, type[AnyPlugin]] = {
    name: plugin
    for name in sorted(REGISTRY.built_in())
    if (plugin := REGISTRY[name].plugin) is not None
}


class Case(Struct, frozen=True):
    """A cluster, and what happens to it, by which other pods have findings than before.

    `args` are the plugin's, beside those it must have, and `evictor` is the profile's.
    """

    begun: tuple[ClusterObject, ...]
    then: Callable[[Scenario], object]
    args: dict[str, Any] = {}
    evictor: dict[str, Any] = {}


def applied(*begun: ClusterObject, then: ClusterObject, **more: Any) -> Case:
    return Case(begun, lambda cluster: cluster.apply(then), **more)


def removed(*begun: ClusterObject, then: ClusterObject, **more: Any) -> Case:
    return Case(begun, lambda cluster: cluster.remove(then), **more)


# --- what the cases are made of ---

N1, N2 = node("n1"), node("n2")
TAINTED = node("n1", "a:NoSchedule")
NOT_READY = node("n1", ready="False")
LABELLED = {"app": "web"}
OF_WEB = {"labelSelector": {"matchLabels": LABELLED}}
YOUNG = {"minPodAge": "60s"}
FAILED = pod_status("Failed", container(ended="Error", code=1))


def small(name: str, *taints: str, cpu: str = "4", **more: Any) -> Node:
    return node(name, *taints, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "10"}, **more)


def asks(name: str, on: str | None = "n1", cpu: str = "1", **more: Any) -> Pod:
    """Build a pod of a workload of its own, which has run since its creation."""
    more = {"owner": f"ReplicaSet/{name}", **more}
    return replace(pod(name, on=on, requests={"cpu": cpu}, **more), start_delay_s=0)


def annotated(each: Pod, **annotations: Any) -> Pod:  # any annotation
    return replace(each, annotations=Annotations(**annotations))


def in_namespace_b(each: Pod) -> Pod:
    return replace(each, namespace="b")


def of_daemon_set(each: Pod) -> Pod:
    return replace(each, owners=(OwnerReference("DaemonSet", "agent", "uid", controller=True),))


def grows_old(cluster: Scenario) -> None:
    """Let the evictor's least age of pods pass, and nothing else."""
    cluster.wait(61)


# --- plugins that judge pods one by one ---

REPORTED = replace(node("n1", unschedulable=True), conditions=(("KernelDeadlock", "True"),))
CONDITIONS = {"conditions": [{"type": "KernelDeadlock", "for": "0s", "lapse": "0s"}]}
DRAINED = replace(node("n1", unschedulable=True), drain="ada")
CRASHED = pod_status("Running", container(restarts=10))
RESTARTS = {"podRestartThreshold": 10}
NEEDS_SSD = pod("p", on="n1", requires="disk=ssd")
PREFERS_SSD = pod("p", on="n1", prefers={"disk=ssd": 10})
SSD = {"disk": "ssd"}
BOTH = {
    "nodeAffinityType": [
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    ]
}
P = pod("p", on="n1")
LABELLED_P = pod("p", on="n1", labels=LABELLED)

SOFT_TAINT = "a:PreferNoSchedule"
NODE_TAINTS = {
    "NodeAdded": applied(node("n1", "a:NoSchedule", ready="False"), P, then=TAINTED),
    "NodeTaintsChanged": applied(N1, P, then=TAINTED),
    "PodBound": applied(TAINTED, then=P),
    "PodLabelsChanged": applied(TAINTED, P, then=LABELLED_P, args=OF_WEB),
    "PodSpecChanged": applied(TAINTED, P, then=with_spec(P, tolerations=tolerations("a"))),
    "SoftTaintsChanged": applied(
        node("n1", SOFT_TAINT),
        node("n2", SOFT_TAINT),
        P,
        then=N2,
        args={"includePreferNoSchedule": True},
    ),
}
NODE_CONDITIONS = {
    "NodeAdded": applied(replace(REPORTED, ready_status="False"), P, then=REPORTED),
    "NodeConditionsChanged": applied(replace(REPORTED, conditions=()), P, then=REPORTED),
    "NodeTaintsChanged": applied(
        replace(REPORTED, unschedulable=False),
        P,
        then=replace(REPORTED, unschedulable=False, taints=TAINTED.taints),
    ),
    "NodeCapacityDecreased": applied(replace(REPORTED, unschedulable=False), P, then=REPORTED),
    "NodeCapacityIncreased": applied(REPORTED, P, then=replace(REPORTED, unschedulable=False)),
    "PodBound": applied(REPORTED, then=P),
    "PodLabelsChanged": applied(REPORTED, P, then=LABELLED_P, args=OF_WEB),
    "PodMetadataChanged": applied(REPORTED, of_daemon_set(P), then=P),
    "PodSpecChanged": applied(REPORTED, P, then=with_spec(P, tolerations=tolerations("*"))),
}
DRAIN_NODES = {
    "NodeAdded": applied(replace(DRAINED, ready_status="False"), P, then=DRAINED),
    "NodeMetadataChanged": applied(replace(DRAINED, drain=None), P, then=DRAINED),
    "NodeCapacityDecreased": applied(replace(DRAINED, unschedulable=False), P, then=DRAINED),
    "NodeCapacityIncreased": applied(DRAINED, P, then=replace(DRAINED, unschedulable=False)),
    "PodBound": applied(DRAINED, then=P),
    "PodLabelsChanged": applied(DRAINED, P, then=LABELLED_P, args=OF_WEB),
    "PodMetadataChanged": applied(DRAINED, of_daemon_set(P), then=P),
}
NODE_AFFINITY = {
    "NodeAdded": applied(NOT_READY, NEEDS_SSD, then=N1),
    "NodeLabelsChanged": applied(node("n1", labels=SSD), NEEDS_SSD, then=N1),
    "BestPreferenceChanged": applied(N1, PREFERS_SSD, then=node("n2", labels=SSD)),
    "PodBound": applied(N1, then=NEEDS_SSD),
    "PodLabelsChanged": applied(
        N1, NEEDS_SSD, then=replace(NEEDS_SSD, labels=LABELLED), args=OF_WEB
    ),
    "PodSpecChanged": applied(N1, pod("p", on="n1", requires="!disk"), then=NEEDS_SSD),
}
TOO_MANY_RESTARTS = {
    "NodeAdded": applied(NOT_READY, pod("p", on="n1", status=CRASHED), then=N1),
    "PodBound": applied(N1, then=pod("p", on="n1", status=CRASHED)),
    "PodStatusChanged": applied(N1, P, then=pod("p", on="n1", status=CRASHED)),
    "PodGone": applied(
        N1, P, then=pod("p", on="n1", status=pod_status("Failed", container(restarts=10)))
    ),
    "PodLabelsChanged": applied(
        N1,
        pod("p", on="n1", status=CRASHED),
        then=pod("p", on="n1", status=CRASHED, labels=LABELLED),
        args=OF_WEB,
    ),
}
FAILED_POD = pod("p", on="n1", status=FAILED)
REASON = {"reasons": ["Evicted"]}
NOT_OF_JOBS = {"excludeOwnerKinds": ["Job"]}
FAILED_PODS = {
    "NodeAdded": applied(NOT_READY, FAILED_POD, then=N1),
    "PodBound": applied(N1, then=FAILED_POD),
    "PodStatusChanged": applied(
        N1,
        FAILED_POD,
        then=pod("p", on="n1", status=pod_status("Failed", reason="Evicted")),
        args=REASON,
    ),
    "PodGone": applied(N1, P, then=FAILED_POD),
    "PodLabelsChanged": applied(
        N1, FAILED_POD, then=replace(FAILED_POD, labels=LABELLED), args=OF_WEB
    ),
    "PodMetadataChanged": applied(
        N1,
        pod("p", on="n1", status=FAILED, owner="Job/j"),
        then=FAILED_POD,
        args=NOT_OF_JOBS,
    ),
}
IN_FAILED = {"states": ["Failed", "CrashLoopBackOff"]}
POD_LIFE_TIME = {
    "NodeAdded": applied(NOT_READY, FAILED_POD, then=N1),
    "PodBound": applied(N1, then=FAILED_POD),
    "PodStatusChanged": applied(
        N1,
        P,
        then=pod("p", on="n1", status=pod_status("Running", container(waits="CrashLoopBackOff"))),
    ),
    "PodGone": applied(N1, P, then=FAILED_POD),
    "PodLabelsChanged": FAILED_PODS["PodLabelsChanged"],
    "PodMetadataChanged": applied(
        N1,
        pod("p", on="n1", status=FAILED, owner="Job/j"),
        then=FAILED_POD,
        args={"ownerKinds": {"exclude": ["Job"]}},
    ),
}
MAIN, FAR = main_node("n1"), node("n2", labels={REGION: "far"})
NEAR = main_node("n2")
AVOIDING, DB = pod_avoiding_db("p", "n1"), db_pod("db", "n2")
IN_TEAM = pod_avoiding_db(
    "p", "n1", anti_affinity_term("app=db", REGION, namespace_selector="team=b")
)
ANTI_AFFINITY = {
    "NodeAdded": applied(MAIN, main_node("n2", ready="False"), AVOIDING, DB, then=NEAR),
    "NodeLabelsChanged": applied(MAIN, FAR, AVOIDING, DB, then=NEAR),
    "PodBound": applied(MAIN, NEAR, AVOIDING, then=DB),
    "PodLabelsChanged": applied(MAIN, NEAR, AVOIDING, pod("db", on="n2"), then=DB),
    "PodSpecChanged": applied(MAIN, NEAR, AVOIDING, DB, then=P),
    "AntiAffinityResolved": removed(MAIN, NEAR, AVOIDING, DB, then=DB),
    "ForbiddenPodsChanged": applied(
        MAIN,
        NEAR,
        IN_TEAM,
        Namespace("b"),
        in_namespace_b(DB),
        then=Namespace("b", labels={"team": "b"}),
    ),
}

# --- plugins that weigh pods against each other ---

REPLICA = replace(pod("p1", on="n1"), start_delay_s=0)
SECOND = replace(pod("p2", on="n1", created=0), start_delay_s=0)
LEAVING_NODE = replace(N2, is_terminating=True)
DUPLICATES = {
    "ReplicaSpreadChanged": applied(N1, N2, REPLICA, then=SECOND),
    "EmptiedNodesChanged": applied(N1, LEAVING_NODE, REPLICA, SECOND, then=N2),
    "PodEvictabilityChanged": Case((N1, N2, REPLICA, SECOND), grows_old, evictor=YOUNG),
}
ZONES = node("n1", zone="a"), node("n2", zone="b")
SPREAD = tuple(replace(each, start_delay_s=0) for each in spread_pods(3))
TOPOLOGY_SPREAD = {
    "SpreadChanged": applied(*ZONES, *SPREAD[:1], then=SPREAD[1]),
    "SpreadNodesChanged": applied(ZONES[0], *SPREAD, then=ZONES[1]),
    "PodEvictabilityChanged": Case((*ZONES, *SPREAD), grows_old, evictor=YOUNG),
}
TENTHS = tuple(asks(f"p{number}", "n1", "100m") for number in range(6))
TEN = small("n1", cpu="1"), small("n2", cpu="1")
LOW = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}}
LOW_NODE_UTILIZATION = {
    "NodeUtilizationChanged": applied(*TEN, *TENTHS[:5], then=TENTHS[5]),
    "PodEvictabilityChanged": Case((*TEN, *TENTHS), grows_old, evictor=YOUNG),
    "PodMetadataChanged": applied(
        *TEN, *TENTHS, then=annotated(TENTHS[0], prefer_no_eviction="true")
    ),
}
MANY = tuple(asks(f"q{number}", "n2", "100m") for number in range(9))
HIGH_NODE_UTILIZATION = {
    "NodeUtilizationChanged": applied(*TEN, *MANY[:5], then=TENTHS[0]),
    "PodEvictabilityChanged": Case((*TEN, *MANY[:5], TENTHS[0]), grows_old, evictor=YOUNG),
    "PodMetadataChanged": applied(
        *TEN, *MANY, *TENTHS[:2], then=annotated(TENTHS[0], prefer_no_eviction="true")
    ),
}
USE = {f"default/p{number}": {"cpu": 1200} for number in range(3)}
LOADED = NodeMetric(NODE_METRIC, "n1", {"cpu": 3600}, 0.0, USE)
IDLE = NodeMetric(NODE_METRIC, "n2", {"cpu": 100}, 0.0)
LOW_NODE_LOAD = {
    "NodeLoadChanged": applied(N1, N2, *TENTHS[:3], IDLE, then=LOADED),
    "PodEvictabilityChanged": Case((N1, N2, *TENTHS[:3], IDLE, LOADED), grows_old, evictor=YOUNG),
}
EIGHT = {"cpu": "8", "memory": "8Gi", "pods": "8"}
WIDE = node("n1", allocatable=EIGHT)
THREE_CPU = asks("p1", "n1", "3")
THREE_GI = replace(pod("p2", on="n1", requests={"memory": "3Gi"}), start_delay_s=0)
SOME_PODS = {"podSelectors": [{"selector": {"matchLabels": LABELLED}}]}
A_POOL = {"nodeSelector": {"matchLabels": {"pool": "a"}}}
FRAGMENTATION_AWARE = {
    "NodeAdded": applied(replace(WIDE, ready_status="False"), THREE_CPU, then=WIDE),
    "NodeLabelsChanged": applied(
        WIDE, THREE_CPU, then=node("n1", labels={"pool": "a"}, allocatable=EIGHT), args=A_POOL
    ),
    "NodeCapacityIncreased": applied(
        *(node("n1", allocatable={**EIGHT, "cpu": "3"}), asks("p1", "n1", "1")),
        *(THREE_GI,),
        then=node("n1", allocatable={**EIGHT, "cpu": "30"}),
    ),
    "NodeCapacityDecreased": applied(
        *(node("n1", allocatable={**EIGHT, "cpu": "30"}), asks("p1", "n1", "1")),
        *(THREE_GI,),
        then=node("n1", allocatable={**EIGHT, "cpu": "3"}),
    ),
    "PodBound": applied(WIDE, then=THREE_CPU),
    "PodGone": removed(WIDE, THREE_CPU, THREE_GI, then=THREE_GI),
    "PodTerminating": applied(WIDE, THREE_CPU, THREE_GI, then=replace(THREE_GI, deletion_s=1)),
    "PodSpecChanged": applied(WIDE, asks("p1", "n1", "100m"), then=THREE_CPU),
    "PodLabelsChanged": applied(
        WIDE, THREE_CPU, then=replace(THREE_CPU, labels=LABELLED), args=SOME_PODS
    ),
    "PodEvictabilityChanged": Case((WIDE, THREE_CPU), grows_old, evictor=YOUNG),
}
S1, S2 = small("n1"), small("n2")
A, B, C = asks("a"), asks("b", "n2"), asks("c", "n2")
ONLY_N1 = {"nodeSelector": {"matchLabels": {HOSTNAME_LABEL: "n1"}}}
MOVER = replace(A, pvc_names=("data",))
CLAIM = PersistentVolumeClaim("default", "data", volume_name="v", phase="Bound")
VOLUME = PersistentVolume("v", driver="disks", volume_handle="h", claim_ref="default/data")
GPU_CLAIM = ResourceClaim(
    "default", "gpu", requests=(DeviceAlternatives("r", (DeviceRequest("gpu"),)),)
)
CLAIMING = (
    with_spec(A, resource_claims=(("gpu", "gpu"),), has_resource_claims=True),
    DeviceClass("gpu"),
    GPU_CLAIM,
)
GPU_OF_N2 = ResourceSlice(
    "s", pool=PoolName("gpus", "n2"), scope=NodeScope("n2"), devices=(Device("g0"),)
)
TIED = replace(VOLUME, required_node_affinity=NodeSelector((term(f"{HOSTNAME_LABEL}=n1"),)))
NOMINATED = replace(asks("x", None, "3"), status=PodStatus("Pending", nominated_node="n2"))
BEFORE = (S1, S2, A, B)
APART = with_anti_affinity(A, anti_affinity_term("app=db"))
APART_IN_TEAM = with_anti_affinity(A, anti_affinity_term("app=db", namespace_selector="team=b"))
LABELLED_B = replace(B, labels={"app": "db"})
CONSOLIDATE_NODES = {
    "ConsolidationTargetChanged": applied(
        *BEFORE, then=MovedPods("ConsolidateNodes", "n1", {"a": 1.0}), args=ONLY_N1
    ),
    "NodeAdded": applied(S1, A, B, replace(S2, ready_status="False"), then=S2, args=ONLY_N1),
    "NodeGone": removed(*BEFORE, then=S2, args=ONLY_N1),
    "NodeTaintsChanged": applied(*BEFORE, then=small("n2", "a:NoSchedule"), args=ONLY_N1),
    "NodeLabelsChanged": applied(*BEFORE, then=small("n1", labels={"pool": "a"}), args=A_POOL),
    "NodeCapacityIncreased": applied(S1, small("n2", cpu="1"), A, B, then=S2, args=ONLY_N1),
    "NodeCapacityDecreased": applied(*BEFORE, then=small("n2", cpu="1"), args=ONLY_N1),
    "NodeMetadataChanged": applied(*BEFORE, then=replace(S1, do_not_disrupt="true"), args=ONLY_N1),
    "NominationEnded": removed(*BEFORE, NOMINATED, then=NOMINATED, args=ONLY_N1),
    "PendingPodAdded": applied(*BEFORE, then=NOMINATED, args=ONLY_N1),
    "PodBound": applied(*BEFORE, then=asks("x", "n2", "3"), args=ONLY_N1),
    "PodGone": removed(*BEFORE, asks("x", "n2", "3"), then=asks("x", "n2", "3"), args=ONLY_N1),
    "PodLabelsChanged": applied(S1, S2, APART, B, then=LABELLED_B, args=ONLY_N1),
    "PodMetadataChanged": applied(*BEFORE, C, then=annotated(A, deletion_cost="500000000")),
    "PodSpecChanged": applied(*BEFORE, then=asks("b", "n2", "4"), args=ONLY_N1),
    "PodStatusChanged": applied(
        S1,
        S2,
        *(replace(each, condition_transitions=(5,)) for each in (A, B)),
        then=replace(A, condition_transitions=(300,)),
    ),
    "PodTerminating": applied(
        *(*BEFORE, asks("bare", owner=None)),
        then=replace(asks("bare", owner=None), deletion_s=1),
        args=ONLY_N1,
    ),
    "PodEvictabilityChanged": Case(BEFORE, grows_old, ONLY_N1, YOUNG),
    "NamespaceChanged": applied(
        *(S1, S2, APART_IN_TEAM, Namespace("b"), in_namespace_b(LABELLED_B)),
        then=Namespace("b", labels={"team": "b"}),
        args=ONLY_N1,
    ),
    "PvcChanged": applied(S1, S2, MOVER, B, VOLUME, then=CLAIM, args=ONLY_N1),
    "PvChanged": applied(S1, S2, MOVER, B, CLAIM, TIED, then=VOLUME, args=ONLY_N1),
    "CSINodeChanged": applied(
        *(S1, S2, MOVER, B, CLAIM, VOLUME, CSINode("n2", attach_limits={"disks": 0})),
        then=CSINode("n2", attach_limits={"disks": 1}),
        args=ONLY_N1,
    ),
    "DevicesChanged": applied(S1, S2, *CLAIMING, B, then=GPU_OF_N2, args=ONLY_N1),
}
HELD = ResourceClaim(
    "default",
    "gpu",
    allocation=DeviceAllocation((DeviceId("gpus", "n1", "g0"),)),
    users=(A.uid,),
)
CLOSED_GPU = ResourceSlice(
    "s",
    pool=PoolName("gpus", "n1"),
    scope=NodeScope("n1"),
    devices=(Device("g0", taints=(Taint("sick", "NoSchedule"),)),),
)
CLAIMS_IT = with_spec(A, resource_claims=(("gpu", "gpu"),), has_resource_claims=True)
LABELLED_PODS = {"labelSelector": {"matchLabels": LABELLED}}
DEVICE_TAINTS = {
    "ClosedDevicesChanged": applied(S1, CLAIMS_IT, HELD, then=CLOSED_GPU),
    "NodeAdded": applied(replace(S1, ready_status="False"), CLAIMS_IT, HELD, CLOSED_GPU, then=S1),
    "PodBound": applied(S1, HELD, CLOSED_GPU, then=CLAIMS_IT),
    "PodLabelsChanged": applied(
        *(S1, CLAIMS_IT, HELD, CLOSED_GPU),
        then=replace(CLAIMS_IT, labels=LABELLED),
        args=LABELLED_PODS,
    ),
}
KEEP_NODES_FREE = {
    **CONSOLIDATE_NODES,
    "NodeMetadataChanged": applied(*BEFORE, then=replace(S1, drain="ada"), args=ONLY_N1),
}
LEVELS = [
    {"name": name, "nodeSelector": {"matchLabels": {HOSTNAME_LABEL: name}}} for name in ("n1", "n2")
]
EACH_ALONE = {"mode": "BestEffort"}
CLOSED = {"autoCordon": True}
BARE = asks("bare", owner=None)
N3 = small("n3")
SPREAD_A, SPREAD_B = (
    with_spec(
        replace(each, labels=LABELLED),
        topology_spread_constraints=(spread_constraint(1, HOSTNAME_LABEL),),
    )
    for each in (A, B)
)
SPREAD_AND_KEPT = (S1, S2, SPREAD_A, SPREAD_B, replace(BARE, labels=LABELLED))
CUSTOM_PRIORITY = {
    "NodeLevelChanged": applied(S1, A, then=S2, args=EACH_ALONE),
    "NodeAdded": applied(*SPREAD_AND_KEPT, then=N3),
    "NodeGone": removed(*SPREAD_AND_KEPT, N3, then=N3),
    "NodeTaintsChanged": applied(*BEFORE, then=small("n2", "a:NoSchedule")),
    "NodeLabelsChanged": applied(
        S1, S2, asks("a", requires="disk=ssd"), then=small("n2", labels=SSD)
    ),
    "NodeCapacityIncreased": applied(S1, small("n2", cpu="1"), A, B, then=S2),
    "NodeCapacityDecreased": applied(*BEFORE, then=small("n2", cpu="1")),
    "NodeMetadataChanged": applied(*BEFORE, then=replace(S2, drain="ada")),
    "NominationEnded": removed(*BEFORE, NOMINATED, then=NOMINATED),
    "PendingPodAdded": applied(*BEFORE, then=NOMINATED),
    "PodBound": applied(*BEFORE, then=asks("x", "n2", "3")),
    "PodGone": removed(*BEFORE, asks("x", "n2", "3"), then=asks("x", "n2", "3")),
    "PodLabelsChanged": applied(S1, S2, APART, B, then=LABELLED_B),
    "PodSpecChanged": applied(*BEFORE, then=asks("b", "n2", "4")),
    "PodTerminating": applied(*BEFORE, BARE, then=replace(BARE, deletion_s=1), args=CLOSED),
    "PodEvictabilityChanged": Case(BEFORE, grows_old, evictor=YOUNG),
    "NamespaceChanged": applied(
        *(S1, S2, APART_IN_TEAM, Namespace("b"), in_namespace_b(LABELLED_B)),
        then=Namespace("b", labels={"team": "b"}),
    ),
    "PvcChanged": applied(S1, S2, MOVER, B, VOLUME, then=CLAIM),
    "PvChanged": applied(S1, S2, MOVER, B, CLAIM, TIED, then=VOLUME),
    "CSINodeChanged": applied(
        *(S1, S2, MOVER, B, CLAIM, VOLUME, CSINode("n2", attach_limits={"disks": 0})),
        then=CSINode("n2", attach_limits={"disks": 1}),
    ),
    "DevicesChanged": applied(S1, S2, *CLAIMING, B, then=GPU_OF_N2),
}
WAITS = replace(
    asks("big", None, "4", requires=f"{HOSTNAME_LABEL}=n1"),
    status=PodStatus("Pending", conditions=(PodCondition("PodScheduled", "False", UNSCHEDULABLE),)),
    condition_transitions=(0,),
)
TWO_OF_WHICH_ONE_MOVES = (S1, S2, annotated(asks("c"), deletion_cost="100000000"))
ROOM = (*BEFORE, WAITS)
"""The pod a moves from n1 to n2, for one that waits and asks for all of n1."""

OF_TWO = KubernetesPodGroup("default", "g", rule=GroupRule(2))
MAKE_ROOM_FOR_PENDING = {
    "PodUnschedulableChanged": applied(*ROOM, then=replace(WAITS, node="n1")),
    "GangChanged": applied(*(S1, S2, A, B, with_spec(WAITS, scheduling_group="g")), then=OF_TWO),
    "NodeAdded": applied(S1, A, B, WAITS, replace(S2, ready_status="False"), then=S2),
    "NodeGone": removed(*ROOM, then=S2),
    "NodeTaintsChanged": applied(*ROOM, then=small("n2", "a:NoSchedule")),
    "NodeLabelsChanged": applied(
        *(S1, S2, asks("a", requires="disk=ssd"), B, WAITS), then=small("n2", labels=SSD)
    ),
    "NodeCapacityIncreased": applied(S1, small("n2", cpu="1"), A, B, WAITS, then=S2),
    "NodeCapacityDecreased": applied(*ROOM, then=small("n2", cpu="1")),
    "NodeMetadataChanged": applied(*ROOM, then=replace(S2, drain="ada")),
    "NominationEnded": removed(*ROOM, NOMINATED, then=NOMINATED),
    "PendingPodAdded": applied(*ROOM, then=NOMINATED),
    "PodBound": applied(*ROOM, then=asks("x", "n2", "3")),
    "PodGone": removed(*ROOM, asks("x", "n2", "3"), then=asks("x", "n2", "3")),
    "PodLabelsChanged": applied(S1, S2, APART, B, WAITS, then=LABELLED_B),
    "PodMetadataChanged": applied(
        *(
            *TWO_OF_WHICH_ONE_MOVES,
            A,
            with_spec(WAITS, requests=asks("x", None, "3").spec.requests),
        ),
        then=annotated(A, deletion_cost="500000000"),
    ),
    "PodSpecChanged": applied(*ROOM, then=asks("b", "n2", "4")),
    "PodStatusChanged": applied(
        *(*ROOM, replace(NOMINATED, status=PodStatus("Pending"))), then=NOMINATED
    ),
    "PodTerminating": applied(
        *(*ROOM, asks("bare", owner=None)),
        then=replace(asks("bare", owner=None), deletion_s=1),
    ),
    "PodEvictabilityChanged": Case(ROOM, grows_old, evictor=YOUNG),
    "NamespaceChanged": applied(
        *(S1, S2, APART_IN_TEAM, Namespace("b"), in_namespace_b(LABELLED_B), WAITS),
        then=Namespace("b", labels={"team": "b"}),
    ),
    "PvcChanged": applied(S1, S2, MOVER, B, WAITS, VOLUME, then=CLAIM),
    "PvChanged": applied(S1, S2, MOVER, B, WAITS, CLAIM, TIED, then=VOLUME),
    "CSINodeChanged": applied(
        *(S1, S2, MOVER, B, WAITS, CLAIM, VOLUME, CSINode("n2", attach_limits={"disks": 0})),
        then=CSINode("n2", attach_limits={"disks": 1}),
    ),
    "DevicesChanged": applied(S1, S2, *CLAIMING, B, WAITS, then=GPU_OF_N2),
}

CASES: Mapping[str, Mapping[str, Case]] = {
    "ConsolidateNodes": CONSOLIDATE_NODES,
    "CustomPriority": CUSTOM_PRIORITY,
    "DrainNodes": DRAIN_NODES,
    "FragmentationAware": FRAGMENTATION_AWARE,
    "HighNodeUtilization": HIGH_NODE_UTILIZATION,
    "KeepNodesFree": KEEP_NODES_FREE,
    "LowNodeLoad": LOW_NODE_LOAD,
    "LowNodeUtilization": LOW_NODE_UTILIZATION,
    "MakeRoomForPending": MAKE_ROOM_FOR_PENDING,
    "PodLifeTime": POD_LIFE_TIME,
    "RemoveDuplicates": DUPLICATES,
    "RemoveFailedPods": FAILED_PODS,
    "RemovePodsHavingTooManyRestarts": TOO_MANY_RESTARTS,
    "RemovePodsViolatingDeviceTaints": DEVICE_TAINTS,
    "RemovePodsViolatingInterPodAntiAffinity": ANTI_AFFINITY,
    "RemovePodsViolatingNodeAffinity": NODE_AFFINITY,
    "RemovePodsViolatingNodeConditions": NODE_CONDITIONS,
    "RemovePodsViolatingNodeTaints": NODE_TAINTS,
    "RemovePodsViolatingTopologySpreadConstraint": TOPOLOGY_SPREAD,
}
ARGS: Mapping[str, dict[str, Any]] = {
    "ConsolidateNodes": {"headroom": {}, "minSaving": 0},
    "CustomPriority": {"evictionOrder": LEVELS, "mode": "DrainNode"},
    "HighNodeUtilization": {"thresholds": {"cpu": 30}},
    "LowNodeLoad": {
        "lowThresholds": {"cpu": 40},
        "highThresholds": {"cpu": 60},
        "anomalyCondition": {"consecutiveAbnormalities": 1},
    },
    "LowNodeUtilization": LOW,
    "MakeRoomForPending": {"wait": "0s"},
    "PodLifeTime": IN_FAILED,
    "RemoveFailedPods": {"minPodLifetimeSeconds": 0},
    "RemovePodsHavingTooManyRestarts": RESTARTS,
    "RemovePodsViolatingNodeAffinity": BOTH,
    "RemovePodsViolatingNodeConditions": CONDITIONS,
}
"""The arguments that a plugin must have, to which a case adds its own."""

FOLLOWED = [
    pytest.param(name, change, id=f"{name} {change.__name__}")
    for name, plugin in PLUGINS.items()
    for change in plugin.reacts_to
    if change is not Resynced  # with which every scenario begins
]


def made(name: str, case: Case, ignored: type[Change] | None = None) -> AnyPlugin:
    """Build the plugin of a case; one that does not follow a change, if that is given."""
    plugin = PLUGINS[name]
    args = json.dumps({**ARGS.get(name, {}), **case.args})
    followed = tuple(each for each in plugin.reacts_to if each is not ignored)
    kind: type[AnyPlugin] = type(name, (plugin,), {"reacts_to": followed})
    return kind(REGISTRY[name].args.model_validate_json(args, strict=True))


def played(plugin: AnyPlugin, case: Case) -> Scenario:
    cluster = Scenario(plugin, *case.begun, evictor=DefaultEvictorArgs.model_validate(case.evictor))
    assert cluster.flagged() == cluster.flagged_by_full_scan()
    case.then(cluster)
    return cluster


@pytest.mark.parametrize(("name", "change"), FOLLOWED)
def test_a_plugin_misses_something_without_a_change_that_it_follows(
    name: str, change: type[Change]
) -> None:
    case = CASES.get(name, {}).get(change.__name__)
    assert case is not None, "add a case above that shows what is missed without the change"

    follows, ignores = played(made(name, case), case), played(made(name, case, change), case)

    assert follows.flagged() == follows.flagged_by_full_scan()
    assert ignores.flagged() != ignores.flagged_by_full_scan(), "the case does not show it"


def test_each_case_is_of_a_change_that_its_plugin_follows() -> None:
    named = {(name, change) for name, cases in CASES.items() for change in cases}

    assert named == {
        (name, change.__name__)
        for name, plugin in PLUGINS.items()
        for change in plugin.reacts_to
        if change is not Resynced
    }
