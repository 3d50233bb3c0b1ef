"""Pods are read field by field and shared; a plain reading of the same JSON must agree."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.kube.decode import codecs
from reactive_desched.kube.sharing import SharedParts
from reactive_desched.model.labels import LabelSelector, Requirement
from reactive_desched.model.node_affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
)
from reactive_desched.model.objects import (
    Annotations,
    ContainerStatus,
    HostPort,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    PodStatus,
    TopologySpreadConstraint,
)
from reactive_desched.model.qos import Asks, computed_qos
from reactive_desched.model.quantities import parse_quantity
from reactive_desched.model.resources import ContainerRequests, pod_requests
from reactive_desched.model.taints import Toleration

JSON = dict[str, Any]  # any JSON object
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


# --- the plain reading -------------------------------------------------------------------------


def without_nulls(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(element) for element in value] if isinstance(value, list) else value


def plain_pod(given_pod: JSON) -> Pod:
    pod = without_nulls(given_pod)
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    annotations = metadata.get("annotations", {})
    volumes = spec.get("volumes", [])
    version = metadata.get("resourceVersion", "")
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(version) if version.isdecimal() else 0,
        node=spec.get("nodeName", ""),
        labels=metadata.get("labels", {}),
        annotations=Annotations(
            annotations.get("descheduler.alpha.kubernetes.io/evict"),
            annotations.get("descheduler.alpha.kubernetes.io/prefer-no-eviction"),
            annotations.get("kubernetes.io/config.mirror"),
            annotations.get("kubernetes.io/config.source"),
        ),
        owners=tuple(
            OwnerReference(o["kind"], o["name"], o["uid"], o.get("controller", False))
            for o in metadata.get("ownerReferences", [])
        ),
        spec=plain_spec(spec),
        status=plain_status(status),
        claims=tuple(
            v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
        ),
        created_s=plain_seconds(metadata.get("creationTimestamp")) or 0,
        started_s=plain_seconds(status.get("startTime")),
        deletion_s=plain_seconds(metadata.get("deletionTimestamp")),
        transitions=tuple(plain_since(metadata, c) for c in status.get("conditions", [])),
        resized=plain_resized(spec, status),
    )


def plain_since(metadata: JSON, condition: JSON) -> int | None:
    at = plain_seconds(condition.get("lastTransitionTime"))
    return None if at is None else at - (plain_seconds(metadata.get("creationTimestamp")) or 0)


def plain_resized(spec: JSON, status: JSON) -> dict[str, int]:
    """Difference of two pods: one that asks for what it holds, and one for what its spec says."""
    infeasible = any(
        c["type"] == "PodResizePending" and c.get("reason") == "Infeasible"
        for c in status.get("conditions", [])
    )
    reported = {
        c["name"]: c
        for c in status.get("containerStatuses", []) + status.get("initContainerStatuses", [])
        if "resources" in c or "allocatedResources" in c
    }

    def holding(container: JSON) -> JSON:
        if (held := reported.get(container.get("name", ""))) is None:
            return container
        lists = [held.get("resources", {}).get("requests", {}), held.get("allocatedResources", {})]
        if not infeasible:
            lists.insert(0, plain_requests(container))
        most: dict[str, str] = {}
        for resource, quantity in ((r, str(q)) for each in lists for r, q in each.items()):
            most[resource] = max(most.get(resource, quantity), quantity, key=parse_quantity)
        return container | {"resources": {"requests": most}}

    held = plain_amounts(
        spec
        | {
            kind: [holding(container) for container in spec.get(kind, [])]
            for kind in ("containers", "initContainers")
        }
    )
    asked = plain_amounts(spec)
    difference = {r: held.get(r, 0) - asked.get(r, 0) for r in held.keys() | asked.keys()}
    return {resource: amount for resource, amount in difference.items() if amount}


def plain_seconds(text: str | None) -> int | None:
    return None if text is None else math.floor(datetime.fromisoformat(text).timestamp())


def plain_spec(spec: JSON) -> PodSpec:
    affinity = spec.get("affinity", {})
    return PodSpec(
        tolerations=tuple(
            Toleration(
                t.get("key", ""),
                t.get("operator", ""),
                t.get("value", ""),
                t.get("effect", ""),
                t.get("tolerationSeconds"),
            )
            for t in spec.get("tolerations", [])
        ),
        node_selector=spec.get("nodeSelector", {}),
        node_affinity=plain_node_affinity(affinity["nodeAffinity"])
        if "nodeAffinity" in affinity
        else None,
        pod_affinity=plain_terms(affinity.get("podAffinity", {})),
        anti_affinity=plain_terms(affinity.get("podAntiAffinity", {})),
        spread=tuple(
            TopologySpreadConstraint(
                c["maxSkew"],
                c["topologyKey"],
                c.get("whenUnsatisfiable", "DoNotSchedule"),
                plain_selector(c.get("labelSelector")),
                tuple(c.get("matchLabelKeys", [])),
                c.get("minDomains"),
                c.get("nodeAffinityPolicy", "Honor"),
                c.get("nodeTaintsPolicy", "Ignore"),
            )
            for c in spec.get("topologySpreadConstraints", [])
        ),
        host_ports=tuple(
            HostPort(p["hostPort"], p.get("protocol") or "TCP", p.get("hostIP") or "0.0.0.0")
            for c in spec.get("containers", [])
            + [c for c in spec.get("initContainers", []) if c.get("restartPolicy") == "Always"]
            for p in c.get("ports", [])
            if p.get("hostPort", 0) > 0
        ),
        requests=plain_amounts(spec),
        qos_class=plain_qos(spec.get("containers", []) + spec.get("initContainers", [])),
        priority=spec.get("priority"),
        has_local_storage=any("emptyDir" in v or "hostPath" in v for v in spec.get("volumes", [])),
        has_resource_claims=bool(spec.get("resourceClaims")),
    )


def plain_terms(demands: JSON) -> tuple[PodAffinityTerm, ...]:
    return tuple(
        PodAffinityTerm(
            t["topologyKey"],
            plain_selector(t.get("labelSelector")),
            tuple(t.get("namespaces", [])),
            plain_selector(t.get("namespaceSelector")),
        )
        for t in demands.get(REQUIRED, [])
    )


def plain_amounts(spec: JSON) -> dict[str, int]:
    return pod_requests(
        [plain_requests(c) for c in spec.get("containers", [])],
        [
            ContainerRequests(plain_requests(c), c.get("restartPolicy") == "Always")
            for c in spec.get("initContainers", [])
        ],
        plain_requests(spec),
        {resource: str(quantity) for resource, quantity in spec.get("overhead", {}).items()},
    )


def plain_qos(containers: list[JSON]) -> str:
    return computed_qos(
        Asks(
            plain_requests(c),
            {r: str(q) for r, q in c.get("resources", {}).get("limits", {}).items()},
        )
        for c in containers
    )


def plain_requests(owner: JSON) -> dict[str, str]:
    requests = owner.get("resources", {}).get("requests", {})
    return {resource: str(quantity) for resource, quantity in requests.items()}


def plain_selector(selector: JSON | None) -> LabelSelector | None:
    if selector is None:
        return None
    expressions = plain_requirements(selector.get("matchExpressions", []))
    return LabelSelector(selector.get("matchLabels", {}), expressions)


def plain_requirements(given_ones: list[JSON]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(r["key"], r["operator"], tuple(r.get("values", []))) for r in given_ones
    )


def plain_node_affinity(affinity: JSON) -> NodeAffinity:
    required = affinity.get(REQUIRED)
    return NodeAffinity(
        None
        if required is None
        else NodeSelector(tuple(map(plain_term, required["nodeSelectorTerms"]))),
        tuple(
            PreferredTerm(p["weight"], plain_term(p["preference"]))
            for p in affinity.get(PREFERRED, [])
        ),
    )


def plain_term(term: JSON) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        plain_requirements(term.get("matchExpressions", [])),
        plain_requirements(term.get("matchFields", [])),
    )


def plain_status(status: JSON) -> PodStatus:
    return PodStatus(
        status.get("phase", ""),
        status.get("reason", ""),
        status.get("qosClass", ""),
        tuple(
            PodCondition(c["type"], c["status"], c.get("reason", ""))
            for c in status.get("conditions", [])
        ),
        tuple(map(plain_container, status.get("containerStatuses", []))),
        tuple(map(plain_container, status.get("initContainerStatuses", []))),
        tuple(map(plain_container, status.get("ephemeralContainerStatuses", []))),
    )


def plain_container(status: JSON) -> ContainerStatus:
    state = status.get("state", {})
    return ContainerStatus(
        status["name"],
        status.get("restartCount", 0),
        state.get("waiting", {}).get("reason", ""),
        state.get("terminated", {}).get("reason", ""),
        state["terminated"].get("exitCode", 0) if "terminated" in state else None,
    )


# --- generated pods: a tiny world, so that parts of different pods often coincide ---------------

words = st.sampled_from(["", "a", "b", "ünï", "🙂", 'q"\\uote', "\u0000", "Always", "null"])
names = st.sampled_from(["web-1", "web-2", "ключ", "x"])
maps = st.dictionaries(words, words, max_size=2)
quantities = st.sampled_from(["100m", "1", "1.5Gi", "0", "1e3", 1, 2, 0.5, 1.25])
resource_lists = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"]), quantities, max_size=2
)
junk = st.none() | words | st.integers() | st.lists(words | st.none(), max_size=2) | maps


@st.composite
def moments(draw: Callable[..., Any]) -> str:
    """RFC 3339 as Go writes it: whole seconds or fractions, mostly Z."""
    moment: datetime = draw(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)))  # noqa: DTZ001  the zone is drawn next
    if draw(st.booleans()):
        moment = moment.replace(microsecond=0)
    zone = draw(st.sampled_from([UTC, timezone(timedelta(hours=2))]))
    return moment.replace(tzinfo=zone).isoformat().replace("+00:00", "Z")


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What is given, or null."""
    return st.none() | strategy


