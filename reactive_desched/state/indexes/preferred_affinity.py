"""How well each node fulfils the preferred node affinity of the pods that have one.

"Is there a better node than mine" asks for a maximum over all nodes. It is kept per distinct
set of wishes, and a change of one node's labels updates only the wishes that read those labels.
Wishes nobody asked about cost nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from reactive_desched.model.changes import BestPreferenceChanged, Change
from reactive_desched.model.node_affinity import NodeAffinity, preferred_weight
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.state.nodes import NodeStore


class _PreferenceClass:
    """One distinct preferred affinity: the pods that have it and the weight of every node."""

    __slots__ = ("affinity", "is_built", "label_keys", "pods", "weight_counts", "weights")

    def __init__(self, affinity: NodeAffinity) -> None:
        self.affinity = affinity
        self.label_keys = frozenset(
            key for term in affinity.preferred for key in term.preference.label_keys()
        )
        self.pods: dict[PodKey, None] = {}
        self.weights: dict[str, int] = {}
        self.weight_counts: Counter[int] = Counter()
        self.is_built = False

    def set_node(self, node: Node) -> None:
        self.remove_node(node.name)
        weight = preferred_weight(self.affinity.preferred, node.name, node.labels)
        self.weights[node.name] = weight
        self.weight_counts[weight] += 1

    def remove_node(self, name: str) -> None:
        weight = self.weights.pop(name, None)
        if weight is None:
            return
        self.weight_counts[weight] -= 1
        if not self.weight_counts[weight]:
            del self.weight_counts[weight]

    @property
    def best_weight(self) -> int:
        return max(self.weight_counts, default=0)


class PreferredAffinityIndex:
    """The distinct preferred affinities in use, by identity of the shared affinity object."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._classes: dict[int, _PreferenceClass] = {}

    def add_pod(self, pod: Pod) -> None:
        """Count a pod that sits on a node and has wishes."""
        affinity = pod.spec.node_affinity
        if affinity is None or not affinity.preferred:
            return
        if not pod.is_active:
            self.remove_pod(pod)
            return
        preference = self._classes.get(id(affinity))
        if preference is None:
            preference = self._classes[id(affinity)] = _PreferenceClass(affinity)
        preference.pods[pod.uid] = None

    def remove_pod(self, pod: Pod) -> None:
        """Stop counting a pod; wishes nobody has any more are forgotten."""
        affinity = pod.spec.node_affinity
        preference = self._classes.get(id(affinity)) if affinity is not None else None
        if preference is None:
            return
        preference.pods.pop(pod.uid, None)
        if not preference.pods:
            del self._classes[id(affinity)]

    def node_and_best_weight(self, affinity: NodeAffinity, node: str) -> tuple[int, int]:
        """Return this node's weight and the best weight of any counting node."""
        preference = self._classes.get(id(affinity))
        if preference is None:
            preference = _PreferenceClass(affinity)
        if not preference.is_built:
            self._build(preference)
        return preference.weights.get(node, 0), preference.best_weight

    def node_changed(self, node: Node, keys: Iterable[str]) -> Iterator[Change]:
        """Weigh a node anew after some of its labels changed."""
        changed = frozenset(keys)
        for preference in self._built_classes():
            if changed & preference.label_keys:
                yield from _update_weight(preference, node, None)

    def node_added(self, node: Node) -> Iterator[Change]:
        """Weigh a node that counts from now on."""
        for preference in self._built_classes():
            yield from _update_weight(preference, node, None)

    def node_removed(self, name: str) -> Iterator[Change]:
        """Stop weighing a node."""
        for preference in self._built_classes():
            yield from _update_weight(preference, None, name)

    def invalidate(self) -> None:
        """Other nodes count from now on: weigh them when somebody asks."""
        for preference in self._classes.values():
            preference.weights.clear()
            preference.weight_counts.clear()
            preference.is_built = False

    def _built_classes(self) -> list[_PreferenceClass]:
        return [preference for preference in self._classes.values() if preference.is_built]

    def _build(self, preference: _PreferenceClass) -> None:
        for node_info in self._nodes:
            if node_info.eligible and node_info.node is not None:
                preference.set_node(node_info.node)
        preference.is_built = True


def _update_weight(
    preference: _PreferenceClass, node: Node | None, removed: str | None
) -> Iterator[Change]:
    best = preference.best_weight
    if node is not None:
        preference.set_node(node)
    if removed is not None:
        preference.remove_node(removed)
    if preference.best_weight != best:
        yield BestPreferenceChanged(tuple(preference.pods))
