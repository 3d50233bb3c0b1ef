"""The questions of a plugin that tries moves before it proposes them: where a pod fits then."""

from collections.abc import Mapping
from typing import Protocol

from reactive_desched.model.objects import Pod


class MoveTrial(Protocol):
    """Answers which nodes fit a pod beside the moves that are tried; nothing tried is reserved.

    A pod of a tried move counts on the node that it moves to, and on its own as before, unless that
    place is vacated. Nodes are
    numbered, and a set of nodes is an integer: bit n is node n.
    """

    def number_of(self, node: str, /) -> int | None:
        """Return the number of a node; None where there is none of that name."""
        ...

    def name_of(self, number: int, /) -> str:
        """Return the name of a node."""
        ...

    def fitting(self, pod: Pod, among: int) -> int:
        """Return which of these nodes, ready and not the pod's own, fit it beside what is tried."""
        ...

    def reachable(self, pod: Pod, among: int) -> int:
        """Return which of these nodes would take the pod if they had room: ready, not closed to it.

        That is by taints, cordon, node affinity and declared features.
        """
        ...

    def lacking(self, pod: Pod, number: int) -> Mapping[str, int]:
        """Return what a node lacks for the pod, by resource, beside what is tried."""
        ...

    def fullness(self, node: int) -> float:
        """Return the share that is taken of the resource of which a node has least left."""
        ...

    def room(self, node: int) -> float:
        """Return how much a node has left of its scarcest resource, as a share of a usual node."""
        ...

    def move(self, pod: Pod, node: int) -> None:
        """Try a move on top of the others, or the binding of a pod that has no node."""
        ...

    def undo(self, pod: Pod) -> None:
        """Take back a move that was tried."""
        ...

    def expect_back(self, pod: Pod) -> None:
        """Count a pod that left its node there, unless its replacement is expected elsewhere."""
        ...

    def vacate(self, pod: Pod) -> None:
        """Take a pod to have left its node: its room there is free."""
        ...

    def take_again(self, pod: Pod) -> None:
        """Take a pod whose place was vacated to be there again."""
        ...
