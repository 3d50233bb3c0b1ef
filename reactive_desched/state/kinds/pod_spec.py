"""A pod's spec: its JSON, and the PodSpec that all pods of a template share."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from cachetools import LRUCache
from msgspec import Raw, field
from msgspec.json import Decoder
from msgspec.structs import replace

from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.model.node_scores import DEFAULT_CONTAINER_REQUESTS, SCORED_RESOURCES
from reactive_desched.model.objects import (
    DEFAULT_SCHEDULER,
    RESTARTS_ALWAYS,
    HostPort,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from reactive_desched.model.qos import ResourceRequirements, compute_qos_class
from reactive_desched.model.quantities import parse_quantity
from reactive_desched.model.resources import (
    ContainerRequests,
    ResourceList,
    device_requests,
    pod_requests,
)
from reactive_desched.model.scheduling import (
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
)
from reactive_desched.model.taints import Tolerations
from reactive_desched.state.kinds.interning import InternTables, intern_field, quantity_texts
from reactive_desched.state.kinds.kind import (
    EMPTY_LIST,
    EMPTY_OBJECT,
    NULL,
    Presence,
    WireStruct,
)
from reactive_desched.state.kinds.long_texts import LONG_BYTES, estimate_bytes, no_room
from reactive_desched.state.kinds.pod_limits import (
    MAX_CONTAINER_BYTES,
    MAX_CONTAINERS,
    within_limits,
)
from reactive_desched.state.kinds.pod_status import WireContainerStatus, WirePodStatus

__all__ = ["Affinity", "SpecReader", "Volume", "WirePodSpec"]

_NO_AMOUNTS: Final[ResourceList] = {}
_INFEASIBLE: Final = "Infeasible"
QOS_CACHE_SIZE: Final = 10_000
"""How many QoS classes are cached, by the texts of requests and limits."""

_MAX_CACHED_BYTES: Final = 4096
"""What follows from longer texts is computed each time: it is kept beside no pod's own part."""

_ANY_TAINT: Final = Raw(b'[{"operator":"Exists"}]')
_NEVER: Final = b'"Never"'
_RESTART_ALL: Final = "RestartAllContainers"
_REQUESTS_KEY: Final = b'"requests":'
# NUL cannot occur in JSON, so joined texts never run into each other.
_SEPARATOR: Final = b"\0"


class Container(WireStruct, frozen=True, gc=False):
    """A container of a pod's spec; a sidecar is an init container with its own restart policy."""

    name: str = ""
    image: Raw = NULL
    resources: Raw = EMPTY_OBJECT
    ports: Raw = EMPTY_LIST
    restart_policy: str = ""
    restart_policy_rules: Raw = EMPTY_LIST


class RestartRule(WireStruct, frozen=True, gc=False):
    """The kubelet's action when a container ends in some way."""

    action: str = ""


class WireResources(WireStruct, frozen=True, gc=False):
    """Requests and limits of a container or pod; a quantity is a text or a bare number."""

    requests: dict[str, Raw] = field(default_factory=dict)
    limits: dict[str, Raw] = field(default_factory=dict)


class ContainerPort(WireStruct, frozen=True, gc=False):
    """A port of a container; only one with a host port takes a port of the node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(name="hostIP", default="")


class PodTerms(WireStruct, frozen=True, gc=False):
    """The terms of a pod's affinity or anti-affinity to other pods."""

    required: Raw = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=EMPTY_LIST)
    preferred: Raw = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=EMPTY_LIST
    )


NO_TERMS: Final = PodTerms()


class Affinity(WireStruct, frozen=True, gc=False):
    """A pod's affinity; each kind of affinity is interned on its own."""

    node_affinity: Raw = NULL
    pod_affinity: PodTerms = NO_TERMS
    pod_anti_affinity: PodTerms = NO_TERMS


class PvcVolumeSource(WireStruct, frozen=True, gc=False):
    """The PVC behind a volume."""

    claim_name: str = ""


class ImageVolumeSource(WireStruct, frozen=True, gc=False):
    """The image behind a volume."""

    reference: Raw = NULL


class Volume(WireStruct, frozen=True, gc=False):
    """The source of a volume, where it matters for moving the pod."""

    image: ImageVolumeSource | None = None
    empty_dir: Presence | None = None
    host_path: Presence | None = None
    persistent_volume_claim: PvcVolumeSource | None = None


