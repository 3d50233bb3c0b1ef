"""A snapshot of the cluster: every object once, in a fixed order, and what was left out."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from reactive_desched.errors import ConfigError, Malformed
from reactive_desched.kube.codec import AnyCodec, ResourceCodec, make_codecs
from reactive_desched.model.labels import Selector
from reactive_desched.model.migration_jobs import RESOURCE, MigrationJob
from reactive_desched.model.objects import ClusterObject, Node, Pod
from reactive_desched.model.pod_groups import systems_of
from reactive_desched.model.reservations import Reservation
from reactive_desched.model.usage import NodeUsage, source_kind
from reactive_desched.plan.defaults import (
    with_default_namespace,
    with_default_uid,
    with_default_uids,
)
from reactive_desched.plan.input_objects import InputObject
from reactive_desched.plan.report import UnreadableObject
from reactive_desched.primitives.hints import not_one_of
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.pod import POD
from reactive_desched.state.resources import (
    GANG_RESOURCES,
    NODES,
    OWNER_RESOURCES,
    PODS,
    RESOURCES,
    STORAGE_RESOURCES,
    WATCHED_KINDS,
    AnyWatchedKind,
)
from reactive_desched.usage.metrics_api import (
    NODE_METRICS,
    POD_METRICS,
    NodeMetrics,
    PodMetrics,
    make_samples,
)

if TYPE_CHECKING:  # a preview without measured use loads no settings
    from reactive_desched.policy.settings.controller_settings import UsageSettings

__all__ = ["MAX_NAMED", "SWEEP_RESOURCES", "Snapshot", "SnapshotBuilder"]

MAX_NAMED: Final = 100
"""How many objects that cannot be read are named; all are counted."""

_MAY_BE_LEFT_OUT: Final = STORAGE_RESOURCES | OWNER_RESOURCES
_NO_KIND: Final = "(no kind)"

SWEEP_RESOURCES: Final = frozenset(RESOURCES) - OWNER_RESOURCES
"""What a sweep may go by: only records, and the controller's guards, need the owners of owners."""

T = TypeVar("T", bound=ClusterObject)


class Snapshot(Struct, frozen=True, gc=False):
    """The objects that were given, by resource.

    `unreadable` names the first of the objects that could not be read, `unreadable_count` says how
    many there were; `partial_lists` names lists of which only a part was given. Where there is
    neither the snapshot is complete. `ignored` counts objects of other kinds, by kind. `forbidden`
    says of optional resources why they could not be listed. `samples` are what was measured,
    `usage_problems` say, by source, why nothing was, and `stale_samples` are too old.
    """

    objects: Mapping[str, Sequence[ClusterObject]]
    unreadable: tuple[UnreadableObject, ...] = ()
    unreadable_count: int = 0
    partial_lists: tuple[str, ...] = ()
    ignored: Mapping[str, int] = {}
    forbidden: Mapping[str, str] = {}
    duplicates: int = 0
    samples: Sequence[NodeUsage] = ()
    usage_problems: Mapping[str, str] = {}
    stale_samples: Sequence[NodeUsage] = ()

    @property
    def is_complete(self) -> bool:
        """Say whether nothing is known to be missing."""
        return not (self.unreadable_count or self.partial_lists)

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes, by name."""
        return self.objects[NODES]  # type: ignore[return-value]  # what is kept under this name

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods, by namespace and name."""
        return self.objects[PODS]  # type: ignore[return-value]  # what is kept under this name

    @property
    def migration_jobs(self) -> Sequence[MigrationJob]:
        """The PodMigrationJobs, by name; none where they were not asked for."""
        return self.objects.get(RESOURCE, ())  # type: ignore[return-value]  # kept under this name

    def measured_by(self, kinds: Collection[str]) -> "Snapshot":
        """Return the snapshot with the samples of sources of these kinds alone."""
        kept = (each for each in self.samples if source_kind(each.source) in kinds)
        return replace(self, samples=tuple(kept))

    def with_fresh_samples(self, settings: "UsageSettings", now_s: float) -> "Snapshot":
        """Return the snapshot with the samples that are not too old at `now_s`, since the epoch.

        The use of the other nodes is unknown, as it is to the controller.
        """
        fresh: list[NodeUsage] = []
        stale: list[NodeUsage] = []
        for sample in self.samples:
            is_old = sample.is_older(settings.of(sample.source).max_age_s, now_s)
            (stale if is_old else fresh).append(sample)
        return replace(self, samples=tuple(fresh), stale_samples=tuple(stale))

    def with_drains(self, names: Collection[str], wish: str) -> "Snapshot":
        """Return the snapshot as if these nodes were to be drained, and cordoned for it.

        Raises ConfigError for a node that is not there.
        """
        nodes = {node.name: node for node in self.nodes}
        for name in names:
            if name not in nodes:
                raise ConfigError(f"--drain: node {not_one_of(name, sorted(nodes))}")
            nodes[name] = replace(nodes[name], unschedulable=True, drain=wish)
        return replace(self, objects={**self.objects, NODES: tuple(nodes.values())})

    def build_state(self, selects: Selector) -> ClusterState:
        """Return a new cluster state with the objects; it may be changed."""
        state = ClusterState(selects)
        self.load_into(state)
        return state

    def load_into(self, state: ClusterState) -> None:
        """Put the objects into a state; a resource that was not given counts as unreadable.

        Without the places that this program keeps for pods: a preview of a snapshot lets those
        pods move without one, and each would count twice.
        """
        for resource in (
            *(each for each in _MAY_BE_LEFT_OUT if not self.objects.get(each)),
            *self.forbidden,
        ):
            state.set_readable(resource, readable=False)
        for resource in WATCHED_KINDS:
            state.load(_without_own_places(self.objects.get(resource, ())))
        for sample in self.samples:
            state.upsert(sample)


