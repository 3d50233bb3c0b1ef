"""Ranks pods for deletion: first those of nodes that are nearest to being empty without them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct

from reactive_desched.model.objects import Node, Pod

Weights = Mapping[str, float]
"""How much each resource counts."""


class RankedNode(Struct, frozen=True):
    """A node, its pods that may be deleted, and its others: those count against it.

    `skipped` are others that the selectors choose and that may not leave.
    """

    node: Node
    eligible: tuple[Pod, ...]
    skipped: tuple[Pod, ...]
    others: tuple[Pod, ...]

    def score(self, weights: Weights) -> float:
        """Return what would be left there, by what would be gone; the lowest is emptied first.

        Infinite where something is left and nothing would be gone.
        """
        left = self._size((*self.skipped, *self.others), weights)
        gone = self._size(self.eligible, weights)
        if gone > 0:
            return left / gone
        return inf if left > 0 else 0.0

    def ranked(self, weights: Weights) -> list[Pod]:
        """Return the pods that may be deleted: the largest first, and of equal ones the newest."""
        return sorted(
            self.eligible,
            key=lambda pod: (
                -self._size((pod,), weights),
                -pod.created_s,
                pod.namespace,
                pod.name,
            ),
        )

    def _size(self, pods: Sequence[Pod], weights: Weights) -> float:
        """Weigh the share of the node that pods request together; equal sums weigh the same."""
        has = self.node.allocatable
        return sum(
            weight * (sum(pod.spec.requests.get(resource, 0) for pod in pods) / amount)
            for resource, weight in weights.items()
            if (amount := has.get(resource, 0)) > 0
        )


def ranked_pods(nodes: Iterable[RankedNode], weights: Weights) -> Iterator[Sequence[Pod]]:
    """Yield the pods of each node in the order in which they are to be deleted, node by node."""
    scored = [(each.score(weights), each) for each in nodes if each.eligible]
    scored.sort(key=lambda each: (each[0], len(each[1].eligible), each[1].node.name))
    for _, each in scored:
        yield each.ranked(weights)
