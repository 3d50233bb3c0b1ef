"""Accounts for the pods without a decision: which plugins judged them, or why none did."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.controller.coverage import (
    CYCLE_SKIPPED,
    NOTHING_FOUND,
    OBSTACLE,
    Coverage,
    is_covered,
    node_not_covered,
    pod_not_covered,
)
from reactive_desched.model.objects import Pod
from reactive_desched.model.plugin_faults import ask_for_obstacles
from reactive_desched.plan.evaluation import PlanResult, first_owner, pod_ref
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.report import UnaffectedPod
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import AnyPlugin, Policy, Profile

__all__ = ["unaffected_pods"]


def unaffected_pods(
    policy: Policy, snapshot: Snapshot, result: PlanResult, mode: PlanMode
) -> Iterator[UnaffectedPod]:
    """Yield every pod of the snapshot that has no decision."""
    decided = {(decision.pod.namespace, decision.pod.name) for decision in result.decisions}
    explain_node = cache(lambda node: node_not_covered(node, result.view))
    plugins = [
        _Asked(f"{profile.name}/{plugin.name}", plugin, _obstacles(plugin, profile, result, mode))
        for profile in policy.profiles
        for plugin in profile.plugins
    ]
    for pod in snapshot.pods:
        if (pod.namespace, pod.name) not in decided:
            skipped = Coverage(CYCLE_SKIPPED, result.skipped) if result.skipped else None
            yield _unaffected_pod(pod, plugins, skipped or explain_node(pod.node))


class _Asked(NamedTuple):
    """A plugin, its name with the profile's, and what says why it leaves a pod where it is."""

    name: str
    plugin: AnyPlugin
    obstacle: Callable[[Pod], str]


def _obstacles(
    plugin: AnyPlugin, profile: Profile, result: PlanResult, mode: PlanMode
) -> Callable[[Pod], str]:
    """Return what the plugin says, by the cluster as it is at the end of the preview."""
    if (view := result.views.get(profile.name)) is None:
        return lambda _: ""
    if mode is not PlanMode.RUN and isinstance(plugin, BalancePlugin):
        return ask_for_obstacles(partial(plugin.sweep_obstacles, view))
    return ask_for_obstacles(partial(plugin.obstacles, view))


def _unaffected_pod(pod: Pod, plugins: list[_Asked], explanation: Coverage | None) -> UnaffectedPod:
    evaluated_by: tuple[str, ...] = ()
    if explanation is None:
        covering = [each for each in plugins if is_covered(each.plugin, pod)]
        evaluated_by = tuple(each.name for each in covering)
        texts = ((each.name, each.obstacle(pod)) for each in covering)
        if found := next((f"{name}: {text}" for name, text in texts if text), ""):
            explanation = Coverage(OBSTACLE, found)
        elif evaluated_by:
            message = f"nothing found by {', '.join(evaluated_by)}"
            explanation = Coverage(NOTHING_FOUND, message)
    reason, message = explanation or pod_not_covered(pod, [each.plugin for each in plugins])
    return UnaffectedPod(
        pod=pod_ref(pod),
        node=pod.node,
        owner=first_owner(pod),
        looked_at_by=evaluated_by,
        reason=reason,
        message=message,
    )
