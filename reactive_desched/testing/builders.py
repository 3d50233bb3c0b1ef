"""Small objects for tests, in few words: `pod("web", on="n1")`, `node("n1", "gpu:NoSchedule")`."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from reactive_desched.model.labels import parse_selector
from reactive_desched.model.node_affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
)
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Annotations,
    ContainerStatus,
    Node,
    OwnerReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from reactive_desched.model.resources import parse_resource_list
from reactive_desched.model.taints import Taint, Toleration

READY = PodStatus("Running", conditions=(PodCondition("Ready", "True"),))
_ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def taint(text: str) -> Taint:
    """Read "key=value:Effect" or "key:Effect"."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return Taint(key, effect, value)


def term(text: str) -> NodeSelectorTerm:
    """Read a selector text as a node selector term."""
    return NodeSelectorTerm(parse_selector(text).requirements)


def node(
    name: str,
    *taints: str,
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    ready: str | None = "True",
    unschedulable: bool = False,
    version: int = 0,
) -> Node:
    """Build a node with its hostname label and plenty of room, in a zone if one is named."""
    zone_labels = {HOSTNAME_LABEL: name, **({} if zone is None else {ZONE_LABEL: zone})}
    return Node(
        name,
        uid=f"node-{name}",
        resource_version=version,
        labels={**zone_labels, **(labels or {})},
        taints=tuple(map(taint, taints)),
        unschedulable=unschedulable,
        allocatable=parse_resource_list(allocatable or _ALLOCATABLE),
        ready_status=ready,
    )


def tolerations(keys: str | Iterable[str]) -> tuple[Toleration, ...]:
    """Tolerate every taint with these keys, or everything for "*"."""
    if keys == "*":
        return (Toleration(operator="Exists"),)
    return tuple(Toleration(key=key, operator="Exists") for key in sorted(keys))


def affinity(requires: str | None = None, prefers: Mapping[str, int] | None = None) -> NodeAffinity:
    """Build node affinity from selector texts."""
    return NodeAffinity(
        NodeSelector((term(requires),)) if requires is not None else None,
        tuple(PreferredTerm(weight, term(text)) for text, weight in (prefers or {}).items()),
    )


def condition(text: str, reason: str = "") -> PodCondition:
    """Read "Type=Status", or "Type" for one that is True."""
    kind, _, status = text.partition("=")
    return PodCondition(kind, status or "True", reason)


def container(
    name: str = "app",
    *,
    restarts: int = 0,
    waits: str = "",
    ended: str = "",
    code: int | None = None,
) -> ContainerStatus:
    """Build what a container is doing: what it waits for, or why and with which code it ended."""
    return ContainerStatus(name, restarts, waits, ended, code)


def pod_status(
    phase: str = "Running",
    *containers: ContainerStatus,
    reason: str = "",
    conditions: Iterable[PodCondition] = (),
    init: Iterable[ContainerStatus] = (),
    ephemeral: Iterable[ContainerStatus] = (),
) -> PodStatus:
    """Build a pod's status."""
    return PodStatus(
        phase,
        reason,
        conditions=tuple(conditions),
        containers=containers,
        init_containers=tuple(init),
        ephemeral_containers=tuple(ephemeral),
    )


def pod(  # noqa: PLR0913 -- each argument is one word of a test's sentence
    name: str,
    *,
    on: str | None = None,
    uid: str | None = None,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    tolerates: str | Iterable[str] = (),
    requires: str | None = None,
    prefers: Mapping[str, int] | None = None,
    requests: Mapping[str, str] | None = None,
    owner: str | None = "ReplicaSet/web",
    priority: int | None = None,
    status: PodStatus = READY,
    version: int = 0,
    evict: str | None = None,
    do_not_evict: str | None = None,
    created: int = 0,
    changed: Mapping[str, int] | None = None,
) -> Pod:
    """Build a running, ready pod of a ReplicaSet; its uid is its name unless given.

    `created`, and `changed` by type of condition, are moments; a condition without one has no time.
    """
    wishes = affinity(requires, prefers) if requires is not None or prefers else None
    kind, _, owner_name = (owner or "").partition("/")
    return Pod(
        namespace,
        name,
        uid or name,
        resource_version=version,
        node=on or "",
        labels=dict(labels or {}),
        annotations=Annotations(evict=evict, do_not_evict=do_not_evict),
        owners=(OwnerReference(kind, owner_name, f"owner-{owner_name}", controller=True),)
        if owner
        else (),
        spec=PodSpec(
            tolerations=tolerations(tolerates),
            node_affinity=wishes,
            requests=parse_resource_list(requests or {}),
            priority=priority,
        ),
        status=status,
        created_s=created,
        condition_transitions=tuple(
            at - created if (at := (changed or {}).get(it.type)) is not None else None
            for it in status.conditions
        ),
    )


def with_spec(pod: Pod, **fields: Any) -> Pod:  # any field of a spec
    """Return the pod with other values in these fields of its spec."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))
