"""The nodes that are being deleted or emptied: no place for a pod that moves."""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import NodeChange
from reactive_desched.model.consolidation import is_closed_to_others
from reactive_desched.model.node_marks import is_being_emptied
from reactive_desched.model.objects import Node


class EmptiedNodesChanged(NodeChange, frozen=True, gc=False):
    """The node began to be emptied, by whomever, or is not emptied any more."""


class EmptiedNodes(Index):
    """The names of nodes that are being deleted or that other programs empty, and of our own.

    Nodes that sets of moves empty, or keep empty, still take pods that fit nowhere else.
    """

    announces = (EmptiedNodesChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._names: set[str] = set()
        self._avoided: set[str] = set()
        for info in cluster.node_infos():
            if info.node is not None:
                self._follow(info.node)

    @property
    def names(self) -> Collection[str]:
        """The nodes that are being deleted or that other programs empty, as they are now."""
        return self._names

    @property
    def avoided(self) -> Collection[str]:
        """Those, and the nodes that sets of moves empty or keep empty."""
        return self._avoided

    def on_node(
        self, old: NodeState | None, new: NodeState | None
    ) -> tuple[EmptiedNodesChanged, ...]:
        """Follow deletions and taints."""
        state = new or old
        if state is None:
            return ()
        name = state.node.name
        before = name in self._names, name in self._avoided
        self._names.discard(name)
        self._avoided.discard(name)
        if new is not None:
            self._follow(new.node)
        after = name in self._names, name in self._avoided
        return () if before == after else (EmptiedNodesChanged(name),)

    def answers(self) -> object:
        """Return the names."""
        return self._names, self._avoided

    def _follow(self, node: Node) -> None:
        if is_being_emptied(node):
            self._names.add(node.name)
        if is_closed_to_others(node):
            self._avoided.add(node.name)
