"""Accounts for the pods without a decision: which plugins judged them, or why none did."""

from collections.abc import Iterator
from functools import cache
from typing import Final

from reactive_desched.api.scope import NamespacedArgs
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.model.objects import Pod
from reactive_desched.plan.evaluation import PlanResult, first_owner, pod_ref
from reactive_desched.plan.report import UnaffectedPod
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import Policy
from reactive_desched.state.view import ClusterView

__all__ = ["UNAFFECTED_REASONS", "unaffected_pods"]

NOTHING_FOUND: Final = "NothingFound"
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

Explanation = tuple[str, str]
"""A reason code and a message."""


def unaffected_pods(
    policy: Policy, snapshot: Snapshot, result: PlanResult
) -> Iterator[UnaffectedPod]:
    """Yield every pod of the snapshot that has no decision."""
    decided = {(verdict.pod.namespace, verdict.pod.name) for verdict in result.decisions}
    explain_node = cache(lambda node: _explain_node(node, result.view))
    plugins = [
        (f"{profile.name}/{plugin.name}", plugin)
        for profile in policy.profiles
        for plugin in profile.plugins
    ]
    for pod in snapshot.pods:
        if (pod.namespace, pod.name) not in decided:
            skipped = (CYCLE_SKIPPED, result.skipped) if result.skipped else None
            yield _unaffected_pod(pod, plugins, skipped or explain_node(pod.node))


def _unaffected_pod(
    pod: Pod, plugins: list[tuple[str, AnyPlugin]], explanation: Explanation | None
) -> UnaffectedPod:
    evaluated_by: tuple[str, ...] = ()
    if explanation is None:
        evaluated_by = tuple(name for name, plugin in plugins if _is_evaluated_by(plugin, pod))
        if evaluated_by:
            explanation = NOTHING_FOUND, f"nothing found by {', '.join(evaluated_by)}"
    reason, message = explanation or _explain_not_evaluated(pod, plugins)
    return UnaffectedPod(
        pod=pod_ref(pod),
        node=pod.node,
        owner=first_owner(pod),
        looked_at_by=evaluated_by,
        reason=reason,
        message=message,
    )


def _is_evaluated_by(plugin: AnyPlugin, pod: Pod) -> bool:
    """Say whether a plugin was asked to look at pods such as this one."""
    if not pod.is_active and not plugin.judges_completed_pods:
        return False
    return not isinstance(plugin.args, NamespacedArgs) or plugin.args.covers(pod)


def _explain_not_evaluated(pod: Pod, plugins: list[tuple[str, AnyPlugin]]) -> Explanation:
    if not plugins:
        return NO_PLUGINS, "the policy enables no plugin"
    if not pod.is_active and not any(plugin.judges_completed_pods for _, plugin in plugins):
        phase = pod.status.phase
        return POD_COMPLETED, f"the pod is {phase}, and no plugin judges completed pods"
    return OUT_OF_SCOPE, "the pod is outside the namespaces or labels of every plugin"


def _explain_node(node: str, view: ClusterView) -> Explanation | None:
    """Return why plugins do not judge the pods of a node, or None when they do."""
    if not node:
        return POD_NOT_SCHEDULED, "the pod is on no node yet"
    info = view.node_info(node)
    if info is None or info.node is None:
        return NODE_NOT_FOUND, f"node {node} does not exist"
    if info.eligible:
        return None
    if not info.node.is_ready:
        return NODE_NOT_READY, f"node {node} is not ready"
    return NODE_NOT_SELECTED, f"node {node} does not match the policy's nodeSelector"
