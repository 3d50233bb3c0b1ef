"""The cluster as the API server last described it: objects in, changes out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from reactive_desched.api.index import NodeInfo, Objects, ObjectT
from reactive_desched.model.changes import Change
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.objects import ClusterObject, Node, Pod, ReplicaSet
from reactive_desched.model.usage import NodeUsage
from reactive_desched.state.index_registry import IndexFault, IndexKey, IndexRegistry
from reactive_desched.state.node_change_times import Clock, NodeChangeTimes
from reactive_desched.state.nodes import NodeStore
from reactive_desched.state.pods import PodStore
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.state.store import ControllerStore, Store

_FOLLOWED_KINDS: Final[tuple[type[ClusterObject], ...]] = (
    *(kind.record for kind in WATCHED_KINDS.values() if kind.record not in (Node, Pod)),
    NodeUsage,
)

Follower = Callable[[Any, Any], Sequence[Change]]
"""What is called with each object before and after it was altered, None where there is none; a Node
comes as its NodeState. It returns no changes, at once, and raises nothing."""


class ClusterState:
    """Every watched object, and the indexes over them; an object in, its changes out.

    Everything is updated per object, nothing is recomputed. Only nodes that match `node_selector`,
    the policy's, and are ready are eligible. `clock` gives monotonic seconds and `wall_clock` the
    time of day: since when a taint stands is noted by them. In a sweep time stands still.
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
        self.nodes = NodeStore(node_selector, hooks, NodeChangeTimes(clock, wall_clock))
        self.pods = PodStore(self.nodes, hooks)
        self._stores: dict[type[ClusterObject], Any] = {  # Any: the store of the key's objects
            kind.record: ControllerStore(kind.record, hooks)
            if kind.record is ReplicaSet
            else Store(
                kind.record,
                hooks,
                kind.make_change,
                announces_every_version=kind.announces_every_version,
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

    def set_node_selector(self, node_selector: Selector) -> list[Change]:
        """Replace the policy's node selector; return what differs."""
        if node_selector == self.nodes.selector:
            return []
        return self.nodes.set_selector(node_selector)

    def set_readable(self, resource: str, *, readable: bool) -> None:
        """Note whether the API server lets us list a resource: it answers 403 where it does not."""
        if readable:
            self._unreadable.discard(resource)
        else:
            self._unreadable.add(resource)

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

    # --- reading ---

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
        else:
            yield self.keys(resource)

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
