"""Describes the drains of nodes: the pods that are left on each, and why."""

from collections.abc import Collection, Generator, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Final

from msgspec import Struct

from reactive_desched.api.index import NodeInfo
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.pending import (
    PODS_PER_SLICE,
    PendingContext,
    PendingFinding,
    PendingReason,
    PodProgress,
    summarize_pending,
)
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.modes import ACT
from reactive_desched.model.node_drains import (
    DRAIN_NODES,
    drain_leaves,
    is_being_drained,
    is_to_be_drained,
)
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.outcomes import DRY_RUN
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.state.cluster import ClusterView

MAX_LISTED: Final = 100
"""Pods of one node that are listed in one answer; the others are only counted."""


_LEFT_OUT: Final = (
    "no profile takes it: the arguments of DrainNodes, or a nodeSelector, leave it out"
)

_MOVE_BY_THEMSELVES: Final = frozenset(
    {PodProgress.WAITS, PodProgress.EVICTING, PodProgress.LEAVES}
)


class DrainState(StrEnum):
    """Says how far the drain of a node is."""

    NOT_ASKED = "not_asked"
    NOT_CORDONED = "not_cordoned"
    NOT_SEEN = "not_seen"
    NO_PLUGIN = "no_plugin"
    DRAINING = "draining"
    BLOCKED = "blocked"
    DRAINED = "drained"


