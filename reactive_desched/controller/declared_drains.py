"""Chooses the nodes whose drain begins by a rule of the settings, the oldest first."""

from collections.abc import Collection, Iterator

from reactive_desched.brakes.zones import ZoneBrake
from reactive_desched.model.node_drains import is_being_drained, is_to_be_drained
from reactive_desched.model.node_marks import is_being_emptied
from reactive_desched.model.objects import Node
from reactive_desched.model.opt_outs import read_opt_out, says_yes
from reactive_desched.policy.settings.drains import DrainRule
from reactive_desched.state.cluster import ClusterView


def nodes_to_begin(
    rule: DrainRule, view: ClusterView, zones: ZoneBrake, begun: Collection[str]
) -> Iterator[Node]:
    """Yield the nodes whose drain is to begin now.

    `begun` are nodes of this rule whose drain was begun, and whose annotation is not seen yet. An
    empty node counts until it is deleted or used again, and a sick one that recovers, too: the
    cluster gets no smaller than that. A node that a person has cordoned, or uncordoned during its
    drain, is left alone; so is one that another program empties, that is not Ready, or that asks to
    be left alone; and so are those of a zone that is braked, though it be only slowed: a check that
    misfires everywhere must not close the zone.
    """
    now_s, under_way, found = view.now_s, len(begun), []
    for info in view.node_infos():
        node = info.node
        if node is None or node.name in begun:
            continue
        if is_being_drained(node):
            under_way += _is_begun_by(rule, node) or _concerns(rule, node, view)
        elif _may_begin(node, zones, now_s) and _concerns(rule, node, view):
            found.append(node)
    found.sort(key=lambda node: (node.created_s or 0, node.name))
    yield from found[: max(0, rule.max_nodes - under_way)]


def _is_begun_by(rule: DrainRule, node: Node) -> bool:
    return (node.drain or "").startswith(rule.owner)


def _concerns(rule: DrainRule, node: Node, view: ClusterView) -> bool:
    if not rule.concerns(node, view.now_s):
        return False
    return not rule.conditions or any(
        view.condition_wait_s(node, each.type, each.status, each.for_s, each.lapse_s) == 0
        for each in rule.conditions
    )


def _may_begin(node: Node, zones: ZoneBrake, now_s: float) -> bool:
    if node.unschedulable or is_to_be_drained(node) or is_being_emptied(node):
        return False
    if not node.is_ready or says_yes(node.do_not_disrupt) or zones.is_disrupted(node):
        return False
    opt_out = read_opt_out(node.do_not_evict, node.created_s or 0)
    return opt_out is None or (opt_out.until_s is not None and opt_out.until_s <= now_s)
