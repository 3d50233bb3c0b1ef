"""Writes the taint of nodes whose pods leave as a set, and takes it off where that ends."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from reactive_desched.api.event import ConsolidationBegun, ConsolidationEnded, EventData
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.controller.consolidation import SetTaints, TaintWrite
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
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import Node
from reactive_desched.model.taints import Taint
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, gauge

POLL_S: Final = 1.0
"""How often nodes are looked at."""

NODES: Final = gauge(
    "consolidated_nodes",
    "Nodes with the taint of a set of moves, by its value: planned, then emptying, then empty.",
    "state",
)
RIGHT: Final = "kubectl apply -f deploy/drain/rbac.yaml gives the right to patch nodes"

WriteTaint = Callable[[Node, str, Taint | None], Awaitable[None]]
"""Writes a node's taint of a key, None for none; raises ClusterError."""


class Consolidation:
    """Follows the sets of one controller; the taint of each node says how far it is.

    `write` is None in a dry run, which writes nothing. Where no plugin
    acts by a taint any more, it is taken off.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        recorder: Recorder,
        write: WriteTaint | None,
        log: Logger,
        notes: InputNotes,
    ) -> None:
        self._controller = pipeline.controller
        self._description = pipeline.description
        self._recorder = recorder
        self._write_taint = write
        self._log = log
        self._notes = notes
        self._taints = SetTaints(pipeline.controller)

    def collect(self) -> Iterator[Metric]:
        """Yield the nodes with the taint, by its value."""
        counts = Counter(
            (consolidation_of(info.node) or "",) for info in self._taints.nodes() if info.node
        )
        yield NODES.by_labels({(value,): counts[(value,)] for value in (EMPTYING, EMPTY, PLANNED)})

    async def run(self) -> None:
        """Write and take off taints, while this process acts, until cancelled."""
        await self._controller.initial_sync_done.wait()
        while True:
            if self._controller.pauses.check():
                self._taints.hold(POLL_S)
            elif self._write_taint is not None:
                await self._look(self._write_taint)
            await anyio.sleep(POLL_S)

    async def _look(self, write: WriteTaint) -> None:
        nodes = self._taints.nodes()
        found = await self._found() if nodes else frozenset[str]()
        for each in self._taints.look(nodes, found, anyio.current_time):
            if each is None:
                await checkpoint()
            elif await self._write(each, write):
                self._announce(each)
            else:
                self._taints.refused(each, anyio.current_time())

    def _announce(self, written: TaintWrite) -> None:
        """Log and record a set that began or ended."""
        node = written.node
        if (moved := written.begun) is not None:
            self._log.info("a node is tainted, and its pods leave as a set", node=node.name)
            begun = ConsolidationBegun(node=node.name, node_uid=node.uid, pods=len(moved.pods))
            self._record(begun, node)
        elif written.ended is not None:
            state, why = written.ended
            self._log.info("the set of a node has ended", node=node.name, result=state, message=why)
            ended = ConsolidationEnded(node=node.name, node_uid=node.uid, result=state, message=why)
            self._record(ended, node)
        elif written.opens:
            text = "an empty node is kept free no more: fewer are wanted"
            self._log.info(text, node=node.name)

    async def _write(self, each: TaintWrite, write: WriteTaint) -> bool:
        """Write a taint; say whether it was written."""
        name, value = each.node.name, each.value
        taint = None if value is None else consolidating_taint(value)
        try:
            await write(each.node, CONSOLIDATING, taint)
        except ClusterError as error:
            self._notes.taint_refused(name, value)
            text = "the taint of a node cannot be written"
            remedy = error.if_denied(RIGHT)
            self._log.warning(text, node=name, message=str(error), remedy=remedy)
            return False
        return True

    def _record(self, event: EventData, node: Node) -> None:
        self._recorder.record(event, "consolidation", version=node.uid, cause="pods")

    async def _found(self) -> Collection[str]:
        """Return the nodes of which a pod is found as one of a set, and waits."""
        found = await self._description.findings()
        sets = (each.decision.finding.move_set for each in found)
        return {moved.node for moved in sets if moved is not None and not moved.rooms}
