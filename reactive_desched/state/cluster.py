"""The cluster as the API server last described it: objects in, changes out, a view to read it."""

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Generic, TypeVar, cast

from msgspec.structs import replace

from reactive_desched.api.index import NodeInfo, Objects, ObjectT
from reactive_desched.model.changes import Change, WorkloadChanged
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.node_affinity import label_keys
from reactive_desched.model.objects import (
    ClusterObject,
    Deployment,
    IntermediateOwner,
    Node,
    OwnerReference,
    Pod,
    PodKey,
    ReplicaSet,
    StatefulSet,
    Workload,
)
from reactive_desched.model.subjects import NodeOrPod, PodSubject
from reactive_desched.model.usage import NodeUsage
from reactive_desched.primitives.wakeup import Followers
from reactive_desched.state.departed_pods import DepartedPods
from reactive_desched.state.index_registry import IndexFault, IndexHooks, IndexKey, IndexRegistry
from reactive_desched.state.indexes.owners import replicas_wanted
from reactive_desched.state.node_closings import NodeClosings
from reactive_desched.state.nodes import Clock, NodeChangeTimes, NodeStore, left_s
from reactive_desched.state.pods import PodStore
from reactive_desched.state.relabelled_pods import RelabelledPods
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.state.scaled_workloads import ScaledWorkloads

_FOLLOWED_KINDS: Final[tuple[type[ClusterObject], ...]] = (
    *(kind.record for kind in WATCHED_KINDS.values() if kind.record not in (Node, Pod)),
    NodeUsage,
)

T = TypeVar("T")

Follower = Callable[[Any, Any], Sequence[Change]]
"""What is called with each object before and after it was altered, None where there is none; a Node
comes as its NodeState. It returns no changes, at once, and raises nothing."""

DenialFollower = Callable[[str, bool], None]
"""What is called with a resource, and whether the API server denies it from now on."""


