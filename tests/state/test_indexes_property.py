"""After any sequence of changes, every index answers as one that is built anew."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from importlib import import_module
from itertools import chain
from pkgutil import walk_packages
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import reactive_desched
from reactive_desched.api.index import Cluster, Index
from reactive_desched.fit.change_log import NodeChanges
from reactive_desched.fit.nominated_pods import NominatedPods
from reactive_desched.model.changes import Change
from reactive_desched.model.consolidation import PLANNED
from reactive_desched.model.devices import (
    Device,
    DeviceAllocation,
    DeviceClass,
    DeviceId,
    DeviceTaintRule,
    NodeScope,
    PoolName,
    ResourceClaim,
    ResourceSlice,
)
from reactive_desched.model.gangs import gang_of
from reactive_desched.model.job_tries import JobTries
from reactive_desched.model.labels import EVERYTHING, parse_selector
from reactive_desched.model.migration_jobs import MigrationJob, PodReference
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.node_affinity import NodeAffinity, PreferredTerm
from reactive_desched.model.node_load import make_rule
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import (
    BEST_EFFORT,
    GUARANTEED,
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Annotations,
    ClusterObject,
    ContainerStatus,
    CSINode,
    Deployment,
    Job,
    Namespace,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodStatus,
    ReplicaSet,
    StatefulSet,
    WeightedPodAffinityTerm,
    controller_of,
)
from reactive_desched.model.pod_groups import (
    GROUP_RECORDS,
    GroupRule,
    KubernetesWorkload,
    PodGroup,
    with_rule,
)
from reactive_desched.model.reservations import Reservation, ReservationPhase
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import NODE_METRIC, NodeMetric, NodeUsage
from reactive_desched.plugins.high_node_utilization import PackRule
from reactive_desched.plugins.low_node_utilization import SpreadRule
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.index_registry import IndexHooks
from reactive_desched.state.indexes.gangs import Gangs
from reactive_desched.state.indexes.namespace_pods import NamespacePods
from reactive_desched.state.indexes.node_levels import LevelRule, NodeLevels
from reactive_desched.state.indexes.node_loads import NodeLoads
from reactive_desched.state.indexes.node_utilization import NodeUtilization
from reactive_desched.state.indexes.pvc_users import PvcUsers
from reactive_desched.state.indexes.terminating_pods import TerminatingPods
from reactive_desched.state.indexes.workload_pods import WorkloadPods
from reactive_desched.state.indexes.zone_health import ZoneHealth, ZoneRule
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.testing.anti_affinity import anti_affinity_term, selector
from reactive_desched.testing.builders import node, pod, term, tolerations, with_spec
from reactive_desched.testing.topology_spread import spread_constraint

for module in walk_packages(reactive_desched.__path__, "reactive_desched."):
    if module.name.startswith(("reactive_desched.state.", "reactive_desched.fit.")):
        import_module(module.name)


def _subclasses(kind: Any) -> list[type[Index]]:  # Any: Index itself is abstract
    return [found for sub in kind.__subclasses__() for found in (sub, *_subclasses(sub))]


INDEXES = sorted(
    (kind for kind in _subclasses(Index) if kind.__module__.startswith("reactive_desched.")),
    key=lambda kind: kind.__name__,
)
MIDDLING = (("cpu", 20.0), ("example.com/gpu", 50.0), ("pods", 40.0))
FEW = (("cpu", 10.0), ("memory", 5.0))
KeyT = TypeVar("KeyT", bound=Hashable)
MemberT = TypeVar("MemberT", bound=Hashable)
ARGS: dict[type[Index], tuple[Hashable, ...]] = {
    NodeUtilization: (
        SpreadRule(MIDDLING, MIDDLING),
        SpreadRule(FEW, FEW, deviation=True),
        SpreadRule((*FEW, ("example.com/gpu", 5.0)), (*FEW, ("example.com/gpu", 5.0)), True),
        SpreadRule(FEW, FEW, source="KubernetesMetrics"),
        SpreadRule((("pods", 20.0),), (("pods", 60.0),)),
        SpreadRule((("cpu", 5.0),), (("cpu", 90.0),), source="KubernetesMetrics"),
        SpreadRule((("MetricResource", 9.0),), (("MetricResource", 9.0),), True, "Prometheus/up"),
        PackRule(MIDDLING),
        PackRule((("example.com/gpu", 50.0),)),
        PackRule(MIDDLING, as_upstream=True),
    ),
    NodeLevels: (
        LevelRule((parse_selector("disk=ssd"), parse_selector("disk"), EVERYTHING)),
        LevelRule((parse_selector("!disk"), EVERYTHING), parse_selector(f"{ZONE_LABEL}=a")),
    ),
    ZoneHealth: (
        ZoneRule(),
        ZoneRule(large_zone_nodes=0),
        ZoneRule(sick=frozenset({("KernelDeadlock", "True")})),
    ),
    NodeLoads: (
        make_rule({"memory": 10}, {"memory": 50}, {"memory": 5}, {"memory": 20}),
        make_rule({"cpu": 5, "pods": 1}, {"cpu": 5, "pods": 1}, {}, {}, deviation=True),
        make_rule({"memory": 10}, {"memory": 50}, {}, {}, selector=parse_selector("disk=ssd")),
        make_rule({"example.com/gpu": 10}, {"example.com/gpu": 50}, {"cpu": 5}, {"cpu": 20}),
        make_rule({"pods": 40}, {"pods": 90}, {}, {}),
    ),
}
"""The arguments with which an index is tried, where it takes some."""

KEPT = [(kind, args) for kind in INDEXES for args in ARGS.get(kind, (None,))]
ALIKE = {"app": "web"}

PREFERS_SSD = NodeAffinity(preferred=(PreferredTerm(weight=10, preference=term("disk=ssd")),))
SPECS = (
    pod("x").spec,
    with_spec(pod("x"), anti_affinity=(anti_affinity_term("app=web", ZONE_LABEL),)).spec,
    with_spec(
        pod("x"),
        node_affinity=PREFERS_SSD,
        anti_affinity=(anti_affinity_term("app=db", namespace_selector="stage=live"),),
        preferred_pod_affinity=(WeightedPodAffinityTerm(5, anti_affinity_term("app", ZONE_LABEL)),),
    ).spec,
    with_spec(pod("x"), node_affinity=PREFERS_SSD).spec,
    pod("x", requests={"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}).spec,
    with_spec(pod("x"), images=("web:2",), tolerations=tolerations(["gpu"])).spec,
    with_spec(pod("x"), node_selector={"disk": "ssd"}).spec,
    with_spec(
        pod("x"),
        topology_spread_constraints=(spread_constraint(), spread_constraint(key=HOSTNAME_LABEL)),
    ).spec,
    with_spec(
        pod("x", tolerates=("gpu",)),
        node_selector={"disk": "ssd"},
        topology_spread_constraints=(
            spread_constraint(
                label_selector=selector(""), match_label_keys=("app",), node_taints_policy="Honor"
            ),
            spread_constraint(2, when_unsatisfiable="ScheduleAnyway"),
        ),
    ).spec,
)
LABELS: tuple[dict[str, str], ...] = (
    ALIKE,
    {"app": "db"},
    {},
    {"app": "db", "scheduling.x-k8s.io/pod-group": "g"},
)
NO_ANNOTATIONS = Annotations()  # the same one, so that some updates differ in nothing but it
IN_GANG = Annotations(groups=(("scheduling.k8s.io/group-name", "g"),))
OWNERS = tuple(
    (OwnerReference("ReplicaSet", name, f"rs-{name}", controller=True),) for name in "ab"
)
NO_RESIZE: dict[str, int] = {}  # the same one, so that some updates differ in the status alone
RESIZE = {"cpu": 700, "memory": 2**29}
UNSCHEDULABLE = (PodCondition("PodScheduled", "False", "Unschedulable"),)
STATUSES = {
    (phase, qos, ready): PodStatus(
        phase,
        qos_class=qos,
        conditions=(*conditions, PodCondition("Ready", ready)),
        containers=(ContainerStatus("main", restart_count=5 * bool(conditions)),),
    )
    for ready in ("True", "False")
    for phase in ("Running", "Failed")
    for qos, conditions in ((BEST_EFFORT, ()), (GUARANTEED, UNSCHEDULABLE))
}
pods = st.builds(
    lambda name, space, on, labels, marks, spec, phase, qos, ready, owners, claims, gone: replace(
        pod(name, namespace=space, on=on, status=STATUSES[phase, qos, ready]),
        annotations=marks,
        uid=f"{space}/{name}",
        labels=labels,
        spec=spec,
        owners=owners,
        pvc_names=claims,
        deletion_s=gone,
        resize_delta=NO_RESIZE,
    ),
    st.sampled_from(["p1", "p2"]),
    st.sampled_from(["default", "default", "default", "shop"]),
    st.sampled_from(["n1", "n1", "n2", None]),
    st.sampled_from(LABELS),
    st.sampled_from([NO_ANNOTATIONS, NO_ANNOTATIONS, IN_GANG]),
    st.sampled_from(SPECS),
    st.sampled_from(["Running", "Running", "Failed"]),
    st.sampled_from([BEST_EFFORT, BEST_EFFORT, GUARANTEED]),
    st.sampled_from(["True", "True", "False"]),
    st.sampled_from([*OWNERS, (*OWNERS[0], *OWNERS[1]), ()]),
    st.sampled_from([(), ("data",), ("data", "logs")]),
    st.sampled_from([None, None, 1]),
)
nodes = st.builds(
    lambda name, zone, disk, ready, has, taints, cordoned, drains, deadlock: replace(
        node(
            name,
            *taints,
            labels={ZONE_LABEL: zone, "disk": disk},
            ready=ready,
            allocatable=has,
            unschedulable=cordoned,
        ),
        drain=drains[0],
        drained=drains[1],
        conditions=() if deadlock is None else (("KernelDeadlock", deadlock),),
    ),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["ssd", "hdd"]),
    st.sampled_from(["True", "True", "False"]),
    st.sampled_from(
        [None, None, {"cpu": "2", "memory": "3Gi", "pods": "2", "example.com/gpu": "2"}]
    ),
    st.sampled_from(
        [
            *((), (), ("gpu:NoSchedule",)),
            *((f"{CONSOLIDATING}{value}:PreferNoSchedule",) for value in ("", f"={PLANNED}")),
        ],
    ),
    st.sampled_from([False, False, True]),
    st.sampled_from([(None, None), (None, None), ("ada", None), (None, "at 6"), ("no", None)]),
    st.sampled_from([None, "True", "False"]),
)
samples = st.builds(
    NodeUsage,
    st.sampled_from(["KubernetesMetrics", "Prometheus/up"]),
    st.sampled_from(["n1", "n2"]),
    st.builds(
        lambda cpu, percent: {"cpu": cpu, "memory": 2**30, "MetricResource": percent},
        st.sampled_from([100, 3000]),
        st.sampled_from([10, 80]),
    ),
    sampled_s=st.just(1.0),
)
budgets = st.builds(
    lambda name, text, allowed: PodDisruptionBudget(
        "default", name, selector=selector(text), disruptions_allowed=allowed
    ),
    st.sampled_from(["b1", "b2"]),
    st.sampled_from(["app=web", "app=db", "app"]),
    st.integers(0, 1),
)
GPU = DeviceId("gpus", "p", "g0")
OTHERS: list[ClusterObject] = [
    *(Namespace("shop", labels={"stage": stage}) for stage in ("live", "test")),
    *(ReplicaSet(f"rs-{name}", controller=OWNERS[0][0]) for name in "ab"),
    *(Deployment("default", "rs-a", "rs-a", replicas=replicas) for replicas in (1, 2)),
    StatefulSet("default", "b", "rs-b", replicas=2),
    Job("rs-a", controller=OWNERS[1][0]),
    Job("rs-a", controller=OWNERS[1][0], tries=JobTries(failed=1)),
    *[PersistentVolumeClaim("default", "data", volume_name="v1")] * 2,
    *[PersistentVolume("v1", claim_ref="default/data")] * 2,
    *[CSINode("n1", attach_limits={"disks": 1})] * 2,
    *(
        MigrationJob(name=f"j{number}", uid=f"j{number}", pod=PodReference(*of))
        for number, of in enumerate((("default", "p1"), ("default", "p1"), ("shop", "p2")))
    ),
    MigrationJob(name="j1", uid="j1", pod=PodReference("default", "p1"), reservation="r1"),
    *(
        NodeMetric(NODE_METRIC, name, {"memory": use}, 1.0, {"default/p1": {"memory": 5}})
        for name, use in (("n1", 1 << 30), ("n1", 9 << 30), ("n2", 1 << 30))
    ),
]
OTHERS += [
    ResourceClaim("default", name, allocation=allocation, users=users)
    for name in ("c1", "c2")
    for allocation in (None, DeviceAllocation((GPU,)), DeviceAllocation(shares=(GPU,)))
    for users in ((), ("default/p1",))
]
OTHERS += [
    ResourceSlice("s1", pool=PoolName("gpus", "p"), scope=scope)
    for scope in (NodeScope("n1"), NodeScope("n2"), NodeScope(all_nodes=True), None)
]
OTHERS += [ResourceSlice("s1", pool=PoolName("gpus", "q"), scope=NodeScope("n1"))]
CLOSING = Taint("sick", "NoSchedule")
OTHERS += [DeviceTaintRule("r1", taint=CLOSING, pool=pool) for pool in ("p", "q")]
OTHERS += [
    ResourceSlice("s1", pool=PoolName("gpus", "p"), devices=(Device("g0", taints=taints),))
    for taints in ((), (CLOSING,))
]
OTHERS += [DeviceClass("gpu", selectors=selectors) for selectors in ((), ("true",))]
OTHERS += [
    DeviceClass(name, extended_resource=resource, created_s=created_s)
    for name, created_s in (("gpu", 1), ("newer", 2))
    for resource in ("example.com/gpu", "example.com/net")
]
OTHERS += [ResourceClaim("default", "c1", users=("default/p1",), pod="default/p1")]
OTHERS += [
    record("default", "g", rule=GroupRule(quorum, disruption="Single"))
    for record in GROUP_RECORDS
    if issubclass(record, PodGroup)
    for quorum in (1, 2)
]
OTHERS += [
    KubernetesWorkload("default", "w", groups=((name, GroupRule(1)),)) for name in ("g", "h")
]
others = st.sampled_from(OTHERS)
moved = st.builds(
    lambda plugin, node, uids: MovedPods(plugin, node, dict.fromkeys(sorted(uids), 5.0)),
    st.sampled_from(["LowNodeUtilization", "LowNodeLoad", "ConsolidateNodes", "KeepNodesFree"]),
    st.sampled_from(["n1", "n2"]),
    st.sets(st.sampled_from(["default/p1", "default/p2", "shop/p2"])),
)
PLACES = [
    (ReservationPhase.PENDING, "", None),
    (ReservationPhase.AVAILABLE, "n1", None),
    (ReservationPhase.AVAILABLE, "n2", PodReference("default", "p1", "default/p1")),
]
reservations = st.builds(
    lambda name, place: Reservation(
        name=name,
        uid=name,
        phase=PLACES[place][0],
        node=PLACES[place][1],
        requests={"cpu": 500, "pods": 1},
        taken_by=PLACES[place][2],
    ),
    st.sampled_from(["j0", "r1"]),
    st.integers(0, 2),
)
P1 = replace(
    pod("p1", on="n1"),
    uid="default/p1",
    labels=ALIKE,
    owners=OWNERS[1],
    spec=SPECS[2],
    resize_delta=NO_RESIZE,
)
P3 = replace(pod("p3"), uid="default/p3", resize_delta=NO_RESIZE)
P4 = replace(pod("p4", owner=None), uid="default/p4", resize_delta=NO_RESIZE)
NOMINATED = [
    replace(P4, status=PodStatus("Pending", nominated_node=name), node=bound)
    for name, bound in (("n1", ""), ("n2", ""), ("n1", "n1"))
]
nominated = st.sampled_from([P4, *NOMINATED])
objects = pods | pods | pods | nodes | budgets | others | samples | reservations | nominated | moved
updates = st.tuples(st.sampled_from(["upsert", "upsert", "upsert", "remove"]), objects)
loads = st.tuples(st.just("load"), st.lists(pods, min_size=1, max_size=4))
START: list[tuple[str, Any]] = [
    *(
        ("upsert", node(name, labels={ZONE_LABEL: "a", HOSTNAME_LABEL: name, "disk": "ssd"}))
        for name in ("n1", "n2")
    ),
    ("upsert", Namespace("shop", labels={"stage": "live"})),
    ("upsert", NodeMetric(NODE_METRIC, "n1", {"memory": 7}, 1.0, {"default/p1": {"memory": 7}})),
    ("upsert", P1),
    ("upsert", P3),
    (
        "upsert",
        replace(
            pod("p2", namespace="shop", on="n1"), uid="shop/p2", labels=LABELS[1], spec=SPECS[0]
        ),
    ),
    ("ask", None),
]
ALONE = replace(P1, status=STATUSES["Running", GUARANTEED, "True"])
P9 = replace(P1, uid="default/p9", name="p9", spec=SPECS[4])
MEASURED: list[tuple[str, Any]] = [  # of just its pods, which then are others
    ("upsert", node("n1")),
    ("upsert", ALONE),
    ("upsert", NodeMetric(NODE_METRIC, "n1", {"memory": 7}, 1.0, {"default/p1": {"memory": 7}})),
    ("upsert", replace(ALONE, status=STATUSES["Running", BEST_EFFORT, "True"])),
    ("upsert", NodeMetric(NODE_METRIC, "n1", {"memory": 9}, 2.0, {"default/p1": {"memory": 8}})),
    ("ask", None),
    ("upsert", P9),
    ("upsert", NodeMetric(NODE_METRIC, "n1", {"memory": 7}, 3.0, {"default/p1": {"memory": 7}})),
    ("ask", None),
    ("remove", P9),
    ("upsert", NodeMetric(NODE_METRIC, "n1", {"memory": 6}, 4.0, {"default/p1": {"memory": 6}})),
    ("ask", None),
]
SPREAD: list[tuple[str, Any]] = [
    *START[:-1],
    (
        "upsert",
        replace(pod("p2", on="n1"), uid="default/p2", labels=ALIKE, spec=SPECS[-2]),
    ),
    ("ask", None),
]
LOADED: list[tuple[str, Any]] = [
    *START[:3],
    ("load", [P1, P3, P9, replace(P1, labels=LABELS[1])]),
    ("ask", None),
]
CLAIMED: list[tuple[str, Any]] = [
    ("upsert", ResourceClaim("default", "c1", allocation=DeviceAllocation((GPU,)))),
    ("upsert", ResourceSlice("s1", pool=PoolName("gpus", "p"), scope=NodeScope("n1"))),
    ("ask", None),
    ("upsert", ResourceClaim("default", "c1")),
    ("upsert", ResourceSlice("s1", pool=PoolName("gpus", "q"), scope=NodeScope(all_nodes=True))),
    ("ask", None),
    ("upsert", ResourceSlice("s1", pool=PoolName("gpus", "q"), scope=NodeScope("n2"))),
    ("ask", None),
    ("upsert", ResourceClaim("default", "c1", allocation=DeviceAllocation((GPU,)))),
    ("upsert", DeviceTaintRule("r1", taint=CLOSING, pool="p")),
    ("ask", None),
    ("upsert", ResourceClaim("default", "c1", pod="default/p1")),
    ("upsert", DeviceClass("gpu", extended_resource="example.com/gpu")),
    ("ask", None),
    ("upsert", ResourceClaim("default", "c1")),
    ("upsert", DeviceClass("gpu", extended_resource="example.com/net")),
    ("ask", None),
]
RELABELED = [
    *START,
    ("upsert", Namespace("shop", labels={"stage": "test"})),
    ("upsert", ReplicaSet("rs-b", controller=OWNERS[0][0])),
    ("upsert", CSINode("n1", attach_limits={"disks": 1})),
    ("upsert", replace(P1, status=PodStatus("Running", qos_class=GUARANTEED))),
    ("upsert", replace(P3, status=STATUSES["Running", GUARANTEED, "True"])),
    ("upsert", NOMINATED[1]),
    ("upsert", NOMINATED[0]),
    ("ask", None),
    ("upsert", NOMINATED[2]),
    ("ask", None),
    ("upsert", replace(P1, annotations=IN_GANG)),
    ("ask", None),
]
REZONED = [
    *SPREAD,
    *(
        ("upsert", node(name, labels={ZONE_LABEL: "b", HOSTNAME_LABEL: name, "disk": disk}))
        for name, disk in (("n1", "ssd"), ("n2", "hdd"))
    ),
    ("upsert", replace(node("n2", labels={ZONE_LABEL: "b", "disk": "hdd"}), is_terminating=True)),
    ("ask", None),
]
RESIZED = [
    ("upsert", node("n1", allocatable={"cpu": "2", "memory": "3Gi", "pods": "9"})),
    ("upsert", P1),
    ("ask", None),
    ("upsert", replace(P1, resize_delta=RESIZE)),
    ("ask", None),
    ("upsert", P1),
    *CLAIMED,
]
rest = st.lists(
    updates
    | updates
    | updates
    | updates
    | loads
    | st.tuples(st.just("select"), st.sampled_from(["", "disk=ssd"]))
    | st.tuples(st.just("ask"), st.none()),
    min_size=20,
    max_size=50,
)
steps = st.builds(
    lambda start, then: [*start, *then],
    st.sampled_from([[], START, RELABELED, REZONED, SPREAD, MEASURED, LOADED, RESIZED]),
    rest,
)


def _group(pairs: Iterable[tuple[KeyT, MemberT]]) -> dict[KeyT, set[MemberT]]:
    found: dict[KeyT, set[MemberT]] = {}
    for key, member in pairs:
        found.setdefault(key, set()).add(member)
    return found


# What an index must answer, where it is built through the hook that follows changes: a fault of
# the hook is in the index built anew as well.
EXPECTED: dict[type[Index], Callable[[ClusterState], object]] = {
    NamespacePods: lambda state: _group((p.namespace, p.uid) for p in state.store(Pod)),
    TerminatingPods: lambda state: _group(
        (p.namespace, p.uid) for p in state.store(Pod) if p.is_active and p.deletion_s is not None
    ),
    NominatedPods: lambda state: _group(
        (p.status.nominated_node, p.uid)
        for p in state.store(Pod)
        if p.is_pending and p.status.nominated_node and p.deletion_s is None
    ),
    PvcUsers: lambda state: _group(
        (f"{p.namespace}/{claim}", p.uid)
        for p in state.store(Pod)
        if p.is_active
        for claim in p.pvc_names
    ),
}


def _pods_by_readiness(
    state: ClusterState, *, ready: bool, unsteady: bool = False
) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for each in state.store(Pod):
        owner = controller_of(each.owners)
        is_counted = each.deletion_s is None and each.status.phase == "Running"
        is_meant = each.status.is_ready is ready and each.status.is_unsteady >= unsteady
        if owner is not None and is_counted and is_meant:
            found.setdefault((each.namespace, owner.uid), set()).add(each.uid)
    return found


EXPECTED[Gangs] = lambda state: (
    _group(
        (found, p.uid)
        for p in state.store(Pod)
        if p.is_active and p.deletion_s is None and (found := gang_of(p)) is not None
    ),
    _group(
        (with_rule(found), found)
        for p in state.store(Pod)
        if p.is_active
        and p.deletion_s is None
        and (found := gang_of(p)) is not None
        and with_rule(found) != found
    ),
    Counter(found.system for p in state.store(Pod) if (found := gang_of(p)) is not None),
    {
        gang: rule
        for record in GROUP_RECORDS
        for each in state.store(record)
        for gang, rule in each.rules.items()
    },
)
EXPECTED[WorkloadPods] = lambda state: (
    {key: len(pods) for key, pods in _pods_by_readiness(state, ready=True).items()},
    _pods_by_readiness(state, ready=False),
    _pods_by_readiness(state, ready=True, unsteady=True),
)


def _contents(state: ClusterState) -> dict[str, object]:
    return {
        info.name: (
            info.node,
            {(p.uid, p.pvc_names) for p in info.active.values()},
            state.store(CSINode).get(info.name),
        )
        for info in state.node_infos()
    }


class Story:
    """A cluster with one index; a pod's name may come back as another pod."""

    def __init__(
        self, kind: type[Index], args: Hashable = None, followed: type[Index] | None = None
    ) -> None:
        self.state = ClusterState()
        self.kind = kind
        self.args = args
        self.index: Index = self.state.index(followed or kind, args)
        self._lives: dict[str, int] = {}

    def tell(self, step: str, subject: Any) -> None:  # an object, or a selector's text
        if isinstance(subject, Pod):
            subject = self._living(subject)
            self._lives[subject.uid.partition("#")[0]] += step == "remove"
        changes: list[Change] = []
        log = self.index.log if isinstance(self.index, NodeChanges) else None
        cursor, before = (log.end, _contents(self.state)) if log is not None else (0, {})
        if step == "select":
            changes += chain.from_iterable(self.state.set_node_selector(parse_selector(subject)))
        elif step == "ask":
            self.check()
        elif step == "load":
            self.state.load([self._living(each) for each in subject])
        else:
            changes = getattr(self.state, step)(subject)
        announced = [c for c in changes if type(c).__module__ == self.kind.__module__]
        assert all(isinstance(change, self.kind.announces) for change in announced)

        if log is not None:
            after = _contents(self.state)
            differ = {name for name in {*before, *after} if before.get(name) != after.get(name)}
            assert differ <= set(log.since(cursor) or ())

    def _living(self, subject: Pod) -> Pod:
        life = self._lives.setdefault(subject.uid, 0)
        return replace(subject, uid=f"{subject.uid}#{life}")

    def check(self) -> None:
        """Compare the index with one built anew, and with the objects themselves."""
        answers = self.index.answers()
        assert answers == self.anew().answers(), (self.kind.__name__, self.args)
        if (expected := EXPECTED.get(self.kind)) is not None:
            assert answers == expected(self.state), self.kind.__name__

    def anew(self) -> Index:
        """Build the index from the cluster as it is."""
        return self.kind(self.state, self.args)