def _without_own_places(objects: Sequence[ClusterObject]) -> Sequence[ClusterObject]:
    if not objects or not isinstance(objects[0], Reservation):
        return objects
    return [each for each in objects if not (isinstance(each, Reservation) and each.is_ours)]


class SnapshotBuilder:
    """Builds a snapshot from objects in any order.

    Objects in files that are of none of the `resources` are only counted. Unless it
    `reads_all`, no more is read of a large object than `run` reads.
    """

    def __init__(
        self, resources: Collection[str] = SWEEP_RESOURCES, *, reads_all: bool = True
    ) -> None:
        self.count = 0
        tables = InternTables(reads_all=reads_all)
        self._codecs = make_codecs(tables)
        self._node_metrics_codec = ResourceCodec(NODE_METRICS, tables)
        self._pod_metrics_codec = ResourceCodec(POD_METRICS, tables)
        self._kinds: defaultdict[str, list[AnyWatchedKind]] = defaultdict(list)
        for resource in sorted(resources):
            self._kinds[WATCHED_KINDS[resource].kind].append(WATCHED_KINDS[resource])
        self._objects: dict[str, list[ClusterObject]] = {
            name: [] for name in resources if name not in GANG_RESOURCES
        }
        self._forbidden: dict[str, str] = {}
        self._unreadable: list[UnreadableObject] = []
        self._unreadable_count = 0
        self._partial_lists: list[str] = []
        self._ignored: Counter[str] = Counter()
        self._node_metrics: list[NodeMetrics] = []
        self._pod_metrics: list[PodMetrics] = []

    def add_input(self, item: InputObject, source: str) -> None:
        """Take one object as it was given in a file."""
        if item.group == NODE_METRICS.group:
            self._add_metrics(item, source)
            return
        kinds = self._kinds.get(item.kind, ())
        meant = (each for each in kinds if item.api_version == "" or item.group == each.group)
        if (kind := next(meant, None)) is None:
            self._ignore(item, source)
            return
        try:
            obj = _decode(self._codecs[kind.resource], item.raw)
            self.add(kind.resource, with_default_namespace(obj))
        except Malformed as error:
            self.add_malformed(error)

    def _add_metrics(self, item: InputObject, source: str) -> None:
        """Take what metrics-server measured."""
        try:
            match item.kind:
                case NODE_METRICS.kind:
                    self._node_metrics.append(self._node_metrics_codec.decode_object(item.raw))
                case POD_METRICS.kind:
                    self._pod_metrics.append(self._pod_metrics_codec.decode_object(item.raw))
                case _:
                    self._ignore(item, source)
        except Malformed as error:
            self.add_malformed(error)

    def add(self, resource: str, obj: ClusterObject) -> None:
        """Take one object that has been read."""
        self._objects.setdefault(resource, []).append(obj)
        self.count += 1

    def asks_for_gangs(self, resource: str) -> bool:
        """Say whether objects of a kind say something of the gangs of the pods that were added."""
        pods = cast("list[Pod]", self._objects.get(PODS, []))
        return WATCHED_KINDS[resource].record.system in systems_of(pods)

    def add_malformed(self, error: Malformed) -> None:
        """Count an object that cannot be read, and name it if there is room."""
        self._unreadable_count += 1
        if len(self._unreadable) < MAX_NAMED:
            self._unreadable.append(
                UnreadableObject(error.kind, error.name or "(no name)", error.message)
            )

    def add_forbidden(self, resource: str, reason: str) -> None:
        """Note that an optional resource may not be listed."""
        self._forbidden[resource] = reason

    def add_partial_list(self, text: str) -> None:
        """Note that of a list only a part was given."""
        if len(self._partial_lists) < MAX_NAMED:
            self._partial_lists.append(text)

    def build(self) -> Snapshot:
        """Return the snapshot: sorted, and of an object given more than once the newest."""
        objects = {
            resource: _newest_of_each(unsorted) for resource, unsorted in self._objects.items()
        }
        kept = sum(map(len, objects.values()))
        objects[PODS] = _with_unique_uids(objects[PODS])
        return Snapshot(
            objects=objects,
            unreadable=tuple(sorted(self._unreadable, key=lambda each: (each.kind, each.name))),
            unreadable_count=self._unreadable_count,
            partial_lists=tuple(sorted(self._partial_lists)),
            ignored=dict(sorted(self._ignored.items())),
            forbidden=self._forbidden,
            duplicates=self.count - kept,
            samples=self._samples(objects[PODS]),
        )

    def _samples(self, pods: Iterable[ClusterObject]) -> tuple[NodeUsage, ...]:
        """Make a sample of each node, of the newest measurement where there are several."""
        on_node: dict[str, list[Pod]] = {}
        for pod in pods:
            assert isinstance(pod, Pod), "nothing else is kept under this name"
            on_node.setdefault(pod.node, []).append(pod)
        self._node_metrics.sort(key=attrgetter("key", "sampled_s"))
        newest = {each.key: each for each in self._node_metrics}
        used = {each.key: each.usage for each in self._pod_metrics}
        return tuple(make_samples(newest.values(), used, lambda node: on_node.get(node, ())))

    def _ignore(self, item: InputObject, source: str) -> None:
        if item.kind in self._kinds:  # of another API group
            self._ignored[f"{item.kind} ({item.api_version})"] += 1
        elif item.kind:
            self._ignored[item.kind] += 1
        else:
            reason = "it does not say its kind"
            self.add_malformed(Malformed(_NO_KIND, f"in {source}", reason))


