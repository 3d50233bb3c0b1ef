"""The nodes that are to be emptied, and those that are marked as empty."""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.node_drains import is_to_be_drained
from reactive_desched.model.objects import Node


class DrainRequests(Index):
    """The names of those nodes, ready or not."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._names = {
            info.name
            for info in cluster.node_infos()
            if info.node is not None and _is_marked(info.node)
        }

    @property
    def names(self) -> Collection[str]:
        """The names, as they are now."""
        return self._names

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[()]:
        """Follow the annotations."""
        if new is not None and _is_marked(new.node):
            self._names.add(new.node.name)
        elif old is not None:
            self._names.discard(old.node.name)
        return ()

    def answers(self) -> object:
        """Return the names."""
        return self._names


def _is_marked(node: Node) -> bool:
    return node.drained is not None or is_to_be_drained(node)
