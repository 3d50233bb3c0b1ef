"""The guard that holds pods while what speaks for their eviction is new, and may pass by itself.

What may pass so is a taint, the use of a node, the size of a workload, nodes that closed or opened
and room that others left; `guards.standingTimes` says for how long each of them is new.
"""

from collections.abc import Collection
from itertools import islice
from typing import Final

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.gate.guard import GuardInputs, Hold
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import is_clean_up
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.moves.node_memory import WakeOnAnyNode
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.unschedulable_pods import UnschedulablePods
from reactive_desched.state.nodes import left_s
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count

CHANGED_TOO_RECENTLY: Final = GateReason(
    GuardName.STANDING_TIME,
    "ChangedTooRecently",
    "What the finding is about, such as a taint of the node or the use of a new pod, has not stood "
    "for its time in `guards.standingTimes`, or a plugin that balances has not found it for so "
    "long: it may pass by itself. Or the pod would only be better off elsewhere, and the room "
    "there is so new that others may want it, or its workload was scaled within that time.",
    "guards.standingTimes",
)
NODES_CLOSING: Final = GateReason(
    GuardName.STANDING_TIME,
    "NodesClosing",
    "The pod would only be better off elsewhere, or balance the cluster, and nodes were closed a "
    "short time ago: they are mostly replaced or restarted one after another. "
    "`guards.standingTimes.closedNodes` after the last one, or an hour after the first, it may "
    "leave.",
    "guards.standingTimes.closedNodes",
)

_TOO_NEW: Final = "the cause is new, and may pass by itself"
MAX_LEFT: Final = 100
"""So many pods that left a moment ago are taken to come back; more are looked at no further."""
ONE_IN_CLOSED: Final = 20
"""Of so many nodes one that closes is enough for others to follow, for all that is known."""
LONGEST_ROW_S: Final = 3600.0
"""A row of nodes that close holds what balances for so long."""
MAX_WAITING: Final = 20
"""So many pods that wait for room are taken to take it; more are looked at no further."""