class SchedulingGroup(WireStruct, frozen=True, gc=False):
    """The group that a pod is placed with, since Kubernetes 1.36."""

    pod_group_name: str = ""


class WorkloadReference(WireStruct, frozen=True, gc=False):
    """The same of Kubernetes 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodResourceClaim(WireStruct, frozen=True, gc=False):
    """A claim by its name in the pod: a ResourceClaim, or one to be made from a template."""

    name: str = ""
    resource_claim_name: str = ""


class WirePodSpec(WireStruct, frozen=True, gc=False):
    """A pod's spec, split into the parts that are interned."""

    node_name: str = ""
    scheduler_name: Raw = NULL
    priority: Raw = NULL
    preemption_policy: Raw = NULL
    node_selector: Raw = EMPTY_OBJECT
    tolerations: Raw = EMPTY_LIST
    affinity: Raw = EMPTY_OBJECT
    topology_spread_constraints: Raw = EMPTY_LIST
    overhead: Raw = EMPTY_OBJECT
    resources: Raw = EMPTY_OBJECT
    resource_claims: Raw = EMPTY_LIST
    restart_policy: Raw = NULL
    host_network: bool = False
    host_users: bool | None = None
    scheduling_group: Raw = EMPTY_OBJECT
    workload_ref: Raw = EMPTY_OBJECT
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class SpecReader:
    """Looks a spec up by the texts of its parts; decodes the parts of a new one."""

    def __init__(self, tables: InternTables) -> None:
        self._tables: Final = tables
        self._known: Final = tables.specs.get
        self._decode_labels: Final = Decoder(dict[str, str]).decode
        self._decode_tolerations: Final = Decoder(Tolerations).decode
        self._decode_affinity: Final = Decoder(Affinity).decode
        self._decode_node_affinity: Final = Decoder(NodeAffinity).decode
        self._decode_terms: Final = Decoder(tuple[PodAffinityTerm, ...]).decode
        self._decode_preferred: Final = Decoder(tuple[WeightedPodAffinityTerm, ...]).decode
        self._decode_spread: Final = Decoder(tuple[TopologySpreadConstraint, ...]).decode
        self._decode_ports: Final = Decoder(tuple[ContainerPort, ...]).decode
        self._decode_resources: Final = Decoder(WireResources).decode
        self._decode_quantities: Final = Decoder(dict[str, Raw]).decode
        self._decode_priority: Final = Decoder(int | None).decode
        self._decode_image: Final = Decoder(str | None).decode
        self._decode_name: Final = Decoder(str | None).decode
        self._decode_group: Final = Decoder(SchedulingGroup | None).decode
        self._decode_rules: Final = Decoder(tuple[RestartRule, ...] | None).decode
        self._decode_claims: Final = Decoder(tuple[PodResourceClaim, ...] | None).decode
        self._decode_workload: Final = Decoder(WorkloadReference | None).decode
        self._qos_cache: Final[LRUCache[bytes, str]] = LRUCache(QOS_CACHE_SIZE)

    def spec(self, wire: WirePodSpec, namespace: str, *, has_local_storage: bool) -> PodSpec:
        """Return the interned PodSpec of these parts; one that is long only if there is room.

        The affinity stands apart in the key: that of a DaemonSet's pod names its own node, so that
        one long text and many short ones take the place of many long texts. Without room it is the
        spec of a pod that only requests something, and holds it.
        """
        text, affinity = _spec_text(wire), bytes(wire.affinity)
        found = self._known((text, affinity, has_local_storage))
        if found is not None:
            return found
        tables, own = self._tables, self._tables.spec_texts.intern
        size, of_affinity = estimate_bytes(text), estimate_bytes(affinity)
        is_long = size + of_affinity >= LONG_BYTES and not tables.reads_all
        if is_long and tables.long_texts.refuses(size + of_affinity, namespace):
            unread = no_room("spec", size + of_affinity)
            return self._without_rules(wire, unread, has_local_storage=has_local_storage)
        made = self._decode_within_limits(wire, has_local_storage=has_local_storage)
        text, affinity = own(text), own(affinity)
        if is_long:
            tables.long_texts.hold(text, size, namespace)
            tables.long_texts.hold(affinity, of_affinity, namespace)
        return tables.specs.put((text, affinity, has_local_storage), made)

    def _without_rules(self, wire: WirePodSpec, unread: str, *, has_local_storage: bool) -> PodSpec:
        """Return a spec with no more than what it requests, unless that is long, too."""
        short = replace(
            wire,
            tolerations=_ANY_TAINT,
            node_selector=EMPTY_OBJECT,
            affinity=EMPTY_OBJECT,
            topology_spread_constraints=EMPTY_LIST,
            resource_claims=EMPTY_LIST,
            containers=tuple(map(_requesting, wire.containers)),
            init_containers=tuple(map(_requesting, wire.init_containers)),
        )
        if estimate_bytes(_request_text(short)) >= LONG_BYTES:
            short = replace(short, containers=(), init_containers=())
        made = self._decode_within_limits(short, has_local_storage=has_local_storage)
        return replace(made, unread=", ".join(filter(None, (unread, made.unread))))

    def _decode_within_limits(self, wire: WirePodSpec, *, has_local_storage: bool) -> PodSpec:
        """Decode a spec, as much of it as is evaluated."""
        unread = "" if self._tables.reads_all else _unread_containers(wire)
        if unread:
            wire = replace(wire, containers=(), init_containers=())
        made = self._decode_spec(wire, _request_text(wire), has_local_storage=has_local_storage)
        return made if self._tables.reads_all else within_limits(made, unread)

    def _decode_spec(
        self, parts: WirePodSpec, request_key: bytes, *, has_local_storage: bool
    ) -> PodSpec:
        shared, affinity = self._tables, self._decode_affinity(parts.affinity)
        terms, preferred = shared.pod_affinity_terms, shared.preferred_pod_terms
        spread, decode_preferred = parts.topology_spread_constraints, self._decode_preferred
        claims = [(each.name, each.resource_claim_name) for each in self._claims(parts)]
        return PodSpec(
            tolerations=intern_field(
                shared.tolerations, parts.tolerations, self._decode_tolerations
            ),
            node_selector=intern_field(
                shared.node_selectors, parts.node_selector, self._decode_labels
            ),
            node_affinity=None
            if affinity.node_affinity is NULL
            else intern_field(
                shared.node_affinities, affinity.node_affinity, self._decode_node_affinity
            ),
            pod_affinity=intern_field(terms, affinity.pod_affinity.required, self._decode_terms),
            anti_affinity=intern_field(
                terms, affinity.pod_anti_affinity.required, self._decode_terms
            ),
            preferred_pod_affinity=intern_field(
                preferred, affinity.pod_affinity.preferred, decode_preferred
            ),
            preferred_anti_affinity=intern_field(
                preferred, affinity.pod_anti_affinity.preferred, decode_preferred
            ),
            topology_spread_constraints=intern_field(
                shared.spread_constraints, spread, self._decode_spread
            ),
            host_ports=tuple(self._host_ports(parts)),
            requests=self._pod_requests(parts, request_key),
            implicit_requests=self._implicit_requests(parts, request_key),
            scored_requests=self._scored_requests(parts, request_key),
            qos_class=self._qos_class(parts, request_key),
            priority=self._decode_priority(parts.priority),
            has_local_storage=has_local_storage,
            has_resource_claims=bool(claims),
            images=self._images(container.image for container in parts.containers),
            scheduler_name=self._scheduler_name(parts.scheduler_name),
            restart_policy=self._restart_policy(parts.restart_policy),
            scheduling_group=self._scheduling_group(parts),
            required_features=tuple(self._required_features(parts)),
            never_preempts=_never_preempts(parts),
            resource_claims=tuple(claims),
            device_requests=self._device_requests(parts, request_key),
            init_images=self._images(container.image for container in parts.init_containers),
            volume_images=self._images(_volume_images(parts)),
        )

    def _claims(self, parts: WirePodSpec) -> Iterable[PodResourceClaim]:
        if parts.resource_claims is EMPTY_LIST:
            return ()
        found: tuple[PodResourceClaim, ...] | None = self._decode_claims(parts.resource_claims)
        return found or ()

    def _required_features(self, parts: WirePodSpec) -> Iterator[str]:
        """Yield the features that a node must declare, as the kube-scheduler infers them."""
        containers = (*parts.containers, *parts.init_containers)
        if any(
            rule.action == _RESTART_ALL
            for container in containers
            if container.restart_policy_rules is not EMPTY_LIST
            for rule in self._decode_rules(container.restart_policy_rules) or ()
        ):
            yield RESTART_ALL_CONTAINERS
        if _shares_network_with_own_users(parts):
            yield USER_NAMESPACES_HOST_NETWORK

    def _restart_policy(self, text: Raw) -> str:
        policy = self._decode_name(text) or RESTARTS_ALWAYS
        return RESTARTS_ALWAYS if policy == RESTARTS_ALWAYS else self._tables.texts.intern(policy)

    def _scheduling_group(self, parts: WirePodSpec) -> str:
        group: SchedulingGroup | None = self._decode_group(parts.scheduling_group)
        if group is not None and group.pod_group_name:
            return group.pod_group_name
        of: WorkloadReference | None = self._decode_workload(parts.workload_ref)
        if of is None or not of.name:
            return ""
        return f"{of.name}/{of.pod_group}/{of.pod_group_replica_key}"

    def _scheduler_name(self, text: Raw) -> str:
        name = self._decode_name(text) or DEFAULT_SCHEDULER
        return DEFAULT_SCHEDULER if name == DEFAULT_SCHEDULER else self._tables.texts.intern(name)

    def _images(self, texts: Iterable[Raw]) -> tuple[str, ...]:
        intern, decode = self._tables.texts.intern, self._decode_image
        return tuple(sorted(intern(decode(text) or "") for text in texts))

    def _host_ports(self, parts: WirePodSpec) -> Iterator[HostPort]:
        """Yield the host ports of containers and sidecars, as the NodePorts filter sees them."""
        for container in (*parts.containers, *filter(_is_sidecar, parts.init_containers)):
            yield from intern_field(self._tables.host_ports, container.ports, self._host_ports_of)

    def _host_ports_of(self, text: bytes) -> tuple[HostPort, ...]:
        return tuple(_host_port(port) for port in self._decode_ports(text) if port.host_port > 0)

    def _qos_class(self, parts: WirePodSpec, request_key: bytes) -> str:
        """Return the QoS class; it is cached for pods whose specs differ elsewhere."""
        found = self._qos_cache.get(request_key)
        if found is None:
            containers = (*parts.containers, *parts.init_containers)
            found = compute_qos_class(map(self._container_resources, containers))
            if len(request_key) <= _MAX_CACHED_BYTES:
                self._qos_cache[request_key] = found
        return found

    def _container_resources(self, container: Container) -> ResourceRequirements:
        found = self._decode_resources(container.resources)
        return ResourceRequirements(quantity_texts(found.requests), quantity_texts(found.limits))

    def _pod_requests(self, parts: WirePodSpec, request_key: bytes) -> ResourceList:
        found = self._tables.requests.get(request_key)
        if found is not None:
            return found
        return self._tables.requests.put(
            request_key, self._sum_requests(parts, self._container_requests)
        )

    def _scored_requests(self, parts: WirePodSpec, request_key: bytes) -> ResourceList | None:
        """Return cpu and memory with defaults; None where every container names both."""
        containers = (*parts.containers, *parts.init_containers)
        if all(
            DEFAULT_CONTAINER_REQUESTS.keys() <= self._container_requests(c).keys()
            for c in containers
        ):
            return None
        key = request_key, "scored"
        found = self._tables.requests.get(key)
        if found is not None:
            return found
        total = self._sum_requests(
            parts, lambda c: DEFAULT_CONTAINER_REQUESTS | self._container_requests(c)
        )
        scored = {resource: total[resource] for resource in SCORED_RESOURCES if resource in total}
        return self._tables.requests.put(key, scored)

    def _implicit_requests(self, parts: WirePodSpec, request_key: bytes) -> tuple[str, ...]:
        """Name what no container requests; most pods have neither overhead nor such requests."""
        if parts.overhead is EMPTY_OBJECT and parts.resources is EMPTY_OBJECT:
            return ()
        containers = (*parts.containers, *parts.init_containers)
        own = set().union(*map(self._container_requests, containers))
        return tuple(sorted(self._pod_requests(parts, request_key).keys() - own))

    def _device_requests(
        self, parts: WirePodSpec, request_key: bytes
    ) -> tuple[tuple[str, int], ...]:
        """Return extended resources by container; none where the pod's requests say the same."""
        total = self._pod_requests(parts, request_key)
        whole = tuple(sorted((name, n) for name, n in total.items() if n and "/" in name))
        if not whole:
            return ()
        found = device_requests(
            [self._container_requests(each) for each in parts.containers],
            [
                ContainerRequests(self._container_requests(each), _is_sidecar(each))
                for each in parts.init_containers
            ],
        )
        return () if found == whole else found

    def _sum_requests(
        self,
        parts: WirePodSpec,
        requests_of: Callable[[Container], dict[str, str]],
        pod_level: Mapping[str, str] | None = None,
    ) -> ResourceList:
        """Sum the requests of a pod; `requests_of` returns those of one container.

        `pod_level` are those that the pod has of its own, the spec's where they are left out.
        """
        if pod_level is None:
            pod_level = quantity_texts(self._decode_resources(parts.resources).requests)
        return pod_requests(
            map(requests_of, parts.containers),
            [
                ContainerRequests(requests_of(container), _is_sidecar(container))
                for container in parts.init_containers
            ],
            pod_level=pod_level,
            overhead=quantity_texts(self._decode_quantities(parts.overhead)),
        )

    def _container_requests(self, container: Container) -> dict[str, str]:
        return quantity_texts(self._decode_resources(container.resources).requests)

    # --- what an in-place resize adds ----------------------------------------------------------

    def resize_delta(self, parts: WirePodSpec, status: WirePodStatus) -> ResourceList:
        """Return what an in-place resize makes the pod hold beyond the requests of its spec.

        As kube-scheduler since 1.35: a container whose status reports actual resources holds the
        largest of them, the spec's requests and what the kubelet allocated; an infeasible spec does
        not count. So does a pod with requests of its own, for what these name. An init container
        that is no sidecar holds what its spec requests.
        """
        has_own = parts.resources is not EMPTY_OBJECT and status.resources is not EMPTY_OBJECT
        if (
            not has_own
            and _status_matches_spec(parts.containers, status.container_statuses)
            and (
                not parts.init_containers
                or _status_matches_spec(parts.init_containers, status.init_container_statuses)
            )
        ):
            return _NO_AMOUNTS
        reported = {
            container_status.name: container_status
            for container_status in (*status.container_statuses, *status.init_container_statuses)
            if container_status.resources is not EMPTY_OBJECT
        }
        for container in parts.init_containers:
            if not _is_sidecar(container):
                reported.pop(container.name, None)
        if not reported and not has_own:
            return _NO_AMOUNTS
        infeasible = status.resize == _INFEASIBLE or any(
            c.type == "PodResizePending" and c.reason == _INFEASIBLE for c in status.conditions
        )
        request_key = _request_text(parts)
        own = (bytes(status.resources), bytes(status.allocated_resources)) if has_own else ()
        key = _SEPARATOR.join(
            [request_key, *_status_texts(parts, reported), b"!" if infeasible else b"", *own]
        )
        found = self._tables.resizes.get(key)
        if found is not None:
            return found
        pod_level = self._effective_pod_level(parts, status, infeasible=infeasible)
        made = self._compute_resize_delta(
            parts, request_key, reported, pod_level, infeasible=infeasible
        )
        return self._tables.resizes.put(key, made) if len(key) <= _MAX_CACHED_BYTES else made

    def _effective_pod_level(
        self, parts: WirePodSpec, status: WirePodStatus, *, infeasible: bool
    ) -> dict[str, str]:
        """Return the requests that the pod has of its own, as it holds them."""
        own = quantity_texts(self._decode_resources(parts.resources).requests)
        if not own or status.resources is EMPTY_OBJECT:
            return own
        actual = quantity_texts(self._decode_resources(status.resources).requests)
        allocated = quantity_texts(self._decode_quantities(status.allocated_resources))
        held = _max_quantities([actual, allocated] if infeasible else [own, actual, allocated])
        return {resource: held.get(resource, "0") for resource in own}

    def _compute_resize_delta(
        self,
        parts: WirePodSpec,
        request_key: bytes,
        reported: Mapping[str, WireContainerStatus],
        pod_level: Mapping[str, str],
        *,
        infeasible: bool,
    ) -> ResourceList:
        def effective(container: Container) -> dict[str, str]:
            own = self._container_requests(container)
            effective_requests = reported.get(container.name)
            if effective_requests is None:
                return own
            actual = quantity_texts(self._decode_resources(effective_requests.resources).requests)
            allocated = quantity_texts(
                self._decode_quantities(effective_requests.allocated_resources)
            )
            return _max_quantities([actual, allocated] if infeasible else [own, actual, allocated])

        requested, held = (
            self._pod_requests(parts, request_key),
            self._sum_requests(parts, effective, pod_level),
        )
        differing = {
            resource: held.get(resource, 0) - requested.get(resource, 0)
            for resource in requested.keys() | held.keys()
            if held.get(resource, 0) != requested.get(resource, 0)
        }
        return differing or _NO_AMOUNTS


