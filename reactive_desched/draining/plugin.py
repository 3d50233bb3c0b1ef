"""Plans the moves of a utilization plugin: from source nodes to destinations, up to a threshold.

An index keeps which nodes give pods and which take them; the plugin says in which order they give,
and when one has given enough.
"""

from abc import abstractmethod
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from reactive_desched.api.balance_plugin import BalancePlugin, Plan, SweepFilters
from reactive_desched.api.index import Cluster, Index
from reactive_desched.api.plugin import ArgsT, View
from reactive_desched.draining.node_table import node_table
from reactive_desched.draining.room import BookedRoom, SharedRoom, subtract
from reactive_desched.model.changes import (
    Change,
    PodChange,
    PodEvictabilityChanged,
    PodMetadataChanged,
    Resynced,
)
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.node_table import NodeTable
from reactive_desched.model.objects import Pod
from reactive_desched.model.pod_importance import pod_importance
from reactive_desched.model.resources import ResourceList
from reactive_desched.model.utilization import (
    REQUESTS,
    NodeUse,
    Thresholds,
    UtilizationRule,
)
from reactive_desched.state.indexes.node_utilization import (
    NodeUtilization,
    NodeUtilizationChanged,
)

RESERVED_RECHECK_S: Final = 60.0
"""A plan that ended while capacity was reserved for replacements is made anew after so long."""

NODES_PER_SLICE: Final = 100
"""After so many nodes other tasks of the event loop run: some 0.3 ms."""

NodePlan = Generator[Finding | RequeueAfter | YieldPoint, Decision, str]
"""The plan for one node; it returns the scope whose limit ended it, if one did."""


POOL: Final = "nodes"
"""The one subject of a draining plugin."""


def pauses_between(nodes: Iterable[object]) -> Iterator[YieldPoint]:
    """Iterate over nodes to their end, and yield a YieldPoint after every hundred."""
    for number, _ in enumerate(nodes, 1):
        if number % NODES_PER_SLICE == 0:
            yield YieldPoint()


