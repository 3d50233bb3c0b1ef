"""Accounts for the pods without a decision: which plugins judged them, or why none did."""

from collections.abc import Iterator
from functools import cache

from reactive_desched.controller.coverage import (
    CYCLE_SKIPPED,
    NOTHING_FOUND,
    Coverage,
    is_covered,
    node_not_covered,
    pod_not_covered,
)
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.model.objects import Pod
from reactive_desched.plan.evaluation import PlanResult, first_owner, pod_ref
from reactive_desched.plan.report import UnaffectedPod
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import Policy

__all__ = ["unaffected_pods"]


def unaffected_pods(
    policy: Policy, snapshot: Snapshot, result: PlanResult
) -> Iterator[UnaffectedPod]:
    """Yield every pod of the snapshot that has no decision."""
    decided = {(decision.pod.namespace, decision.pod.name) for decision in result.decisions}
    explain_node = cache(lambda node: node_not_covered(node, result.view))
    plugins = [
        (f"{profile.name}/{plugin.name}", plugin)
        for profile in policy.profiles
        for plugin in profile.plugins
    ]
    for pod in snapshot.pods:
        if (pod.namespace, pod.name) not in decided:
            skipped = Coverage(CYCLE_SKIPPED, result.skipped) if result.skipped else None
            yield _unaffected_pod(pod, plugins, skipped or explain_node(pod.node))


def _unaffected_pod(
    pod: Pod, plugins: list[tuple[str, AnyPlugin]], explanation: Coverage | None
) -> UnaffectedPod:
    evaluated_by: tuple[str, ...] = ()
    if explanation is None:
        evaluated_by = tuple(name for name, plugin in plugins if is_covered(plugin, pod))
        if evaluated_by:
            message = f"nothing found by {', '.join(evaluated_by)}"
            explanation = Coverage(NOTHING_FOUND, message)
    reason, message = explanation or pod_not_covered(pod, [plugin for _, plugin in plugins])
    return UnaffectedPod(
        pod=pod_ref(pod),
        node=pod.node,
        owner=first_owner(pod),
        looked_at_by=evaluated_by,
        reason=reason,
        message=message,
    )