def _decode(codec: AnyCodec, raw: Raw) -> ClusterObject:
    """Decode one object; a pod's missing uid gets a default."""
    try:
        obj: ClusterObject = codec.decode_object(raw)
    except Malformed:
        if codec.kind != POD.kind or (completed_raw := with_default_uids(raw)) is None:
            raise
        obj = codec.decode_object(completed_raw)
    return obj


def _newest_of_each(objects: list[ClusterObject]) -> list[ClusterObject]:
    """Sort by name and keep the newest of each; of equally new ones the one given last."""
    by_name = _identity(objects)
    objects.sort(key=by_name)
    same = (list(group) for _, group in groupby(objects, by_name))
    return [max(reversed(group), key=attrgetter("resource_version")) for group in same]


def _identity(objects: list[ClusterObject]) -> Callable[[ClusterObject], Any]:  # names compare
    """Return the identity of an object among its kind: its uid where nothing else is kept."""
    if not objects or not hasattr(objects[0], "name"):
        return attrgetter("key")
    return (
        attrgetter("namespace", "name") if hasattr(objects[0], "namespace") else attrgetter("name")
    )


def _with_unique_uids(pods: Iterable[ClusterObject]) -> list[ClusterObject]:
    """Replace a uid that an earlier pod has, as in copied manifests: they are two pods."""
    seen: set[str] = set()
    apart: list[ClusterObject] = []
    for pod in pods:
        assert isinstance(pod, Pod), "nothing else is kept under this name"
        own = with_default_uid(pod) if pod.uid in seen else pod
        seen.add(own.uid)
        apart.append(own)
    return apart
