"""Writes the taints of sets of moves in a preview, as the controller would, and notes who is empty.

No time passes until a taint is there. A set that does not go on keeps its taint to the end.
"""

from collections.abc import Callable

from msgspec.structs import replace

from reactive_desched.controller.consolidation import nodes_to_close
from reactive_desched.controller.controller import Controller
from reactive_desched.model.consolidation import (
    EMPTY,
    EMPTYING,
    consolidating_taint,
    consolidation_of,
)
from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import Node
from reactive_desched.plan.report import EmptiedNode
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes


class AssumedSets:
    """The nodes of one preview whose pods leave as a set; `now` returns seconds since its start."""

    def __init__(self, controller: Controller, now: Callable[[], float]) -> None:
        self._controller = controller
        self._now = now
        self._begun: dict[str, tuple[float, int]] = {}
        self._emptied: dict[str, EmptiedNode] = {}

    @property
    def nodes(self) -> tuple[EmptiedNode, ...]:
        """Return the nodes whose sets began, in that order, with when they were empty."""
        return tuple(
            self._emptied.get(name) or EmptiedNode(name, pods, round(began, 3), None)
            for name, (began, pods) in self._begun.items()
        )

    def advance(self) -> None:
        """Write the taints that are due now."""
        for each in self._controller.sets_to_begin():
            info = self._controller.view.node_info(each.node)
            for empty in tuple(nodes_to_close(each, self._controller.view)):
                self._taint(empty, EMPTY)
            if info is not None and info.node is not None:
                self._begun[each.node] = self._now(), len(each.pods)
                self._taint(info.node, EMPTYING)
        for name in sorted(self._controller.view.index(ConsolidatedNodes).names):
            self._follow(name)

    def _follow(self, name: str) -> None:
        info = self._controller.view.node_info(name)
        if info is None or info.node is None:
            return
        state, is_empty = consolidation_of(info.node), all(map(drain_leaves, info.active.values()))
        if state != EMPTY and is_empty:
            began, pods = self._begun.get(name, (0.0, 0))
            emptied = EmptiedNode(name, pods, round(began, 3), round(self._now(), 3))
            self._emptied[name] = emptied
            self._taint(info.node, EMPTY)
        elif state == EMPTY and not is_empty:
            self._emptied.pop(name, None)
            self._taint(info.node, None)

    def _taint(self, node: Node, value: str | None) -> None:
        taints = tuple(each for each in node.taints if each.key != CONSOLIDATING)
        if value is not None:
            taints = (*taints, consolidating_taint(value))
        self._controller.apply(self._controller.state.upsert(replace(node, taints=taints)))
