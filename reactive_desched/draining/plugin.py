"""Plans the moves of a utilization plugin: from source nodes to destinations, up to a threshold.

An index keeps which nodes give pods and which take them; the plugin says in which order they give,
and when one has given enough.
"""

from abc import abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cache
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.balance_plugin import BalancePlugin, Plan, SweepFilters
from reactive_desched.api.index import Cluster, Index
from reactive_desched.api.plugin import ArgsT, View
from reactive_desched.draining.landing import (
    RESERVED_RECHECK_S,
    explain_no_relief,
    explain_return,
    waits_or_leaves,
)
from reactive_desched.draining.node_table import PoolDestinations, blocking, node_table
from reactive_desched.draining.obstacles import LEAVES_LATER, Kept, Obstacles
from reactive_desched.draining.room import (
    Admission,
    BookedRoom,
    SharedRoom,
    excess_of,
    relieves,
    subtract,
)
from reactive_desched.model.changes import (
    Change,
    PodChange,
    PodEvictabilityChanged,
    PodMetadataChanged,
    Resynced,
)
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import (
    Finding,
    RequeueAfter,
    YieldPoint,
    pauses_between,
    with_pauses,
)
from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.node_table import NodeTable
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import ResourceList, add_resources
from reactive_desched.model.usage import UseChange
from reactive_desched.model.utilization import (
    REQUESTS,
    NodeUse,
    Thresholds,
    UtilizationRule,
)
from reactive_desched.primitives.long_answers import at_once, sorted_portions
from reactive_desched.state.indexes.node_utilization import (
    NodeUtilization,
    NodeUtilizationChanged,
)
from reactive_desched.state.indexes.replica_places import ReplicaPlaces

NodePlan = Generator[Finding | RequeueAfter | YieldPoint, Decision, str]
"""The plan for one node; it returns the scope whose limit ended it, if one did."""

Amounts = tuple[Pod, ResourceList]
"""A pod that may leave, and what it uses."""


class _Source(Struct):
    """A node that gives pods away, in the course of a plan: what is used of it by now.

    `coming_back` are the pods whose replacements would come back, and `has_others` says whether
    another one leaves, or waits for its turn. `recent` are the pods that came or left a moment ago,
    the latest first.
    """

    use: NodeUse
    allowed: ResourceList
    used: dict[str, int]
    pods: list[Pod]
    coming_back: list[Amounts]
    spent_namespaces: set[str]
    recent: Sequence[UseChange] = ()
    has_others: bool = False

    @property
    def excess(self) -> ResourceList:
        """Return what is used above what is allowed, of the resources of which that is so."""
        return excess_of(self.used, self.allowed)

    @property
    def may_try(self) -> bool:
        """Say whether one of the pods whose replacements would come back is tried."""
        return bool(self.coming_back) and not self.has_others

    def note(self, decision: Decision) -> None:
        """Record what was decided on a pod; one that is refused for its own sake does not wait."""
        self.has_others |= waits_or_leaves(decision)


POOL: Final = "nodes"
"""The one subject of a draining plugin."""


