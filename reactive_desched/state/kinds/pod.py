"""Pods: what the plugins judge; pods of one template share whatever they have in common."""

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from operator import attrgetter
from typing import Final, TypeVar

from msgspec import Raw, field
from msgspec.json import Decoder
from msgspec.structs import fields, replace

from reactive_desched.model.approvals import ANSWER
from reactive_desched.model.gangs import GANG_KEYS, KUEUE_SERVING, VOLCANO_MIN_MEMBER
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import Annotations, OwnerReference, Pod, PodSpec
from reactive_desched.model.opt_outs import (
    DO_NOT_DISRUPT,
    DO_NOT_EVICT,
    EVICT,
    EVICTION_IN_PROGRESS,
    PREFER_NO_EVICTION,
    REQUEST_EVICT_ONLY,
    SAFE_TO_EVICT,
)
from reactive_desched.model.resources import ResourceList
from reactive_desched.state.kinds.interning import (
    InternTable,
    InternTables,
    decode_part,
    epoch_seconds,
    intern_field,
    parse_resource_version,
)
from reactive_desched.state.kinds.kind import (
    EMPTY_LIST,
    EMPTY_OBJECT,
    MANAGED_FIELDS,
    BoundedName,
    Identifier,
    LargeParts,
    Timestamp,
    WatchedKind,
    WireStruct,
)
from reactive_desched.state.kinds.long_texts import (
    COPIES,
    SHORT_TEXT_BYTES,
    estimate_bytes,
    no_room,
)
from reactive_desched.state.kinds.owners import bounded_owner
from reactive_desched.state.kinds.pod_spec import Affinity, SpecReader, Volume, WirePodSpec
from reactive_desched.state.kinds.pod_status import StatusReader, WirePodStatus, made_claims

__all__ = ["POD"]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PodAnnotations(WireStruct, frozen=True, gc=False):
    """The annotations that a descheduler reads; the parser skips all others."""

    evict: str | None = field(name=EVICT, default=None)
    prefer_no_eviction: str | None = field(name=PREFER_NO_EVICTION, default=None)
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
    job_index_failures: str | None = field(
        name="batch.kubernetes.io/job-index-failure-count", default=None
    )
    volcano_group: str | None = field(name="scheduling.volcano.sh/group-name", default=None)
    kube_group: str | None = field(name="scheduling.k8s.io/group-name", default=None)
    volcano_min_member: str | None = field(name=VOLCANO_MIN_MEMBER, default=None)
    koordinator_gang: str | None = field(name="gang.scheduling.koordinator.sh/name", default=None)
    kueue_group: str | None = field(name="kueue.x-k8s.io/pod-group-name", default=None)
    kueue_serving: str | None = field(name=KUEUE_SERVING, default=None)
    yunikorn_task_group: str | None = field(
        name="yunikorn.apache.org/task-group-name", default=None
    )
    armada_gang: str | None = field(name="armadaproject.io/gangId", default=None)
    godel_group: str | None = field(name="godel.bytedance.com/pod-group-name", default=None)
    kai_group: str | None = field(name="pod-group-name", default=None)
    lws_size: str | None = field(name="leaderworkerset.sigs.k8s.io/size", default=None)
    koordinator_minimum: str | None = field(
        name="gang.scheduling.koordinator.sh/min-available", default=None
    )
    kueue_total: str | None = field(name="kueue.x-k8s.io/pod-group-total-count", default=None)
    armada_cardinality: str | None = field(name="armadaproject.io/gangCardinality", default=None)
    answer: str | None = field(name=ANSWER, default=None)


NO_ANNOTATIONS: Final = PodAnnotations()
_GROUPS: Final = tuple(
    (each.name, each.encode_name)
    for each in fields(PodAnnotations)
    if each.encode_name in GANG_KEYS
)
"""The fields with the annotations by which schedulers know groups of pods, and their keys."""


class PodMetadata(WireStruct, frozen=True, gc=False):
    """A pod's metadata."""

    name: Identifier
    uid: Identifier
    namespace: BoundedName = ""
    resource_version: str = ""
    generation: int = 0
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


class PodUpdate(WireStruct, frozen=True, gc=False):
    """A pod's JSON without its spec."""

    metadata: PodMetadata
    status: WirePodStatus


class PodUpdateLine(WireStruct, frozen=True, gc=False):
    """The watch line of a changed pod, without the spec."""

    object: PodUpdate


