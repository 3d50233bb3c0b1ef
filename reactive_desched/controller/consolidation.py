"""Says which nodes are to have the taint of a set, and from which it is to be taken off.

A node with the taint is one whose set goes on, is done, or has ended.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final

from msgspec import Struct

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.api.index import NodeInfo
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.model.consolidation import (
    ALL_NODES,
    EMPTY,
    EMPTYING,
    PLANNED,
    consolidation_of,
)
from reactive_desched.model.findings import MoveSet
from reactive_desched.model.modes import ACT, OBSERVE, PROPOSE
from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.objects import Node
from reactive_desched.model.plugin_faults import ask_plugin
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes

_Closing = BalancePlugin[Any, Any]

ENDS_AFTER_S: Final = 60.0
"""A set of which no pod is found and none leaves any more has ended after so long."""

STUCK_AFTER_S: Final = 1800.0
"""A set of which no pod has left for so long has ended, whatever its pods wait for."""


RETRY_S: Final = 30.0
"""A taint that was written is not written again for so long: the watch may not have shown it."""

FIRST_RETRY_S: Final = 1.0
"""One that was refused is written again after so long, then twice as long, up to `RETRY_S`.

A node that is not closed meanwhile takes pods, which then move twice.
"""

PLANNED_FOR_S: Final = 120.0
"""A node that is planned is so no more when no other was emptied for so long.

