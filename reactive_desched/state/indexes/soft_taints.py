"""Counts, for each eligible node, the PreferNoSchedule taints that a pod does not tolerate.

"Would another node be better" asks for all nodes with fewer of them, as the score of the
kube-scheduler's TaintToleration does. Nodes with the same taints are counted once.
"""

from collections.abc import Hashable, Iterator
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import Change, NodeChange
from reactive_desched.model.taints import Taint, Tolerations, count_untolerated, soft_taints

MAX_KEPT: Final = 1_000
"""Answers for so many lists of tolerations are kept until a node changes; then all are dropped."""


class SoftTaintsChanged(NodeChange, frozen=True, gc=False):
    """For pods of this node, which has PreferNoSchedule taints, other nodes are better now."""


class SoftTaints(Index):
    """The eligible nodes by their PreferNoSchedule taints, and all nodes that have some."""

    announces = (SoftTaintsChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._eligible: dict[tuple[Taint, ...], set[str]] = {}
        self._tainted: dict[str, None] = {}
        self._kept: dict[Tolerations, dict[int, frozenset[str]]] = {}
        for info in cluster.node_infos():
            if info.node is not None:
                self._add(NodeState(info.node, info.eligible))

    def nodes_with_fewer(self, number: int, tolerations: Tolerations) -> frozenset[str]:
        """Name the eligible nodes with fewer PreferNoSchedule taints that are not tolerated.

        Until a node changes, every call with the same number and tolerations returns the same set.
        """
        kept = self._kept.get(tolerations)
        if kept is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            kept = self._kept[tolerations] = {}
        if (found := kept.get(number)) is None:
            fewer = (
                names
                for taints, names in self._eligible.items()
                if count_untolerated(tolerations, taints) < number
            )
            found = kept[number] = frozenset().union(*fewer)
        return found

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterator[Change]:
        """Follow taints, and which nodes are eligible; announce every node with such a taint."""
        before, after = _standing(old), _standing(new)
        if before == after:
            return
        if old is not None:
            self._remove(old)
        if new is not None:
            self._add(new)
        self._kept.clear()
        for name in list(self._tainted):
            yield SoftTaintsChanged(name)

    def answers(self) -> object:
        """Return the eligible nodes by their taints, and the nodes that have some."""
        return self._eligible, set(self._tainted)

    def _add(self, state: NodeState) -> None:
        taints = soft_taints(state.node.taints)
        if state.eligible:
            self._eligible.setdefault(taints, set()).add(state.node.name)
        if taints:
            self._tainted[state.node.name] = None

    def _remove(self, state: NodeState) -> None:
        taints, name = soft_taints(state.node.taints), state.node.name
        self._tainted.pop(name, None)
        if state.eligible:
            names = self._eligible[taints]
            names.discard(name)
            if not names:
                del self._eligible[taints]


def _standing(state: NodeState | None) -> tuple[bool, tuple[Taint, ...]]:
    """Return what of a node counts here: whether it is eligible, and its taints."""
    return (False, ()) if state is None else (state.eligible, soft_taints(state.node.taints))
