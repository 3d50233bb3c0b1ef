"""The annotations of nodes that are to be emptied, and of those that are.

A person cordons a node and sets `reactive-desched/drain`; taking either back ends the
drain. So the request lives with the node: it outlives every process, and `kubectl` can write it.
"""

from typing import Final

from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.opt_outs import says_no

DRAIN: Final = "reactive-desched/drain"
"""On a Node: its pods are to leave. The value says who wants it, and why."""

DRAINED: Final = "reactive-desched/drained"
"""On a Node, written by the controller: when the last pod that had to leave left, by RFC 3339."""

DRAIN_NODES: Final = "DrainNodes"
"""The plugin that finds the pods of such nodes."""

_DAEMON_SET: Final = "DaemonSet"


def is_to_be_drained(node: Node) -> bool:
    """Say whether the annotation asks for it, with a word for no it does not."""
    return node.drain is not None and not says_no(node.drain)


def is_being_drained(node: Node) -> bool:
    """Say whether the pods of the node are to leave: that is asked for, and it is cordoned."""
    return node.unschedulable and is_to_be_drained(node)


def drain_leaves(pod: Pod) -> bool:
    """Say whether a drain takes no notice of a pod, as `kubectl drain --ignore-daemonsets` does.

    That is one of a DaemonSet, which would come back to the same node, and one that only the
    kubelet can stop.
    """
    if pod.annotations.mirror is not None or pod.annotations.static_source is not None:
        return True
    return any(owner.kind == _DAEMON_SET for owner in pod.owners)


def drain_message(node: Node) -> str:
    """Say that the node is to be emptied, and what the annotation says of it."""
    return f"{node.name} is to be drained: {node.drain}"
