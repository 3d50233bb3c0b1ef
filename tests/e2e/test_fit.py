"""What we say fits a node is what the real kube-scheduler puts there, node by node."""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.objects import Pod
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.policy.settings.scheduler import SchedulerSettings
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.kinds.interning import InternTables
from tests.support import manifests
from tests.support.all_nodes import fitting_nodes
from tests.support.codecs import make_codecs
from tests.support.control_plane import (
    ADDED_AFFINITY,
    FEWER_FILTERS,
    IGNORING,
    SPREADING_HARD,
    ControlPlane,
    wait_until,
)
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DRIVER = "disks.example.com"
NODES = ("a1", "a2", "b1", "b2")
REFUSAL_LASTS_S = 15.0
KINDS = {
    "namespaces": "namespaces",
    "nodes": "nodes",
    "pods": "pods",
    "pvcs": "persistentvolumeclaims",
    "pvs": "persistentvolumes",
    "csi_nodes": "csinodes",
}


def of_app(app: str) -> Object:
    return {"matchLabels": {"app": app}}


def required(*terms: Object) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def near(app: str, key: str = ZONE, **more: Any) -> Object:  # any JSON value
    return {"labelSelector": of_app(app), "topologyKey": key, **more}


def even(key: str, **more: Any) -> Object:  # any JSON value
    # The test pins pods by a node selector, which must not narrow down the domains.
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {**rule, "labelSelector": of_app("web"), "nodeAffinityPolicy": "Ignore", **more}


def mounting(claim: str) -> Object:
    source = {"persistentVolumeClaim": {"claimName": claim}}
    return {"volumes": [{"name": "data", **source}]}


def container(ports: tuple[Object, ...] = (), **requests: str) -> Object:
    main = {"name": "main", "image": "example.invalid/nothing", "ports": list(ports)}
    return {
        "containers": [{**main, "resources": {"requests": requests, "limits": _limits(requests)}}]
    }


def _limits(requests: dict[str, str]) -> dict[str, str]:
    """Extended resources have limits, equal to their requests."""
    return {name: amount for name, amount in requests.items() if "/" in name}


def pod(space: str, name: str, app: str, node: str = "", **spec: Any) -> Object:  # any JSON value
    """Return a pod; with a node it is put there past the scheduler."""
    placed = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": space, "name": name, "labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            **container(),
            **spec,
            **placed,
        },
    }


def node(ours: E2ENamespace, name: str, room: dict[str, str], **labels: str) -> Object:
    made = manifests.node(ours.node(name), **{OWNER: ours.namespace, ZONE: name[0], **labels})
    room = {"cpu": "4", "memory": "8Gi", "pods": "9", **room}
    return {**made, "status": {"allocatable": room, "capacity": room}}


def volume(
    ours: E2ENamespace, name: str, *, mode: str = "ReadWriteOnce", **spec: Any
) -> list[Object]:  # any JSON value
    """Return a claim and the volume that it is bound to; `labels` are the volume's."""
    full, labels = f"{ours.namespace}-{name}", spec.pop("labels", {})
    size = {"storage": "1Gi"}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": ours.namespace, "name": name},
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": size},
            "storageClassName": "",
            "volumeName": full,
        },
    }
    source = {"csi": {"driver": DRIVER, "volumeHandle": full}}
    held = {"claimRef": {"namespace": ours.namespace, "name": name}}
    rest = {"accessModes": [mode], "capacity": size, "storageClassName": ""}
    head = {"apiVersion": "v1", "kind": "PersistentVolume"}
    return [
        {**head, "metadata": {"name": full, "labels": labels}, "spec": source | held | rest | spec},
        claim,
    ]


