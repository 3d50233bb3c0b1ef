"""Scores how well each node fulfils the preferred node affinity of the pods that have one.

"Is another node better than mine" asks for a maximum over all nodes. It is kept per distinct
preferred affinity, and a change of one node's labels updates only those that read these labels.
A preferred affinity that no plugin has asked about costs nothing.
"""

from collections import Counter
from collections.abc import Hashable, Iterator

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import Change, PodsChange
from reactive_desched.model.node_affinity import NodeAffinity, preferred_weight
from reactive_desched.model.objects import Node, Pod, PodKey


class BestPreferenceChanged(PodsChange, frozen=True, gc=False):
    """Another node meets these pods' preferred node affinity better than theirs, or no longer."""


class PreferredAffinity(Index):
    """The weight of every eligible node, for each distinct preferred affinity in use.

    Pods of one template share their affinity object, so an affinity is found by identity.
    """

    announces = (BestPreferenceChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._classes: dict[int, _PreferenceClass] = {}
        self._pods = cluster.store(Pod)
        for pod in self._pods:
            self._add_pod(pod)

    def weights(self, affinity: NodeAffinity, node: str) -> tuple[int, int]:
        """Return this node's weight, and the best weight of any eligible node."""
        preference = self._classes.get(id(affinity))
        if preference is None:
            preference = _PreferenceClass(affinity)
        if not preference.built:
            self._build(preference)
        return preference.weights.get(node, 0), preference.best

    def better_nodes(self, affinity: NodeAffinity, node: str) -> frozenset[str]:
        """Name the eligible nodes that have a higher weight than this one.

        Until a weight changes, every call with the same weight returns the same set.
        """
        preference = self._classes.get(id(affinity))
        if preference is None:
            preference = _PreferenceClass(affinity)
        if not preference.built:
            self._build(preference)
        return preference.better_than(preference.weights.get(node, 0))

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[Change, ...]:
        """Count an active pod for its affinity."""
        before = None if old is None else old.spec.node_affinity
        after = None if new is None or not new.is_active else new.spec.node_affinity
        if before is None and after is None:
            return ()
        if old is not None and before is not after:
            self._remove_pod(old)
        if new is not None:
            self._add_pod(new)
        return ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterator[Change]:
        """Weigh a node that became eligible, ceased to be, or has other labels."""
        before = old.node if old is not None and old.eligible else None
        after = new.node if new is not None and new.eligible else None
        if before is after:
            return
        changed = None
        if before is not None and after is not None:
            if before.labels is after.labels or before.labels == after.labels:
                return
            changed = before.labels.items() ^ after.labels.items()
        keys = None if changed is None else {key for key, _ in changed}
        for preference in self._classes.values():
            if preference.built and (keys is None or not preference.label_keys.isdisjoint(keys)):
                yield from self._announced(preference, preference.update(before, after))

    def _announced(self, preference: "_PreferenceClass", weight: int) -> Iterator[Change]:
        """Announce the pods whose nodes have less than a weight that a node has now, or had."""
        affected = [
            uid
            for uid in preference.pods
            if (pod := self._pods.get(uid)) is not None
            and preference.weights.get(pod.node, 0) < weight
        ]
        if affected:
            yield BestPreferenceChanged(tuple(affected))

    def answers(self) -> object:
        """Return the weights of each active pod's preferences, and the pods that share them."""
        weights = {
            (pod.uid, info.name): self.weights(pod.spec.node_affinity, info.name)
            for pod in self._cluster.store(Pod)
            if pod.is_active and pod.spec.node_affinity is not None
            for info in self._cluster.node_infos()
        }
        better = {
            (pod.uid, info.name): self.better_nodes(pod.spec.node_affinity, info.name)
            for pod in self._cluster.store(Pod)
            if pod.is_active and pod.spec.node_affinity is not None
            for info in self._cluster.node_infos()
        }
        return (
            weights,
            better,
            {frozenset(preference.pods) for preference in self._classes.values()},
        )

    def _add_pod(self, pod: Pod) -> None:
        affinity = pod.spec.node_affinity
        if affinity is None or not affinity.preferred or not pod.is_active:
            return
        preference = self._classes.get(id(affinity))
        if preference is None:
            preference = self._classes[id(affinity)] = _PreferenceClass(affinity)
        preference.pods[pod.uid] = None

    def _remove_pod(self, pod: Pod) -> None:
        affinity = pod.spec.node_affinity
        preference = self._classes.get(id(affinity)) if affinity is not None else None
        if preference is None:
            return
        preference.pods.pop(pod.uid, None)
        if not preference.pods:
            del self._classes[id(affinity)]

    def _build(self, preference: "_PreferenceClass") -> None:
        for info in self._cluster.node_infos():
            if info.eligible and info.node is not None:
                preference.set_node(info.node)
        preference.built = True


class _PreferenceClass:
    """One distinct preferred affinity: the pods that have it, and the weight of every node.

    `built` is False until the first question: until then no node has been weighed.
    """

    __slots__ = ("_better", "affinity", "built", "label_keys", "pods", "weight_counts", "weights")

    def __init__(self, affinity: NodeAffinity) -> None:
        self.affinity = affinity
        self.label_keys = frozenset(
            key for term in affinity.preferred for key in term.preference.label_keys()
        )
        self.pods: dict[PodKey, None] = {}
        self.weights: dict[str, int] = {}
        self.weight_counts: Counter[int] = Counter()
        self._better: dict[int, frozenset[str]] = {}
        self.built = False

    @property
    def best(self) -> int:
        return max(self.weight_counts, default=0)

    def better_than(self, weight: int) -> frozenset[str]:
        """Name the nodes with more than a weight; kept until a weight changes."""
        found = self._better.get(weight)
        if found is None:
            better = (name for name, its_own in self.weights.items() if its_own > weight)
            found = self._better[weight] = frozenset(better)
        return found

    def set_node(self, node: Node) -> None:
        """Weigh a node."""
        self.remove_node(node.name)
        weight = preferred_weight(self.affinity.preferred, node.name, node.labels)
        self.weights[node.name] = weight
        self.weight_counts[weight] += 1

    def remove_node(self, name: str) -> None:
        """Forget a node."""
        self._better.clear()
        weight = self.weights.pop(name, None)
        if weight is None:
            return
        self.weight_counts[weight] -= 1
        if not self.weight_counts[weight]:
            del self.weight_counts[weight]

    def update(self, old: Node | None, new: Node | None) -> int:
        """Replace a node's weight; return the weight below which a pod's node matters to it now.

        It is 0 unless the best weight differs, or other labels made the node better: a pod that
        waits for room on a better node is woken by a node that joins, and needs no word of one
        that leaves while others are as good.
        """
        best, before = self.best, 0 if old is None else self.weights.get(old.name, 0)
        if new is not None:
            self.set_node(new)
        elif old is not None:
            self.remove_node(old.name)
        if self.best != best:
            return max(best, self.best)
        if old is None or new is None or (after := self.weights[new.name]) <= before:
            return 0
        return after