def _name(part: Any) -> str | None:  # Any: a class, its arguments, or a hook
    if isinstance(part, type):
        return part.__name__
    return part if isinstance(part, str) else None


@given(steps=steps)  # all indexes take the same changes: drawing them takes longer than following
def test_after_any_changes_every_index_answers_as_one_built_anew(
    steps: list[tuple[str, Any]],
) -> None:
    for kind, args in KEPT:
        _run(kind, steps, args)


def _run(
    kind: type[Index],
    steps: list[tuple[str, Any]],
    args: Hashable = None,
    followed: type[Index] | None = None,
) -> None:
    story = Story(kind, args, followed)
    for step, subject in steps:
        story.tell(step, subject)
    story.check()


HOOKS = [
    (kind, hook)
    for kind in INDEXES
    for hook in ("on_pod", "on_pod_status", "on_node", "on_object")
    if getattr(kind, hook) is not getattr(Index, hook)
]


@cache
def _sequences(number: int) -> list[list[tuple[str, Any]]]:
    """Draw so many sequences, the same in every run."""
    drawn: list[list[tuple[str, Any]]] = []

    @settings(max_examples=number, derandomize=True, database=None, phases=[Phase.generate])
    @given(steps=steps)
    def draw(steps: list[tuple[str, Any]]) -> None:
        drawn.append(steps)

    draw()
    return drawn


