"""Could this pod run on that node? Upstream's node fit, predicate by predicate.

As pkg/descheduler/node/node.go: cheap tests first, the first failure is the reason. Pod
affinity, topology spread, volumes and host ports are not looked at.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from reactive_desched.model.node_affinity import satisfies_required
from reactive_desched.model.objects import Node, Pod, PodAffinityTerm
from reactive_desched.model.resources import PODS
from reactive_desched.model.scheduling import FitReason
from reactive_desched.model.taints import HARD_EFFECTS, untolerated

NODE_UNSCHEDULABLE: Final = FitReason("NodeUnschedulable", "node is not schedulable")
NODE_SELECTOR_MISMATCH: Final = FitReason(
    "NodeAffinityMismatch", "pod node selector does not match the node label"
)
TAINTS_NOT_TOLERATED: Final = FitReason(
    "UntoleratedTaint", "pod does not tolerate taints on the node"
)
ANTI_AFFINITY_MATCHED: Final = FitReason(
    "PodAntiAffinityViolated", "pod matches inter-pod anti-affinity rule of other pod on node"
)
NODE_SHORT_OF_RESOURCE: Final = FitReason("InsufficientResource", "insufficient {}")
NODE_FULL: Final = FitReason("TooManyPods", "insufficient pods")


def fit_error(
    pod: Pod, node: Node, requested: Mapping[str, int], pods_on_node: Iterable[Pod]
) -> FitReason | None:
    """Return why the pod does not fit the node, or None when it does.

    `requested` is what the node's active pods request, with their number under "pods";
    `pods_on_node` are the active pods on the node.
    """
    if node.unschedulable:
        return NODE_UNSCHEDULABLE
    spec = pod.spec
    if not satisfies_required(spec.node_selector, spec.node_affinity, node.name, node.labels):
        return NODE_SELECTOR_MISMATCH
    hard = (taint for taint in node.taints if taint.effect in HARD_EFFECTS)
    if next(untolerated(spec.tolerations, hard), None) is not None:
        return TAINTS_NOT_TOLERATED
    if spec.anti_affinity and _violates_anti_affinity(pod, node, pods_on_node):
        return ANTI_AFFINITY_MATCHED
    return None if pod.node == node.name else _resource_error(pod, node, requested)


def _violates_anti_affinity(pod: Pod, node: Node, pods_on_node: Iterable[Pod]) -> bool:
    terms = [term for term in pod.spec.anti_affinity if term.topology_key in node.labels]
    return bool(terms) and any(
        _conflicts(pod, term, other) for other in pods_on_node for term in terms
    )


def _conflicts(pod: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    """Compare by name, as upstream does, although names repeat across namespaces."""
    return (
        other.name != pod.name
        and other.namespace in (term.namespaces or (pod.namespace,))
        and term.label_selector is not None
        and term.label_selector.matches(other.labels)
    )


def _resource_error(pod: Pod, node: Node, requested: Mapping[str, int]) -> FitReason | None:
    for resource, wanted in pod.spec.requests.items():
        if wanted > node.allocatable.get(resource, 0) - requested.get(resource, 0):
            if wanted == 0 and resource not in node.allocatable:
                continue
            return NODE_SHORT_OF_RESOURCE.about(resource)
    if node.allocatable.get(PODS, 0) - requested.get(PODS, 0) < 1:
        return NODE_FULL
    return None
