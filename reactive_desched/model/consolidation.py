"""The taint of a node whose pods leave as one set, so that the node can be removed.

The controller writes it when a set begins, and takes it off when the set does not go on. As the
request of a drain it lives with the node: it outlives every process, a recording has it, and a
person takes it off with `kubectl taint`. It keeps no pod out that fits nowhere else.
"""

from typing import Final

from reactive_desched.model.node_marks import CONSOLIDATING, MAKING_ROOM, is_being_emptied
from reactive_desched.model.objects import Node
from reactive_desched.model.taints import PREFER_NO_SCHEDULE, Taint

ROOM_TAINT: Final = Taint(MAKING_ROOM, PREFER_NO_SCHEDULE, "")
"""The taint of a node with room for a pod that waits, or a place that an earlier move makes."""

EMPTYING_PLUGINS: Final = frozenset({"ConsolidateNodes", "KeepNodesFree"})
"""The plugins that empty any nodes that can be: to remove them, or to keep them free."""

ALL_NODES: Final = "nodes"
"""The one subject of a plugin that plans for all nodes together."""

EMPTYING: Final = "emptying"
"""The taint's value while pods leave the node."""

EMPTY: Final = "empty"
"""The taint's value once the last pod that had to leave has left."""

PLANNED: Final = "planned"
"""The taint's value on a node that is emptied after another, whose pods are not to come there."""


def consolidating_taint(value: str) -> Taint:
    """Return the taint with this value."""
    return Taint(CONSOLIDATING, PREFER_NO_SCHEDULE, value)


def consolidation_of(node: Node) -> str | None:
    """Return the value of the node's taint; None where it has none."""
    for taint in node.taints:
        if taint.key == CONSOLIDATING and taint.effect == PREFER_NO_SCHEDULE:
            return taint.value
    return None


def is_closed_to_others(node: Node) -> bool:
    """Say whether a node is no place for a pod that need not leave its own.

    It is emptied, by whomever, or closed for a set: what comes there would undo that.
    """
    return is_being_emptied(node) or consolidation_of(node) is not None
