"""Accounts for the pods about which nothing was decided: who looked at them, or why nobody did."""

from collections.abc import Iterator
from functools import cache

from reactive_desched.api.scope import NamespacedArgs
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.model.objects import Pod
from reactive_desched.plan.evaluation import SweepResult, first_owner, pod_ref
from reactive_desched.plan.report import UnaffectedPod
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import Policy
from reactive_desched.state.view import ClusterView

__all__ = ["unaffected_pods"]


def unaffected_pods(
    policy: Policy, snapshot: Snapshot, result: SweepResult
) -> Iterator[UnaffectedPod]:
    """Yield every pod of the picture that no decision is about."""
    decided = {(verdict.pod.namespace, verdict.pod.name) for verdict in result.decisions}
    placed = cache(lambda node: _node_message(node, result.view))
    plugins = [
        (f"{profile.name}/{plugin.name}", plugin)
        for profile in policy.profiles
        for plugin in profile.plugins
    ]
    for pod in snapshot.pods:
        if (pod.namespace, pod.name) not in decided:
            reason = result.skipped or placed(pod.node)
            yield _unaffected_pod(pod, plugins, reason)


def _unaffected_pod(
    pod: Pod, plugins: list[tuple[str, AnyPlugin]], reason: str | None
) -> UnaffectedPod:
    evaluated_by = (
        () if reason else tuple(name for name, plugin in plugins if _is_evaluated_by(plugin, pod))
    )
    if evaluated_by:
        reason = f"nothing found by {', '.join(evaluated_by)}"
    return UnaffectedPod(
        pod=pod_ref(pod),
        node=pod.node,
        owner=first_owner(pod),
        looked_at_by=evaluated_by,
        reason=reason or _not_evaluated_message(pod, plugins),
    )


def _is_evaluated_by(plugin: AnyPlugin, pod: Pod) -> bool:
    """Say whether a plugin was asked to look at pods such as this one."""
    if not pod.is_active and not plugin.judges_completed_pods:
        return False
    return not isinstance(plugin.args, NamespacedArgs) or plugin.args.covers(pod)


def _not_evaluated_message(pod: Pod, plugins: list[tuple[str, AnyPlugin]]) -> str:
    if not plugins:
        return "the policy enables no plugin"
    if not pod.is_active and not any(plugin.judges_completed_pods for _, plugin in plugins):
        return f"the pod has ended ({pod.status.phase}), and no plugin looks at such pods"
    return "no plugin looks at it: outside the namespaces or labels they are limited to"


def _node_message(node: str, view: ClusterView) -> str | None:
    """Say why the pods of a node are not looked at, if so."""
    if not node:
        return "the pod is on no node yet"
    room = view.node_info(node)
    if room is None or room.node is None:
        return f"node {node} is not there"
    if room.eligible:
        return None
    if not room.node.is_ready:
        return f"node {node} is not ready"
    return f"node {node} does not match the policy's nodeSelector"