class ClusterState:
    """Every watched object, and the indexes over them; an object in, its changes out.

    Everything is updated per object, nothing is recomputed. Only nodes that match `node_selector`,
    the policy's, and are ready are eligible. `clock` gives monotonic seconds and `wall_clock` the
    time of day: since when a taint stands is noted by them. In a sweep time stands still.
    `is_questioned` says that a person is answered, of which no part notes what decides later.
    `index_faults` names the indexes of plugins that failed, and answer nothing since.
    """

    def __init__(
        self,
        node_selector: Selector = EVERYTHING,
        clock: Clock = lambda: 0.0,
        wall_clock: Clock = lambda: 0.0,
    ) -> None:
        self._indexes = IndexRegistry(self, _FOLLOWED_KINDS)
        self.index: Final = self._indexes.get  # asked for at every step: no wrapper
        self.index_faults: Final[Mapping[IndexKey, IndexFault]] = self._indexes.faults
        hooks = self._indexes.hooks
        standing = NodeChangeTimes(clock, wall_clock)
        self.nodes = NodeStore(node_selector, hooks, standing, NodeClosings(clock))
        self.pods = PodStore(self.nodes, hooks, DepartedPods(clock), RelabelledPods(clock))
        self.scaled = ScaledWorkloads(clock)
        self._stores: dict[type[ClusterObject], Any] = {  # Any: the store of the key's objects
            kind.record: ControllerStore(kind.record, hooks, self.scaled.follow_replica_set)
            if kind.record is ReplicaSet
            else Store(
                kind.record,
                hooks,
                kind.make_change,
                announces_every_version=kind.announces_every_version,
                follow=self.scaled.follow if kind.record in (Deployment, StatefulSet) else None,
            )
            for kind in WATCHED_KINDS.values()
        }
        self._stores |= {Node: self.nodes, Pod: self.pods}
        self._stores[NodeUsage] = Store(NodeUsage, hooks, None)
        self._stores[MovedPods] = Store(MovedPods, hooks, None)
        self._upserts: dict[type[ClusterObject], Callable[[Any], list[Change]]] = {
            kind: store.upsert for kind, store in self._stores.items()
        }
        self._unreadable: set[str] = set()
        self.is_questioned = False
        self._denial_followers = Followers[DenialFollower]()

    # --- writing ---

    def upsert(self, obj: ClusterObject) -> list[Change]:
        """Store an object as it is now; return what differs."""
        return self._upserts[type(obj)](obj)

    def store_of(self, kind: type[ClusterObject]) -> Callable[[Any], list[Change]]:
        """Return `upsert` for objects of one kind, which need not be asked for theirs."""
        return self._upserts[kind]

    def load(self, objs: Sequence[ClusterObject]) -> None:
        """Store objects of one kind, where nothing reads the changes that follow."""
        if objs and isinstance(objs[0], Pod):
            self.pods.load(cast("Sequence[Pod]", objs))
            return
        for obj in objs:
            self.upsert(obj)

    def remove(self, obj: ClusterObject) -> list[Change]:
        """Remove an object, given as it was last seen; return what differs."""
        changes: list[Change] = self._stores[type(obj)].remove(obj)
        return changes

    def set_node_selector(self, node_selector: Selector) -> Iterator[list[Change]]:
        """Replace the policy's node selector; return the steps that it takes, with what differs."""
        return self.nodes.set_selector(node_selector)

    def set_readable(self, resource: str, *, readable: bool) -> None:
        """Note whether the API server lets us list a resource: it answers 403 where it does not."""
        if readable == self.is_readable(resource):
            return
        (self._unreadable.discard if readable else self._unreadable.add)(resource)
        for follow in self._denial_followers.all:
            follow(resource, not readable)

    def keep_indexes(self, needed: Iterable[IndexKey], of_plugins: Iterable[IndexKey] = ()) -> None:
        """Build these indexes, and drop those that none of these needs.

        An exception of one that only plugins read becomes one of the `index_faults`.
        """
        self._indexes.keep(needed, of_plugins)

    @contextmanager
    def followed_by(self, follower: Follower) -> Iterator[None]:
        """Call the follower with each object that is altered, while the block lasts."""
        self._indexes.hooks.follow(follower)
        try:
            yield
        finally:
            self._indexes.unfollow(follower)

    def denials_followed_by(self, follower: DenialFollower) -> AbstractContextManager[None]:
        """Call the follower where a resource is denied, or no longer, while the block lasts."""
        return self._denial_followers.joined_by(follower)

    # --- reading ---

    @contextmanager
    def questioned(self) -> Iterator[None]:
        """Answer a person within the block: that a person asks decides nothing."""
        before, self.is_questioned = self.is_questioned, True
        try:
            yield
        finally:
            self.is_questioned = before

    def answered_apart(self, steps: Generator[None, None, T]) -> Generator[None, None, T]:
        """Take the steps that lead to the answer to a person, each within such a block."""
        while True:
            with self.questioned():
                try:
                    next(steps)
                except StopIteration as end:
                    answer: T = end.value
                    return answer
            yield

    def size(self) -> dict[str, int]:
        """Count the nodes that the policy selects, and all pods."""
        return {"nodes": self.nodes.eligible_count, "pods": len(self.pods)}

    def store(self, kind: type[ObjectT], /) -> Objects[ObjectT]:
        """Return the objects of a kind."""
        found: Objects[ObjectT] = self._stores[kind]
        return found

    def keys(self, resource: str) -> list[str]:
        """Return a snapshot of the keys of a resource's objects."""
        keys: list[str] = self._stores[WATCHED_KINDS[resource].record].keys()
        return keys

    def key_batches(self, resource: str) -> Iterator[list[str]]:
        """Yield snapshots of keys that together are those of all objects of a resource."""
        if WATCHED_KINDS[resource].record is Pod:
            yield from self.pods.key_batches()
        elif keys := self.keys(resource):
            yield keys

    def get(self, resource: str, key: str) -> ClusterObject | None:
        """Return one object by its resource and key."""
        found: ClusterObject | None = self._stores[WATCHED_KINDS[resource].record].get(key)
        return found

    def unreadable(self) -> frozenset[str]:
        """Return the resources that the API server does not let us list."""
        return frozenset(self._unreadable)

    def has_followers(self, kind: type[ClusterObject]) -> bool:
        """Say whether an index in use follows the objects of a kind."""
        return self._indexes.hooks.reads(kind)

    def is_readable(self, resource: str) -> bool:
        """Say whether the API server lets us list it: else a missing object means nothing."""
        return resource not in self._unreadable

    def node_info(self, name: str, /) -> NodeInfo | None:
        """Return what is known of a node name."""
        return self.nodes.info(name)

    def node_infos(self) -> Iterable[NodeInfo]:
        """Return what is known of every node name."""
        return self.nodes.infos()