def standing_time(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods while what is wrong with their place is so recent that it may pass by itself.

    What balances is recent while its plugin has not found it for long, whatever it comes from.
    """
    counts_from_s, scope = finding.counts_from_s, "node" if finding.relieves_node else ""
    if finding.found_since_s and finding.move_set is None:
        found_from_s = finding.found_since_s + inputs.settings.standing_times.node_use_s
        if found_from_s > counts_from_s:
            counts_from_s, scope = found_from_s, scope or "cluster"
    if not (wait_s := left_s(counts_from_s, inputs.view.now_s)):
        for holds in (_nodes_closing, _new_size, _new_place, _new_room):
            if (hold := holds(finding, inputs)) is not None:
                return hold
        return None
    return Hold(
        CHANGED_TOO_RECENTLY,
        _TOO_NEW,
        wait_s=wait_s,
        ends="; if it does not, the pod may leave",
        scope_exhausted=scope,
    )


def _new_size(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods of a workload that was scaled a moment ago from what only balances.

    An autoscaler goes on in steps, or back, and a scale-in takes pods from where most of them are.
    Each time that it was scaled within ten minutes counts: one that swings is left alone.
    """
    if finding.plugin not in inputs.balancing or finding.move_set is not None:
        return None
    owners = inputs.view.index(OwnerIndex).chain(finding.pod)
    if not owners:
        return None
    lasts_s = inputs.settings.standing_times.node_use_s
    if not (wait_s := inputs.view.size_wait_s(owners[-1].uid, lasts_s)):
        return None
    return Hold(
        CHANGED_TOO_RECENTLY,
        "its workload was scaled a moment ago, and may be again",
        wait_s=wait_s,
        ends="; if it is not, the pod may leave",
    )


def _is_wish(finding: Finding, inputs: GuardInputs) -> bool:
    """Say whether the pod may stay: it would be better off elsewhere, or the cluster balanced."""
    return finding.by_score or finding.plugin in inputs.balancing


def _nodes_closing(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold what balances while nodes are replaced or restarted one after another.

    A row of closings counts while it is short: where nodes come and go all day, nothing would ever
    be balanced.
    """
    apart_s, view = inputs.settings.standing_times.closed_nodes_s, inputs.view
    if not (apart_s and _is_wish(finding, inputs)) or finding.move_set is not None:
        return None
    last_s, first_s, count = 0.0, 0.0, 0
    for age_s in view.closings_ages_s():
        if age_s - first_s >= apart_s:
            break
        last_s, first_s = last_s or age_s, age_s
        count += age_s < apart_s
    wait_s = left_s(min(apart_s - last_s, LONGEST_ROW_S - first_s), 0.0)
    if not (count and wait_s) or count * ONE_IN_CLOSED < view.eligible_node_count:
        return None
    closed = f"{format_count(count, 'node')} closed within {format_age(apart_s)}"
    return Hold(
        NODES_CLOSING,
        f"{closed}, and others may follow",
        wait_s=wait_s,
        ends="; if none does, the pod may leave",
        scope_exhausted="cluster",
    )


def _new_place(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that only nodes take that opened a moment ago, and which may close again.

    A pod that is evicted meanwhile, and runs where it is, would run nowhere then, or, where the
    scores alone bring it to a better node, come back. A set of moves chooses its places itself.
    """
    if inputs.node_fit is None or finding.move_set is not None or is_clean_up(finding.pod):
        return None
    times = inputs.settings.standing_times
    lasts_s = times.node_use_s if _is_wish(finding, inputs) else times.open_nodes_s
    if not (opened := inputs.view.opened_lately(finding.pod, lasts_s)):
        return None
    if inputs.node_fit.fits_only_on(finding.pod, opened, finding.targets):
        which = "the only nodes that fit the pod"
    elif _is_chosen_only_on(finding, inputs.node_fit, opened):
        which = "the better nodes that the kube-scheduler would choose"
    else:
        return None
    return Hold(
        CHANGED_TOO_RECENTLY,
        f"{which} opened to it a moment ago, and may close again",
        (WakeOnAnyNode(),),
        lasts_s - max(opened.values()),
        ends="; if they do not, the pod may leave",
    )


def _is_chosen_only_on(finding: Finding, fit: SchedulerNodeFit, opened: Collection[str]) -> bool:
    """Say whether the scores lead to a better node only since some nodes opened."""
    if not finding.by_score or finding.targets is None:
        return False
    pod, targets = finding.pod, finding.targets
    return bool(
        fit.scored_elsewhere(pod, targets, without=opened)
        and not fit.scored_elsewhere(pod, targets)
    )


def _new_room(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that would take, for a better place or balance, new room that others may want.

    That is room that pods left a moment ago, which may come back, and room there and on nodes that
    came a moment ago for pods that wait: the kube-scheduler tries these again within ten seconds. A
    pod that has to leave its node takes room at once, and so does a set, whose moves make room for
    one another.
    """
    lasts_s, view = inputs.settings.standing_times.node_use_s, inputs.view
    is_wish = _is_wish(finding, inputs)
    if not (is_wish and lasts_s) or finding.targets is None or inputs.node_fit is None:
        return None
    if finding.move_set is not None:
        return None
    left = list(islice(view.left_lately(lasts_s), MAX_LEFT))
    waiting = [pod for pod, _ in islice(view.index(UnschedulablePods).pods(), MAX_WAITING)]
    opened = view.opened_lately(finding.pod, lasts_s) if waiting else {}
    if not (left or waiting) or not inputs.node_fit.is_new_room_for_others(
        finding.pod, finding.targets, [pod for _, pod in left], waiting, opened
    ):
        return None
    youngest_s = min([lasts_s, *(age_s for age_s, _ in left[:1]), *opened.values()])
    whose = "pods that wait for room may take it" if waiting else "the pods that left may come back"
    return Hold(
        CHANGED_TOO_RECENTLY,
        f"the room on other nodes is new, and {whose}",
        (WakeOnAnyNode(), *(WakeOnPod(pod.uid) for pod in waiting)),
        lasts_s - youngest_s,
        ends="; if they do not, the pod may leave",
    )