@pytest.mark.parametrize(("kind", "hook"), HOOKS, ids=_name)
def test_the_property_fails_for_an_index_without_one_of_its_hooks(
    kind: type[Index], hook: str
) -> None:
    def ignore(_index: Index, _old: object, _new: object) -> tuple[()]:
        return ()

    deaf = type(f"Deaf{kind.__name__}", (kind,), {hook: ignore})

    def fails(steps: list[tuple[str, Any]]) -> bool:
        try:
            for args in ARGS.get(kind, (None,)):
                _run(kind, steps, args, deaf)
        except (AssertionError, KeyError):
            return True
        return False

    some = (20, 200)  # few show most hooks, and to draw them takes longer than to follow them
    assert any(fails(steps) for number in some for steps in _sequences(number)), (
        f"{kind.__name__}.answers() are the same where {hook} is never called: it is not needed, "
        "or no object of the sequences (LABELS, SPECS, OTHERS, ...) has what the index reads"
    )


def test_the_sequences_have_objects_of_every_kind_that_an_index_follows() -> None:
    built = {PodDisruptionBudget, NodeUsage, Reservation, MovedPods}
    sampled = {type(other) for other in OTHERS} | built

    assert {followed for kind in INDEXES for followed in kind.kinds} <= sampled


@given(steps=steps)
def test_an_index_that_is_first_needed_later_answers_the_same(
    steps: list[tuple[str, Any]],
) -> None:
    stories = [Story(kind, args) for kind, args in KEPT]
    for step, subject in steps:
        for story in stories:
            story.tell(step, subject)

    late = ClusterState()
    list(late.set_node_selector(stories[0].state.nodes.selector))
    for resource in WATCHED_KINDS:
        for key in stories[0].state.keys(resource):
            known = stories[0].state.get(resource, key)
            assert known is not None
            late.upsert(known)
    for kind in (NodeUsage, MovedPods):
        for known in stories[0].state.store(kind):
            late.upsert(known)
    for story in stories:
        assert late.index(story.kind, story.args).answers() == story.index.answers()


