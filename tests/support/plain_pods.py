"""A plain reading of a pod's JSON: slow, shares nothing, and easy to see right.

For tests that hold the reader that is quick, and shares, against it.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

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
    WeightedPodAffinityTerm,
)
from reactive_desched.model.qos import ResourceRequirements, compute_qos_class
from reactive_desched.model.quantities import parse_quantity
from reactive_desched.model.resources import ContainerRequests, device_requests, pod_requests
from reactive_desched.model.taints import Toleration
from reactive_desched.primitives.bounded_text import bounded_name

Obj = dict[str, Any]  # any JSON object
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ANY_ADDRESS = HostPort(0).ip


def reference_pod(pod: Obj) -> Pod:
    """Return the record of a pod; a member that is null counts as absent."""
    pod = _without_nulls(pod)
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    annotations = metadata.get("annotations", {})
    volumes = spec.get("volumes", [])
    version = metadata.get("resourceVersion", "")
    return Pod(
        namespace=bounded_name(metadata.get("namespace", "")),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(version) if version.isdecimal() else 0,
        node=bounded_name(spec.get("nodeName", "")),
        labels=metadata.get("labels", {}),
        annotations=Annotations(
            annotations.get("descheduler.alpha.kubernetes.io/evict"),
            annotations.get("descheduler.alpha.kubernetes.io/prefer-no-eviction"),
            annotations.get("kubernetes.io/config.mirror"),
            annotations.get("kubernetes.io/config.source"),
        ),
        owners=tuple(
            OwnerReference(
                bounded_name(o["kind"]),
                bounded_name(o["name"]),
                bounded_name(o["uid"]),
                controller=o.get("controller", False),
                api_version=bounded_name(o.get("apiVersion", "")),
            )
            for o in metadata.get("ownerReferences", [])
        ),
        spec=_spec(spec),
        status=_status(status),
        pvc_names=tuple(
            bounded_name(v["persistentVolumeClaim"]["claimName"])
            for v in volumes
            if "persistentVolumeClaim" in v
        ),
        created_s=_seconds(metadata.get("creationTimestamp")) or 0,
        start_delay_s=_since_creation_s(metadata, status.get("startTime")),
        deletion_s=_seconds(metadata.get("deletionTimestamp")),
        condition_transitions=tuple(
            _since_creation_s(metadata, c.get("lastTransitionTime"))
            for c in status.get("conditions", [])
        ),
        resize_delta=_resized(spec, status),
        made_claims=_claims(status.get("resourceClaimStatuses", [])),
    )


def _claims(listed: list[Obj]) -> tuple[tuple[str, str], ...]:
    return tuple((each.get("name", ""), each.get("resourceClaimName", "")) for each in listed)


def _without_nulls(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def _since_creation_s(metadata: Obj, text: str | None) -> int | None:
    at = _seconds(text)
    return None if at is None else at - (_seconds(metadata.get("creationTimestamp")) or 0)


def _resized(spec: Obj, status: Obj) -> dict[str, int]:
    """Difference of two pods: one that asks for what it holds, and one for what its spec says."""
    infeasible = status.get("resize") == "Infeasible" or any(
        c["type"] == "PodResizePending" and c.get("reason") == "Infeasible"
        for c in status.get("conditions", [])
    )
    reported = {
        c["name"]: c
        for c in status.get("containerStatuses", []) + status.get("initContainerStatuses", [])
        if "resources" in c
    }
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") != "Always":
            reported.pop(container.get("name", ""), None)

    def holding(container: Obj) -> Obj:
        if (container_resources := reported.get(container.get("name", ""))) is None:
            return container
        lists = [
            container_resources.get("resources", {}).get("requests", {}),
            container_resources.get("allocatedResources", {}),
        ]
        if not infeasible:
            lists.insert(0, _requests(container))
        maximum: dict[str, str] = {}
        for resource, quantity in ((r, str(q)) for each in lists for r, q in each.items()):
            maximum[resource] = max(maximum.get(resource, quantity), quantity, key=parse_quantity)
        return container | {"resources": {"requests": maximum}}

    own = spec.get("resources", {}).get("requests", {})
    if own and "resources" in status:
        lists = [
            status["resources"].get("requests", {}),
            status.get("allocatedResources", {}),
            *([] if infeasible else [own]),
        ]
        own = {
            r: max((str(each[r]) for each in lists if r in each), key=parse_quantity, default="0")
            for r in own
        }
    allocated_total = _amounts(
        spec
        | {"resources": {"requests": own}}
        | {
            kind: [holding(container) for container in spec.get(kind, [])]
            for kind in ("containers", "initContainers")
        }
    )
    asked = _amounts(spec)
    difference = {
        r: allocated_total.get(r, 0) - asked.get(r, 0)
        for r in allocated_total.keys() | asked.keys()
    }
    return {resource: amount for resource, amount in difference.items() if amount}


def _seconds(text: str | None) -> int | None:
    return None if text is None else math.floor(datetime.fromisoformat(text).timestamp())


def _spec(spec: Obj) -> PodSpec:
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
        node_affinity=_node_affinity(affinity["nodeAffinity"])
        if "nodeAffinity" in affinity
        else None,
        pod_affinity=_terms(affinity.get("podAffinity", {})),
        anti_affinity=_terms(affinity.get("podAntiAffinity", {})),
        preferred_pod_affinity=_preferred_terms(affinity.get("podAffinity", {})),
        preferred_anti_affinity=_preferred_terms(affinity.get("podAntiAffinity", {})),
        topology_spread_constraints=tuple(
            TopologySpreadConstraint(
                c["maxSkew"],
                c["topologyKey"],
                c.get("whenUnsatisfiable", "DoNotSchedule"),
                _selector(c.get("labelSelector")),
                tuple(c.get("matchLabelKeys", [])),
                c.get("minDomains"),
                c.get("nodeAffinityPolicy", "Honor"),
                c.get("nodeTaintsPolicy", "Ignore"),
            )
            for c in spec.get("topologySpreadConstraints", [])
        ),
        host_ports=tuple(
            HostPort(p["hostPort"], p.get("protocol") or "TCP", p.get("hostIP") or _ANY_ADDRESS)
            for c in spec.get("containers", [])
            + [c for c in spec.get("initContainers", []) if c.get("restartPolicy") == "Always"]
            for p in c.get("ports", [])
            if p.get("hostPort", 0) > 0
        ),
        requests=_amounts(spec),
        implicit_requests=tuple(sorted(_amounts(spec).keys() - _requested_by_containers(spec))),
        scored_requests=_scored_amounts(spec),
        qos_class=_qos(spec.get("containers", []) + spec.get("initContainers", [])),
        priority=spec.get("priority"),
        has_local_storage=any("emptyDir" in v or "hostPath" in v for v in spec.get("volumes", [])),
        has_resource_claims=bool(spec.get("resourceClaims")),
        resource_claims=_claims(spec.get("resourceClaims", [])),
        device_requests=_device_requests(spec),
        images=_images(c.get("image") for c in spec.get("containers", [])),
        init_images=_images(c.get("image") for c in spec.get("initContainers", [])),
        volume_images=_images(
            v["image"].get("reference") for v in spec.get("volumes", []) if "image" in v
        ),
    )


def _images(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted(bounded_name(name or "") for name in names))


def _terms(demands: Obj) -> tuple[PodAffinityTerm, ...]:
    return tuple(map(_pod_term, demands.get(_REQUIRED, [])))


def _preferred_terms(demands: Obj) -> tuple[WeightedPodAffinityTerm, ...]:
    return tuple(
        WeightedPodAffinityTerm(p["weight"], _pod_term(p["podAffinityTerm"]))
        for p in demands.get(_PREFERRED, [])
    )


def _pod_term(term: Obj) -> PodAffinityTerm:
    return PodAffinityTerm(
        term["topologyKey"],
        _selector(term.get("labelSelector")),
        tuple(term.get("namespaces", [])),
        _selector(term.get("namespaceSelector")),
        tuple(term.get("matchLabelKeys", [])),
        tuple(term.get("mismatchLabelKeys", [])),
    )


def _scored_amounts(spec: Obj) -> dict[str, int] | None:
    containers = spec.get("containers", []) + spec.get("initContainers", [])
    if all({"cpu", "memory"} <= _requests(c).keys() for c in containers):
        return None
    total = _amounts(spec, {"cpu": "100m", "memory": "200Mi"})
    return {resource: total[resource] for resource in ("cpu", "memory")}


def _amounts(spec: Obj, unnamed: dict[str, str] | None = None) -> dict[str, int]:
    default = unnamed or {}
    return pod_requests(
        [default | _requests(c) for c in spec.get("containers", [])],
        [
            ContainerRequests(default | _requests(c), c.get("restartPolicy") == "Always")
            for c in spec.get("initContainers", [])
        ],
        _requests(spec),
        {resource: str(quantity) for resource, quantity in spec.get("overhead", {}).items()},
    )


def _device_requests(spec: Obj) -> tuple[tuple[str, int], ...]:
    found = device_requests(
        [_requests(c) for c in spec.get("containers", [])],
        [
            ContainerRequests(_requests(c), c.get("restartPolicy") == "Always")
            for c in spec.get("initContainers", [])
        ],
    )
    whole = sorted((name, n) for name, n in _amounts(spec).items() if n and "/" in name)
    return () if found == tuple(whole) else found


def _requested_by_containers(spec: Obj) -> set[str]:
    return {
        resource
        for container in spec.get("containers", []) + spec.get("initContainers", [])
        for resource in _requests(container)
    }


def _qos(containers: list[Obj]) -> str:
    return compute_qos_class(
        ResourceRequirements(
            _requests(c),
            {r: str(q) for r, q in c.get("resources", {}).get("limits", {}).items()},
        )
        for c in containers
    )


def _requests(owner: Obj) -> dict[str, str]:
    requests = owner.get("resources", {}).get("requests", {})
    return {resource: str(quantity) for resource, quantity in requests.items()}


def _selector(selector: Obj | None) -> LabelSelector | None:
    if selector is None:
        return None
    expressions = _requirements(selector.get("matchExpressions", []))
    return LabelSelector(selector.get("matchLabels", {}), expressions)


def _requirements(written: list[Obj]) -> tuple[Requirement, ...]:
    return tuple(Requirement(r["key"], r["operator"], tuple(r.get("values", []))) for r in written)


def _node_affinity(affinity: Obj) -> NodeAffinity:
    required = affinity.get(_REQUIRED)
    return NodeAffinity(
        None
        if required is None
        else NodeSelector(tuple(map(_term, required["nodeSelectorTerms"]))),
        tuple(
            PreferredTerm(p["weight"], _term(p["preference"])) for p in affinity.get(_PREFERRED, [])
        ),
    )


def _term(term: Obj) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        _requirements(term.get("matchExpressions", [])),
        _requirements(term.get("matchFields", [])),
    )


def _status(status: Obj) -> PodStatus:
    return PodStatus(
        bounded_name(status.get("phase", "")),
        bounded_name(status.get("reason", "")),
        bounded_name(status.get("qosClass", "")),
        tuple(
            PodCondition(
                bounded_name(c["type"]),
                bounded_name(c["status"]),
                bounded_name(c.get("reason", "")),
            )
            for c in status.get("conditions", [])
        ),
        tuple(map(_container, status.get("containerStatuses", []))),
        tuple(map(_container, status.get("initContainerStatuses", []))),
        tuple(map(_container, status.get("ephemeralContainerStatuses", []))),
    )


def _container(status: Obj) -> ContainerStatus:
    state = status.get("state", {})
    return ContainerStatus(
        bounded_name(status["name"]),
        status.get("restartCount", 0),
        bounded_name(state.get("waiting", {}).get("reason", "")),
        bounded_name(state.get("terminated", {}).get("reason", "")),
        state["terminated"].get("exitCode", 0) if "terminated" in state else None,
    )
