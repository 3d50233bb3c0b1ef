"""Makes Pod records of decoded pods, sharing whatever pods of one template have in common."""

from collections.abc import Iterable
from typing import Final

from msgspec.json import Decoder
from msgspec.structs import replace

from reactive_desched.kube.decode.fields import epoch_seconds, intern_field, parse_resource_version
from reactive_desched.kube.decode.interning import InternTables
from reactive_desched.kube.decode.pod_wire import (
    PodAnnotations,
    Volume,
    WireContainerStatus,
    WirePod,
    WirePodCondition,
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

    def __init__(self, tables: InternTables) -> None:
        self._tables: Final = tables
        self._intern: Final = tables.texts.intern
        self._specs: Final = SpecReader(tables)
        self._decode_labels: Final = Decoder(dict[str, str]).decode
        self._decode_owners: Final = Decoder(tuple[OwnerReference, ...]).decode

    def record(self, wire: WirePod) -> Pod:
        """Return the record; raises what msgspec or a quantity raises when a part is unreadable."""
        shared, metadata, spec, status = self._tables, wire.metadata, wire.spec, wire.status
        claims, has_local_storage = self._volumes(spec.volumes)
        created_s = epoch_seconds(metadata.creation_timestamp) or 0
        return Pod(
            namespace=self._intern(metadata.namespace),
            name=metadata.name,
            uid=metadata.uid,
            resource_version=parse_resource_version(metadata.resource_version),
            node=self._intern(spec.node_name),
            labels=intern_field(shared.labels, metadata.labels, self._decode_labels),
            annotations=self._intern_annotations(metadata.annotations),
            owners=intern_field(shared.owners, metadata.owner_references, self._owners),
            spec=self._specs.spec(spec, has_local_storage=has_local_storage),
            status=self._intern_status(status),
            pvc_names=claims,
            created_s=created_s,
            started_s=epoch_seconds(status.start_time),
            deletion_s=epoch_seconds(metadata.deletion_timestamp),
            condition_transitions=self._transitions(status.conditions, created_s),
            resize_delta=self._specs.resize_delta(spec, status),
        )

    def _volumes(self, volumes: Iterable[Volume]) -> tuple[tuple[str, ...], bool]:
        """Return the claims and whether any volume lives on the node's disk."""
        claims: tuple[str, ...] = ()
        local = False
        for volume in volumes:
            if volume.empty_dir is not None or volume.host_path is not None:
                local = True
            if (claim := volume.persistent_volume_claim) is not None:
                claims += (self._intern(claim.claim_name),)
        return claims, local

    def _owners(self, text: bytes) -> tuple[OwnerReference, ...]:
        own = self._intern
        return tuple(
            replace(owner, kind=own(owner.kind), api_version=own(owner.api_version))
            for owner in self._decode_owners(text)
        )

    def _intern_annotations(self, wire: PodAnnotations) -> Annotations:
        found = self._tables.annotations.get(wire)
        if found is not None:
            return found
        made = Annotations(wire.evict, wire.prefer_no_eviction, wire.mirror, wire.config_source)
        return self._tables.annotations.put(wire, made)

    # --- the status ----------------------------------------------------------------------------

    def _intern_status(self, wire: WirePodStatus) -> PodStatus:
        """Return the status that all who fare the same share."""
        candidate = PodStatus(
            phase=wire.phase,
            reason=wire.reason,
            qos_class=wire.qos_class,
            conditions=tuple([PodCondition(c.type, c.status, c.reason) for c in wire.conditions]),
            containers=tuple(map(_container_status, wire.container_statuses)),
            init_containers=tuple(map(_container_status, wire.init_container_statuses)),
            ephemeral_containers=tuple(map(_container_status, wire.ephemeral_container_statuses)),
        )
        found = self._tables.statuses.get(candidate)
        return self._intern_new_status(candidate) if found is None else found

    def _intern_new_status(self, status: PodStatus) -> PodStatus:
        """Keep a new status, made of texts and conditions that others have as well."""
        text = self._intern
        made = PodStatus(
            phase=text(status.phase),
            reason=text(status.reason),
            qos_class=text(status.qos_class),
            conditions=self._tables.conditions.intern(
                tuple(map(self._intern_condition, status.conditions))
            ),
            containers=tuple(map(self._intern_container, status.containers)),
            init_containers=tuple(map(self._intern_container, status.init_containers)),
            ephemeral_containers=tuple(map(self._intern_container, status.ephemeral_containers)),
        )
        return self._tables.statuses.intern(made)

    def _intern_condition(self, condition: PodCondition) -> PodCondition:
        text = self._intern
        return PodCondition(text(condition.type), text(condition.status), text(condition.reason))

    def _intern_container(self, container: ContainerStatus) -> ContainerStatus:
        text = self._intern
        return ContainerStatus(
            name=text(container.name),
            restart_count=container.restart_count,
            waiting_reason=text(container.waiting_reason),
            terminated_reason=text(container.terminated_reason),
            exit_code=container.exit_code,
        )

    def _transitions(
        self, conditions: Iterable[WirePodCondition], created_s: int
    ) -> tuple[int | None, ...]:
        """Return when each condition last changed, in seconds after the pod's creation.

        Told that way, most healthy pods have the same few small numbers.
        """
        moments = [epoch_seconds(condition.last_transition_time) for condition in conditions]
        since = tuple([None if at is None else at - created_s for at in moments])
        return self._tables.transitions.intern(since)


def _container_status(wire: WireContainerStatus) -> ContainerStatus:
    waiting, terminated = wire.state.waiting, wire.state.terminated
    return ContainerStatus(
        name=wire.name,
        restart_count=wire.restart_count,
        waiting_reason="" if waiting is None else waiting.reason,
        terminated_reason="" if terminated is None else terminated.reason,
        exit_code=None if terminated is None else terminated.exit_code,
    )
