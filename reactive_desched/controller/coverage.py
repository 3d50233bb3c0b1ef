"""Says for `plan --all` and `why` whether plugins look at a pod at all, and why they do not."""

from typing import Final, NamedTuple

from reactive_desched.api.scope import NamespacedArgs
from reactive_desched.model.objects import Pod
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.state.cluster import ClusterView

NOTHING_FOUND: Final = "NothingFound"
OBSTACLE: Final = "Obstacle"
CYCLE_SKIPPED: Final = "TooFewReadyNodes"
NO_PLUGINS: Final = "NoPluginsEnabled"
POD_COMPLETED: Final = "PodCompleted"
OUT_OF_SCOPE: Final = "OutOfScope"
POD_NOT_SCHEDULED: Final = "PodNotScheduled"
NODE_NOT_FOUND: Final = "NodeNotFound"
NODE_NOT_READY: Final = "NodeNotReady"
NODE_NOT_SELECTED: Final = "NodeNotSelected"
UNAFFECTED_REASONS: Final = {
    NOTHING_FOUND: "The plugins that judged the pod found nothing.",
    OBSTACLE: "By a plugin that balances, the pod's place is wrong, and something keeps it there.",
    CYCLE_SKIPPED: "Fewer than two nodes are ready and match the policy's `nodeSelector`.",
    NO_PLUGINS: "The policy enables no plugin.",
    POD_COMPLETED: "The pod has completed, and no plugin judges completed pods.",
    OUT_OF_SCOPE: "The pod is outside the namespaces or labels of every plugin.",
    POD_NOT_SCHEDULED: "The pod is on no node yet.",
    NODE_NOT_FOUND: "The pod's node does not exist.",
    NODE_NOT_READY: "The pod's node is not ready.",
    NODE_NOT_SELECTED: "The pod's node does not match the policy's `nodeSelector`.",
}
"""What each reason code of a pod without a decision means."""


class Coverage(NamedTuple):
    """The reason why plugins do not look at a pod, or found nothing: a code and a message."""

    reason: str
    message: str


def is_covered(plugin: AnyPlugin, pod: Pod) -> bool:
    """Say whether a plugin was asked to look at pods such as this one."""
    if not pod.is_active and not plugin.judges_completed_pods:
        return False
    return not isinstance(plugin.args, NamespacedArgs) or plugin.args.covers(pod)


def not_covered_by(plugin: AnyPlugin, pod: Pod) -> Coverage:
    """Return why this plugin, whatever others do, does not look at a pod that it does not cover."""
    if not pod.is_active and not plugin.judges_completed_pods:
        phase = pod.status.phase
        return Coverage(
            POD_COMPLETED, f"the pod is {phase}, and the plugin judges no completed pods"
        )
    message = "the pod is outside the namespaces or labels that it is limited to"
    return Coverage(OUT_OF_SCOPE, message)


def node_not_covered(node: str, view: ClusterView) -> Coverage | None:
    """Return why plugins do not look at the pods of a node, or None when they do."""
    if not node:
        return Coverage(POD_NOT_SCHEDULED, "the pod is on no node yet")
    info = view.node_info(node)
    if info is None or info.node is None:
        return Coverage(NODE_NOT_FOUND, f"node {node} does not exist")
    if info.eligible:
        return None
    if not info.node.is_ready:
        return Coverage(NODE_NOT_READY, f"node {node} is not ready")
    return Coverage(NODE_NOT_SELECTED, f"node {node} does not match the policy's nodeSelector")


def pod_not_covered(pod: Pod, plugins: list[AnyPlugin]) -> Coverage:
    """Return why none of the plugins looks at a pod whose node is covered."""
    if not plugins:
        return Coverage(NO_PLUGINS, "the policy enables no plugin")
    if not pod.is_active and not any(plugin.judges_completed_pods for plugin in plugins):
        phase = pod.status.phase
        message = f"the pod is {phase}, and no plugin judges completed pods"
        return Coverage(POD_COMPLETED, message)
    return Coverage(OUT_OF_SCOPE, "the pod is outside the namespaces or labels of every plugin")