def _requesting(container: Container) -> Container:
    """Return a container with no more than what it requests."""
    return replace(container, image=NULL, ports=EMPTY_LIST)


def _unread_containers(parts: WirePodSpec) -> str:
    """Say what is too much of a pod's containers; empty where nothing is."""
    containers = (*parts.containers, *parts.init_containers)
    if len(containers) > MAX_CONTAINERS:
        return f"{len(containers):,} containers (at most {MAX_CONTAINERS})"
    size = sum(len(each.resources) + len(each.ports) for each in containers)
    if size > MAX_CONTAINER_BYTES:
        return f"{size:,} bytes of resources and ports (at most {MAX_CONTAINER_BYTES:,})"
    return ""


def _status_matches_spec(
    containers: Sequence[Container], statuses: Sequence[WireContainerStatus]
) -> bool:
    """Say whether every status repeats the resources of its container verbatim, as most do."""
    if len(containers) != len(statuses):
        return False
    for container, status in zip(containers, statuses, strict=False):
        resources = container.resources
        if resources != status.resources or container.name != status.name:
            return False
        if status.allocated_resources is not EMPTY_OBJECT and (
            _REQUESTS_KEY + bytes(status.allocated_resources) not in bytes(resources)
        ):
            return False
    return True


def _host_port(port: ContainerPort) -> HostPort:
    defaults = HostPort(port.host_port)
    return HostPort(port.host_port, port.protocol or defaults.protocol, port.host_ip or defaults.ip)


