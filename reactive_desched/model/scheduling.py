"""The kube-scheduler's filters that look at one node alone, and the words it refuses with.

A pod's node is where it was put, not what it asked for: its replacement names no node, so the
filter by node name has nothing to say (`metadata.name` in its node affinity has).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from reactive_desched.model.node_affinity import satisfies_required
from reactive_desched.model.objects import HostPort, Node, PodSpec
from reactive_desched.model.taints import HARD_EFFECTS, NO_SCHEDULE, Taint, Tolerations, untolerated

UNSCHEDULABLE: Final = "node(s) were unschedulable"
UNTOLERATED_TAINTS: Final = "node(s) had untolerated taint(s)"
NODE_AFFINITY_MISMATCH: Final = "node(s) didn't match Pod's node affinity/selector"
PORTS_IN_USE: Final = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS: Final = "Too many pods"
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 -- any address, as the API means it

_CORDON: Final = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


def tolerates_cordon(tolerations: Tolerations) -> bool:
    """Say whether a pod may go to cordoned nodes: it tolerates the taint that they bear."""
    return any(toleration.tolerates(_CORDON) for toleration in tolerations)


def tolerates_all(tolerations: Tolerations, taints: Iterable[Taint]) -> bool:
    """Say whether a pod tolerates every taint that keeps pods off."""
    hard = (taint for taint in taints if taint.effect in HARD_EFFECTS)
    return next(untolerated(tolerations, hard), None) is None


def statically_unfit(spec: PodSpec, node: Node) -> str | None:
    """Say why a node is closed to a pod whatever sits there, or None when it is open."""
    if node.unschedulable and not tolerates_cordon(spec.tolerations):
        return UNSCHEDULABLE
    if not tolerates_all(spec.tolerations, node.taints):
        return UNTOLERATED_TAINTS
    if not satisfies_required(spec.node_selector, spec.node_affinity, node.name, node.labels):
        return NODE_AFFINITY_MISMATCH
    return None


def insufficient_message(resource: str) -> str:
    """Say that a node has too little of a resource."""
    return f"Insufficient {resource}"


def insufficient_resources(requests: Mapping[str, int], free: Mapping[str, int]) -> list[str]:
    """Say what a node has too little of; a request of zero is met even where nothing is left."""
    return [
        insufficient_message(resource)
        for resource, wanted in requests.items()
        if wanted > 0 and wanted > free.get(resource, 0)
    ]


def host_ports_conflict(requested: HostPort, used: HostPort) -> bool:
    """Say whether two host ports cannot both be had on one node."""
    if (requested.port, requested.protocol) != (used.port, used.protocol):
        return False
    return requested.ip == used.ip or ANY_ADDRESS in (requested.ip, used.ip)
