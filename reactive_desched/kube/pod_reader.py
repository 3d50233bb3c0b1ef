"""Makes Pod records of decoded pods, sharing whatever pods of one template have in common."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
from msgspec import Raw
from msgspec.json import Decoder

from reactive_desched.kube.sharing import SharedParts, Shelf
from reactive_desched.kube.wire import (
    NOTHING,
    Affinity,
    Container,
    PodAnnotations,
    PodSpecParts,
    Reason,
    Resources,
    Volume,
    WireContainerStatus,
    WirePod,
    WirePodStatus,
)
from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.model.objects import (
    Annotations,
    ContainerStatus,
    OwnerReference,
    Pod,
    PodAntiAffinityTerm,
    PodCondition,
    PodSpec,
    PodStatus,
)
from reactive_desched.model.resources import Amounts, ContainerRequests, pod_requests
from reactive_desched.model.taints import Tolerations

__all__ = ["PodReader", "quantities", "seconds", "shared_part", "version"]

V = TypeVar("V")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_S: Final = 86_400
_MOST_VERSION_DIGITS: Final = 20
# NUL cannot occur in JSON, so joined texts never run into each other.
_BETWEEN: Final = b"\0"


class PodReader:
    """Turns wire pods into records; parts are looked up on the shelves, and decoded when new."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared: Final = shared
        self._text: Final = shared.texts.of
        self._labels: Final = Decoder(dict[str, str]).decode
        self._owners: Final = Decoder(tuple[OwnerReference, ...]).decode
        self._tolerations: Final = Decoder(Tolerations).decode
        self._affinity: Final = Decoder(Affinity).decode
        self._node_affinity: Final = Decoder(NodeAffinity).decode
        self._terms: Final = Decoder(tuple[PodAntiAffinityTerm, ...]).decode
        self._resources: Final = Decoder(Resources).decode
        self._overhead: Final = Decoder(dict[str, Raw]).decode
        self._priority: Final = Decoder(int | None).decode

    def record(self, wire: WirePod) -> Pod:
        """Return the record; raises what msgspec or a quantity raises when a part is unreadable."""
        shared, metadata, spec, status = self._shared, wire.metadata, wire.spec, wire.status
        claims, has_local_storage = self._volumes(spec.volumes)
        return Pod(
            namespace=self._text(metadata.namespace),
            name=metadata.name,
            uid=metadata.uid,
            resource_version=version(metadata.resource_version),
            node=self._text(spec.node_name),
            labels=shared_part(shared.labels, metadata.labels, self._labels),
            annotations=self._known_annotations(metadata.annotations),
            owners=shared_part(shared.owners, metadata.owner_references, self._owners),
            spec=self._spec(spec, has_local_storage=has_local_storage),
            status=self._status(status),
            claims=claims,
            created_s=seconds(metadata.creation_timestamp) or 0,
            started_s=seconds(status.start_time),
            deletion_s=seconds(metadata.deletion_timestamp),
        )

    def _volumes(self, volumes: Iterable[Volume]) -> tuple[tuple[str, ...], bool]:
        """Return the claims and whether any volume lives on the node's disk."""
        claims: tuple[str, ...] = ()
        local = False
        for volume in volumes:
            if volume.empty_dir is not None or volume.host_path is not None:
                local = True
            if (claim := volume.persistent_volume_claim) is not None:
                claims += (self._text(claim.claim_name),)
        return claims, local

    def _known_annotations(self, wire: PodAnnotations) -> Annotations:
        found = self._shared.annotations.get(wire)
        if found is not None:
            return found
        made = Annotations(wire.evict, wire.prefer_no_eviction, wire.mirror, wire.config_source)
        return self._shared.annotations.put(wire, made)

    # --- the spec ------------------------------------------------------------------------------

    def _spec(self, parts: PodSpecParts, *, has_local_storage: bool) -> PodSpec:
        texts = [parts.tolerations, parts.node_selector, parts.affinity, parts.priority]
        joined = _BETWEEN.join([*texts, *_asked(parts)])
        key = (joined, has_local_storage, bool(parts.resource_claims))
        found = self._shared.specs.get(key)
        if found is not None:
            return found
        made = self._new_spec(parts, has_local_storage=has_local_storage)
        return self._shared.specs.put(key, made)

    def _new_spec(self, parts: PodSpecParts, *, has_local_storage: bool) -> PodSpec:
        shared, affinity = self._shared, self._affinity(parts.affinity)
        return PodSpec(
            tolerations=shared_part(shared.tolerations, parts.tolerations, self._tolerations),
            node_selector=shared_part(shared.node_selectors, parts.node_selector, self._labels),
            node_affinity=None
            if affinity.node_affinity is NOTHING
            else shared_part(shared.node_affinities, affinity.node_affinity, self._node_affinity),
            anti_affinity=shared_part(
                shared.anti_affinities, affinity.pod_anti_affinity.required, self._terms
            ),
            requests=self._requests(parts),
            priority=self._priority(parts.priority),
            has_local_storage=has_local_storage,
            has_resource_claims=bool(parts.resource_claims),
        )

    def _requests(self, parts: PodSpecParts) -> Amounts:
        key = _BETWEEN.join(_asked(parts))
        found = self._shared.requests.get(key)
        if found is not None:
            return found
        made = pod_requests(
            [self._requested(container.resources) for container in parts.containers],
            [
                ContainerRequests(self._requested(container.resources), _is_sidecar(container))
                for container in parts.init_containers
            ],
            pod_level=self._requested(parts.resources),
            overhead=quantities(self._overhead(parts.overhead)),
        )
        return self._shared.requests.put(key, made)

    def _requested(self, resources: Raw) -> dict[str, str]:
        return quantities(self._resources(resources).requests)

    # --- the status ----------------------------------------------------------------------------

    def _status(self, wire: WirePodStatus) -> PodStatus:
        key = (
            wire.phase,
            wire.reason,
            wire.qos_class,
            wire.conditions,
            wire.container_statuses,
            wire.init_container_statuses,
        )
        found = self._shared.statuses.get(key)
        if found is not None:
            return found
        made = self._new_status(wire)
        # An equal key that holds the conditions everybody shares, not a copy of them.
        return self._shared.statuses.put((*key[:3], made.conditions, *key[4:]), made)

    def _new_status(self, wire: WirePodStatus) -> PodStatus:
        text = self._text
        return PodStatus(
            phase=text(wire.phase),
            reason=text(wire.reason),
            qos_class=text(wire.qos_class),
            conditions=self._shared.conditions.of(tuple(map(self._condition, wire.conditions))),
            containers=tuple(map(self._container, wire.container_statuses)),
            init_containers=tuple(map(self._container, wire.init_container_statuses)),
        )

    def _condition(self, given: PodCondition) -> PodCondition:
        text = self._text
        return PodCondition(text(given.type), text(given.status), text(given.reason))

    def _container(self, wire: WireContainerStatus) -> ContainerStatus:
        return ContainerStatus(
            name=self._text(wire.name),
            restarts=wire.restart_count,
            waiting=self._reason(wire.state.waiting),
            terminated=self._reason(wire.state.terminated),
        )

    def _reason(self, given: Reason | None) -> str:
        return "" if given is None else self._text(given.reason)


