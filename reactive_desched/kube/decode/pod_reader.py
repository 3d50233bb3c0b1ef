"""Makes Pod records of decoded pods, sharing whatever pods of one template have in common."""

from collections.abc import Iterable
from typing import Final

from msgspec.json import Decoder
from msgspec.structs import replace

from reactive_desched.kube.decode.fields import seconds, shared_part, version
from reactive_desched.kube.decode.interning import SharedParts
from reactive_desched.kube.decode.pod_wire import (
    PodAnnotations,
    Volume,
    WireCondition,
    WireContainerStatus,
    WirePod,
    WirePodStatus,
)
from reactive_desched.kube.decode.spec_reader import SpecReader
from reactive_desched.model.objects import (
    Annotations,
    ContainerStatus,
    OwnerReference,
    Pod,
    PodCondition,
    PodStatus,
)

__all__ = ["PodReader"]


class PodReader:
    """Turns wire pods into records; parts are looked up on the shelves, and decoded when new."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared: Final = shared
        self._text: Final = shared.texts.of
        self._specs: Final = SpecReader(shared)
        self._labels: Final = Decoder(dict[str, str]).decode
        self._references: Final = Decoder(tuple[OwnerReference, ...]).decode

    def record(self, wire: WirePod) -> Pod:
        """Return the record; raises what msgspec or a quantity raises when a part is unreadable."""
        shared, metadata, spec, status = self._shared, wire.metadata, wire.spec, wire.status
        claims, has_local_storage = self._volumes(spec.volumes)
        created_s = seconds(metadata.creation_timestamp) or 0
        return Pod(
            namespace=self._text(metadata.namespace),
            name=metadata.name,
            uid=metadata.uid,
            resource_version=version(metadata.resource_version),
            node=self._text(spec.node_name),
            labels=shared_part(shared.labels, metadata.labels, self._labels),
            annotations=self._known_annotations(metadata.annotations),
            owners=shared_part(shared.owners, metadata.owner_references, self._owners),
            spec=self._specs.spec(spec, has_local_storage=has_local_storage),
            status=self._status(status),
            claims=claims,
            created_s=created_s,
            started_s=seconds(status.start_time),
            deletion_s=seconds(metadata.deletion_timestamp),
            transitions=self._transitions(status.conditions, created_s),
            resized=self._specs.resized(spec, status),
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

    def _owners(self, text: bytes) -> tuple[OwnerReference, ...]:
        own = self._text
        return tuple(
            replace(owner, kind=own(owner.kind), api_version=own(owner.api_version))
            for owner in self._references(text)
        )

    def _known_annotations(self, wire: PodAnnotations) -> Annotations:
        found = self._shared.annotations.get(wire)
        if found is not None:
            return found
        made = Annotations(wire.evict, wire.prefer_no_eviction, wire.mirror, wire.config_source)
        return self._shared.annotations.put(wire, made)

    # --- the status ----------------------------------------------------------------------------

    def _status(self, wire: WirePodStatus) -> PodStatus:
        """Return the status that all who fare the same share."""
        given = PodStatus(
            phase=wire.phase,
            reason=wire.reason,
            qos_class=wire.qos_class,
            conditions=tuple([PodCondition(c.type, c.status, c.reason) for c in wire.conditions]),
            containers=tuple(map(_container, wire.container_statuses)),
            init_containers=tuple(map(_container, wire.init_container_statuses)),
            ephemeral_containers=tuple(map(_container, wire.ephemeral_container_statuses)),
        )
        found = self._shared.statuses.get(given)
        return self._shared_status(given) if found is None else found

    def _shared_status(self, given: PodStatus) -> PodStatus:
        """Keep a new status, made of texts and conditions that others have as well."""
        text = self._text
        made = PodStatus(
            phase=text(given.phase),
            reason=text(given.reason),
            qos_class=text(given.qos_class),
            conditions=self._shared.conditions.of(
                tuple(map(self._own_condition, given.conditions))
            ),
            containers=tuple(map(self._own_container, given.containers)),
            init_containers=tuple(map(self._own_container, given.init_containers)),
            ephemeral_containers=tuple(map(self._own_container, given.ephemeral_containers)),
        )
        return self._shared.statuses.of(made)

    def _own_condition(self, given: PodCondition) -> PodCondition:
        text = self._text
        return PodCondition(text(given.type), text(given.status), text(given.reason))

    def _own_container(self, given: ContainerStatus) -> ContainerStatus:
        text = self._text
        return ContainerStatus(
            name=text(given.name),
            restarts=given.restarts,
            waiting=text(given.waiting),
            terminated=text(given.terminated),
            exit_code=given.exit_code,
        )

    def _transitions(
        self, conditions: Iterable[WireCondition], created_s: int
    ) -> tuple[int | None, ...]:
        """Return when each condition last changed, in seconds after the pod's creation.

        Told that way, most healthy pods have the same few small numbers.
        """
        moments = [seconds(condition.last_transition_time) for condition in conditions]
        since = tuple([None if at is None else at - created_s for at in moments])
        return self._shared.transitions.of(since)


def _container(wire: WireContainerStatus) -> ContainerStatus:
    waiting, terminated = wire.state.waiting, wire.state.terminated
    return ContainerStatus(
        name=wire.name,
        restarts=wire.restart_count,
        waiting="" if waiting is None else waiting.reason,
        terminated="" if terminated is None else terminated.reason,
        exit_code=None if terminated is None else terminated.exit_code,
    )