@pytest.fixture(scope="module")
def arena(control_plane: ControlPlane) -> Iterator[E2ENamespace]:
    """Four nodes in two zones with a few pods, claims and volumes."""
    kubectl = control_plane.kubectl()
    with E2ENamespace(kubectl, f"fit-{os.urandom(5).hex()}") as ours:
        kubectl.apply(
            node(ours, "a1", {"cpu": "2"}, disk="ssd"),
            node(ours, "a2", {}, disk="5"),
            node(ours, "b1", {"cpu": "1", "pods": "3"}),
            node(ours, "b2", {"example.com/gpu": "2"}, disk="ssd"),
            *_storage(ours),
        )
        names = {ours.node(name) for name in NODES}
        wait_until(lambda: names <= ours._open_nodes(), within_s=60, what="the nodes are open")
        kubectl.run("taint", "node", ours.node("a2"), "dedicated=x:NoSchedule")
        kubectl.apply(*_residents(ours))
        wait_until(lambda: _at_rest(ours), within_s=60, what="pods run and claims are bound")
        yield ours
        kubectl.run("delete", "pv", "-l", f"{OWNER}={ours.namespace}", "--wait=false")


def _storage(ours: E2ENamespace) -> Iterator[Object]:
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    reachable: Object = {"nodeAffinity": {"required": {"nodeSelectorTerms": [ssd]}}}
    mine = {OWNER: ours.namespace}
    yield from volume(ours, "in-zone-a", labels=mine | {ZONE: "a__c"})
    yield from volume(ours, "on-ssd", labels=mine, **reachable)
    yield from volume(ours, "anywhere", labels=mine)
    yield from volume(ours, "for-one", labels=mine, mode="ReadWriteOncePod")
    drivers = [{"name": DRIVER, "nodeID": "b2", "allocatable": {"count": 0}}]
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": ours.node("b2")},
        "spec": {"drivers": drivers},
    }


def _residents(ours: E2ENamespace) -> Iterator[Object]:
    space, at = ours.namespace, ours.node
    apart = {"podAntiAffinity": required(near("db", HOST))}
    port = {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}
    yield pod(space, "web-a", "web", at("a1"), **container(cpu="500m"))
    yield pod(space, "hermit", "hermit", at("b1"), **container(cpu="900m"), affinity=apart)
    yield pod(space, "porter", "porter", at("b2"), **container((port,)))
    yield pod(space, "holder", "holder", at("a1"), **mounting("for-one"))


def _at_rest(ours: E2ENamespace) -> bool:
    pods = ours.kubectl.get("pods", "-n", ours.namespace)
    claims = ours.kubectl.get("pvc", "-n", ours.namespace)
    placed = all(p["status"].get("phase") in ("Pending", "Running") for p in pods)
    bound = all(claim.get("status", {}).get("phase") == "Bound" for claim in claims)
    return placed and bound and len(pods) == len(claims) == len(NODES)


def theirs(ours: E2ENamespace, name: str, wanted: Object, target: str, *, likely: bool) -> bool:
    """Let the real scheduler decide whether it puts a pod on one node.

    One that it refuses for a pod that was deleted a moment ago is placed soon after: where we find
    that it fits, a refusal must last.
    """
    pinned = {"nodeSelector": {HOST: ours.node(target), **wanted.get("nodeSelector", {})}}
    app, owner = wanted.pop("app", "web"), wanted.pop("owner", None)
    made = pod(ours.namespace, name, app, **{**wanted, **pinned})
    made["metadata"]["ownerReferences"] = [] if owner is None else [owner]
    ours.kubectl.apply(made)
    verdicts: list[bool] = []
    refused_until = time.monotonic() + (REFUSAL_LASTS_S if likely else 0)

    def decided() -> bool:
        (found,) = ours.kubectl.get("pod", "-n", ours.namespace, name)
        conditions = found.get("status", {}).get("conditions", [])
        refused = any(c.get("reason") == "Unschedulable" for c in conditions)
        lasts = time.monotonic() >= refused_until
        if (refused and lasts) or "nodeName" in found["spec"]:
            verdicts.append("nodeName" in found["spec"])
        return bool(verdicts)

    wait_until(decided, within_s=60, what=f"{name} is scheduled or refused", every_s=0.05)
    ours.erase_pod(name)
    return verdicts[0]


