"""The nodes with the taint of a set that has begun, and those that have lost it."""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import NodeChange
from reactive_desched.model.consolidation import consolidation_of


class ConsolidatingTaintGone(NodeChange, frozen=True, gc=False):
    """The taint was taken off the node, which is still there."""


class ConsolidatedNodes(Index):
    """The names of those nodes, ready or not."""

    announces = (ConsolidatingTaintGone,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._names = {
            info.name
            for info in cluster.node_infos()
            if info.node is not None and consolidation_of(info.node) is not None
        }

    @property
    def names(self) -> Collection[str]:
        """The names, as they are now."""
        return self._names

    def on_node(
        self, old: NodeState | None, new: NodeState | None
    ) -> tuple[ConsolidatingTaintGone, ...]:
        """Follow the taint."""
        if new is not None and consolidation_of(new.node) is not None:
            self._names.add(new.node.name)
        elif old is not None and old.node.name in self._names:
            self._names.discard(old.node.name)
            return () if new is None else (ConsolidatingTaintGone(old.node.name),)
        return ()

    def answers(self) -> object:
        """Return the names."""
        return self._names