OwnerT = TypeVar("OwnerT", bound=IntermediateOwner)


class Store(Generic[ObjectT]):
    """Objects of `kind` by key; `make_change` names the change, None where indexes do.

    A later version in which nothing differs that is read of the kind, such as a Deployment's new
    status, announces no change, unless `announces_every_version`. `follow` is called with an object
    as it was and as it is.
    """

    def __init__(
        self,
        kind: type[ObjectT],
        hooks: IndexHooks,
        make_change: Callable[[ObjectT], Change] | None,
        *,
        announces_every_version: bool = False,
        follow: Callable[[ObjectT, ObjectT], None] | None = None,
    ) -> None:
        self._follow = follow
        self._kind = kind
        self._hooks = hooks
        self._make_change = make_change
        self._announces_every_version = announces_every_version
        self._objects: dict[str, ObjectT] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectT]:
        return iter(self._objects.values())

    def get(self, key: str, /) -> ObjectT | None:
        """Return the object of this key."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """Return a snapshot of all keys."""
        return list(self._objects)

    def upsert(self, obj: ObjectT) -> list[Change]:
        """Store an object unless a later version of the same uid is known; return the changes."""
        old = self._objects.get(obj.key)
        if (
            old is not None
            and old.uid == obj.uid
            and 0 < obj.resource_version <= old.resource_version
        ):
            return []
        self._objects[obj.key] = obj
        if self._follow is not None and old is not None:
            self._follow(old, obj)
        return self._changes(old, obj, obj)

    def remove(self, obj: ObjectT) -> list[Change]:
        """Remove an object, unless its name belongs to another uid by now; return the changes."""
        old = self._objects.get(obj.key)
        if old is None or (obj.uid and old.uid != obj.uid):
            return []
        del self._objects[obj.key]
        return self._changes(old, None, old)

    def _changes(self, old: ObjectT | None, new: ObjectT | None, subject: ObjectT) -> list[Change]:
        make_change, changes = self._make_change, list[Change]()
        if make_change is not None and (self._announces_every_version or _differs(old, new)):
            changes.append(make_change(subject))
        return changes + self._hooks.call(self._hooks.objects.get(self._kind, ()), old, new)


def _differs(old: Any, new: Any) -> bool:  # Any: that objects are Structs, their protocol hides
    """Say whether two versions of an object differ in more than their version."""
    if old is None or new is None:
        return True
    is_equal: bool = replace(old, resource_version=new.resource_version) == new
    return not is_equal


class ControllerStore(Generic[OwnerT]):
    """ReplicaSets, of which only the controller, the size and an opt-out matter.

    Objects with the same controller share it, so that the thousands of old ReplicaSets of a cluster
    take little memory; the size of those of a Deployment is the Deployment's, and is not kept.
    `follow` is called with what was there and what is there since.
    """

    def __init__(
        self, kind: type[OwnerT], hooks: IndexHooks, follow: Callable[[OwnerT, OwnerT], None]
    ) -> None:
        self._kind = kind
        self._hooks = hooks
        self._follow = follow
        self._controllers: dict[str, OwnerReference] = {}
        self._sizes: dict[str, int | None] = {}  # of those that no Deployment controls
        self._annotations: dict[str, tuple[str | None, str | None]] = {}
        self._terminating: set[str] = set()

    def __len__(self) -> int:
        return len(self._controllers) + sum(uid not in self._controllers for uid in self._sizes)

    def __iter__(self) -> Iterator[OwnerT]:
        return (owner for uid in self.keys() if (owner := self.get(uid)) is not None)

    def get(self, key: str, /) -> OwnerT | None:
        """Return the object of this uid, without its version."""
        controller = self._controllers.get(key)
        if controller is None and key not in self._sizes:
            return None
        opt_out, answer = self._annotations.get(key, (None, None))
        return self._kind(
            key,
            controller=controller,
            do_not_evict=opt_out,
            replicas=self._sizes.get(key),
            answer=answer,
            is_terminating=key in self._terminating,
        )

    def keys(self) -> list[str]:
        """Return a snapshot of the uids."""
        return [*self._controllers, *(uid for uid in self._sizes if uid not in self._controllers)]

    def upsert(self, obj: OwnerT) -> list[Change]:
        """Store what matters of an object; a difference is announced."""
        before = self._take_out(obj.uid)
        if obj.controller is None or not obj.controller.is_deployment:
            self._sizes[obj.uid] = obj.replicas
        if obj.controller is not None:
            self._controllers[obj.uid] = obj.controller
        if (annotations := (obj.do_not_evict, obj.answer)) != (None, None):
            self._annotations[obj.uid] = annotations
        if obj.is_terminating:
            self._terminating.add(obj.uid)
        return self._changes(obj.uid, before)

    def remove(self, obj: OwnerT) -> list[Change]:
        """Remove an object."""
        return self._changes(obj.uid, self._take_out(obj.uid))

    def _take_out(self, uid: str) -> OwnerT | None:
        before = self.get(uid)
        self._controllers.pop(uid, None)
        self._sizes.pop(uid, None)
        self._annotations.pop(uid, None)
        self._terminating.discard(uid)
        return before

    def _changes(self, uid: str, before: OwnerT | None) -> list[Change]:
        after = self.get(uid)
        if before == after:
            return []
        if before is not None and after is not None:
            self._follow(before, after)
        changes: list[Change] = [WorkloadChanged(uid)]
        return changes + self._hooks.call(self._hooks.objects.get(self._kind, ()), before, after)


class ClusterView:
    """A read-only view of a `ClusterState`: the cluster as plugins, filters and records read it.

    It holds no objects, so it is never stale. Plugins see it as `api.plugin.View`,
    node fit as `api.index.Cluster`.
    """

    def __init__(self, state: ClusterState, wall_clock: Callable[[], float]) -> None:
        self._state = state
        self._pods = state.pods
        self._nodes = state.nodes
        self._wall_clock = wall_clock
        self._deployments = state.store(Deployment)
        self._stateful_sets = state.store(StatefulSet)
        self.index: Final = state.index  # asked for at every step: no wrapper

    # --- for plugins: eligible nodes and their pods ---

    @property
    def now_s(self) -> float:
        """Seconds since the epoch (UTC)."""
        return self._wall_clock()

    def nodes(self) -> Iterable[Node]:
        """Return the eligible nodes."""
        return (i.node for i in self._nodes.infos() if i.eligible and i.node is not None)

    def node_names(self) -> Iterator[str]:
        """Yield the names of the eligible nodes; whether a node is one is asked at its turn."""
        for name in self._nodes.names():
            info = self._nodes.info(name)
            if info is not None and info.eligible and info.node is not None:
                yield name

    def pods_of(self, subject: NodeOrPod) -> tuple[Node, Collection[Pod]] | None:
        """Return a subject's node and active pods, or None when the node is not eligible."""
        if isinstance(subject, PodSubject):
            active = self.active_pod(subject.pod)
            return None if active is None else (active[1], active[:1])
        info = self._nodes.info(subject.node)
        if info is None or not info.eligible or info.node is None:
            return None
        return info.node, info.active.values()

    def all_pods_of(self, subject: NodeOrPod) -> tuple[Node, Iterable[Pod]] | None:
        """Return a subject's node and its pods in any phase, completed ones last.

        None when the node is not eligible.
        """
        if isinstance(subject, PodSubject):
            found = self.pod_and_node(subject.pod)
            return None if found is None else (found[1], found[:1])
        info = self._nodes.info(subject.node)
        if info is None or not info.eligible or info.node is None:
            return None
        return info.node, [*info.active.values(), *info.completed.values()]

    def active_pod(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return an active pod and its node, or None when it sits on no eligible node."""
        found = self.pod_and_node(pod)
        return found if found is not None and found[0].is_active else None

    def pod_and_node(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return a pod in any phase and its node, or None when it sits on no eligible node."""
        found = self._pods.get(pod)
        if found is None:
            return None
        info = self._nodes.info(found.node)
        if info is None or not info.eligible or info.node is None:
            return None
        return found, info.node

    def condition_wait_s(
        self, node: Node, kind: str, status: str, standing_s: float, lapse_s: float
    ) -> float | None:
        """Return for how long a condition must still have a status; None where it has another."""
        stands_s = self._nodes.standing.condition_s(node.name, kind, status, lapse_s)
        return None if stands_s is None else left_s(standing_s, stands_s)

    # --- for filters, node fit and records: everything that is known ---

    @property
    def is_questioned(self) -> bool:
        """Say whether a person is answered now: what decides later is not to be noted of that."""
        return self._state.is_questioned

    @property
    def eligible_node_count(self) -> int:
        """Return how many nodes are ready and match the policy's node selector."""
        return self._nodes.eligible_count

    def pod(self, key: PodKey) -> Pod | None:
        """Return a pod by its uid, wherever it is."""
        return self._pods.get(key)

    @property
    def pod_count(self) -> int:
        """Return how many pods are known, in any phase."""
        return len(self._pods)

    def left_lately(self, within_s: float) -> Iterator[tuple[float, Pod]]:
        """Yield the pods that left any node within so many seconds, the latest first, and when."""
        return self._pods.departed.latest(within_s)

    def opened_lately(self, pod: Pod, within_s: float) -> Mapping[str, float]:
        """Name the nodes that opened to a pod within so many seconds, and for how long they are.

        They became Ready, lost a taint that keeps pods away, were uncordoned, or have another value
        of a label that its node affinity or node selector reads.
        """
        keys = label_keys(pod.spec.node_selector, pod.spec.node_affinity)
        opened: dict[str, float] = {}
        for name, open_s in self._nodes.standing.opened(keys, within_s):
            opened[name] = min(open_s, opened.get(name, within_s))
        return opened

    def closings_ages_s(self) -> Iterator[float]:
        """Yield how many seconds ago nodes with pods were closed, the last one first.

        They were cordoned, marked by what removes or repairs them, or deleted before that.
        """
        return self._nodes.closings.ages_s()

    def note_moved(self, pod: PodKey) -> None:
        """Note that a pod has a replacement on another node: it does not come back to its own."""
        self._pods.departed.moved(pod)

    def pods(self) -> list[PodKey]:
        """Return a snapshot of the uids of all pods."""
        return self._pods.keys()

    def store(self, kind: type[ObjectT], /) -> Objects[ObjectT]:
        """Return the objects of a kind."""
        return self._state.store(kind)

    def workload(self, uid: str, /) -> Workload | None:
        """Return the Deployment or StatefulSet of that uid, where there is one."""
        return self._deployments.get(uid) or self._stateful_sets.get(uid)

    def size_wait_s(self, uid: str, lasts_s: float, /) -> float:
        """Return for how long a workload must still keep its size to be steady.

        That is `lasts_s` for each time that it was scaled lately. A custom controller was where
        one of its ReplicaSets was.
        """
        return self._state.scaled.wait_s(uid, lasts_s)

    def replicas_wanted(self, owner_uid: str, /) -> int | None:
        """Return how many pods a workload wants, by it or by its ReplicaSet; None if not known."""
        return replicas_wanted(owner_uid, self)

    def is_readable(self, resource: str) -> bool:
        """Say whether the API server lets us list it: else a missing object means nothing."""
        return self._state.is_readable(resource)

    def node_info(self, name: str, /) -> NodeInfo | None:
        """Return what is known of a node name; None where there is neither a Node nor a pod."""
        return self._nodes.info(name)

    def node_infos(self) -> Iterable[NodeInfo]:
        """Return what is known of every node name."""
        return self._nodes.infos()

    def eligible_node_infos(self) -> Iterable[NodeInfo]:
        """Return what is known of every eligible node."""
        return (info for info in self._nodes.infos() if info.eligible)

    def ready_node_infos(self, selector: Selector) -> Iterable[NodeInfo]:
        """Return every ready node that matches a selector, whatever the policy selects."""
        return (
            info
            for info in self._nodes.infos()
            if info.node is not None and info.node.is_ready and selector.matches(info.node.labels)
        )

    def zone(self, node_name: str) -> str:
        """Return the zone of a node; the empty string when it has none or is not known."""
        node = self._nodes.get(node_name)
        return "" if node is None else node.zone
