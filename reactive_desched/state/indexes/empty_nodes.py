"""The nodes that no pod would have to leave."""

from collections.abc import Collection, Hashable, Iterable

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import Change
from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.objects import Pod


class EmptyNodes(Index):
    """The names of the eligible nodes that have no pods but those that a drain leaves there."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._names: set[str] = set()
        for info in cluster.node_infos():
            self._follow(info.name)

    @property
    def names(self) -> Collection[str]:
        """The names, as they are now."""
        return self._names

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow the pods of nodes."""
        for pod in (old, new):
            if pod is not None and pod.node:
                self._follow(pod.node)
        return ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterable[Change]:
        """Follow nodes, and whether they are eligible."""
        for state in (old, new):
            if state is not None:
                self._follow(state.node.name)
        return ()

    def answers(self) -> object:
        """Return the names."""
        return self._names

    def _follow(self, name: str) -> None:
        info = self._cluster.node_info(name)
        is_empty = (
            info is not None
            and info.node is not None
            and info.eligible
            and all(map(drain_leaves, info.active.values()))
        )
        if is_empty:
            self._names.add(name)
        else:
            self._names.discard(name)
