"""Pods: what the plugins judge; pods of one template share whatever they have in common."""

from collections.abc import Iterable
from typing import Final

from msgspec import Raw, field
from msgspec.json import Decoder
from msgspec.structs import replace

from reactive_desched.model.objects import Annotations, OwnerReference, Pod
from reactive_desched.model.opt_outs import (
    DO_NOT_DISRUPT,
    DO_NOT_EVICT,
    EVICT,
    EVICTION_IN_PROGRESS,
    REQUEST_EVICT_ONLY,
    SAFE_TO_EVICT,
)
from reactive_desched.state.kinds.interning import (
    InternTables,
    epoch_seconds,
    intern_field,
    parse_resource_version,
)
from reactive_desched.state.kinds.kind import (
    EMPTY_LIST,
    EMPTY_OBJECT,
    NonEmptyStr,
    Timestamp,
    WatchedKind,
    WireStruct,
)
from reactive_desched.state.kinds.pod_spec import SpecReader, Volume, WirePodSpec
from reactive_desched.state.kinds.pod_status import StatusReader, WirePodStatus

__all__ = ["POD"]


class PodAnnotations(WireStruct, frozen=True, gc=False):
    """The annotations that a descheduler reads; the parser skips all others."""

    evict: str | None = field(name=EVICT, default=None)
    prefer_no_eviction: str | None = field(
        name="descheduler.alpha.kubernetes.io/prefer-no-eviction", default=None
    )
    mirror: str | None = field(name="kubernetes.io/config.mirror", default=None)
    config_source: str | None = field(name="kubernetes.io/config.source", default=None)
    deletion_cost: str | None = field(
        name="controller.kubernetes.io/pod-deletion-cost", default=None
    )
    eviction_cost: str | None = field(name="scheduling.koordinator.sh/eviction-cost", default=None)
    do_not_evict: str | None = field(name=DO_NOT_EVICT, default=None)
    safe_to_evict: str | None = field(name=SAFE_TO_EVICT, default=None)
    do_not_disrupt: str | None = field(name=DO_NOT_DISRUPT, default=None)
    request_evict_only: str | None = field(name=REQUEST_EVICT_ONLY, default=None)
    eviction_in_progress: str | None = field(name=EVICTION_IN_PROGRESS, default=None)


NO_ANNOTATIONS: Final = PodAnnotations()


class PodMetadata(WireStruct, frozen=True, gc=False):
    """A pod's metadata."""

    name: NonEmptyStr
    uid: NonEmptyStr
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: Raw = EMPTY_OBJECT
    annotations: PodAnnotations = NO_ANNOTATIONS
    owner_references: Raw = EMPTY_LIST


class WirePod(WireStruct, frozen=True, gc=False):
    """A pod's JSON."""

    metadata: PodMetadata
    spec: WirePodSpec = WirePodSpec()
    status: WirePodStatus = WirePodStatus()


class PodReader:
    """Turns a pod's JSON into a Pod; a part that another pod has, too, is looked up.

    Each part is looked up in its table first: reading a pod is mostly calls of Python functions.
    """

    def __init__(self, tables: InternTables) -> None:
        self._tables: Final = tables
        self._intern: Final = tables.texts.intern
        self._text: Final = tables.texts.get
        self._labels: Final = tables.labels.get
        self._annotations: Final = tables.annotations.get
        self._known_owners: Final = tables.owners.get
        self._specs: Final = SpecReader(tables)
        self._statuses: Final = StatusReader(tables)
        self._decode_labels: Final = Decoder(dict[str, str]).decode
        self._decode_owners: Final = Decoder(tuple[OwnerReference, ...]).decode

    def record(self, wire: WirePod) -> Pod:
        """Return the Pod; raises msgspec's or a quantity's error for a part it cannot read."""
        tables, metadata, spec, status = self._tables, wire.metadata, wire.spec, wire.status
        claims, has_local_storage = self._volumes(spec.volumes)
        created_s = epoch_seconds(metadata.creation_timestamp) or 0
        started, deleted = status.start_time, metadata.deletion_timestamp
        return Pod(  # in the order of its fields: msgspec takes three times as long for keywords
            self._text(metadata.namespace) or self._intern(metadata.namespace),
            metadata.name,
            metadata.uid,
            parse_resource_version(metadata.resource_version),
            self._text(spec.node_name) or self._intern(spec.node_name),
            self._labels(bytes(metadata.labels))
            or intern_field(tables.labels, metadata.labels, self._decode_labels),
            self._annotations(metadata.annotations)
            or self._intern_annotations(metadata.annotations),
            self._known_owners(bytes(metadata.owner_references))
            or intern_field(tables.owners, metadata.owner_references, self._owners),
            self._specs.spec(spec, has_local_storage=has_local_storage),
            self._statuses.status(status),
            claims,
            created_s,
            None if started is None else epoch_seconds(started) - created_s,
            None if deleted is None else epoch_seconds(deleted),
            self._statuses.transitions(status.conditions, created_s),
            self._specs.resize_delta(spec, status),
        )

    def _volumes(self, volumes: Iterable[Volume]) -> tuple[tuple[str, ...], bool]:
        """Return the names of the PVCs, and whether a volume lives on the node's disk."""
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
        made = Annotations(
            wire.evict,
            wire.prefer_no_eviction,
            wire.mirror,
            wire.config_source,
            wire.deletion_cost,
            wire.eviction_cost,
            wire.do_not_evict,
            wire.safe_to_evict,
            wire.do_not_disrupt,
            wire.request_evict_only,
            wire.eviction_in_progress,
        )
        return self._tables.annotations.put(wire, made)


POD: Final = WatchedKind(
    kind="Pod",
    resource="pods",
    api_version="v1",
    namespaced=True,
    record=Pod,
    wire=WirePod,
    make_reader=lambda tables: PodReader(tables).record,
    read_for="what the plugins judge",
)