def fitting(
    ours: E2ENamespace, wanted: Object, profiles: SchedulerProfiles = DEFAULT_PROFILES
) -> set[str]:
    """Ask our own filters, over what the API server shows, which of our nodes fit a pod."""
    codec, state = make_codecs(InternTables()), ClusterState()
    for ours_name, kind in KINDS.items():
        for obj in ours.kubectl.get(kind, "-A"):
            state.upsert(getattr(codec, ours_name).decode_object(json.dumps(obj).encode()))
    wanted = dict(wanted)
    owner = wanted.pop("owner", None)
    new = pod(ours.namespace, "new", wanted.pop("app", "web"), **wanted)
    new["metadata"]["ownerReferences"] = [] if owner is None else [owner]
    new["metadata"]["uid"] = "new"
    mover = codec.pods.decode_object(json.dumps(new).encode())
    assert isinstance(mover, Pod)
    fit = SchedulerNodeFit(ClusterView(state, lambda: 0), lambda: 0, profiles)
    return {name for name in NODES if ours.node(name) in fitting_nodes(fit, mover)}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param({}, {"a1", "b1", "b2"}, id="an ordinary pod"),
        pytest.param(
            {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}, set(NODES), id="tolerant"
        ),
        pytest.param(container(cpu="200m"), {"a1", "b2"}, id="some cpu"),
        pytest.param(container(cpu="1800m"), {"b2"}, id="much cpu"),
        pytest.param(container(cpu="5"), set(), id="too much cpu"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"a1", "b2"}, id="node selector"),
        pytest.param({"app": "db"}, {"a1", "b2"}, id="who is there does not want it"),
        pytest.param(
            {"affinity": {"podAntiAffinity": required(near("web"))}}, {"b1", "b2"}, id="apart"
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": required(near("web", namespaceSelector={}))}},
            {"b1", "b2"},
            id="apart from all namespaces",
        ),
        pytest.param({"affinity": {"podAffinity": required(near("web"))}}, {"a1"}, id="together"),
        pytest.param(
            {"app": "new", "affinity": {"podAffinity": required(near("new"))}},
            {"a1", "b1", "b2"},
            id="the first of its kind",
        ),
        pytest.param(
            {"app": "new", "affinity": {"podAffinity": required(near("nobody"))}},
            set(),
            id="together with nobody",
        ),
        pytest.param(
            container(({"containerPort": 80, "hostPort": 8080},)), {"a1", "b1"}, id="a host port"
        ),
        pytest.param(
            container(({"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.2"},)),
            {"a1", "b1", "b2"},
            id="a host port of another address",
        ),
        pytest.param(
            {"topologySpreadConstraints": [even(ZONE)]}, {"b1", "b2"}, id="spread over zones"
        ),
        pytest.param(
            {"topologySpreadConstraints": [even(ZONE, minDomains=9)]},
            {"b1", "b2"},
            id="spread over more zones than there are",
        ),
        pytest.param(
            {"topologySpreadConstraints": [even(HOST, nodeTaintsPolicy="Honor")]},
            {"b1", "b2"},
            id="spread over hosts",
        ),
        pytest.param(mounting("in-zone-a"), {"a1"}, id="a volume of a zone"),
        pytest.param(mounting("on-ssd"), {"a1"}, id="a volume of some nodes"),
        pytest.param(mounting("anywhere"), {"a1", "b1"}, id="a volume that cannot be attached"),
        pytest.param(mounting("for-one"), set(), id="a claim of another pod alone"),
        pytest.param(mounting("nothing"), set(), id="a claim that is not there"),
    ],
)
def test_our_filters_agree_with_the_real_scheduler_on_every_node(
    arena: E2ENamespace, wanted: Object, expected: set[str]
) -> None:
    ours = fitting(arena, wanted)
    real = {
        name
        for name in NODES
        if theirs(arena, f"p-{os.urandom(6).hex()}", dict(wanted), name, likely=name in ours)
    }

    assert ours == real
    assert real == expected


