"""Counts the pods of each namespace that are on a node of the cluster."""

from collections import Counter
from collections.abc import Hashable
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.objects import Node, Pod

_NEARLY_ALL_PERCENT: Final = 90


class NamespaceSizes(Index):
    """Counts the active pods on the nodes that there are, by namespace.

    A pod may be created with any node's name: pods of a name without a Node are kept apart until
    there is one. Holds one small dict for each name.
    """

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._placed: Counter[str] = Counter()
        self._total = 0
        self._by_node: dict[str, dict[str, int]] = {}
        self._nodes: set[str] = {node.name for node in cluster.store(Node)}
        for pod in cluster.store(Pod):
            self.on_pod(None, pod)

    @property
    def total(self) -> int:
        """Return how many pods are on a node."""
        return self._total

    @property
    def namespaces(self) -> int:
        """Return how many namespaces have a pod on a node."""
        return len(self._placed)

    def has_nearly_all(self, namespace: str) -> bool:
        """Say whether nine of ten pods on nodes, or more, are of this namespace."""
        return 100 * self._placed[namespace] >= _NEARLY_ALL_PERCENT * self._total

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod that got a node, or ended."""
        before = None if old is None or not old.is_active else (old.node, old.namespace)
        after = None if new is None or not new.is_active else (new.node, new.namespace)
        if before != after:
            if before is not None:
                self._count(*before, -1)
            if after is not None:
                self._count(*after, 1)
        return ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[()]:
        """Follow a node that appeared, with the pods of its name, or disappeared."""
        if old is None and new is not None:
            self._nodes.add(new.node.name)
            for namespace, count in self._by_node.get(new.node.name, {}).items():
                self._add(namespace, count)
        elif old is not None and new is None:
            self._nodes.discard(old.node.name)
            for namespace, count in self._by_node.get(old.node.name, {}).items():
                self._add(namespace, -count)
        return ()

    def answers(self) -> object:
        """Return the numbers by namespace, and those by node."""
        return dict(self._placed), self._by_node

    def _count(self, node: str, namespace: str, change: int) -> None:
        counts = self._by_node.setdefault(node, {})
        counts[namespace] = counts.get(namespace, 0) + change
        if not counts[namespace]:
            del counts[namespace]
            if not counts:
                del self._by_node[node]
        if node in self._nodes:
            self._add(namespace, change)

    def _add(self, namespace: str, change: int) -> None:
        self._total += change
        self._placed[namespace] += change
        if not self._placed[namespace]:
            del self._placed[namespace]