It is longer than one is left alone that took pods, and than a plan takes.
"""


class SetState(StrEnum):
    """Says what becomes of a node with the taint."""

    GOES_ON = "goes_on"
    EMPTY = "empty"
    GIVEN_UP = "given_up"
    USED_AGAIN = "used_again"


class _Progress(Struct, frozen=True):
    """The pods that were left, since when, and until when one is to be found or to leave."""

    left: int
    since: float
    ends_at: float


class SetProgress:
    """Follows the nodes with the taint, from one look to the next; times are monotonic seconds."""

    def __init__(self) -> None:
        self._of: dict[str, _Progress] = {}

    def forget_others(self, names: Iterable[str]) -> None:
        """Forget nodes without the taint."""
        kept = set(names)
        self._of = {name: each for name, each in self._of.items() if name in kept}

    def look(self, info: NodeInfo, now: float, *, is_active: bool) -> tuple[SetState, str]:
        """Return how far a node is, and why; `is_active` says that a pod is found, or leaves."""
        assert info.node is not None, "the caller has checked it"
        left = sum(not drain_leaves(pod) for pod in info.active.values())
        if not left:
            self._of.pop(info.name, None)
            return SetState.EMPTY, "no pod is left that had to leave"
        if consolidation_of(info.node) == EMPTY:
            return SetState.USED_AGAIN, "a pod came to the empty node"
        before = self._of.get(info.name)
        is_planned = consolidation_of(info.node) == PLANNED
        is_new = before is None or left < before.left or is_planned
        since = now if before is None or is_new else before.since
        wait_s = PLANNED_FOR_S if is_planned else ENDS_AFTER_S
        ends_at = now + wait_s if before is None or is_active else before.ends_at
        self._of[info.name] = _Progress(left, since, ends_at)
        if now - since >= STUCK_AFTER_S:
            return SetState.GIVEN_UP, f"no pod has left for {STUCK_AFTER_S / 60:.0f} min"
        if now >= ends_at:
            return SetState.GIVEN_UP, "no plugin finds its pods any more"
        if is_planned:
            return SetState.GOES_ON, "another node is emptied before"
        return SetState.GOES_ON, "its pods leave as gates and limits allow"

    def hold(self, seconds: float) -> None:
        """Count no time in which nothing is evaluated, such as that of a pause."""
        self._of = {
            name: _Progress(each.left, each.since + seconds, each.ends_at + seconds)
            for name, each in self._of.items()
        }

    def next_due(self) -> float | None:
        """Return when the first set is given up, if nothing happens until then; None for none."""
        ends = (min(each.since + STUCK_AFTER_S, each.ends_at) for each in self._of.values())
        return min(ends, default=None)


class TaintWrite(Struct, frozen=True):
    """A taint that a node is to have; `value` is None where it is taken off.

    `begun` is the set that begins with it; `ended` says what became of the one that ends by it, and
    why. `opens` says that an empty node is kept free no more.
    """

    node: Node
    value: str | None
    begun: MoveSet | None = None
    ended: tuple[SetState, str] | None = None
    opens: bool = False


class _Retry(Struct, frozen=True):
    """Keeps from when on a taint may be written again, and how long was waited for it."""

    at: float
    waited_s: float


class SetTaints:
    """The taints of the sets of one controller, from one look to the next.

    Times are monotonic seconds.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._progress = SetProgress()
        self._retries: dict[tuple[str, str | None], _Retry] = {}

    def nodes(self) -> Sequence[NodeInfo]:
        """Return the nodes with the taint."""
        view = self._controller.view
        index = view.index(ConsolidatedNodes)
        found = map(view.node_info, sorted((*index.names, *index.planned)))
        return [info for info in found if info is not None and info.node is not None]

    def hold(self, seconds: float) -> None:
        """Count no time in which nothing is evaluated, such as that of a pause."""
        self._progress.hold(seconds)

    def next_due(self) -> float | None:
        """Return when the first set is given up, if nothing happens until then; None for none."""
        return self._progress.next_due()

    def look(
        self, nodes: Sequence[NodeInfo], found: Collection[str], now: Callable[[], float]
    ) -> Iterator[TaintWrite | None]:
        """Yield one taint after the other that is to be written now.

        The next one is looked for when one is written. None is yielded for a node that needs
        nothing, so that others may run in between. `nodes` are those with the taint, and `found`
        the names of those of which a pod is found as one of a set.
        """
        self._progress.forget_others(each.name for each in nodes)
        known_s = now() - RETRY_S
        self._retries = {each: of for each, of in self._retries.items() if of.at > known_s}
        for write in self._all(nodes, found, now):
            yield write if write is not None and self._is_due(write, now()) else None

    def refused(self, write: TaintWrite, now: float) -> None:
        """Note that a taint that was yielded could not be written: it is tried again soon."""
        what = write.node.name, write.value
        wait_s = min(RETRY_S, max(FIRST_RETRY_S, 2 * self._retries[what].waited_s))
        self._retries[what] = _Retry(now + wait_s, wait_s)

    def _all(
        self, nodes: Sequence[NodeInfo], found: Collection[str], now: Callable[[], float]
    ) -> Iterator[TaintWrite | None]:
        controller = self._controller
        for info in nodes:
            yield self._follow(info, now(), is_found=info.name in found)
        if not _is_planning(controller):
            for name in controller.nodes_that_follow():
                follows = controller.view.node_info(name)
                if follows is not None and follows.node is not None:
                    yield TaintWrite(follows.node, PLANNED)
            for moved in controller.sets_to_begin():
                if not moved.rooms:
                    yield from self._begin(moved)
        for node in _nodes_kept_free(controller):
            yield TaintWrite(node, EMPTY)
        for node in _nodes_to_open(controller):
            yield TaintWrite(node, None, opens=True)

    def _is_due(self, write: TaintWrite, now: float) -> bool:
        """Say whether a taint was not written a moment ago; note that it is now."""
        what = write.node.name, write.value
        before = self._retries.get(what, _Retry(now, 0.0))
        if now < before.at:
            return False
        self._retries[what] = _Retry(now + RETRY_S, before.waited_s)
        return True

    def _begin(self, moved: MoveSet) -> Iterator[TaintWrite]:
        info = self._controller.view.node_info(moved.node)
        if info is None or info.node is None or consolidation_of(info.node) not in _BEFORE:
            return
        for empty in tuple(nodes_to_close(moved, self._controller.view)):
            yield TaintWrite(empty, EMPTY)
        yield TaintWrite(info.node, EMPTYING, begun=moved)

    def _follow(self, info: NodeInfo, now: float, *, is_found: bool) -> TaintWrite | None:
        """Mark a node that is empty, and take the taint off where the set does not go on."""
        node = info.node
        assert node is not None, "the caller has checked it"
        if not _acts(self._controller):
            state, why = SetState.GIVEN_UP, "no profile has an acting plugin that empties nodes"
        else:
            goes_on = _is_active(self._controller, info, is_found=is_found)
            state, why = self._progress.look(info, now, is_active=goes_on)
        value = consolidation_of(node)
        if state is SetState.GOES_ON or (state is SetState.EMPTY and value == EMPTY):
            return None
        ended = None if value == PLANNED else (state, why)
        return TaintWrite(node, EMPTY if state is SetState.EMPTY else None, ended=ended)