def test_every_index_is_found() -> None:
    names = {kind.__name__ for kind in INDEXES}

    assert names >= {"PreferredAffinity", "PdbIndex", "PvcUsers", "PodAffinity", "ReplicaCounts"}


class Counting(Index):
    """Counts how often its hook is called."""

    calls = 0

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        self.calls += 1
        return ()

    def answers(self) -> object:
        return None


class Needy(Index):
    """Needs another index."""

    def __init__(self, cluster: Cluster, args: Any = None) -> None:
        super().__init__(cluster, args)
        self.needed = cluster.index(Counting)

    def answers(self) -> object:
        return None


def test_an_index_that_no_plugin_needs_any_more_is_dropped_and_its_hooks_with_it() -> None:
    state = ClusterState()
    state.keep_indexes([(Needy, None)])
    needed = state.index(Needy).needed
    state.keep_indexes([(Needy, None)])
    state.upsert(pod("web", on="n1"))
    assert (state.index(Counting), needed.calls) == (needed, 1)

    state.keep_indexes([])
    state.upsert(pod("db", on="n1"))

    assert needed.calls == 1
    assert state.index(Counting) is not needed


def test_indexes_of_one_class_are_distinguished_by_their_arguments() -> None:
    state = ClusterState()

    assert state.index(Counting, "a") is state.index(Counting, "a")
    assert state.index(Counting, "a") is not state.index(Counting, "b")


def test_only_overridden_hooks_are_called() -> None:
    hooks, state = IndexHooks(), ClusterState()
    hooks.collect([Counting(state), Needy(state)])

    assert (len(hooks.pod), hooks.pod_status, hooks.node, hooks.objects) == (1, (), (), {})


def test_an_index_built_while_another_follows_a_pod_counts_it_once() -> None:
    class Late(Index):
        def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
            self._cluster.index(Counting)
            return ()

        def answers(self) -> object:
            return None

    state = ClusterState()
    state.index(Late)
    objects: list[ClusterObject] = [pod("web", on="n1"), pod("db", on="n1")]
    for obj in objects:
        state.upsert(obj)

    assert state.index(Counting).calls == 1