def _max_quantities(lists: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the largest quantity of each resource in any of the lists."""
    largest_by_resource: dict[str, str] = {}
    for listed in lists:
        for resource, text in listed.items():
            largest = largest_by_resource.get(resource)
            if largest is None or parse_quantity(text) > parse_quantity(largest):
                largest_by_resource[resource] = text
    return largest_by_resource


def _never_preempts(parts: WirePodSpec) -> bool:
    """Say whether the kube-scheduler ends no other pod to make room for one of this spec."""
    return bytes(parts.preemption_policy) == _NEVER


def _spec_text(parts: WirePodSpec) -> bytes:
    """Join the texts of all that a PodSpec keeps, but affinity and local storage."""
    texts: list[Raw | bytes] = [
        parts.tolerations,
        parts.node_selector,
        parts.priority,
        parts.scheduler_name,
        parts.topology_spread_constraints,
        parts.overhead,
        parts.resources,
        parts.resource_claims,
        parts.preemption_policy,
        b"users" if _shares_network_with_own_users(parts) else b"",
        parts.restart_policy,
        parts.scheduling_group,
        parts.workload_ref,
    ]
    for container in parts.containers:
        texts += container.image, container.ports, container.resources
    for container in parts.init_containers:
        texts += _init_mark(container), container.image, container.ports, container.resources
    for container in (*parts.containers, *parts.init_containers):
        if container.restart_policy_rules is not EMPTY_LIST:
            texts += b"rules", container.restart_policy_rules
    for reference in _volume_images(parts):
        texts += b"volume", reference
    return _SEPARATOR.join(texts)


def _shares_network_with_own_users(parts: WirePodSpec) -> bool:
    """Say whether a pod has a user namespace of its own in the network of its node."""
    return parts.host_network and parts.host_users is False


def _request_text(parts: WirePodSpec) -> bytes:
    """Join the texts that decide what the pod requests."""
    texts: list[Raw | bytes] = [parts.overhead, parts.resources]
    texts += [container.resources for container in parts.containers]
    for container in parts.init_containers:
        texts += _init_mark(container), container.resources
    return _SEPARATOR.join(texts)


def _volume_images(parts: WirePodSpec) -> Iterator[Raw]:
    return (volume.image.reference for volume in parts.volumes if volume.image is not None)


def _init_mark(container: Container) -> bytes:
    return b"sidecar" if _is_sidecar(container) else b"init"


def _status_texts(parts: WirePodSpec, reported: Mapping[str, WireContainerStatus]) -> Iterator[Raw]:
    """Yield the texts that say what each container holds."""
    for container in (*parts.containers, *parts.init_containers):
        status = reported.get(container.name)
        yield NULL if status is None else status.resources
        yield NULL if status is None else status.allocated_resources


def _is_sidecar(init_container: Container) -> bool:
    return init_container.restart_policy == "Always"
