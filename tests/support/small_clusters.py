"""Small clusters by chance, as the API server would tell them: few names, so that things collide.

For tests that hold two readers of the same objects against each other.
"""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from reactive_desched.model.changes import Change
from reactive_desched.model.objects import ClusterObject
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import make_codecs

Obj = dict[str, Any]  # any JSON object
NODES = ("n1", "n2", "n3", "n4")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMESPACES = ("shop", "bank")
APPS = ("web", "db")
VOLUMES = ("v1", "v2", "v3")


def mostly_else(
    strategy: SearchStrategy[Any], otherwise: Any = None, *, one_in: int = 4
) -> SearchStrategy[Any]:
    """Draw from a strategy one time in so many, else give the one value."""
    seldom = st.sampled_from(range(one_in))  # the simplest is not to draw from it
    return seldom.flatmap(lambda n: strategy if n == one_in - 1 else st.just(otherwise))


def _without_none(**fields: Any) -> Obj:
    return {key: value for key, value in fields.items() if value is not None}


def namespaces() -> SearchStrategy[list[Obj]]:
    """Both namespaces, each with a team or none."""
    one = st.sampled_from([{}, {"team": "a"}, {"team": "b"}])
    return st.tuples(one, one).map(
        lambda labels: [
            {"metadata": {"name": name, "uid": name, "labels": own}}
            for name, own in zip(NAMESPACES, labels, strict=True)
        ]
    )


@st.composite
def node(draw: st.DrawFn, name: str = "") -> Obj:
    """Draw a node with its labels, taints and room."""
    name = name or draw(st.sampled_from(NODES))
    labels = {} if draw(mostly_else(st.just(1), one_in=9)) else {HOST: name}
    if zone := draw(st.sampled_from(["a", "a", "b", "b", "c", ""])):
        labels[ZONE] = zone
    if disk := draw(st.sampled_from(["", "", "ssd", "5"])):
        labels["disk"] = disk
    effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
    taints = draw(
        mostly_else(
            st.lists(st.sampled_from([("a", e) for e in effects]), unique=True), (), one_in=6
        )
    )
    spec: Obj = {"taints": [{"key": key, "effect": effect} for key, effect in taints]}
    if draw(mostly_else(st.just(1), one_in=9)):
        spec["unschedulable"] = True
    room = {
        "cpu": draw(st.sampled_from(["4", "9", "9", "1"])),
        "pods": draw(st.sampled_from(["4", "9", "9", "1"])),
        "memory": draw(st.sampled_from(["8Gi", "8Gi", "3Gi"])),
    }
    if draw(st.booleans()):
        room["example.com/gpu"] = "1"
    images = draw(st.lists(st.sampled_from(_IMAGES), unique=True))
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [each], "sizeBytes": size} for each, size in images],
        },
    }


