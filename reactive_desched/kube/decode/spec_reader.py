"""Makes the spec of a pod's record, once for all pods of a template, and what a resize adds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from cachetools import LRUCache
from msgspec import Raw
from msgspec.json import Decoder

from reactive_desched.kube.decode.fields import quantities, shared_part
from reactive_desched.kube.decode.interning import SharedParts
from reactive_desched.kube.decode.pod_wire import (
    Affinity,
    Container,
    PodSpecParts,
    Port,
    Resources,
    WireContainerStatus,
    WirePodStatus,
)
from reactive_desched.kube.decode.wire import NO_OBJECT, NOTHING
from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.model.objects import (
    HostPort,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
)
from reactive_desched.model.qos import Asks, computed_qos
from reactive_desched.model.quantities import parse_quantity
from reactive_desched.model.resources import Amounts, ContainerRequests, pod_requests
from reactive_desched.model.taints import Tolerations

__all__ = ["SpecReader"]

_NO_AMOUNTS: Final[Amounts] = {}
REMEMBERED_CLASSES: Final = 10_000
"""For so many different sums of requests and limits the class of service is kept; beyond that the
one not used for longest is worked out again."""

_REQUESTS: Final = b'"requests":'
# NUL cannot occur in JSON, so joined texts never run into each other.
_BETWEEN: Final = b"\0"


class SpecReader:
    """Looks specs up by the texts that decide them; a new one is decoded part by part."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared: Final = shared
        self._labels: Final = Decoder(dict[str, str]).decode
        self._tolerations: Final = Decoder(Tolerations).decode
        self._affinity: Final = Decoder(Affinity).decode
        self._node_affinity: Final = Decoder(NodeAffinity).decode
        self._terms: Final = Decoder(tuple[PodAffinityTerm, ...]).decode
        self._spread: Final = Decoder(tuple[TopologySpreadConstraint, ...]).decode
        self._ports: Final = Decoder(tuple[Port, ...]).decode
        self._resources: Final = Decoder(Resources).decode
        self._amounts: Final = Decoder(dict[str, Raw]).decode
        self._priority: Final = Decoder(int | None).decode
        self._qos: Final[LRUCache[bytes, str]] = LRUCache(REMEMBERED_CLASSES)

    def spec(self, parts: PodSpecParts, *, has_local_storage: bool) -> PodSpec:
        """Return the spec that these parts come to."""
        asked = _BETWEEN.join(_asked(parts))
        key = (
            _BETWEEN.join([*_demanded(parts), asked]),
            has_local_storage,
            bool(parts.resource_claims),
        )
        found = self._shared.specs.get(key)
        if found is not None:
            return found
        made = self._new_spec(parts, asked, has_local_storage=has_local_storage)
        return self._shared.specs.put(key, made)

    def _new_spec(self, parts: PodSpecParts, asked: bytes, *, has_local_storage: bool) -> PodSpec:
        shared, affinity = self._shared, self._affinity(parts.affinity)
        terms, spread = shared.pod_terms, parts.topology_spread_constraints
        return PodSpec(
            tolerations=shared_part(shared.tolerations, parts.tolerations, self._tolerations),
            node_selector=shared_part(shared.node_selectors, parts.node_selector, self._labels),
            node_affinity=None
            if affinity.node_affinity is NOTHING
            else shared_part(shared.node_affinities, affinity.node_affinity, self._node_affinity),
            pod_affinity=shared_part(terms, affinity.pod_affinity.required, self._terms),
            anti_affinity=shared_part(terms, affinity.pod_anti_affinity.required, self._terms),
            spread=shared_part(shared.spreads, spread, self._spread),
            host_ports=tuple(self._host_ports(parts)),
            requests=self._requests(parts, asked),
            qos_class=self._qos_class(parts, asked),
            priority=self._priority(parts.priority),
            has_local_storage=has_local_storage,
            has_resource_claims=bool(parts.resource_claims),
        )

    def _host_ports(self, parts: PodSpecParts) -> Iterator[HostPort]:
        """Give the node's ports that containers and sidecars listen on, as NodePorts."""
        for container in (*parts.containers, *filter(_is_sidecar, parts.init_containers)):
            yield from shared_part(self._shared.host_ports, container.ports, self._ports_of)

    def _ports_of(self, text: bytes) -> tuple[HostPort, ...]:
        return tuple(_host_port(port) for port in self._ports(text) if port.host_port > 0)

    def _qos_class(self, parts: PodSpecParts, asked: bytes) -> str:
        """Return the computed class; DaemonSets have a spec per pod, which ask the same."""
        found = self._qos.get(asked)
        if found is None:
            containers = (*parts.containers, *parts.init_containers)
            found = self._qos[asked] = computed_qos(map(self._asks, containers))
        return found

    def _asks(self, container: Container) -> Asks:
        found = self._resources(container.resources)
        return Asks(quantities(found.requests), quantities(found.limits))

    def _requests(self, parts: PodSpecParts, asked: bytes) -> Amounts:
        found = self._shared.requests.get(asked)
        if found is not None:
            return found
        return self._shared.requests.put(asked, self._summed(parts, self._requested))

    def _summed(
        self, parts: PodSpecParts, requested: Callable[[Container], dict[str, str]]
    ) -> Amounts:
        """Sum a pod's requests, each container's as given by a function."""
        return pod_requests(
            map(requested, parts.containers),
            [
                ContainerRequests(requested(container), _is_sidecar(container))
                for container in parts.init_containers
            ],
            pod_level=quantities(self._resources(parts.resources).requests),
            overhead=quantities(self._amounts(parts.overhead)),
        )

    def _requested(self, container: Container) -> dict[str, str]:
        return quantities(self._resources(container.resources).requests)

    # --- what an in-place resize adds ----------------------------------------------------------

    def resized(self, parts: PodSpecParts, status: WirePodStatus) -> Amounts:
        """Return what the pod holds beyond its spec's requests; nothing in all but a few cases.

        As kube-scheduler since 1.35: a container holds the most of what its spec says, what the
        kubelet has allocated and what is in force; an infeasible spec does not count.
        """
        if _holds_what_it_asks(parts.containers, status.container_statuses) and (
            _holds_what_it_asks(parts.init_containers, status.init_container_statuses)
        ):
            return _NO_AMOUNTS
        reported = {
            held.name: held
            for held in (*status.container_statuses, *status.init_container_statuses)
            if held.resources is not NO_OBJECT or held.allocated_resources is not NO_OBJECT
        }
        if not reported:
            return _NO_AMOUNTS
        infeasible = any(
            c.type == "PodResizePending" and c.reason == "Infeasible" for c in status.conditions
        )
        asked = _BETWEEN.join(_asked(parts))
        key = _BETWEEN.join([asked, *_held(parts, reported), b"!" if infeasible else b""])
        found = self._shared.resizes.get(key)
        if found is not None:
            return found
        made = self._difference(parts, asked, reported, infeasible=infeasible)
        return self._shared.resizes.put(key, made)

    def _difference(
        self,
        parts: PodSpecParts,
        asked_text: bytes,
        reported: Mapping[str, WireContainerStatus],
        *,
        infeasible: bool,
    ) -> Amounts:
        def effective(container: Container) -> dict[str, str]:
            own = self._requested(container)
            held = reported.get(container.name)
            if held is None:
                return own
            actual = quantities(self._resources(held.resources).requests)
            allocated = quantities(self._amounts(held.allocated_resources))
            return _most([actual, allocated] if infeasible else [own, actual, allocated])

        asked, held = self._requests(parts, asked_text), self._summed(parts, effective)
        differing = {
            resource: held.get(resource, 0) - asked.get(resource, 0)
            for resource in asked.keys() | held.keys()
            if held.get(resource, 0) != asked.get(resource, 0)
        }
        return differing or _NO_AMOUNTS