_MODIFIED: Final = b'{"type":"MODIFIED","object":{'
_UID: Final = b'"uid":"'
_SPEC: Final = b'},"spec":{'
_STATUS: Final = b'},"status":{'
_decode_update: Final = Decoder(PodUpdateLine).decode


_MAX_DIGITS: Final = 9
_MANY_CLAIMS: Final = 16


class PodReader:
    """Turns a pod's JSON into a Pod; a part that another pod has, too, is looked up.

    `read` takes the decoded JSON of a whole pod, `read_update` the text of a watch line whose spec
    need not be decoded; the Pods are equal. Each part is looked up in its table first: reading a
    pod is mostly calls of Python functions.
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
        self._unread: Final[list[str]] = []

    def read(self, wire: WirePod) -> Pod:
        """Return the Pod; raises msgspec's or a quantity's error for a part it cannot read."""
        if self._unread:  # of a pod that could not be read
            self._unread.clear()
        metadata, spec, status = wire.metadata, wire.spec, wire.status
        claims, has_local_storage = self._volumes(spec.volumes)
        if len(claims) >= _MANY_CLAIMS:
            claims = self._many_claims(claims, metadata.namespace)
        resize_delta = self._specs.resize_delta(spec, status)
        is_counted = status.observed_generation and status.container_statuses and not resize_delta
        namespace = self._text(metadata.namespace) or self._intern(metadata.namespace)
        return self._pod(
            metadata,
            status,
            (namespace, metadata.name, metadata.uid),
            self._text(spec.node_name) or self._intern(spec.node_name),
            self._specs.spec(spec, namespace, has_local_storage=has_local_storage),
            claims,
            resize_delta,
            metadata.generation if is_counted and spec.node_name else 0,
        )

    def read_update(self, line: bytes, find: Callable[[str], Pod | None]) -> tuple[Pod, str] | None:
        """Read a watch line without the spec, where the pod's known one is still its spec.

        That is so when `find` returns the pod of its uid with the same generation, which the API
        server raises with every change of the spec. Returns the pod and its resourceVersion; None
        for any other line, which is to be read as a whole. Raises a decode error for a line that
        is cut wrongly: its brackets do not match.
        """
        if not line.startswith(_MODIFIED):
            return None
        uid_at = line.find(_UID) + len(_UID)
        known = find(line[uid_at : line.find(b'"', uid_at)].decode("ascii", "replace"))
        if known is None or not known.generation:
            return None
        fields_at = line.find(MANAGED_FIELDS, uid_at)
        fields_end = line.find(b"]", fields_at) + 1 if fields_at >= 0 else uid_at
        spec_at = line.find(_SPEC, fields_end)
        status_at = line.rfind(_STATUS, spec_at)  # from the end: a spec is four times as long
        if spec_at < 0 or status_at < 0:
            return None
        head = line[:fields_at] + line[fields_end:spec_at] if fields_at >= 0 else line[:spec_at]
        update = _decode_update(head + line[status_at:]).object
        metadata, status = update.metadata, update.status
        if self._unread:
            self._unread.clear()
        if (
            metadata.generation != known.generation
            or metadata.uid != known.uid
            or not status.observed_generation
        ):
            return None
        pod = self._pod(
            metadata,
            status,
            (known.namespace, known.name, known.uid),  # indexes have the known uid as their key
            known.node,
            known.spec,
            known.pvc_names,
            known.resize_delta,
            known.generation,
        )
        return pod, metadata.resource_version

    def _pod(
        self,
        metadata: PodMetadata,
        status: WirePodStatus,
        names: tuple[str, str, str],
        node: str,
        spec: PodSpec,
        pvc_names: tuple[str, ...],
        resize_delta: ResourceList,
        generation: int,
    ) -> Pod:
        created_s = epoch_seconds(metadata.creation_timestamp) or 0
        claims: tuple[tuple[str, str], ...] = ()
        if status.resource_claim_statuses:
            claims = made_claims(status)
            if len(claims) >= _MANY_CLAIMS:
                claims = self._many_claims(claims, names[0])
        started, deleted = status.start_time, metadata.deletion_timestamp
        pod = Pod(  # in the order of its fields: msgspec takes three times as long for keywords
            names[0],
            names[1],
            names[2],
            parse_resource_version(metadata.resource_version),
            node,
            self._labels(bytes(metadata.labels)) or self._new_labels(metadata),
            self._annotations(metadata.annotations) or self._new_annotations(metadata),
            self._known_owners(bytes(metadata.owner_references)) or self._new_owners(metadata),
            spec,
            self._statuses.status(status),
            pvc_names,
            created_s,
            None if started is None else epoch_seconds(started) - created_s,
            None if deleted is None else epoch_seconds(deleted),
            self._statuses.transitions(status.conditions, created_s),
            resize_delta,
            generation,
            claims,
        )
        return _mark_unread(pod, ", ".join(self._unread)) if self._unread else pod

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
        return tuple(bounded_owner(owner, own) for owner in self._decode_owners(text))

    def _new_labels(self, metadata: PodMetadata) -> Labels:
        namespace, table = metadata.namespace, self._tables.labels
        return self._new_part(table, metadata.labels, self._decode_labels, namespace, {})

    def _new_owners(self, metadata: PodMetadata) -> tuple[OwnerReference, ...]:
        namespace, table = metadata.namespace, self._tables.owners
        return self._new_part(table, metadata.owner_references, self._owners, namespace, ())

    def _new_part(
        self,
        table: InternTable[bytes, V],
        raw: Raw,
        decode: Callable[[bytes], V],
        namespace: str,
        instead: V,
    ) -> V:
        if len(raw) < SHORT_TEXT_BYTES:
            return intern_field(table, raw, decode)
        text = bytes(raw)
        made = decode_part(table, text, decode)
        return self._keep(table, text, made, estimate_bytes(text), namespace, instead)

    def _new_annotations(self, metadata: PodMetadata) -> Annotations:
        wire = metadata.annotations
        values = filter(None, map(partial(getattr, wire), wire.__struct_fields__))
        made, size = _annotations(wire), COPIES * sum(map(len, values))
        table = self._tables.annotations
        return self._keep(table, wire, made, size, metadata.namespace, Annotations())

    def _many_claims(self, claims: tuple[T, ...], namespace: str) -> tuple[T, ...]:
        """Return many names of claims, which pods that have the same share."""
        table: InternTable[tuple[T, ...], tuple[T, ...]] = self._tables.claims
        size = estimate_bytes(str(claims).encode())
        return table.get(claims) or self._keep(table, claims, claims, size, namespace, ())

    def _keep(
        self, table: InternTable[K, V], key: K, made: V, size: int, namespace: str, instead: V
    ) -> V:
        """Keep a new part for others; one for which there is no room is left out, and noted."""
        if self._tables.reads_all:
            return table.put(key, made)
        kept = table.put_long(key, made, size, namespace, self._tables.long_texts)
        if kept is not None:
            return kept
        self._unread.append(no_room(table.name, size))
        return instead


def _annotations(wire: PodAnnotations) -> Annotations:
    return Annotations(
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
        _count(wire.job_index_failures),
        tuple((key, value) for name, key in _GROUPS if (value := getattr(wire, name))),
        wire.answer,
    )


def _count(text: str | None) -> int:
    """Read a number that an annotation counts up; 0 where it is absent or no number."""
    is_number = text is not None and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text or 0) if is_number else 0


def _mark_unread(pod: Pod, unread: str) -> Pod:
    """Note what was not read; without a generation every later change is read as a whole."""
    all_unread = ", ".join(filter(None, (unread, pod.spec.unread)))
    return replace(pod, spec=replace(pod.spec, unread=all_unread), generation=0)


_TERM_BYTES: Final = 16 * 1024
"""About a hundred terms: each costs an entry in an index, and a look at pods that it matches."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_LARGE_PARTS: Final = LargeParts(
    limits={
        "spec.affinity": _TERM_BYTES,
        "spec.affinity.nodeAffinity": 64 * 1024,
        f"spec.affinity.podAffinity.{_REQUIRED}": _TERM_BYTES,
        f"spec.affinity.podAffinity.{_PREFERRED}": _TERM_BYTES,
        f"spec.affinity.podAntiAffinity.{_REQUIRED}": _TERM_BYTES,
        f"spec.affinity.podAntiAffinity.{_PREFERRED}": _TERM_BYTES,
        "spec.topologySpreadConstraints": _TERM_BYTES,
    },
    types={"spec.affinity": Affinity},
    neutral={"spec.tolerations": b'[{"operator":"Exists"}]'},
)

POD: Final = WatchedKind(
    kind="Pod",
    resource="pods",
    api_version="v1",
    namespaced=True,
    record=Pod,
    wire=WirePod,
    make_reader=lambda tables: PodReader(tables).read,
    large_parts=_LARGE_PARTS,
    mark_unread=_mark_unread,
    unread_of=attrgetter("spec.unread"),
    make_update_reader=lambda tables: PodReader(tables).read_update,
    read_for="what the plugins judge",
)