def selectors() -> SearchStrategy[Any]:
    """Draw a label selector, an empty one or none at all."""
    apps = st.sampled_from(APPS)
    return st.one_of(
        apps.map(lambda app: {"matchLabels": {"app": app}}),
        apps.map(
            lambda app: {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}
        ),
        st.just({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        mostly_else(st.none(), {}, one_in=2),
    )


@st.composite
def pod_term(draw: st.DrawFn) -> Obj:
    """Draw a term of affinity or anti-affinity between pods."""
    return _without_none(
        labelSelector=draw(selectors()),
        topologyKey=draw(st.sampled_from([ZONE, HOST])),
        namespaces=draw(mostly_else(st.lists(st.sampled_from(NAMESPACES), max_size=2))),
        namespaceSelector=draw(mostly_else(st.sampled_from([{}, {"matchLabels": {"team": "a"}}]))),
        matchLabelKeys=draw(mostly_else(st.just(["version"]), one_in=9)),
        mismatchLabelKeys=draw(mostly_else(st.just(["version"]), one_in=9)),
    )


@st.composite
def spread(draw: st.DrawFn) -> list[Obj]:
    """Draw up to two spread constraints over different labels."""
    keys = draw(st.sampled_from([[ZONE], [HOST], [ZONE, HOST]]))
    return [
        _without_none(
            maxSkew=draw(st.integers(1, 2)),
            topologyKey=key,
            whenUnsatisfiable=draw(st.sampled_from(["DoNotSchedule"] * 3 + ["ScheduleAnyway"])),
            labelSelector=draw(selectors()),
            minDomains=draw(mostly_else(st.integers(1, 4))),
            nodeAffinityPolicy=draw(mostly_else(st.just("Ignore"))),
            nodeTaintsPolicy=draw(mostly_else(st.just("Honor"))),
            matchLabelKeys=draw(mostly_else(st.just(["version"]))),
        )
        for key in keys
    ]


def node_terms() -> SearchStrategy[list[Obj]]:
    """Draw the terms of a required node affinity, some of them empty or by name."""
    expressions = st.sampled_from(
        [
            {"key": ZONE, "operator": "In", "values": ["a", "b"]},
            {"key": ZONE, "operator": "NotIn", "values": ["a"]},
            {"key": "disk", "operator": "Exists"},
            {"key": "disk", "operator": "DoesNotExist"},
            {"key": "disk", "operator": "Gt", "values": ["4"]},
            {"key": "disk", "operator": "Gt", "values": ["x"]},
        ]
    )
    fields = st.tuples(st.sampled_from(["In", "NotIn"]), st.sampled_from(NODES)).map(
        lambda drawn: {"key": "metadata.name", "operator": drawn[0], "values": [drawn[1]]}
    )
    term = st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(expressions, min_size=1, max_size=2),
            "matchFields": st.lists(fields, max_size=1),
        },
    )
    return st.lists(term, max_size=3)


_IMAGES = [("app:latest", 900_000_000), ("app:v1", 2_000_000_000), ("init:latest", 300_000_000)]
"""Images of nodes, by names that they have once a tag is added, with their sizes."""


