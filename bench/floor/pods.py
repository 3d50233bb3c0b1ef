"""Pods, as little as a descheduler can keep of them: typed decoding, content shared by field.

The members are those that the controller's records need. What the pods of one template have in
common stays raw until it is looked up by its bytes; only a part never seen before is decoded.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.json import Decoder, decode

_LIST, _OBJECT, _NULL = Raw(b"[]"), Raw(b"{}"), Raw(b"null")
_ENDED = ("Succeeded", "Failed")


class Wire(Struct, frozen=True, gc=False, rename="camel"):
    """Base of the JSON types; msgspec skips every member that they do not name."""


class _Annotations(Wire, frozen=True, gc=False):
    evict: str | None = field(name="descheduler.alpha.kubernetes.io/evict", default=None)
    prefer: str | None = field(
        name="descheduler.alpha.kubernetes.io/prefer-no-eviction", default=None
    )
    mirror: str | None = field(name="kubernetes.io/config.mirror", default=None)
    source: str | None = field(name="kubernetes.io/config.source", default=None)


class _Metadata(Wire, frozen=True, gc=False):
    name: str
    uid: str
    creation_timestamp: datetime
    namespace: str = ""
    resource_version: str = ""
    deletion_timestamp: datetime | None = None
    labels: Raw = _OBJECT
    annotations: _Annotations = _Annotations()
    owner_references: Raw = _LIST


class _Container(Wire, frozen=True, gc=False):
    resources: Raw = _OBJECT
    ports: Raw = _LIST
    restart_policy: str = ""


class _Presence(Wire, frozen=True, gc=False):
    pass


class _Claim(Wire, frozen=True, gc=False):
    claim_name: str = ""


class _Volume(Wire, frozen=True, gc=False):
    empty_dir: _Presence | None = None
    host_path: _Presence | None = None
    persistent_volume_claim: _Claim | None = None


class _Spec(Wire, frozen=True, gc=False):
    node_name: str = ""
    priority: Raw = _NULL
    node_selector: Raw = _OBJECT
    tolerations: Raw = _LIST
    affinity: Raw = _OBJECT
    topology_spread_constraints: Raw = _LIST
    overhead: Raw = _OBJECT
    resources: Raw = _OBJECT
    resource_claims: tuple[_Presence, ...] = ()
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()


class _Reason(Wire, frozen=True, gc=False):
    reason: str = ""
    exit_code: int = 0


class _State(Wire, frozen=True, gc=False):
    waiting: _Reason | None = None
    terminated: _Reason | None = None


class _ContainerStatus(Wire, frozen=True, gc=False):
    name: str = ""
    restart_count: int = 0
    state: _State = _State()
    resources: Raw = _OBJECT
    allocated_resources: Raw = _OBJECT


class _Condition(Wire, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    last_transition_time: datetime | None = None


class _Status(Wire, frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    start_time: datetime | None = None
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[_ContainerStatus, ...] = ()


class WirePod(Wire, frozen=True, gc=False):
    """A pod's JSON."""

    metadata: _Metadata
    spec: _Spec
    status: _Status


class PodEvent(Wire, frozen=True, gc=False):
    """A line of a watch on pods."""

    type: str
    object: WirePod


class Template(Struct, frozen=True, gc=False):
    """What the pods of one template share, decoded once; `cpu_m` and `memory` are their sums."""

    tolerations: Any
    node_selector: Any
    priority: Any
    spread: Any
    ports: Any
    limits: Any
    cpu_m: int
    memory: int


class PodRecord(Struct, frozen=True, gc=False):
    """One pod; all but its own names, times and version is shared."""

    uid: str
    name: str
    namespace: str
    node: str
    version: int
    created_s: float
    deleted_s: float | None
    labels: Any
    annotations: Any
    owners: Any
    template: Template
    affinity: Any
    status: Any
    times: Any
    claims: tuple[str, ...]
    has_local_storage: bool
    resized: Any