_BEFORE: Final = (None, PLANNED)
"""The values of the taint on a node before its set begins."""


def _acts(controller: Controller) -> bool:
    """Say whether a plugin that may evict empties nodes: else the taint is taken off."""
    return any(each.mode != OBSERVE for each in _closing(controller))


def closes_nodes(controller: Controller) -> bool:
    """Say whether a plugin empties nodes, or keeps them empty."""
    return any(True for _ in _closing(controller))


def _is_active(controller: Controller, info: NodeInfo, *, is_found: bool) -> bool:
    """Say whether the set of a node goes on, of which a pod is found or not.

    It does while a pod leaves or a plugin is to look at it still; one that is planned while another
    node is emptied.
    """
    if info.node is not None and consolidation_of(info.node) == PLANNED:
        return controller.gates.move_sets.is_emptying
    if is_found:
        return True
    if any((each, ALL_NODES) in controller.evaluator.queue for each in _closing(controller)):
        return True
    ledger = controller.ledger
    return any(pod.is_terminating or ledger.is_under_way(pod.uid) for pod in info.active.values())


def _is_planning(controller: Controller) -> bool:
    """Say whether a plan is being decided on: which nodes follow the first is not known by then."""
    return any(controller.evaluator.is_judging((each, ALL_NODES)) for each in _closing(controller))


def _closing(controller: Controller) -> Iterator[PluginInstance]:
    instances = controller.evaluator.instances
    return (
        each
        for each in instances
        if isinstance(each.plugin, BalancePlugin) and each.plugin.closes_nodes
    )


def _nodes_kept_free(controller: Controller) -> Collection[Node]:
    """Return the empty nodes that are to have the taint though no set begins: acting plugins do.

    One that raises an exception keeps none.
    """
    view, found = controller.view, dict[str, Node]()
    for named in _named_nodes(controller, {ACT}, lambda each: each.nodes_to_close(view)):
        found = named | found
    return found.values()


def _nodes_to_open(controller: Controller) -> Collection[Node]:
    """Return the empty nodes that have the taint in vain: every acting plugin does without.

    While a set is under way there are none: its pods would go there.
    """
    view = controller.view
    infos = map(view.node_info, view.index(ConsolidatedNodes).names)
    if controller.sets_to_begin() or any(
        info is not None and info.node is not None and consolidation_of(info.node) != EMPTY
        for info in infos
    ):
        return ()
    answers = _named_nodes(controller, {ACT, PROPOSE}, lambda each: each.nodes_to_open(view))
    found = next(answers, {})
    for named in answers:
        found = {name: node for name, node in found.items() if name in named}
    return found.values()


def _named_nodes(
    controller: Controller, modes: Collection[str], ask: Callable[[_Closing], Iterable[Node]]
) -> Iterator[dict[str, Node]]:
    """Yield the nodes that each plugin which empties nodes names; one that fails names none."""
    for instance in _closing(controller):
        if instance.mode in modes:
            question = partial(_nodes_by_name, ask, instance.plugin)
            yield ask_plugin(question, otherwise=lambda _: {})


def _nodes_by_name(ask: Callable[[_Closing], Iterable[Node]], plugin: AnyPlugin) -> dict[str, Node]:
    assert isinstance(plugin, BalancePlugin), "of those that close nodes"
    return {node.name: node for node in ask(plugin)}


def nodes_to_close(moved: MoveSet, view: ClusterView) -> Iterator[Node]:
    """Yield the empty nodes that are to have the taint before a set begins.

    Else its pods would fill them, where the scheduler spreads pods.
    """
    for name in moved.empty:
        info = view.node_info(name)
        if info is None or info.node is None or consolidation_of(info.node) is not None:
            continue
        if all(map(drain_leaves, info.active.values())):
            yield info.node
