"""Writes the taint of nodes whose pods leave as a set, and takes it off where that ends."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from reactive_desched.api.event import ConsolidationBegun, ConsolidationEnded, EventData
from reactive_desched.api.index import NodeInfo
from reactive_desched.controller.consolidation import (
    SetProgress,
    SetState,
    acts,
    is_active,
    nodes_kept_free,
    nodes_to_close,
    nodes_to_open,
)
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.errors import ClusterError
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.model.consolidation import (
    EMPTY,
    EMPTYING,
    PLANNED,
    consolidating_taint,
    consolidation_of,
)
from reactive_desched.model.findings import MoveSet
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import Node
from reactive_desched.model.taints import Taint
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, gauge

POLL_S: Final = 1.0
"""How often nodes are looked at."""

RETRY_S: Final = 30.0
"""How long a write waits that was refused, or that the watch has not shown yet."""

NODES: Final = gauge(
    "consolidated_nodes",
    "Nodes with the taint of a set of moves, by its value: planned, then emptying, then empty.",
    "state",
)
RIGHT: Final = "kubectl apply -f deploy/drain/rbac.yaml gives the right to patch nodes"

_BEFORE: Final = (None, PLANNED)
"""The values of the taint on a node before its set begins."""

WriteTaint = Callable[[str, str, Taint | None], Awaitable[None]]
"""Writes a node's taint of a key, None for none; raises ClusterError."""


class Consolidation:
    """Follows the sets of one controller; the taint of each node says how far it is.

    `write` is None in a dry run, which writes nothing. Where no plugin
    acts by a taint any more, it is taken off.
    """

    def __init__(
        self, pipeline: Pipeline, recorder: Recorder, write: WriteTaint | None, log: Logger
    ) -> None:
        self._controller = pipeline.controller
        self._description = pipeline.description
        self._recorder = recorder
        self._write_taint = write
        self._log = log
        self._progress = SetProgress()
        self._retry_at: dict[tuple[str, Taint | None], float] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield the nodes with the taint, by its value."""
        counts = Counter(
            (consolidation_of(info.node) or "",) for info in self._tainted() if info.node
        )
        yield NODES.by_labels({(value,): counts[(value,)] for value in (EMPTYING, EMPTY, PLANNED)})

    async def run(self) -> None:
        """Write and take off taints, while this process acts, until cancelled."""
        await self._controller.initial_sync_done.wait()
        while True:
            if self._controller.pauses.check():
                self._progress.hold(POLL_S)
            elif self._write_taint is not None:
                await self._look(self._write_taint)
            await anyio.sleep(POLL_S)

    async def _look(self, write: WriteTaint) -> None:
        controller, now = self._controller, anyio.current_time()
        nodes = self._tainted()
        self._progress.forget_others(each.name for each in nodes)
        self._retry_at = {each: at for each, at in self._retry_at.items() if at > now}
        found = await self._found_by_node() if nodes else {}
        for info in nodes:
            await self._follow(info, write, found)
        for each in controller.sets_to_begin():
            if not each.rooms:
                await self._begin(each, write)
        for name in controller.nodes_that_follow():
            follows = controller.view.node_info(name)
            if follows is not None and follows.node is not None:
                await self._write(follows.node, consolidating_taint(PLANNED), write)
        for node in tuple(nodes_kept_free(controller)):
            await self._write(node, consolidating_taint(EMPTY), write)
        for node in tuple(nodes_to_open(controller)):
            if await self._write(node, None, write):
                text = "an empty node is kept free no more: fewer are wanted"
                self._log.info(text, node=node.name)

    async def _begin(self, moved: MoveSet, write: WriteTaint) -> None:
        info = self._controller.view.node_info(moved.node)
        if info is None or info.node is None or consolidation_of(info.node) not in _BEFORE:
            await checkpoint()
            return
        for empty in tuple(nodes_to_close(moved, self._controller.view)):
            await self._write(empty, consolidating_taint(EMPTY), write)
        node, taint = info.node, consolidating_taint(EMPTYING)
        if await self._write(node, taint, write):
            self._log.info("a node is tainted, and its pods leave as a set", node=node.name)
            begun = ConsolidationBegun(node=node.name, node_uid=node.uid, pods=len(moved.pods))
            self._record(begun, node)

    async def _follow(self, info: NodeInfo, write: WriteTaint, found: Mapping[str, int]) -> None:
        """Mark a node that is empty, and take the taint off where the set does not go on."""
        node = info.node
        assert node is not None, "the caller has checked it"
        now = anyio.current_time()
        if not acts(self._controller):
            state, why = SetState.GIVEN_UP, "no profile has an acting plugin that empties nodes"
        else:
            goes_on = is_active(self._controller, info, is_found=bool(found.get(info.name)))
            state, why = self._progress.look(info, now, is_active=goes_on)
        value = consolidation_of(node)
        if state is SetState.GOES_ON or (state is SetState.EMPTY and value == EMPTY):
            await checkpoint()
            return
        taint = consolidating_taint(EMPTY) if state is SetState.EMPTY else None
        if await self._write(node, taint, write) and value != PLANNED:
            self._log.info("the set of a node has ended", node=node.name, result=state, message=why)
            ended = ConsolidationEnded(node=node.name, node_uid=node.uid, result=state, message=why)
            self._record(ended, node)

    async def _write(self, node: Node, taint: Taint | None, write: WriteTaint) -> bool:
        """Write the taint, unless that was tried a moment ago; say whether it was written."""
        now, what = anyio.current_time(), (node.name, taint)
        if now < self._retry_at.get(what, now):
            await checkpoint()
            return False
        self._retry_at[what] = now + RETRY_S  # the watch needs a moment to show it, too
        try:
            await write(node.name, CONSOLIDATING, taint)
        except ClusterError as error:
            text = "the taint of a node cannot be written"
            self._log.warning(text, node=node.name, message=str(error), remedy=RIGHT)
            return False
        return True

    def _record(self, event: EventData, node: Node) -> None:
        self._recorder.record(event, "consolidation", version=node.uid, cause="pods")

    def _tainted(self) -> Sequence[NodeInfo]:
        view = self._controller.view
        index = view.index(ConsolidatedNodes)
        names = sorted((*index.names, *index.planned))
        found = map(view.node_info, names)
        return [info for info in found if info is not None and info.node is not None]

    async def _found_by_node(self) -> Mapping[str, int]:
        """Count the pods that are found as one of a set and that wait, by the nodes they empty."""
        counts: dict[str, int] = {}
        for each in await self._description.findings():
            moved = each.decision.finding.move_set
            if moved is not None and not moved.rooms:
                counts[moved.node] = counts.get(moved.node, 0) + 1
        return counts
