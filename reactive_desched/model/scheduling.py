"""The kube-scheduler's filters that look at one node alone, and its reasons to reject a node.

A pod's node is where it was bound, not what its spec asked for: its replacement names no node, so
the NodeName filter does not apply (`metadata.name` in its node affinity does).
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import HostPort
from reactive_desched.model.taints import HARD_EFFECTS, NO_SCHEDULE, Taint, Tolerations, untolerated


class FitReason(Struct, frozen=True, gc=False):
    """The reason why a pod does not fit a node: a code, and the kube-scheduler's message.

    A message with `{}` is about one resource or object, whose name `about` fills in.
    """

    code: str
    message: str

    def about(self, name: str) -> "FitReason":
        """Return the reason with the name of what it is about."""
        return FitReason(self.code, self.message.format(name))

    def __str__(self) -> str:
        return self.message


NODE_BEING_EMPTIED: Final = FitReason(
    "NodeBeingEmptied", "node(s) were being deleted or emptied by others"
)
"""A reason of ours: the kube-scheduler would bind a pod there, if the pod tolerates the taints."""

UNSCHEDULABLE: Final = FitReason("NodeUnschedulable", "node(s) were unschedulable")
UNTOLERATED_TAINTS: Final = FitReason("UntoleratedTaint", "node(s) had untolerated taint(s)")
NODE_AFFINITY_MISMATCH: Final = FitReason(
    "NodeAffinityMismatch", "node(s) didn't match Pod's node affinity/selector"
)
PORTS_IN_USE: Final = FitReason(
    "HostPortInUse", "node(s) didn't have free ports for the requested pod ports"
)
TOO_MANY_PODS: Final = FitReason("TooManyPods", "Too many pods")
INSUFFICIENT_RESOURCE: Final = FitReason("InsufficientResource", "Insufficient {}")
FEATURES_LACKING: Final = FitReason(
    "NodeFeaturesLacking", "node(s) didn't match Pod's required features"
)
"""By the filter NodeDeclaredFeatures (KEP-5328, since 1.35), which infers them from the spec."""

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
"""A rule of a container restarts all containers of the pod (1.35)."""

USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
"""The pod has its own users and the network of its node: hostUsers false, hostNetwork (1.36)."""

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 -- any address, as the API means it

_CORDON: Final = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


def tolerates_cordon(tolerations: Tolerations) -> bool:
    """Say whether a pod may run on cordoned nodes: it tolerates their unschedulable taint."""
    return any(toleration.tolerates(_CORDON) for toleration in tolerations)


def tolerates_all(tolerations: Tolerations, taints: Iterable[Taint]) -> bool:
    """Say whether a pod tolerates every NoSchedule and NoExecute taint."""
    hard = (taint for taint in taints if taint.effect in HARD_EFFECTS)
    return next(untolerated(tolerations, hard), None) is None


def host_ports_conflict(requested: HostPort, used: HostPort) -> bool:
    """Say whether two host ports cannot both be had on one node."""
    if (requested.port, requested.protocol) != (used.port, used.protocol):
        return False
    return requested.ip == used.ip or ANY_ADDRESS in (requested.ip, used.ip)
