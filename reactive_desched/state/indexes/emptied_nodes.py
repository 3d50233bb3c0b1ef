"""The nodes that are being deleted, or that another program empties: no place for a pod."""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import NodeChange
from reactive_desched.model.node_marks import is_being_emptied


class EmptiedNodesChanged(NodeChange, frozen=True, gc=False):
    """The node began to be emptied, or is not emptied any more."""


class EmptiedNodes(Index):
    """The names of those nodes."""

    announces = (EmptiedNodesChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._names = {
            info.name
            for info in cluster.node_infos()
            if info.node is not None and is_being_emptied(info.node)
        }

    @property
    def names(self) -> Collection[str]:
        """The names, as they are now."""
        return self._names

    def on_node(
        self, old: NodeState | None, new: NodeState | None
    ) -> tuple[EmptiedNodesChanged, ...]:
        """Follow deletions and taints."""
        state = new or old
        if state is None:
            return ()
        name = state.node.name
        is_emptied = new is not None and is_being_emptied(new.node)
        if is_emptied == (name in self._names):
            return ()
        if is_emptied:
            self._names.add(name)
        else:
            self._names.discard(name)
        return (EmptiedNodesChanged(name),)

    def answers(self) -> object:
        """Return the names."""
        return self._names
