"""Follows the drains of nodes: describes them, begins those of the settings, marks empty nodes."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from reactive_desched.api.event import NodeDrained
from reactive_desched.api.index import NodeInfo
from reactive_desched.controller.named_objects import known_node
from reactive_desched.controller.node_drains import (
    DrainInputs,
    NodeDrains,
    drains_of,
    is_drained,
    profiles_that_drain,
)
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.slices import in_slices
from reactive_desched.errors import ClusterError, ConfigError
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.model.node_drains import is_being_drained
from reactive_desched.model.objects import Node
from reactive_desched.policy.settings.drains import DrainRule
from reactive_desched.primitives.hints import quote
from reactive_desched.state.indexes.drain_requests import DrainRequests
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, gauge
from reactive_desched.text.times import format_second
from reactive_desched.web.operator import DebugPage

PAGE: Final = "drains"
MAX_NODES: Final = 200
"""So many nodes are described in one answer; name some for the others."""

POLL_S: Final = 1.0
"""How often nodes that are to be drained are looked at."""

RETRY_S: Final = 30.0
"""How long the mark of a node waits that could not be written."""

PODS_LEFT: Final = gauge(
    "drain_pods_left",
    "Pods left on nodes that are to be drained, by what holds them: the gate that does, or how far "
    "they are; of 100 nodes, and 100 pods of each, at most.",
    "node",
    "blocked_by",
)
MAX_COUNTED: Final = 100
"""So many nodes have samples of that family, the first by name."""

BEGIN_S: Final = 10.0
"""How often the rules of the settings are looked at."""

_RIGHT: Final = "kubectl apply -f deploy/drain/rbac.yaml gives the right to patch nodes"


class NodeWrites(Struct, frozen=True):
    """Writes to nodes; both raise ClusterError.

    `request` cordons a node and writes who wants it drained, `mark` when it was emptied, None for
    one that is not.
    """

    request: Callable[[Node, str], Awaitable[None]]
    mark: Callable[[Node, str | None], Awaitable[None]]


class Draining:
    """Follows the drains of one controller; what it says is in the nodes' annotations.

    `rules` returns the rules of the settings in force, by which it begins drains. `writes` is None
    in a dry run, which writes nothing. Each node that is empty is recorded once, and
    again after a restart where its mark could not be written.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        recorder: Recorder,
        writes: NodeWrites | None,
        rules: Callable[[], Sequence[DrainRule]],
        wall_clock: Callable[[], float],
        log: Logger,
    ) -> None:
        self._controller = pipeline.controller
        self._description = pipeline.description
        self._recorder = recorder
        self._writes = writes
        self._rules = rules
        self._wall_clock = wall_clock
        self._log = log
        self._recorded: set[str] = set()
        self._retry_at: dict[str, float] = {}
        self._begun: dict[str, tuple[str, float]] = {}
        self._left: Mapping[tuple[str, ...], float] = {}

    @property
    def pages(self) -> tuple[DebugPage, ...]:
        """The page `drains`."""
        return (DebugPage(PAGE, "how far the drains of nodes are, and who is left", self._read),)

    def collect(self) -> Iterator[Metric]:
        """Yield the pods that are left, as they were counted within the last 10 s."""
        yield PODS_LEFT.by_labels(self._left)

    async def run(self) -> None:
        """Mark nodes that are empty, while this process acts, until cancelled."""
        await self._controller.initial_sync_done.wait()
        begin_at = anyio.current_time()
        while True:
            if not self._controller.pauses.check():
                nodes = self._marked_nodes()
                self._forget_others(nodes)
                for info in nodes:
                    await self._follow(info)
                if anyio.current_time() >= begin_at:
                    await self._begin()
                    await self._count()
                    begin_at = anyio.current_time() + BEGIN_S
            await anyio.sleep(POLL_S)

    async def _begin(self) -> None:
        """Begin the drains that rules of the settings ask for, unless something holds evictions."""
        now = anyio.current_time()
        self._begun = {name: each for name, each in self._begun.items() if each[1] > now}
        controller = self._controller
        acting = profiles_that_drain(controller.evaluator, only_acting=True)
        if self._writes is None or not acting:
            return
        for rule in self._rules():
            if controller.pauses.state().hold:
                return
            begun = [name for name, (of, _) in self._begun.items() if of == rule.name]
            await checkpoint()
            for node in tuple(controller.nodes_to_begin(rule, begun)):
                self._begun[node.name] = rule.name, now + RETRY_S
                try:
                    await self._writes.request(node, rule.wish)
                except ClusterError as error:
                    text = "the drain of a node cannot begin"
                    remedy = error.if_denied(_RIGHT)
                    self._log.warning(text, node=node.name, message=str(error), remedy=remedy)
                else:
                    self._log.info(
                        "a node is cordoned, to be drained", node=node.name, message=rule.wish
                    )

    def _marked_nodes(self) -> list[NodeInfo]:
        view = self._controller.view
        found = map(view.node_info, sorted(view.index(DrainRequests).names))
        return [info for info in found if info is not None and info.node is not None]

    def _forget_others(self, nodes: Sequence[NodeInfo]) -> None:
        """Forget nodes that are gone, or not to be drained any more."""
        uids = {info.node.uid for info in nodes if info.node is not None}
        names = {info.name for info in nodes}
        self._recorded &= uids
        self._retry_at = {name: at for name, at in self._retry_at.items() if name in names}

    async def _count(self) -> None:
        counts: Counter[tuple[str, ...]] = Counter()
        if nodes := self._marked_nodes()[:MAX_COUNTED]:
            for drain in (await self._describe(nodes)).nodes:
                for pod in drain.pods:
                    counts[drain.node, pod.gate or str(pod.state)] += 1
        self._left = counts

    async def _follow(self, info: NodeInfo) -> None:
        """Mark a node that is empty, and take the mark of another one off."""
        node = info.node
        assert node is not None, "the caller has checked it"
        is_empty = is_being_drained(node) and is_drained(info)
        if not is_empty:
            self._recorded.discard(node.uid)
        elif node.drained is None and node.uid not in self._recorded:
            self._recorded.add(node.uid)
            self._record(node)
        if is_empty == (node.drained is not None):
            self._retry_at.pop(node.name, None)
            return
        await self._write(node, format_second(self._wall_clock()) if is_empty else None)

    def _record(self, node: Node) -> None:
        wish = node.drain or ""
        self._log.info("the node is drained", node=node.name, message=wish)
        event = NodeDrained(node=node.name, node_uid=node.uid, message=wish)
        self._recorder.record(event, "drains", version=node.uid, cause="pods")

    async def _write(self, node: Node, drained: str | None) -> None:
        now = anyio.current_time()
        if self._writes is None or now < self._retry_at.get(node.name, now):
            await checkpoint()
            return
        self._retry_at[node.name] = now + RETRY_S  # the watch needs a moment to show it, too
        try:
            await self._writes.mark(node, drained)
        except ClusterError as error:
            self._log.warning(
                "the node cannot be marked as drained",
                node=node.name,
                message=str(error),
                remedy=error.if_denied(_RIGHT),
            )

    async def _read(self, query: Mapping[str, str]) -> NodeDrains:
        """Answer for the nodes that are named, or else for all that are to be drained."""
        if unknown := sorted(set(query) - {"nodes"}):
            raise ConfigError(f"{quote(unknown[0])} is not a filter; there is nodes")
        controller, named = self._controller, query.get("nodes", "")
        names = [name for name in dict.fromkeys(named.split(",")) if name]
        nodes = [known_node(controller.view, name) for name in names] or self._marked_nodes()
        if len(nodes) > MAX_NODES:
            raise ConfigError(
                f"{len(nodes)} nodes are more than the {MAX_NODES} of one answer; name some"
            )
        return await self._describe(nodes)

    async def _describe(self, nodes: Sequence[NodeInfo]) -> NodeDrains:
        controller, findings = self._controller, await self._description.findings()
        return await in_slices(
            drains_of(
                nodes,
                DrainInputs(
                    controller.view,
                    controller.evaluator,
                    tuple(each.ledger for each in controller.controls),
                    findings,
                    controller.pauses.state().hold,
                    self._description.moment(),
                ),
            )
        )