class PodSharing:
    """Turns the JSON of pods into records that share equal parts."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._parts: dict[bytes, Any] = {}
        self._templates: dict[bytes, Template] = {}
        self._values: dict[Any, Any] = {}
        self._decode_labels = Decoder(dict[str, str]).decode
        self._decode_any = Decoder().decode

    def record(self, wire: WirePod) -> PodRecord:
        """Return the record of a pod."""
        metadata, spec, status = wire.metadata, wire.spec, wire.status
        text, shared = self._texts.setdefault, self._values.setdefault
        annotations, deleted = metadata.annotations, metadata.deletion_timestamp
        claims: tuple[str, ...] = ()
        local = False
        for volume in spec.volumes:
            if volume.empty_dir is not None or volume.host_path is not None:
                local = True
            if (claim := volume.persistent_volume_claim) is not None:
                claims += (claim.claim_name,)
        brief = (
            status.phase,
            status.reason,
            status.qos_class,
            tuple([(c.type, c.status, c.reason) for c in status.conditions]),
            _containers(status.container_statuses),
            _containers(status.init_container_statuses),
            _containers(status.ephemeral_container_statuses),
        )
        times = _times(status, metadata.creation_timestamp)
        return PodRecord(
            metadata.uid,
            metadata.name,
            text(metadata.namespace, metadata.namespace),
            text(spec.node_name, spec.node_name),
            int(metadata.resource_version),
            metadata.creation_timestamp.timestamp(),
            None if deleted is None else deleted.timestamp(),
            self._part(metadata.labels),
            shared(annotations, annotations),
            self._part(metadata.owner_references),
            self._template(spec),
            self._part(spec.affinity),
            shared(brief, brief),
            shared(times, times),
            claims,
            local,
            _resized(spec.containers, status.container_statuses)
            or _resized(spec.init_containers, status.init_container_statuses),
        )

    def _part(self, raw: Raw) -> Any:
        text = bytes(raw)
        found = self._parts.get(text)
        if found is None:
            found = self._parts[text] = self._decode_any(text)
        return found

    def _template(self, spec: _Spec) -> Template:
        texts: list[Raw | bytes] = [
            spec.tolerations,
            spec.node_selector,
            spec.priority,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
        ]
        for container in spec.containers:
            texts += (container.resources, container.ports)
        for container in spec.init_containers:
            texts += (container.restart_policy.encode(), container.resources, container.ports)
        key = b"\0".join(texts)
        found = self._templates.get(key)
        if found is None:
            found = self._templates[key] = self._new_template(spec)
        return found

    def _new_template(self, spec: _Spec) -> Template:
        resources = [self._part(container.resources) for container in spec.containers]
        requests = [each.get("requests", {}) for each in resources]
        return Template(
            self._part(spec.tolerations),
            self._part(spec.node_selector),
            self._part(spec.priority),
            self._part(spec.topology_spread_constraints),
            tuple(self._part(container.ports) for container in spec.containers),
            tuple(resources),
            sum(_quantity(each.get("cpu", "0"), 1000) for each in requests),
            sum(_quantity(each.get("memory", "0"), 1) for each in requests),
        )


class NodeSums(Struct, gc=False):
    """The pods of one node, and the sums of what they request."""

    pods: set[str]
    cpu_m: int = 0
    memory: int = 0


class PodStore:
    """Pods by uid, and per node the set of its pods with their sums."""

    def __init__(self) -> None:
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, NodeSums] = {}

    def upsert(self, pod: PodRecord) -> None:
        """Store a pod that is new or has changed."""
        old = self.pods.get(pod.uid)
        if old is None:
            self._count(pod, 1)
        elif pod.version < old.version:
            return
        elif (
            old.template is not pod.template
            or old.node is not pod.node
            or (old.status is not pod.status and _ended(old) != _ended(pod))
        ):
            self._count(old, -1)
            self._count(pod, 1)
        self.pods[pod.uid] = pod

    def remove(self, uid: str) -> None:
        """Remove a pod that was deleted."""
        if (old := self.pods.pop(uid, None)) is not None:
            self._count(old, -1)

    def _count(self, pod: PodRecord, sign: int) -> None:
        if _ended(pod):
            return
        node = self.nodes.get(pod.node)
        if node is None:
            node = self.nodes[pod.node] = NodeSums(set())
        node.cpu_m += sign * pod.template.cpu_m
        node.memory += sign * pod.template.memory
        if sign > 0:
            node.pods.add(pod.uid)
        else:
            node.pods.discard(pod.uid)


def _containers(statuses: Sequence[_ContainerStatus]) -> tuple[object, ...]:
    return tuple([(each.name, each.restart_count, each.state) for each in statuses])


def _times(status: _Status, created: datetime) -> tuple[float | None, ...]:
    """Return the times of a status in seconds after the creation: most pods have the same."""
    started = status.start_time
    times = [
        None if (at := each.last_transition_time) is None else (at - created).total_seconds()
        for each in status.conditions
    ]
    times.append(None if started is None else (started - created).total_seconds())
    return tuple(times)


def _resized(containers: Sequence[_Container], statuses: Sequence[_ContainerStatus]) -> object:
    """Return what containers hold where it is not what their spec says."""
    for container, status in zip(containers, statuses, strict=False):
        if status.resources != container.resources or status.allocated_resources is not _OBJECT:
            return tuple(decode(each.resources) for each in statuses)
    return None


def _ended(pod: PodRecord) -> bool:
    return pod.status[0] in _ENDED


_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9}


def _quantity(text: str, scale: int) -> int:
    if text.endswith("m"):
        return int(text[:-1]) * scale // 1000
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor) * scale
    return int(float(text) * scale)
