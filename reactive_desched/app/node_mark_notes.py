"""Describes, in sentences, what a policy does with pods of cordoned and of departing nodes."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.model.node_marks import NODE_MARK_GROUPS, NodeMarkGroup, taint_of
from reactive_desched.model.taints import NO_SCHEDULE, Taint
from reactive_desched.plugins.node_taints import NodeTaintsPlugin
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.settings.guards import GuardName, GuardSettings

_LEFT: Final = "leaves alone {nodes} ({settings}: leave); a sweep (run --once) evicts from them"
_LEFT_BY_ARGS: Final = "leaves alone {nodes}, by its arguments"
_DRAINED: Final = "evicts from {nodes} ({settings}: drain)"
_OTHERS: Final = (
    "evicts for a taint of any other key once it has stood for {stood} "
    "(guards.standingTimes.otherTaints)"
)
_SINGLE: Final = (
    "evicts for a taint {key} once it has stood for {stood} (guards.standingTimes.byTaint)"
)
_A_PERSONS: Final = Taint("", NO_SCHEDULE)
_DRAINED_BY_ARGS: Final = "evicts from {nodes}, by its includedTaints"


def node_mark_notes(policy: Policy, guards: GuardSettings) -> Iterator[str]:
    """Yield what each profile that acts on taints does in reactive mode, groups alike together."""
    for profile in policy.profiles:
        for plugin in profile.plugins:
            if isinstance(plugin, NodeTaintsPlugin):
                alike: dict[str, list[NodeMarkGroup]] = {}
                for group in NODE_MARK_GROUPS:
                    alike.setdefault(_action(plugin, group, guards), []).append(group)
                for action, groups in alike.items():
                    nodes = "; ".join(group.nodes for group in groups)
                    settings = ", ".join(f"guards.{group.name}" for group in groups)
                    done = action.format(nodes=nodes, settings=settings)
                    yield f"{plugin.name} of profile {profile.name} {done}"
                for done in _standing(plugin, guards):
                    yield f"{plugin.name} of profile {profile.name} {done}"


def _standing(plugin: NodeTaintsPlugin, guards: GuardSettings) -> Iterator[str]:
    """Yield for how long taints stand first: those that the settings name, then all others."""
    if GuardName.STANDING_TIME in guards.disabled:
        return
    for key, standing_s in guards.standing_times.by_taint.items():
        if plugin.acts_on(
            Taint(key, NO_SCHEDULE), lambda taint: guards.taint_rule(taint.key).counts
        ):
            yield _SINGLE.format(key=key, stood=f"{standing_s:g} s")
    others_s = guards.reason_rules.taint(_A_PERSONS.key).standing_s
    if others_s and plugin.acts_on(_A_PERSONS, lambda _: True):
        yield _OTHERS.format(stood=f"{others_s:g} s")


def _action(plugin: NodeTaintsPlugin, group: NodeMarkGroup, guards: GuardSettings) -> str:
    def counts(taint: Taint) -> bool:
        return guards.taint_rule(taint.key).counts

    taints = [taint_of(key, mark) for key, mark in group.marks.items()]
    if any(plugin.acts_on(taint, counts) for taint in taints):
        return _DRAINED_BY_ARGS if guards.action(group.name) == "leave" else _DRAINED
    in_sweep = any(plugin.acts_on(taint, lambda _: True) for taint in taints)
    return _LEFT if in_sweep else _LEFT_BY_ARGS
