"""How well each node fulfils the preferred node affinity of the pods that have one.

"Is there a better node than mine" asks for a maximum over all nodes. It is kept per distinct
set of wishes, and a change of one node's labels updates only the wishes that read those labels.
Wishes nobody asked about cost nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from reactive_desched.model.changes import Change, PreferenceShifted
from reactive_desched.model.node_affinity import NodeAffinity, preferred_weight
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.state.nodes import NodeTable


class _Wishes:
    """One distinct preferred affinity: the pods that have it and the weight of every node."""

    __slots__ = ("affinity", "built", "keys", "pods", "tally", "weights")

    def __init__(self, affinity: NodeAffinity) -> None:
        self.affinity = affinity
        self.keys = frozenset(
            key
            for term in affinity.preferred
            for key in term.preference.keys()  # noqa: SIM118 -- not a dict
        )
        self.pods: dict[PodKey, None] = {}
        self.weights: dict[str, int] = {}
        self.tally: Counter[int] = Counter()
        self.built = False

    def weigh(self, node: Node) -> None:
        self.forget(node.name)
        weight = preferred_weight(self.affinity.preferred, node.name, node.labels)
        self.weights[node.name] = weight
        self.tally[weight] += 1

    def forget(self, name: str) -> None:
        weight = self.weights.pop(name, None)
        if weight is None:
            return
        self.tally[weight] -= 1
        if not self.tally[weight]:
            del self.tally[weight]

    @property
    def best(self) -> int:
        return max(self.tally, default=0)


class Preferences:
    """The distinct preferred affinities in use, by identity of the shared affinity object."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._wishes: dict[int, _Wishes] = {}

    def put(self, pod: Pod) -> None:
        """Count a pod that sits on a node and has wishes."""
        affinity = pod.spec.node_affinity
        if affinity is None or not affinity.preferred:
            return
        if not pod.is_active:
            self.drop(pod)
            return
        wishes = self._wishes.get(id(affinity))
        if wishes is None:
            wishes = self._wishes[id(affinity)] = _Wishes(affinity)
        wishes.pods[pod.uid] = None

    def drop(self, pod: Pod) -> None:
        """Stop counting a pod; wishes nobody has any more are forgotten."""
        affinity = pod.spec.node_affinity
        wishes = self._wishes.get(id(affinity)) if affinity is not None else None
        if wishes is None:
            return
        wishes.pods.pop(pod.uid, None)
        if not wishes.pods:
            del self._wishes[id(affinity)]

    def weights(self, affinity: NodeAffinity, node: str) -> tuple[int, int]:
        """Return this node's weight and the best weight of any counting node."""
        wishes = self._wishes.get(id(affinity))
        if wishes is None:
            wishes = _Wishes(affinity)
        if not wishes.built:
            self._build(wishes)
        return wishes.weights.get(node, 0), wishes.best

    def node_changed(self, node: Node, keys: Iterable[str]) -> Iterator[Change]:
        """Weigh a node anew after some of its labels changed."""
        touched = frozenset(keys)
        for wishes in self._built():
            if touched & wishes.keys:
                yield from _shift(wishes, node, None)

    def node_added(self, node: Node) -> Iterator[Change]:
        """Weigh a node that counts from now on."""
        for wishes in self._built():
            yield from _shift(wishes, node, None)

    def node_gone(self, name: str) -> Iterator[Change]:
        """Stop weighing a node."""
        for wishes in self._built():
            yield from _shift(wishes, None, name)

    def forget(self) -> None:
        """Other nodes count from now on: weigh them when somebody asks."""
        for wishes in self._wishes.values():
            wishes.weights.clear()
            wishes.tally.clear()
            wishes.built = False

    def _built(self) -> list[_Wishes]:
        return [wishes for wishes in self._wishes.values() if wishes.built]

    def _build(self, wishes: _Wishes) -> None:
        for entry in self._nodes:
            if entry.counts and entry.node is not None:
                wishes.weigh(entry.node)
        wishes.built = True


def _shift(wishes: _Wishes, node: Node | None, gone: str | None) -> Iterator[Change]:
    best = wishes.best
    if node is not None:
        wishes.weigh(node)
    if gone is not None:
        wishes.forget(gone)
    if wishes.best != best:
        yield PreferenceShifted(tuple(wishes.pods))