class LeftPod(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod that is still on its node, and what it waits for; `until` is when that ends by itself.

    With `isLeast` something else holds all evictions, and it is not before then. `gate` holds it.
    """

    namespace: str
    pod: str
    state: PodProgress
    message: str = ""
    until: datetime | None = None
    is_least: bool = False
    gate: str = ""


class NodeDrain(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The drain of one node: `states` counts the pods that are left, and `pods` lists some.

    `wish` is who wants it emptied, and why. `reasons` say what holds the pods that wait or stay.
    `drained` is when its annotation says that it was empty.
    """

    node: str
    state: DrainState
    message: str
    wish: str = ""
    drained: str = ""
    states: dict[str, int] = {}
    reasons: tuple[PendingReason, ...] = ()
    pods: tuple[LeftPod, ...] = ()


class NodeDrains(Struct, frozen=True, rename="camel"):
    """The drains as of `time`; `hold` is why no pod is evicted now, and `profiles` have the plugin.

    Without such a profile nothing is drained.
    """

    time: datetime
    hold: str
    profiles: tuple[str, ...]
    nodes: tuple[NodeDrain, ...]


class DrainInputs(Struct, frozen=True):
    """The parts of a controller that know, all findings that wait, and why no pod is evicted.

    Of `ledgers` the first has the evictions that are carried out.
    """

    view: ClusterView
    evaluator: Evaluator
    ledgers: Sequence[EvictionLedger]
    findings: Sequence[PendingFinding]
    hold: str
    moment: ClockPair


def drains_of(
    nodes: Collection[NodeInfo], inputs: DrainInputs
) -> Generator[None, None, NodeDrains]:
    """Return how far these nodes are, in steps."""
    names = {info.name for info in nodes}
    held: dict[PodKey, PendingFinding] = {}
    for number, each in enumerate(inputs.findings):
        finding = each.decision.finding
        if finding.plugin == DRAIN_NODES and finding.pod.node in names:
            held[finding.pod.uid] = each
        if number % PODS_PER_SLICE == 0:
            yield
    profiles = profiles_that_drain(inputs.evaluator)
    rows: list[NodeDrain] = []
    for info in nodes:
        rows.append(_drain(info, held, inputs, has_plugin=bool(profiles)))
        yield
    moment = inputs.moment
    return NodeDrains(moment.time(moment.now), inputs.hold, profiles, tuple(rows))


def profiles_that_drain(evaluator: Evaluator, *, only_acting: bool = False) -> tuple[str, ...]:
    """Return the profiles that have the plugin which drains nodes, or those where it acts."""
    found = (each for each in evaluator.instances if each.name == DRAIN_NODES)
    return tuple(
        dict.fromkeys(each.profile for each in found if not only_acting or each.mode == ACT)
    )


def is_drained(info: NodeInfo) -> bool:
    """Say whether no pod is left on a node that a drain moves; one that terminates is still left.

    One that has ended is not.
    """
    return all(map(drain_leaves, info.active.values()))


def _drain(
    info: NodeInfo,
    held: dict[PodKey, PendingFinding],
    inputs: DrainInputs,
    *,
    has_plugin: bool,
) -> NodeDrain:
    node = info.node
    assert node is not None, "the caller has checked it"
    pods = [pod for pod in info.active.values() if not drain_leaves(pod)]
    if not is_being_drained(node):
        return NodeDrain(info.name, *_not_begun(node), node.drain or "")
    unseen = _unseen(node, info, has_plugin=has_plugin) if pods else None
    left = [_left(pod, held, inputs, _LEFT_OUT if unseen is None else unseen[1]) for pod in pods]
    counts: dict[str, int] = {}
    for each in left:
        counts[each.state] = counts.get(each.state, 0) + 1
    state, message = unseen or _state(counts)
    order = list(PodProgress)
    left.sort(key=lambda each: (order.index(each.state), each.namespace, each.pod))
    found = (held[uid] for uid in info.active if uid in held)
    waits = [each for each in found if not each.decision.pod_leaves]
    summary = at_once(summarize_pending(waits, PendingContext(), inputs.moment))
    return NodeDrain(
        info.name,
        state,
        message,
        node.drain or "",
        node.drained or "",
        counts,
        summary.reasons,
        tuple(islice(left, MAX_LISTED)),
    )


def _left(
    pod: Pod, held: dict[PodKey, PendingFinding], inputs: DrainInputs, left_out: str
) -> LeftPod:
    """Say what becomes of a pod that a drain moves; `left_out` is why none would find it."""
    name = pod.namespace, pod.name
    now, moment = inputs.moment.now, inputs.moment
    if (finding := held.get(pod.uid)) is not None:
        state, gate = finding.pod_state, finding.decision.gate
        if state is PodProgress.LEAVES:
            return LeftPod(*name, state, finding.message(now))
        at = finding.until if finding.turn is None else finding.turn.at
        until = None if at is None else moment.time(at)
        return LeftPod(*name, state, finding.message(now), until, finding.is_least, gate)
    if pod.is_terminating:
        return LeftPod(*name, PodProgress.LEAVES, "it terminates")
    if (eviction := inputs.ledgers[0].current(pod.uid)) is not None:
        if eviction.accepted_at is None:
            return LeftPod(*name, PodProgress.EVICTING, "its eviction is under way")
        return LeftPod(*name, PodProgress.LEAVES, "it was evicted")
    latest = [found for each in inputs.ledgers if (found := each.latest(pod.uid)) is not None]
    if any(each.outcome is not None and each.outcome.result == DRY_RUN for each in latest):
        return LeftPod(*name, PodProgress.DRY_RUN, "it would be evicted, and is only observed")
    if len(inputs.evaluator.queue) or inputs.evaluator.is_evaluating:
        return LeftPod(*name, PodProgress.WAITS, "it is evaluated soon")
    return LeftPod(*name, PodProgress.LEFT_OUT, left_out)


def _not_begun(node: Node) -> tuple[DrainState, str]:
    """Return the state of a node whose pods are not to leave now, with a sentence on why."""
    if not is_to_be_drained(node):
        return DrainState.NOT_ASKED, "it is not to be drained"
    text = f"it is not cordoned, so nothing is done: kubectl cordon {node.name}"
    return DrainState.NOT_CORDONED, text


def _unseen(node: Node, info: NodeInfo, *, has_plugin: bool) -> tuple[DrainState, str] | None:
    """Return the state of a node whose pods no plugin looks at, with why; None for another one."""
    if not has_plugin:
        text = "no profile has the plugin DrainNodes: add it to the policy"
        return DrainState.NO_PLUGIN, text
    if not info.eligible:
        why = "is not Ready" if not node.is_ready else "is not of the policy's nodeSelector"
        return DrainState.NOT_SEEN, f"the node {why}, so its pods are not evaluated"
    return None


def _state(counts: dict[str, int]) -> tuple[DrainState, str]:
    """Return how far a node is by what becomes of its pods, with a sentence on it."""
    if not counts:
        return DrainState.DRAINED, "no pod is left that has to leave"
    if _MOVE_BY_THEMSELVES & counts.keys():
        return DrainState.DRAINING, "pods leave it as gates and limits allow"
    return DrainState.BLOCKED, "what is left stays until a person changes something"