class DrainingPlugin(BalancePlugin[str, ArgsT]):
    """Moves pods from the nodes that give them away, by a rule, to those that take them.

    The subject is all nodes. In a sweep the plan counts as the SIG descheduler does, see
    `SharedRoom`, else as `BookedRoom` says.
    """

    sweep_filters = SweepFilters.PRE_EVICTION
    indexes = (NodeUtilization,)
    reacts_to = (
        Resynced,
        NodeUtilizationChanged,
        PodEvictabilityChanged,
        PodMetadataChanged,  # the annotation prefer-no-eviction puts pods last
    )

    def __init__(self, args: ArgsT, rule: UtilizationRule) -> None:
        super().__init__(args)
        self.rule = rule
        self.rule_for_sweeps = replace(rule, as_upstream=True)

    # --- what a plugin says ---

    @abstractmethod
    def order(self, source: NodeUse) -> int:
        """Return a number by which sources give pods away, the lowest first; names decide ties."""

    @abstractmethod
    def gives_more(self, used: ResourceList, allowed: ResourceList) -> bool:
        """Say whether a source of which so much is used gives pods away; asked after each pod."""

    @abstractmethod
    def may_leave(self, pod: Pod) -> bool:
        """Say whether the arguments let a pod leave; what the evictor says comes on top."""

    @abstractmethod
    def explain(
        self, source: NodeUse, thresholds: Thresholds
    ) -> tuple[str, Mapping[str, int | str]]:
        """Return why pods should leave a source: a message, and the figures behind it."""

    @property
    def node_limit(self) -> int | None:
        """How many pods may leave a node in a sweep, or in any five minutes."""
        return None

    # --- what wakes it ---

    @property
    def required_indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The index for this rule."""
        return ((NodeUtilization, self.rule),)

    @property
    def usage_sources(self) -> Collection[str]:
        """The rule's source, unless the requests of pods count."""
        return () if self.rule.source == REQUESTS else (self.rule.source,)

    def matters(self, change: Change) -> bool:
        """Say whether a change is about this rule."""
        return not isinstance(change, NodeUtilizationChanged) or change.rule == self.rule

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name the pool; not for pods on other nodes than the sources."""
        if isinstance(change, PodChange):
            pool = view.index(NodeUtilization, self.rule)
            return (POOL,) if pool.can_act and change.pod.node in pool.sources() else ()
        return (POOL,)

    def describe(self, pod: Pod, view: View) -> str:
        """Say how the pod's node stands beside the thresholds, and what keeps pods from moving."""
        table = node_table(view.index(NodeUtilization, self.rule))
        texts = [table.describe(pod.node), *table.obstacles]
        if not self.may_leave(pod):
            texts.append("the arguments leave the pod where it is")
        return "; ".join(filter(None, texts))

    def node_tables(self, view: View) -> Iterable[NodeTable]:
        """Return the one table of this rule."""
        return (node_table(view.index(NodeUtilization, self.rule)),)

    def sweep_node_tables(self, view: View) -> Iterable[NodeTable]:
        """Return the table as the SIG descheduler counts."""
        return (node_table(view.index(NodeUtilization, self.rule_for_sweeps)),)

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether the pod's node gives pods away.

        By measured use the node is asked, for a new pod has no measurement yet.
        """
        del now_s
        return pod.node in cluster.index(NodeUtilization, self.rule).sources()

    # --- the plan ---

    def balance(self, subject: str, view: View) -> Plan:
        """Plan moves after which no destination is worse than its source was."""
        del subject
        return self._drain(view, view.index(NodeUtilization, self.rule), BookedRoom)

    def sweep(self, view: View) -> Plan:
        """Plan as upstream, which does nothing where the use of a single node is unknown."""
        pool = view.index(NodeUtilization, self.rule_for_sweeps)
        if not pool.unknown:
            yield from self._drain(view, pool, SharedRoom)

    def _drain(self, view: View, pool: NodeUtilization, make_room: type[SharedRoom]) -> Plan:
        """Drain one source after the other while the destinations have something left of all."""
        if not pool.can_act:
            return
        yield from pauses_between(pool.catch_up())
        room = make_room(pool, view)
        yield from pauses_between(room.count())
        sources: list[tuple[int, str, NodeUse]] = []
        for name, source in list(pool.sources().items()):
            sources.append((self.order(source), name, source))
            if len(sources) % NODES_PER_SLICE == 0:
                yield YieldPoint()
        for _, _, source in sorted(sources, key=itemgetter(0, 1)):
            if not room.is_left:
                break
            exhausted = yield from self._drain_node(source, view, room)
            if exhausted == "cluster":
                return
            yield YieldPoint()
        if room.is_promised:
            yield RequeueAfter(RESERVED_RECHECK_S)

    def _drain_node(self, source: NodeUse, view: View, room: SharedRoom) -> NodePlan:
        """Propose the pods of a source, least important first, until it has given enough."""
        allowed = room.allowed_on(source)
        used, pods = room.begin(source)
        if not self.gives_more(used, allowed):
            return ""
        message, details = self.explain(source, room.thresholds)
        left, spent_namespaces = self.node_limit, set[str]()
        for pod, amounts in self._movable(pods, view, room, spent_namespaces):
            if left == 0:
                break
            decision = yield Finding(
                pod,
                self.name,
                message,
                needs_fit=room.needs_fit,
                targets=room.targets,
                node_limit=self.node_limit,
                relieves_node=True,
                details=details,
            )
            if decision.pod_leaves:
                left = None if left is None else left - 1
                subtract(used, amounts)
                room.take(amounts)
                if not (room.is_left and self.gives_more(used, allowed)):
                    break
            elif decision.scope_exhausted == "namespace":
                spent_namespaces.add(pod.namespace)
            elif decision.scope_exhausted:
                return decision.scope_exhausted
        return ""

    def _movable(
        self, pods: list[Pod], view: View, room: SharedRoom, spent_namespaces: Collection[str]
    ) -> Iterator[tuple[Pod, ResourceList]]:
        """Yield the pods that may leave, least important first, and what each uses.

        What `room` admits and which namespaces are spent is looked up for each pod in turn.
        """
        removable = [pod for pod in pods if view.evictable(pod) and self.may_leave(pod)]
        for pod in sorted(removable, key=pod_importance(view.prefers_no_eviction)):
            amounts = room.used_by(pod)
            if amounts is None or pod.namespace in spent_namespaces:
                continue
            if room.admits(pod, amounts):
                yield pod, amounts
