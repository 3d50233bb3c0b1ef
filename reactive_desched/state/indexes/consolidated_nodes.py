"""The nodes with a taint of a set that has begun, or is to, and those that have lost it."""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import NodeChange
from reactive_desched.model.consolidation import PLANNED, consolidation_of
from reactive_desched.model.node_marks import MAKING_ROOM
from reactive_desched.model.objects import Node


class ConsolidatingTaintGone(NodeChange, frozen=True, gc=False):
    """The taint was taken off the node, which is still there, and whose set had begun."""


class ConsolidatedNodes(Index):
    """The names of the nodes whose sets have begun, of those planned, and of those with a room.

    The nodes are ready or not.
    """

    announces = (ConsolidatingTaintGone,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._names: set[str] = set()
        self._planned: set[str] = set()
        self._with_room: set[str] = set()
        for info in cluster.node_infos():
            if info.node is not None:
                self._add(info.node)

    @property
    def names(self) -> Collection[str]:
        """The nodes whose pods leave, or have left, as they are now."""
        return self._names

    @property
    def planned(self) -> Collection[str]:
        """The nodes that are to be emptied after another, as they are now."""
        return self._planned

    @property
    def with_room(self) -> Collection[str]:
        """The nodes on which room is made for pods that wait, by their taint, as they are now."""
        return self._with_room

    def on_node(
        self, old: NodeState | None, new: NodeState | None
    ) -> tuple[ConsolidatingTaintGone, ...]:
        """Follow the taint."""
        state = old or new
        assert state is not None, "a node appeared, changed or is gone"
        name = state.node.name
        had_begun = name in self._names
        self._names.discard(name)
        self._planned.discard(name)
        self._with_room.discard(name)
        if new is not None:
            self._add(new.node)
        is_gone = had_begun and new is not None and name not in self._names
        return (ConsolidatingTaintGone(name),) if is_gone else ()

    def answers(self) -> object:
        """Return the names."""
        return self._names, self._planned, self._with_room

    def _add(self, node: Node) -> None:
        if (value := consolidation_of(node)) is not None:
            (self._planned if value == PLANNED else self._names).add(node.name)
        if any(taint.key == MAKING_ROOM for taint in node.taints):
            self._with_room.add(node.name)
