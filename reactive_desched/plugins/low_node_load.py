"""A node is measured to be loaded more than it should be, while others have room.

Names, defaults and steps are those of koordinator's LowNodeLoad.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from itertools import count
from operator import add
from typing import Final

from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.index import Cluster, Index
from reactive_desched.api.plugin import View
from reactive_desched.draining.landing import RESERVED_RECHECK_S
from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.draining.load_moves import LoadMoves, RunningLoads, room_of
from reactive_desched.draining.load_obstacles import LoadObstacles
from reactive_desched.draining.load_pools import LoadPool, LoadView
from reactive_desched.draining.load_tables import load_tables
from reactive_desched.model.changes import Change, PodEvictabilityChanged, Resynced
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint, with_pauses
from reactive_desched.model.koordinator import is_prod
from reactive_desched.model.node_load import (
    TARGETS,
    Level,
    LoadClass,
)
from reactive_desched.model.node_table import NodeTable
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.long_answers import PORTION, portions
from reactive_desched.state.indexes.node_loads import (
    SOURCES,
    LoadedNode,
    NodeLoadChanged,
    NodeLoads,
    PoolClasses,
)
from reactive_desched.state.indexes.replica_places import ReplicaPlaces

EVERY_POOL: Final = "every pool"
"""The one subject: a node that one pool has handled is left out by the next."""


class LowNodeLoadPlugin(BalancePlugin[str, LowNodeLoadArgs]):
    """Nodes of a pool on which more is used than should be, while other nodes of it have room.

    Pools are balanced one after the other: the default one, then those under nodePools. In each,
    pods leave overloaded nodes for nodes with room, and then production pods leave nodes where
    these use too much for nodes with room for them. A node counts as overloaded when it was
    found so often enough (`anomalyCondition`): once per measurement, in a sweep once per pass.
    Nodes without a recent measurement neither give nor take pods. A threshold is about the nodes
    that have some of its resource; in a sweep a node uses 0 % of what it lacks, as koordinator has
    it.
    """

    name = "LowNodeLoad"
    needs_spreading = True
    indexes = (NodeLoads, ReplicaPlaces)
    reacts_to = (Resynced, NodeLoadChanged, PodEvictabilityChanged)

    def __init__(self, args: LowNodeLoadArgs) -> None:
        super().__init__(args)
        self._pools = (LoadPool(args), *(LoadPool(args, pool) for pool in args.node_pools))
        self._passes = count(1)

    @property
    def required_indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The loads of each pool's nodes, and where the pods of a workload are."""
        yield ReplicaPlaces, None
        yield from ((NodeLoads, pool.rule) for pool in self._pools)

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name the one subject, unless only a pod may leave that is on no overloaded node."""
        if isinstance(change, PodEvictabilityChanged):
            loads = (view.index(NodeLoads, pool.rule) for pool in self._pools)
            if not any(each.is_source(change.pod.node) for each in loads):
                return ()
        return (EVERY_POOL,)

    def balance(self, subject: str, view: View) -> Plan:
        """Plan every pool by what was measured, and by the pods that left and came since."""
        del subject
        yield from self._balance_pools(LoadView(view, reserved=view.reserved_by_node()))

    def sweep(self, view: View) -> Plan:
        """Plan as koordinator does: every pass is an observation, and only measured use counts."""
        yield from self._balance_pools(LoadView(view, next(self._passes)))

    def describe(self, pod: Pod, view: View) -> str:
        """Say how the pod's node compares in each pool that it is in, and what keeps pods there."""
        look, texts = LoadView(view, reserved=view.reserved_by_node()), list[str]()
        for pool in self._pools:
            obstacles = self._obstacles(pool, look)
            for level, table in self._pool_tables(obstacles):
                if text := table.describe(pod.node):
                    texts += [text, *obstacles.described(pod, level)]
        return "; ".join(dict.fromkeys(texts)) or f"node {pod.node} is in no pool"

    def obstacles(self, view: View) -> Callable[[Pod], str]:
        """Return what says why a pod stays on an overloaded node."""
        return self._pod_obstacles(LoadView(view, reserved=view.reserved_by_node()))

    def sweep_obstacles(self, view: View) -> Callable[[Pod], str]:
        """Return the same as koordinator counts."""
        return self._pod_obstacles(LoadView(view, 0))

    def _pod_obstacles(self, look: LoadView) -> Callable[[Pod], str]:
        asked = [ask for pool in self._pools for ask in self._obstacles(pool, look).of_pod()]
        return lambda pod: next(filter(None, (ask(pod) for ask in asked)), "")

    def still_found(self, finding: Finding, subject: str, view: View) -> Finding | None:
        """Return the finding while a pool has the pod's node for one on which too much is used."""
        del subject
        node, loads = finding.pod.node, (view.index(NodeLoads, each.rule) for each in self._pools)
        return finding if any(each.is_source(node) for each in loads) else None

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether the pod's node was measured to be loaded too much, for pods like it."""
        fresh_after_s = now_s - self.args.node_metric_expiration_seconds
        overloaded = SOURCES if is_prod(pod) else (LoadClass.HIGH,)
        return any(
            pod.node == each.load.name
            for pool in self._pools
            for each in cluster.index(NodeLoads, pool.rule).classes(fresh_after_s).of(*overloaded)
        )

    def node_tables(self, view: View) -> Iterator[NodeTable]:
        """Yield up to two tables for each pool, by measurements and the pods there are now."""
        yield from self._node_tables(LoadView(view, reserved=view.reserved_by_node()))

    def sweep_node_tables(self, view: View) -> Iterator[NodeTable]:
        """Yield the same by measured use alone, as koordinator counts."""
        yield from self._node_tables(LoadView(view, 0))

    def _node_tables(self, look: LoadView) -> Iterator[NodeTable]:
        for pool in self._pools:
            for _, table in self._pool_tables(self._obstacles(pool, look)):
                yield table

    def _pool_tables(self, obstacles: LoadObstacles) -> Iterator[tuple[Level, NodeTable]]:
        """Yield the tables of a pool, for each level that has thresholds."""
        pool, look = obstacles.pool, obstacles.look
        rule = look.rule(pool)
        loads = look.view.index(NodeLoads, rule)
        return load_tables(
            pool.name, rule, loads, obstacles.classes, obstacles.lines, obstacles.of_node
        )

    def _obstacles(self, pool: LoadPool, look: LoadView) -> LoadObstacles:
        fresh_after_s = look.view.now_s - self.args.node_metric_expiration_seconds
        classes = look.view.index(NodeLoads, look.rule(pool)).classes(fresh_after_s)
        return LoadObstacles(self.args, pool, look, classes)

    def _balance_pools(self, look: LoadView) -> Plan:
        if self.args.paused:
            return
        fresh_after_s = look.view.now_s - self.args.node_metric_expiration_seconds
        handled: set[str] = set()
        for pool in self._pools:
            loads = look.view.index(NodeLoads, look.rule(pool))
            left_out = () if pool.takes_every_node else tuple(handled)
            classes = yield from with_pauses(loads.count_classes(fresh_after_s, left_out))
            yield YieldPoint()
            if classes.has(*SOURCES) or pool.rule.deviation:
                yield from _until_too_old(loads, fresh_after_s)
            handled.update((yield from self._balance_pool(pool, classes, look)))

    def _balance_pool(
        self, pool: LoadPool, classes: PoolClasses, look: LoadView
    ) -> Generator[Finding | RequeueAfter | YieldPoint, Decision, Sequence[str]]:
        """Plan one pool; return the overloaded nodes that it has dealt with."""
        found: list[list[LoadedNode]] = []
        for each in (*SOURCES, *TARGETS):
            nodes = yield from with_pauses(classes.find(each), every=1)
            found.append(nodes)
        high, prod_high, low, both_low, prod_low = found
        sources = yield from with_pauses(pool.confirmed(Level.NODE, high, look))
        prod_sources = yield from with_pauses(pool.confirmed(Level.PROD, prod_high, look))
        with_room = len(low) + len(both_low) + len(prod_low)
        if not (with_room and (sources or prod_sources)):
            return ()
        for level, relieved in ((Level.NODE, [*low, *both_low]), (Level.PROD, prod_low)):
            for portion in portions(relieved):
                pool.relieve(level, portion)
                yield YieldPoint()
        if not self.args.number_of_nodes < with_room < classes.selected:
            return ()
        for nodes in (low, both_low, prod_low):
            for at, node in enumerate(nodes):
                nodes[at] = look.with_reserved(node)
                if at % PORTION == 0:
                    yield YieldPoint()
        rivals = [each.load.name for each in (*sources, *prod_sources)]
        rule, running = pool.rule, RunningLoads(self.name, self.args, pool, look, rivals)
        room = yield from with_pauses(room_of(rule, Level.NODE, [*low, *both_low]))
        room_of_both = yield from with_pauses(room_of(rule, Level.NODE, both_low))
        yield from LoadMoves(running, Level.NODE, [*low, *both_low], room).plan(sources)
        # What production pods find on the nodes with room for all is what the others left of it.
        prod_of_both = yield from with_pauses(room_of(rule, Level.PROD, both_low))
        shared = map(min, prod_of_both, room_of_both, room)
        prod_of_low = yield from with_pauses(room_of(rule, Level.PROD, prod_low))
        prod_room = list(map(add, prod_of_low, shared))
        move = LoadMoves(running, Level.PROD, [*prod_low, *both_low], prod_room)
        yield from move.plan(prod_sources)
        pool.observe_normal(Level.NODE, sources)
        pool.observe_normal(Level.PROD, prod_sources)
        if look.reserved:
            yield RequeueAfter(RESERVED_RECHECK_S)
        return [each.load.name for each in high]


def _until_too_old(loads: NodeLoads, fresh_after_s: float) -> Iterator[RequeueAfter]:
    """Ask to look again when a measurement is too old: it moves the mean, and ends findings."""
    if (oldest_s := loads.oldest_sample_s(fresh_after_s)) is not None:
        yield RequeueAfter(oldest_s - fresh_after_s)