def _holds_what_it_asks(
    containers: Sequence[Container], statuses: Sequence[WireContainerStatus]
) -> bool:
    """Say whether every status repeats its container's resources to the letter, as most do."""
    if len(containers) != len(statuses):
        return False
    for container, held in zip(containers, statuses, strict=True):
        if container.name != held.name or container.resources != held.resources:
            return False
        allocated = held.allocated_resources
        if allocated is not NO_OBJECT and (
            _REQUESTS + bytes(allocated) not in bytes(container.resources)
        ):
            return False
    return True


def _host_port(port: Port) -> HostPort:
    given = HostPort(port.host_port)
    return HostPort(port.host_port, port.protocol or given.protocol, port.host_ip or given.ip)


def _most(lists: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the largest quantity of each resource in any of the lists."""
    most: dict[str, str] = {}
    for listed in lists:
        for resource, text in listed.items():
            known = most.get(resource)
            if known is None or parse_quantity(text) > parse_quantity(known):
                most[resource] = text
    return most


def _demanded(parts: PodSpecParts) -> Iterator[Raw]:
    """Give the texts that decide where the pod may go."""
    yield from (parts.tolerations, parts.node_selector, parts.affinity, parts.priority)
    yield parts.topology_spread_constraints
    for container in parts.containers:
        yield container.ports
    for container in parts.init_containers:
        yield container.ports


def _asked(parts: PodSpecParts) -> Iterator[Raw | bytes]:
    """Give the texts that decide what the pod requests."""
    yield parts.overhead
    yield parts.resources
    for container in parts.containers:
        yield container.resources
    for container in parts.init_containers:
        yield b"sidecar" if _is_sidecar(container) else b"init"
        yield container.resources


def _held(parts: PodSpecParts, reported: Mapping[str, WireContainerStatus]) -> Iterator[Raw]:
    """Give the texts that say what each container holds."""
    for container in (*parts.containers, *parts.init_containers):
        held = reported.get(container.name)
        yield NOTHING if held is None else held.resources
        yield NOTHING if held is None else held.allocated_resources


def _is_sidecar(init_container: Container) -> bool:
    return init_container.restart_policy == "Always"
