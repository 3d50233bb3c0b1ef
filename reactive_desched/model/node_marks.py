"""The taints by which other programs close or remove a node, and which of them empty it.

A descheduler that reacts in milliseconds would drain such a node at once, beside or against its
controller. So the settings of reactive mode say for each group whether its taints count at all.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import Node
from reactive_desched.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint

CORDON: Final = "node.kubernetes.io/unschedulable"


class NodeMark(Struct, frozen=True, gc=False):
    """One such taint: who sets it, with which effect, and whether they evict the node's pods."""

    set_by: str
    effect: str = NO_SCHEDULE
    empties: bool = True


class NodeMarkGroup(Struct, frozen=True, gc=False):
    """Taints that are decided on together: `name` is the field of the settings."""

    name: str
    nodes: str
    marks: Mapping[str, NodeMark]


_AUTOSCALER: Final = "cluster-autoscaler"
_KARPENTER: Final = "Karpenter"
_TERMINATION_HANDLER: Final = NodeMark("the AWS node termination handler")

NODE_MARK_GROUPS: Final = (
    NodeMarkGroup(
        "cordonedNodes",
        "cordoned nodes",
        {CORDON: NodeMark("`kubectl cordon`, through the node controller", empties=False)},
    ),
    NodeMarkGroup(
        "scaledDownNodes",
        "nodes that an autoscaler removes",
        {
            "ToBeDeletedByClusterAutoscaler": NodeMark(_AUTOSCALER),
            "DeletionCandidateOfClusterAutoscaler": NodeMark(
                _AUTOSCALER, PREFER_NO_SCHEDULE, empties=False
            ),
            "karpenter.sh/disrupted": NodeMark(_KARPENTER),
            "karpenter.sh/disruption": NodeMark(f"{_KARPENTER} before version 1"),
        },
    ),
    NodeMarkGroup(
        "maintenanceNodes",
        "nodes that are shut down or repaired",
        {
            "node.kubernetes.io/out-of-service": NodeMark(
                "an administrator or a remediation operator, for a node that is down", NO_EXECUTE
            ),
            "node.cloudprovider.kubernetes.io/shutdown": NodeMark("the cloud controller manager"),
            "medik8s.io/drain": NodeMark("the node maintenance operator of medik8s"),
            "medik8s.io/remediation": NodeMark("the remediation of medik8s", NO_EXECUTE),
            "cloud.google.com/impending-node-termination": NodeMark("GKE"),
            "aws-node-termination-handler/spot-itn": _TERMINATION_HANDLER,
            "aws-node-termination-handler/scheduled-maintenance": _TERMINATION_HANDLER,
            "aws-node-termination-handler/asg-lifecycle-termination": _TERMINATION_HANDLER,
            "aws-node-termination-handler/rebalance-recommendation": _TERMINATION_HANDLER,
        },
    ),
)

_EMPTYING: Final = frozenset(
    key for group in NODE_MARK_GROUPS for key, mark in group.marks.items() if mark.empties
)


def is_being_emptied(node: Node) -> bool:
    """Say whether a node is being deleted, or bears the taint of a program that empties it.

    It is no place for a pod whatever the pod tolerates: the pod would have to leave again at once.
    """
    return node.is_terminating or any(taint.key in _EMPTYING for taint in node.taints)


def taint_of(key: str, mark: NodeMark) -> Taint:
    """Return a mark as the taint that stands on a node."""
    return Taint(key, mark.effect)