def objects(
    required: dict[str, st.SearchStrategy[Any]] | None = None,
    **optional: st.SearchStrategy[Any],
) -> st.SearchStrategy[JSON]:
    """Objects whose optional members may be absent or null, with one that nobody knows."""
    members = {name: some(strategy) for name, strategy in optional.items()} | {"unknown": junk}
    return st.fixed_dictionaries(required or {}, optional=members)


def lists(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=2)


requirements = objects({"key": words, "operator": words}, values=lists(words))
selectors = objects(matchLabels=maps, matchExpressions=lists(requirements))
terms = objects(matchExpressions=lists(requirements), matchFields=lists(requirements))
pod_terms = objects(
    None,
    **{
        REQUIRED: lists(
            objects(
                {"topologyKey": words},
                labelSelector=selectors,
                namespaces=lists(words),
                namespaceSelector=selectors,
            )
        ),
        PREFERRED: junk,
    },
)
affinities = objects(
    nodeAffinity=objects(
        None,
        **{
            REQUIRED: objects({"nodeSelectorTerms": lists(terms)}),
            PREFERRED: lists(objects({"weight": st.integers(0, 9), "preference": terms})),
        },
    ),
    podAffinity=pod_terms,
    podAntiAffinity=pod_terms,
)
spreads = lists(
    objects(
        {"maxSkew": st.integers(1, 3), "topologyKey": words},
        whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        labelSelector=selectors,
        matchLabelKeys=lists(words),
        minDomains=st.integers(1, 3),
        nodeAffinityPolicy=st.sampled_from(["Honor", "Ignore"]),
        nodeTaintsPolicy=st.sampled_from(["Honor", "Ignore"]),
    )
)
resources = objects(requests=resource_lists, limits=resource_lists)
ports = lists(objects(hostPort=st.integers(0, 2), protocol=words, hostIP=words, name=words))
containers = lists(
    objects(name=words, resources=resources, ports=ports, restartPolicy=words, image=junk)
)
reasons = objects(reason=words)
ends = objects(reason=words, exitCode=st.integers(0, 2))
states = objects(waiting=reasons, terminated=ends, running=junk)
container_statuses = lists(
    objects(
        {"name": words},
        restartCount=st.integers(0, 2),
        state=states,
        resources=resources,
        allocatedResources=resource_lists,
    )
)
volumes = lists(
    objects(
        emptyDir=maps,
        hostPath=maps,
        persistentVolumeClaim=objects({"claimName": names}),
        projected=junk,
    )
)
tolerations = lists(
    objects(key=words, operator=words, value=words, effect=words, tolerationSeconds=st.integers())
)
pods = objects(
    {
        "metadata": objects(
            {"name": names, "uid": names},
            namespace=words,
            resourceVersion=st.sampled_from(["", "7", "900000001", "v7", "-1", "9" * 10]),
            creationTimestamp=moments(),
            deletionTimestamp=moments(),
            labels=maps,
            annotations=st.dictionaries(
                st.sampled_from(
                    [
                        "descheduler.alpha.kubernetes.io/evict",
                        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
                        "kubernetes.io/config.mirror",
                        "kubernetes.io/config.source",
                        "checksum/config",
                    ]
                ),
                some(words),
                max_size=3,
            ),
            ownerReferences=lists(
                objects({"kind": words, "name": words, "uid": words}, controller=st.booleans())
            ),
        )
    },
    spec=objects(
        nodeName=words,
        priority=st.integers(-5, 5),
        nodeSelector=maps,
        tolerations=tolerations,
        affinity=affinities,
        topologySpreadConstraints=spreads,
        overhead=resource_lists,
        resources=resources,
        resourceClaims=lists(objects(name=words)),
        containers=containers,
        initContainers=containers,
        volumes=volumes,
    ),
    status=objects(
        phase=words,
        reason=words,
        qosClass=words,
        startTime=moments(),
        conditions=lists(
            objects(
                {"type": words | st.just("PodResizePending"), "status": words},
                reason=words | st.just("Infeasible"),
                lastTransitionTime=moments(),
                lastProbeTime=junk,
            )
        ),
        containerStatuses=container_statuses,
        initContainerStatuses=container_statuses,
        ephemeralContainerStatuses=container_statuses,
    ),
)


@given(
    generated=st.lists(pods, min_size=1, max_size=4),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    budget=st.sampled_from([0, 3, 1000]),
)
def test_a_pod_is_read_as_a_plain_reading_of_its_json_would(
    generated: list[JSON], indent: int | None, *, ascii_only: bool, budget: int
) -> None:
    shared = SharedParts()
    codec = codecs(shared).pods
    kept = []
    for pod in generated:
        text = json.dumps(pod, indent=indent, ensure_ascii=ascii_only).encode()
        kept.append(codec.item(text))
        shared.sweep(budget)
    assert kept == [plain_pod(pod) for pod in generated]


@given(pods)
def test_an_event_carries_the_same_pod_as_a_list_item(pod: JSON) -> None:
    line = json.dumps({"type": "MODIFIED", "object": {"kind": "Pod"} | pod}).encode()

    event = codecs(SharedParts()).pods.event(line)

    assert (event.type, event.object) == ("MODIFIED", plain_pod(pod))
    assert event.resource_version == (pod["metadata"].get("resourceVersion") or "")