@st.composite
def pod_spec(draw: st.DrawFn) -> Obj:
    """Draw what a pod asks for."""
    requests = {"cpu": draw(st.sampled_from(["500m", "0", "1", "2"]))}
    if memory := draw(st.sampled_from(["", "", "1Gi"])):
        requests["memory"] = memory
    if draw(mostly_else(st.just(1), one_in=6)):
        requests["example.com/gpu"] = draw(st.sampled_from(["0", "1"]))
    ports = draw(mostly_else(st.lists(_ports(), max_size=2), []))
    terms = draw(mostly_else(node_terms(), one_in=6))
    affinities = st.lists(pod_term(), min_size=1, max_size=2)
    liked = draw(mostly_else(preferences(), one_in=3))
    affinity = _without_none(
        nodeAffinity=_affinity(None if terms is None else {"nodeSelectorTerms": terms}, liked),
        podAffinity=_affinity(draw(mostly_else(affinities)), draw(mostly_else(preferred_pods()))),
        podAntiAffinity=_affinity(
            draw(mostly_else(affinities)), draw(mostly_else(preferred_pods()))
        ),
    )
    main = {"name": "main", "resources": {"requests": requests}, "ports": ports}
    if image := draw(st.sampled_from(["", "app", "app:v1"])):
        main["image"] = image
    return _without_none(
        containers=[main],
        initContainers=draw(mostly_else(st.just([{"name": "init", "image": "init"}]), one_in=6)),
        affinity=affinity or None,
        nodeSelector=draw(mostly_else(st.just({"disk": "ssd"}), one_in=9)),
        tolerations=draw(mostly_else(st.sampled_from(_TOLERATIONS))),
        topologySpreadConstraints=draw(mostly_else(spread(), one_in=3)),
        volumes=draw(mostly_else(st.lists(_mounts(), max_size=2))),
    )


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATIONS = [
    [{"operator": "Exists"}],
    [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
]


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity(required: Any, preferred: list[Obj] | None) -> Obj | None:
    found = _without_none(**{_REQUIRED: required, _PREFERRED: preferred})
    return found or None


def preferences() -> SearchStrategy[list[Obj]]:
    """Draw the terms of a preferred node affinity."""
    liked = st.sampled_from(
        [{"key": ZONE, "operator": "In", "values": ["a"]}, {"key": "disk", "operator": "Exists"}]
    )
    one = st.tuples(st.sampled_from([1, 7, 50]), liked).map(
        lambda drawn: {"weight": drawn[0], "preference": {"matchExpressions": [drawn[1]]}}
    )
    return st.lists(one, min_size=1, max_size=2)


def preferred_pods() -> SearchStrategy[list[Obj]]:
    """Draw preferred terms about other pods."""
    one = st.tuples(st.sampled_from([1, 7, 50]), pod_term()).map(
        lambda drawn: {"weight": drawn[0], "podAffinityTerm": drawn[1]}
    )
    return st.lists(one, min_size=1, max_size=2)


@st.composite
def _ports(draw: st.DrawFn) -> Obj:
    return _without_none(
        containerPort=80,
        hostPort=draw(st.sampled_from([80, 81])),
        hostIP=draw(st.sampled_from([None, "10.0.0.1", "10.0.0.2"])),
        protocol=draw(mostly_else(st.just("UDP"))),
    )


def _mounts() -> SearchStrategy[Obj]:
    claims = st.sampled_from(["c1", "c2", "c3"])
    return claims.map(lambda c: {"name": c, "persistentVolumeClaim": {"claimName": c}})


@st.composite
def pod(draw: st.DrawFn, name: str, *, alive: bool = False) -> Obj:
    """Draw a pod on some node; one that is `alive` neither ends nor leaves."""
    labels = {"app": draw(st.sampled_from(APPS)), "version": draw(st.sampled_from("12"))}
    metadata: Obj = {
        "name": name,
        "uid": name,
        "namespace": draw(st.sampled_from([*NAMESPACES, "shop", "shop"])),
        "labels": labels,
        "ownerReferences": [
            {"kind": "ReplicaSet", "name": "rs", "uid": f"rs-{labels['app']}", "controller": True}
        ],
    }
    if not alive and draw(mostly_else(st.just(1))):
        metadata["deletionTimestamp"] = _CREATED_AT
    phase = "Running" if alive else draw(st.sampled_from(["Running"] * 4 + ["Succeeded", "Failed"]))
    spec = draw(pod_spec()) | {"nodeName": draw(st.sampled_from(NODES))}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


@st.composite
def nominated_pod(draw: st.DrawFn, name: str) -> Obj:
    """Draw a pod that waits for the node for which it is nominated."""
    waiting = draw(pod(name, alive=True))
    spec = {key: value for key, value in waiting["spec"].items() if key != "nodeName"}
    spec |= {"priority": draw(st.sampled_from([0, 0, 0, -1]))}
    status = {"phase": "Pending", "nominatedNodeName": draw(st.sampled_from(NODES))}
    return waiting | {"spec": spec, "status": status}


def _gone_on(current: Obj, node_name: str | None) -> Obj:
    """Return what becomes of a pod that waits: it is nominated elsewhere, or bound where it is."""
    status = current["status"]
    if (nominated := status.get("nominatedNodeName")) is None:
        return current
    if node_name == nominated:
        bound = current["spec"] | {"nodeName": node_name}
        return current | {"spec": bound, "status": {"phase": "Running"}}
    now = {"phase": "Pending"} | ({} if node_name is None else {"nominatedNodeName": node_name})
    return current | {"status": now}


def claims() -> SearchStrategy[list[Obj]]:
    """Draw claims in both namespaces, some of them missing, all bound."""
    names = [(space, name) for space in NAMESPACES for name in ("c1", "c2", "c3")]
    bound = st.tuples(*(mostly_else(st.none(), v, one_in=9) for v in (*VOLUMES, *VOLUMES)))
    return bound.map(
        lambda volumes: [
            {
                "metadata": {"name": name, "namespace": space, "uid": f"{space}-{name}"},
                "spec": {"volumeName": volume},
                "status": {"phase": "Bound"},
            }
            for (space, name), volume in zip(names, volumes, strict=True)
            if volume is not None
        ]
    )


@st.composite
def volume(draw: st.DrawFn, name: str) -> Obj:
    """Draw a volume that may be bound to a place by its labels or its node affinity."""
    terms = draw(mostly_else(node_terms(), one_in=3))
    affinity = None if terms is None else {"required": {"nodeSelectorTerms": terms}}
    labels = {ZONE: zone} if (zone := draw(st.sampled_from([None, None, "a", "a__b"]))) else {}
    metadata = {"name": name, "uid": name, "labels": labels}
    csi = {"driver": "disks", "volumeHandle": f"handle-{name}"}
    return {"metadata": metadata, "spec": _without_none(nodeAffinity=affinity, csi=csi)}


class RandomCluster:
    """A small cluster that changes by chance, one object at a time."""

    def __init__(self) -> None:
        self._codecs = make_codecs(InternTables())
        self._objects: dict[str, dict[str, Obj]] = {}
        self._version = 0

    def change(self, draw_data: st.DataObject, state: ClusterState) -> list[Change]:
        """Let something happen to the cluster, take it into a state, and say what differs."""
        draw = draw_data.draw
        kind = draw(st.sampled_from(_KINDS))
        live = self._objects.setdefault(kind, {})
        if live and draw(st.integers(0, 2)) == 0:
            key = draw(st.sampled_from(sorted(live)))
            return list(state.remove(self._read(kind, live.pop(key))))
        obj = self._altered_pod(draw_data, live) if kind == "pods" else draw(_object_strategy(kind))
        live[_key(obj)] = obj
        return list(state.upsert(self._read(kind, obj)))

    def _altered_pod(self, data: st.DataObject, live: dict[str, Obj]) -> Obj:
        """Draw a new pod, or what becomes of one that is there: a pod never moves."""
        draw = data.draw
        what = draw(
            st.sampled_from(["new", "new", "waits", "goes on", "leaves", "ends", "is relabelled"])
        )
        if not live or what == "new":
            return draw(pod(f"p{self._version}", alive=True))
        if what == "waits":
            return draw(nominated_pod(f"p{self._version}"))
        current = live[draw(st.sampled_from(sorted(live)))]
        match what:
            case "goes on":
                return _gone_on(current, draw(st.sampled_from([None, *NODES])))
            case "leaves":
                return current | {
                    "metadata": current["metadata"] | {"deletionTimestamp": _CREATED_AT}
                }
            case "ends":
                return current | {"status": {"phase": "Failed"}}
            case _:
                labels = {"app": draw(st.sampled_from(APPS)), "version": "1"}
                return current | {"metadata": current["metadata"] | {"labels": labels}}

    def _read(self, kind: str, obj: Obj) -> ClusterObject:
        self._version += 1
        metadata = obj["metadata"] | {"resourceVersion": str(self._version)}
        text = json.dumps(obj | {"metadata": metadata}).encode()
        changes: ClusterObject = getattr(self._codecs, kind).decode_object(text)
        return changes


_CREATED_AT = "2026-01-01T00:00:00Z"
_KINDS = [*["pods"] * 5, *["nodes"] * 2, "namespaces", "pvcs", "pvs", "csi_nodes"]


def _object_strategy(kind: str) -> SearchStrategy[Obj]:
    made: dict[str, SearchStrategy[Obj]] = {
        "nodes": st.tuples(node(), mostly_else(st.just(_CREATED_AT))).map(_being_deleted),
        "namespaces": namespaces().flatmap(st.sampled_from),
        "pvcs": claims().filter(bool).flatmap(st.sampled_from),
        "pvs": st.sampled_from(VOLUMES).flatmap(volume),
        "csi_nodes": csi_node(),
    }
    return made[kind]


def _being_deleted(drawn: tuple[Obj, str | None]) -> Obj:
    obj, since = drawn
    metadata = obj["metadata"] | ({} if since is None else {"deletionTimestamp": since})
    return obj | {"metadata": metadata}


def _key(obj: Obj) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


@st.composite
def csi_node(draw: st.DrawFn) -> Obj:
    """Draw how many volumes a node can attach."""
    name, count = draw(st.sampled_from(NODES)), draw(st.integers(0, 3))
    driver = {"name": "disks", "allocatable": {"count": count}}
    return {"metadata": {"name": name, "uid": name}, "spec": {"drivers": [driver]}}