TAKEN_PORT = container(({"containerPort": 80, "hostPort": 8080},))


@pytest.mark.parametrize(
    ("scheduler", "wanted", "expected"),
    [
        pytest.param(FEWER_FILTERS, {}, set(NODES), id="taints do not count"),
        pytest.param(FEWER_FILTERS, TAKEN_PORT, set(NODES), id="ports do not count"),
        pytest.param(
            FEWER_FILTERS,
            {"affinity": {"podAffinity": required(near("web"))}},
            {"a1", "a2"},
            id="affinity counts as a filter alone",
        ),
        pytest.param(ADDED_AFFINITY, {}, {"a1", "b2"}, id="added affinity"),
        pytest.param(
            ADDED_AFFINITY,
            {"nodeSelector": {"disk": "5"}, "tolerations": [{"operator": "Exists"}]},
            set(),
            id="added affinity beside a selector",
        ),
        pytest.param(
            IGNORING,
            container((), **{"example.com/license": "1", "ignored.example.com/any": "1"}),
            {"a1", "b1", "b2"},
            id="ignored resources",
        ),
        pytest.param(
            IGNORING, container((), **{"example.com/gpu": "1"}), {"b2"}, id="a resource that counts"
        ),
        pytest.param(
            IGNORING,
            {"topologySpreadConstraints": [even(ZONE)]},
            {"a1", "b1", "b2"},
            id="spread does not count",
        ),
        pytest.param(
            IGNORING,
            mounting("in-zone-a"),
            {"a1", "b1"},
            id="the zone of a volume does not count",
        ),
    ],
)
def test_our_filters_agree_with_the_profiles_of_the_real_scheduler(
    arena: E2ENamespace,
    control_plane: ControlPlane,
    scheduler: str,
    wanted: Object,
    expected: set[str],
) -> None:
    written = {"config": [control_plane.scheduler_configuration()]}
    profiles = SchedulerSettings.model_validate(written).profiles()
    wanted = {**wanted, "schedulerName": scheduler}
    ours = fitting(arena, wanted, profiles)
    real = {
        name
        for name in NODES
        if theirs(arena, f"p-{os.urandom(6).hex()}", dict(wanted), name, likely=name in ours)
    }

    assert ours == real
    assert real == expected


SEEDS = range(24)


def drawn(rng: random.Random) -> Object:
    """Draw what a pod asks for, of every filter a little."""
    wanted: Object = {"app": rng.choice(("web", "db", "new"))}
    containers = _containers(rng)
    if rng.random() < 0.3:
        containers["resources"] = {"requests": {"cpu": rng.choice(("3200m", "3900m"))}}
    wanted |= containers
    if rng.random() < 0.4:
        wanted["tolerations"] = [rng.choice(TOLERATIONS)]
    affinity: Object = {}
    if rng.random() < 0.4:
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [rng.choice(EXPRESSIONS)]}]
            }
        }
    for kind in ("podAffinity", "podAntiAffinity"):
        if rng.random() < 0.3:
            affinity[kind] = required(_term(rng))
    if affinity:
        wanted["affinity"] = affinity
    if rng.random() < 0.3:
        more = rng.choice(({}, {"minDomains": 3}, {"nodeTaintsPolicy": "Honor"}))
        wanted["topologySpreadConstraints"] = [even(rng.choice((ZONE, HOST)), **more)]
    if rng.random() < 0.3:
        wanted |= mounting(rng.choice(("in-zone-a", "on-ssd", "anywhere", "for-one")))
    return wanted


TOLERATIONS = [
    {"operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Equal", "value": "y"},
]
EXPRESSIONS = [
    {"key": "disk", "operator": "In", "values": ["ssd"]},
    {"key": "disk", "operator": "NotIn", "values": ["ssd"]},
    {"key": "disk", "operator": "Exists"},
    {"key": "disk", "operator": "DoesNotExist"},
    {"key": "disk", "operator": "Gt", "values": ["4"]},
    {"key": ZONE, "operator": "In", "values": ["b", "c"]},
]


