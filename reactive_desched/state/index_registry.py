"""The indexes in use: built when first needed, updated in the order of their dependencies."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from reactive_desched.api.index import Cluster, Index, IndexT, NodeState
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import ClusterObject, Pod

IndexKey = tuple[type[Index], Hashable]
"""The class of an index, and its arguments; None for an index that takes none."""

ObjectHook = Callable[[ClusterObject | None, ClusterObject | None], Iterable[Change]]


class IndexHooks:
    """The overridden hooks of the indexes in use, for the stores to call.

    Each tuple is replaced as a whole, so an index that is built while hooks run is not called for
    the object that it has already been built from.
    """

    __slots__ = ("node", "objects", "pod", "pod_status")

    def __init__(self) -> None:
        self.pod: tuple[Callable[[Pod | None, Pod | None], Iterable[Change]], ...] = ()
        self.pod_status: tuple[Callable[[Pod, Pod], Iterable[Change]], ...] = ()
        self.node: tuple[Callable[[NodeState | None, NodeState | None], Iterable[Change]], ...] = ()
        self.objects: dict[type[ClusterObject], tuple[ObjectHook, ...]] = {}

    def collect(self, indexes: Iterable[Index]) -> None:
        """Take the overridden hooks of these indexes, in this order, and no others."""
        self.pod = self.pod_status = self.node = ()
        self.objects = {}
        for each in indexes:
            self.add(each)

    def add(self, index: Index) -> None:
        """Take the overridden hooks of one more index, after those of the others."""
        if _overrides(index, "on_pod"):
            self.pod = (*self.pod, index.on_pod)
        if _overrides(index, "on_pod_status"):
            self.pod_status = (*self.pod_status, index.on_pod_status)
        if _overrides(index, "on_node"):
            self.node = (*self.node, index.on_node)
        for kind in index.kinds:
            self.objects[kind] = (*self.objects.get(kind, ()), index.on_object)


class IndexRegistry:
    """The indexes over one cluster by class and arguments, dependencies first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._built: dict[IndexKey, Any] = {}  # Any: an index of the key's class
        self._needs: dict[IndexKey, dict[IndexKey, None]] = {}
        self._building: list[IndexKey] = []
        self.hooks = IndexHooks()

    def get(self, kind: type[IndexT], args: Hashable = None) -> IndexT:
        """Return an index, built from the cluster when it is first asked for."""
        key = kind, args
        found: IndexT | None = self._built.get(key)
        if found is None:
            found = self._build(kind, args)
        if self._building:
            self._needs[self._building[-1]][key] = None
        return found

    def keep(self, wanted: Iterable[IndexKey]) -> None:
        """Build these indexes; drop all others that none of these depends on."""
        kept: dict[IndexKey, None] = {}
        for key in wanted:
            self.get(*key)
            self._add_with_needs(key, kept)
        self._built = {key: index for key, index in self._built.items() if key in kept}
        self._needs = {key: needs for key, needs in self._needs.items() if key in kept}
        self.hooks.collect(self._built.values())

    def _build(self, kind: type[IndexT], args: Hashable) -> IndexT:
        key = kind, args
        self._needs[key] = {}
        self._building.append(key)
        try:
            made = kind(self._cluster, args)
        finally:
            self._building.pop()
        self._built[key] = made
        self.hooks.add(made)
        return made

    def _add_with_needs(self, key: IndexKey, kept: dict[IndexKey, None]) -> None:
        if key not in kept:
            kept[key] = None
            for needed in self._needs[key]:
                self._add_with_needs(needed, kept)


def _overrides(index: Index, hook: str) -> bool:
    return getattr(type(index), hook) is not getattr(Index, hook)
