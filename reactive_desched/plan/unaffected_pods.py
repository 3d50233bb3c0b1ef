"""Accounts for the pods about which nothing was decided: who looked at them, or why nobody did."""

from collections.abc import Iterator
from functools import cache

from reactive_desched.api.scope import NamespacedArgs
from reactive_desched.controller.controller import Plan
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.model.objects import Pod
from reactive_desched.plan.evaluation import Judged, named, owner_of
from reactive_desched.plan.report import Bystander
from reactive_desched.plan.snapshot import Picture
from reactive_desched.state.view import ClusterView

__all__ = ["bystanders"]


def bystanders(plan: Plan, picture: Picture, judged: Judged) -> Iterator[Bystander]:
    """Yield every pod of the picture that no decision is about."""
    decided = {(verdict.pod.namespace, verdict.pod.name) for verdict in judged.verdicts}
    placed = cache(lambda node: _why_not_placed(node, judged.view))
    plugins = [
        (f"{profile.name}/{plugin.name}", plugin)
        for profile in plan.profiles
        for plugin in profile.plugins
    ]
    for pod in picture.pods:
        if (pod.namespace, pod.name) not in decided:
            reason = judged.skipped or placed(pod.node)
            yield _bystander(pod, plugins, reason)


def _bystander(pod: Pod, plugins: list[tuple[str, AnyPlugin]], reason: str | None) -> Bystander:
    looked = () if reason else tuple(name for name, plugin in plugins if _looks_at(plugin, pod))
    if looked:
        reason = f"nothing found by {', '.join(looked)}"
    return Bystander(
        pod=named(pod),
        node=pod.node,
        owner=owner_of(pod),
        looked_at_by=looked,
        reason=reason or _why_nobody(pod, plugins),
    )


def _looks_at(plugin: AnyPlugin, pod: Pod) -> bool:
    """Say whether a plugin was asked to look at pods such as this one."""
    if not pod.is_active and not plugin.sees_ended:
        return False
    return not isinstance(plugin.args, NamespacedArgs) or plugin.args.covers(pod)


def _why_nobody(pod: Pod, plugins: list[tuple[str, AnyPlugin]]) -> str:
    if not plugins:
        return "the policy enables no plugin"
    if not pod.is_active and not any(plugin.sees_ended for _, plugin in plugins):
        return f"the pod has ended ({pod.status.phase}), and no plugin looks at such pods"
    return "no plugin looks at it: outside the namespaces or labels they are limited to"


def _why_not_placed(node: str, view: ClusterView) -> str | None:
    """Say why the pods of a node are not looked at, if so."""
    if not node:
        return "the pod is on no node yet"
    room = view.room(node)
    if room is None or room.node is None:
        return f"node {node} is not there"
    if room.counts:
        return None
    if not room.node.is_ready:
        return f"node {node} is not ready"
    return f"node {node} does not match the policy's nodeSelector"