def _asked(parts: PodSpecParts) -> Iterator[Raw | bytes]:
    """Give the texts that decide what the pod requests."""
    yield parts.overhead
    yield parts.resources
    for container in parts.containers:
        yield container.resources
    for container in parts.init_containers:
        yield b"sidecar" if _is_sidecar(container) else b"init"
        yield container.resources


def _is_sidecar(init_container: Container) -> bool:
    return init_container.restart_policy == "Always"


def shared_part(shelf: Shelf[bytes, V], raw: Raw, decode: Callable[[bytes], V]) -> V:
    """Return the shelf's value for this text, decoding it when it is new.

    The text is copied: a Raw would keep its whole page alive.
    """
    text = bytes(raw)
    found = shelf.get(text)
    return _new_part(shelf, text, decode) if found is None else found


def _new_part(shelf: Shelf[bytes, V], text: bytes, decode: Callable[[bytes], V]) -> V:
    try:
        return shelf.put(text, decode(text))
    except ValueError as error:
        error.add_note(f"in its {shelf.name}")
        raise


def quantities(listed: Mapping[str, Raw]) -> dict[str, str]:
    """Return a resource list as texts; a bare JSON number counts as its text."""
    texts = ((resource, bytes(raw)) for resource, raw in listed.items())
    return {
        resource: msgspec.json.decode(text, type=str) if text[:1] == b'"' else text.decode()
        for resource, text in texts
    }


def seconds(moment: datetime | None) -> int | None:
    """Return whole seconds since the epoch, None when there is no such moment."""
    if moment is None:
        return None
    since = moment - _EPOCH
    return since.days * _DAY_S + since.seconds


def version(text: str) -> int:
    """Return a resource version as a number, 0 when it is not one."""
    if text.isdecimal() and text.isascii() and len(text) <= _MOST_VERSION_DIGITS:
        return int(text)
    return 0