def _containers(rng: random.Random) -> Object:
    """Draw containers: beside the main one an init container or a sidecar, which hold room."""
    ports: list[Object] = [{"containerPort": 80, "hostPort": rng.choice((8080, 9090))}]
    if rng.random() < 0.5:
        ports[0]["hostIP"] = rng.choice(("10.0.0.1", "10.0.0.2"))
    main = container(
        tuple(ports) if rng.random() < 0.25 else (), cpu=rng.choice(("100m", "200m", "1600m"))
    )
    first: Object = {"name": "first", "image": "example.invalid/nothing"}
    first |= {"resources": {"requests": {"cpu": rng.choice(("50m", "1500m"))}}}
    if rng.random() < 0.4:
        main["initContainers"] = [first | rng.choice(({}, {"restartPolicy": "Always"}))]
    return main


def _term(rng: random.Random) -> Object:
    """Draw a term of affinity between pods."""
    more: Object = rng.choice(
        (
            {},
            {"namespaceSelector": {}},
            {"namespaces": ["nowhere"]},
            {"matchLabelKeys": ["app"]},
            {"mismatchLabelKeys": ["app"]},
        )
    )
    if {"matchLabelKeys", "mismatchLabelKeys"} & more.keys():
        return {"labelSelector": {}, "topologyKey": rng.choice((ZONE, HOST)), **more}
    return near(rng.choice(("web", "db", "new")), rng.choice((ZONE, HOST)), **more)


@contextmanager
def replica_set(ours: E2ENamespace) -> Iterator[Object]:
    """Keep a ReplicaSet that is being deleted: it selects pods, and makes and deletes none."""
    head = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    meta = {"namespace": ours.namespace, "name": "spread", "finalizers": ["example.com/keep"]}
    template = pod(ours.namespace, "spread", "spread")
    spec = {
        "replicas": 0,
        "selector": of_app("spread"),
        "template": {"metadata": {"labels": {"app": "spread"}}, "spec": template["spec"]},
    }
    ours.kubectl.apply({**head, "metadata": meta, "spec": spec})
    where = ("replicaset", "-n", ours.namespace, "spread")
    ours.kubectl.run("delete", *where, "--wait=false", "--cascade=background")
    (made,) = ours.kubectl.get(*where)
    try:
        yield {**head, "name": "spread", "uid": made["metadata"]["uid"], "controller": True}
    finally:
        without = json.dumps({"metadata": {"finalizers": None}})
        ours.kubectl.run("patch", *where, "--type=merge", "-p", without)


def test_hard_default_constraints_agree_with_the_real_scheduler(
    arena: E2ENamespace, control_plane: ControlPlane
) -> None:
    written = {"config": [control_plane.scheduler_configuration()]}
    profiles = SchedulerSettings.model_validate(written).profiles()
    with replica_set(arena) as owner:
        resident = pod(arena.namespace, "first", "spread", arena.node("a1"))
        resident["metadata"]["ownerReferences"] = [owner]
        arena.kubectl.apply(resident)
        wanted = {"app": "spread", "owner": owner, "schedulerName": SPREADING_HARD}
        ours = fitting(arena, wanted, profiles)
        real = {
            name
            for name in NODES
            if theirs(arena, f"h-{os.urandom(6).hex()}", dict(wanted), name, likely=name in ours)
        }
        arena.erase_pod("first")

    assert ours == real == {"b1", "b2"}


@pytest.mark.parametrize("seed", SEEDS)
def test_our_filters_agree_on_what_drawn_pods_ask_for(arena: E2ENamespace, seed: int) -> None:
    wanted = drawn(random.Random(seed))
    ours = fitting(arena, wanted)
    real = {
        name
        for name in NODES
        if theirs(arena, f"d-{os.urandom(6).hex()}", dict(wanted), name, likely=name in ours)
    }

    assert ours == real, wanted