class DrainingPlugin(BalancePlugin[str, ArgsT]):
    """Moves pods from the nodes that give them away, by a rule, to those that take them.

    The subject is all nodes. In a sweep the plan counts as the SIG descheduler does, see
    `SharedRoom`, else as `BookedRoom` says.
    """

    sweep_filters = SweepFilters.PRE_EVICTION
    indexes = (NodeUtilization, ReplicaPlaces)
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

    def kept_by_arguments(self, pod: Pod) -> Kept:
        """Say which argument keeps a pod that may not leave by them."""
        return Kept(
            "in namespaces that evictableNamespaces excludes",
            f"evictableNamespaces excludes its namespace, {pod.namespace}",
        )

    @abstractmethod
    def explain(
        self, source: NodeUse, thresholds: Thresholds
    ) -> tuple[str, Mapping[str, int | str]]:
        """Return why pods should leave a source: a message, and the figures behind it."""

    @property
    def node_limit(self) -> int | None:
        """Return how many pods may leave a node in a sweep, or in any five minutes."""
        return None

    @property
    def may_stay(self) -> Collection[str]:
        """The filters whose pods a node keeps when it has given all it is to give."""
        return ()

    # --- what wakes it ---

    @property
    def required_indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The index for this rule, and where the pods of a workload are."""
        return ((NodeUtilization, self.rule), (ReplicaPlaces, None))

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
        """Say how the pod's node compares with the thresholds, and what keeps pods from moving."""
        pool, obstacles = view.index(NodeUtilization, self.rule), self._obstacles(view, self.rule)
        texts = [node_table(pool, obstacles).describe(pod.node)]
        texts += [obstacles.reason(pod)] if pod.node in pool.sources() else blocking(pool)
        return "; ".join(filter(None, texts))

    def obstacles(self, view: View) -> Callable[[Pod], str]:
        """Return what says why a pod stays on a node that gives pods away."""
        return self._obstacles(view, self.rule).of_pod

    def sweep_obstacles(self, view: View) -> Callable[[Pod], str]:
        """Return the same as the SIG descheduler counts."""
        return self._obstacles(view, self.rule_for_sweeps).of_pod

    def _obstacles(self, view: View, rule: UtilizationRule) -> Obstacles:
        pool = view.index(NodeUtilization, rule)

        def kept(pod: Pod) -> Kept | None:
            if not self.may_leave(pod):
                return self.kept_by_arguments(pod)
            amounts = pool.used_by(pod)
            if amounts is None or (not rule.as_upstream and pool.came_later(pod)):
                return Kept("not measured yet", "what the pod uses is not measured yet")
            source = None if rule.as_upstream else pool.sources().get(pod.node)
            if source is not None:
                allowed = pool.thresholds.allowed_on(source.node, source.used)
                excess = excess_of(source.used, allowed)
                if not relieves(amounts, excess):
                    return Kept(
                        "using none of what is used too much", explain_no_relief(pod, excess)
                    )
            return None

        return Obstacles(
            view,
            pool.sources(),
            rule.gives,
            kept,
            PoolDestinations(view, pool),
            tuple(blocking(pool)),
            self.may_stay,
            None if rule.as_upstream else self._why_not_chosen(pool, view),
        )

    def _why_not_chosen(self, pool: NodeUtilization, view: View) -> Callable[[Pod], str]:
        """Return what says why a pod stays that a destination would take."""

        @cache
        def room() -> BookedRoom:
            sources = pool.sources()
            names = sorted(sources, key=lambda name: (self.order(sources[name]), name))
            made = BookedRoom(pool, view, names)
            for _ in chain(made.count(), made.put_in_order()):
                pass
            return made

        def say(pod: Pod) -> str:
            amounts = room().used_by(pod)
            if amounts is None or at_once(room().admits(pod, amounts)) is not Admission.COMES_BACK:
                return LEAVES_LATER
            return explain_return(pod)

        return say

    def node_tables(self, view: View) -> Iterable[NodeTable]:
        """Return the one table of this rule."""
        return (self._table(view, self.rule),)

    def sweep_node_tables(self, view: View) -> Iterable[NodeTable]:
        """Return the table as the SIG descheduler counts."""
        return (self._table(view, self.rule_for_sweeps),)

    def _table(self, view: View, rule: UtilizationRule) -> NodeTable:
        return node_table(view.index(NodeUtilization, rule), self._obstacles(view, rule))

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether the pod's node gives pods away.

        By measured use the node is asked, for a new pod has no measurement yet.
        """
        del now_s
        return pod.node in cluster.index(NodeUtilization, self.rule).sources()

    def still_found(self, finding: Finding, subject: str, view: View) -> Finding | None:
        """Return the finding while the pod's node gives pods away."""
        del subject
        is_source = finding.pod.node in view.index(NodeUtilization, self.rule).sources()
        return finding if is_source else None

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
        uses = dict(pool.sources())
        names = yield from self._in_order(uses)
        room = make_room(pool, view, names)
        yield from pauses_between(room.count())
        for _ in room.put_in_order():
            yield YieldPoint()
        sources = yield from self._drain_in_turn(map(uses.__getitem__, names), view, room)
        for source in sources:
            if source.may_try and not room.is_being_left(source.use):
                trial = self._propose(source, _once_more(source, room), view, room, is_trial=True)
                if (yield from trial) == "cluster":
                    return
        if room.is_promised:
            yield RequeueAfter(RESERVED_RECHECK_S)

    def _in_order(
        self, uses: Mapping[str, NodeUse]
    ) -> Generator[Finding | RequeueAfter | YieldPoint, Decision, list[str]]:
        """Name the sources in the order in which they give pods away."""
        names: list[str] = []
        for portion in sorted_portions(list(uses), lambda name: (self.order(uses[name]), name)):
            names += portion
            yield YieldPoint()
        return names

    def _drain_in_turn(
        self, uses: Iterable[NodeUse], view: View, room: SharedRoom
    ) -> Generator[Finding | RequeueAfter | YieldPoint, Decision, list[_Source]]:
        """Drain one source after the other; return those from which a pod may be tried."""
        trials: list[_Source] = []
        for use in uses:
            if not room.is_left:
                break
            used, pods = room.begin(use)
            yield YieldPoint()
            source = _Source(use, room.allowed_on(use), used, pods, [], set())
            if not self.gives_more(used, source.allowed):
                continue
            source.recent = room.recent_changes(use)
            movable = self._movable(source, view, room)
            if (yield from self._propose(source, movable, view, room)) == "cluster":
                return []
            if source.coming_back:
                trials.append(source)
            yield YieldPoint()
        return trials

    def _propose(
        self,
        source: _Source,
        movable: Iterable[Amounts | YieldPoint],
        view: View,
        room: SharedRoom,
        *,
        is_trial: bool = False,
    ) -> NodePlan:
        """Propose pods of a source until it has given enough; as a trial, until one leaves."""
        message, details = self.explain(source.use, room.thresholds)
        now_s = view.now_s
        used, left = source.used, self.node_limit
        for each in movable:
            if left == 0:
                break
            if isinstance(each, YieldPoint):
                yield each
                continue
            pod, amounts = each
            targets = room.targets
            yield YieldPoint()
            wait_s = self._wait_s(source, room.pool)
            decision = yield Finding(
                pod,
                self.name,
                message,
                needs_fit=room.needs_fit,
                targets=targets,
                node_limit=self.node_limit,
                relieves_node=True,
                is_trial=is_trial,
                by_score=not (room.pool.rule.packs or is_trial),
                details=details,
                counts_from_s=now_s + wait_s if wait_s else 0.0,
            )
            source.note(decision)
            if decision.pod_leaves or room.has_turn(decision, source.use.name):
                left = None if left is None else left - 1
                subtract(used, amounts)
                room.take(pod, amounts)
                if is_trial or not (room.is_left and self.gives_more(used, source.allowed)):
                    break
            elif decision.scope_exhausted == "namespace":
                source.spent_namespaces.add(pod.namespace)
            elif decision.scope_exhausted:
                return decision.scope_exhausted
        return ""

    def _wait_s(self, source: _Source, pool: NodeUtilization) -> float:
        """Return for how long a source must still be used so before it gives more pods away.

        A node is used too much by the pods that were there all along, and too little if it would
        be beside those that left, or while all of its pods came: it was free, and more may come.
        `source.recent` has the others, the latest first.
        """
        used = dict(source.used)
        if pool.rule.packs and (wait_s := _taken_wait_s(source)):
            return wait_s
        for change in source.recent:
            if change.has_left is not pool.rule.packs:
                continue
            amounts = pool.used_by(change.pod) or {}
            if change.has_left:
                add_resources(used, {r: amounts.get(r, 0) for r in used})
            else:
                subtract(used, amounts)
            if not pool.gives_at(source.use.node, used):
                return change.wait_s
        return 0.0

    def _movable(
        self, source: _Source, view: View, room: SharedRoom
    ) -> Iterator[Amounts | YieldPoint]:
        """Yield the pods that may leave, least important first, and what each uses.

        What `room` admits and which namespaces are spent is looked up for each pod in turn.
        """
        removable = [pod for pod in source.pods if view.evictable(pod) and self.may_leave(pod)]
        ordered = yield from with_pauses(room.in_order(removable, source.excess))
        yield YieldPoint()
        for pod in ordered:
            amounts = room.used_by(pod)
            if amounts is None or pod.namespace in source.spent_namespaces:
                continue
            if not room.relieves(amounts, source.excess):
                continue
            admission = yield from room.admits(pod, amounts)
            if admission is Admission.YES:
                yield pod, amounts
            elif admission is Admission.COMES_BACK:
                source.coming_back.append((pod, amounts))


def _once_more(source: _Source, room: SharedRoom) -> Iterator[Amounts | YieldPoint]:
    """Yield the pods of a source whose replacements would come back, while there is room."""
    for pod, amounts in source.coming_back:
        if pod.namespace in source.spent_namespaces:
            continue
        if (yield from room.admits(pod, amounts)) is not Admission.NO:
            yield pod, amounts


def _taken_wait_s(source: _Source) -> float:
    """Return for how long a node must still have its pods that had none before these came."""
    came = {each.pod.uid: each.wait_s for each in source.recent if not each.has_left}
    pods = [pod for pod in source.pods if not drain_leaves(pod)]
    return min((came.get(pod.uid, 0.0) for pod in pods), default=0.0)
