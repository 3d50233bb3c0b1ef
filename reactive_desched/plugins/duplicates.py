"""A node holds more pods of one owner than its share, while other nodes could take some."""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from enum import IntEnum
from itertools import islice
from math import ceil
from operator import itemgetter
from typing import Final, NamedTuple

from pydantic import Field

from reactive_desched.api.args import NodeBand
from reactive_desched.api.balance_plugin import BalancePlugin, Plan, SweepFilters
from reactive_desched.api.plugin import View, next_opinion
from reactive_desched.api.possible_names import OwnerKindNames
from reactive_desched.api.scope import NamespacedArgs
from reactive_desched.draining.obstacles import (
    MAX_DESTINATIONS,
    closed_nodes,
    hard_taint,
    placing_reason,
    protected_by,
)
from reactive_desched.model.changes import Change, PodChange, PodEvictabilityChanged, Resynced
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.findings import AllNodesBut, Finding, RequeueAfter
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.long_answers import lazily_sorted
from reactive_desched.state.indexes.emptied_nodes import EmptiedNodes, EmptiedNodesChanged
from reactive_desched.state.indexes.pod_attraction import PodAttraction
from reactive_desched.state.indexes.replica_places import ReplicaPlaces
from reactive_desched.state.indexes.replica_spread import (
    UNSCHEDULED,
    ReplicaGroup,
    ReplicaSpread,
    ReplicaSpreadChanged,
    replica_groups,
)
from reactive_desched.state.indexes.terminating_pods import TerminatingPods


class DuplicatesArgs(NamespacedArgs):
    """Arguments: the owner kinds whose pods are no duplicates, and the namespaces."""

    exclude_owner_kinds: OwnerKindNames = Field(
        default=(), description="Leave pods of these owner kinds alone, for example StatefulSet."
    )

    def covers(self, pod: Pod) -> bool:
        """Say whether the pod is one the plugin was asked to look at."""
        return super().covers(pod) and not any(
            owner.kind in self.exclude_owner_kinds for owner in pod.owners
        )

    def node_bands(self) -> Iterator[NodeBand]:
        """Yield that replicas are spread, over all nodes."""
        yield NodeBand(spreads="the replicas of a workload")


class DuplicatesPlugin(BalancePlugin[ReplicaGroup, DuplicatesArgs]):
    """Pods of one owner beyond the even share of their node.

    Pods of one namespace are replicas of each other if they have an owner of the same kind and
    name, and the same images. Of the replicas on one node the first stays and the others are its
    duplicates. The even share of a node is the number of all replicas, divided by the number of
    nodes that the duplicates may be on, rounded up. What a node holds beyond that is evicted, the
    youngest pods first.

    A pod may be on a node whose NoSchedule and NoExecute taints it tolerates, and that its
    nodeSelector and required node affinity match. As upstream, the nodes of duplicates that differ
    in these count together; a pod that may be on a single node adds none; and a pod with several
    owners is a replica for each of them, but a duplicate only of pods with all the same owners.

    While the kube-scheduler would put the replacement of a duplicate on a node that has its share,
    by its scores, the pod stays (the guard `ScoredElsewhere`).
    """

    name = "RemoveDuplicates"
    indexes = (ReplicaSpread, EmptiedNodes, TerminatingPods, ReplicaPlaces, PodAttraction)
    reacts_to = (Resynced, ReplicaSpreadChanged, EmptiedNodesChanged, PodEvictabilityChanged)
    sweep_filters = SweepFilters.NONE

    def matters(self, change: Change) -> bool:
        """Ignore pods that the arguments leave out."""
        return not isinstance(change, PodChange) or self.args.covers(change.pod)

    def subjects(self, change: Change, view: View) -> Iterable[ReplicaGroup]:
        """Name the groups that a change concerns, of those with two pods on one node."""
        match change:
            case ReplicaSpreadChanged(group=group):
                return (group,)
            case PodEvictabilityChanged(pod=pod):
                crowded = view.index(ReplicaSpread).crowded_groups()
                return [group for group in replica_groups(pod) if group in crowded]
            case _:
                return lazily_sorted(view.index(ReplicaSpread).crowded_groups())

    def balance(self, subject: ReplicaGroup, view: View) -> Plan:
        """Even out one group as it will be when all its pods have settled.

        Protected pods count. So do pods that are leaving and pods that have no node yet, and after
        an eviction the pod that will be created: else each eviction would lower the share of all.
        Pods that are leaving do not count beyond what a Deployment or StatefulSet wants: their
        replacements are there already, or it was scaled down.
        """
        pods_by_node = view.index(ReplicaSpread).pods_by_node(subject)
        replicas = _Replicas(unscheduled=pods_by_node.get(UNSCHEDULED, 0))
        for node, count in pods_by_node.items():
            if (node_and_pods := view.pods_of(NodeSubject(node))) is None:
                continue
            replicas.count(node, count)
            if count > 1:
                for pod in node_and_pods[1]:
                    if subject in replica_groups(pod) and not pod.is_terminating:
                        replicas.add(pod, self._evictability(pod, view))
        gone = _moved_pods(subject, replicas, view)
        if awaited := max(0, len(gone) - replicas.unscheduled):
            replicas.total += awaited
            yield RequeueAfter(_LOOK_AGAIN_S)
        if surplus := _leaving_surplus(subject, replicas, view):
            replicas.total -= surplus
            yield RequeueAfter(_LOOK_AGAIN_S)
        yield from self._even_out(subject, replicas, view, view.index(EmptiedNodes).avoided)

    def still_found(self, finding: Finding, subject: ReplicaGroup, view: View) -> Finding | None:
        """Plan the group again: of each node it finds those pods first that leave already."""
        plan, decision = self.balance(subject, view), None
        while (opinion := next_opinion(plan, decision)) is not None:
            if not isinstance(opinion, Finding):
                decision = None
            elif opinion.pod.uid == finding.pod.uid:
                return opinion
            else:
                decision = Evict(opinion)
        return None

    def describe(self, pod: Pod, view: View) -> str:
        """Say for each owner how many of its pods are on the node, of how many."""
        if not (groups := replica_groups(pod)):
            return "the pod has no owner"
        spread, texts = view.index(ReplicaSpread), []
        for group in groups:
            pods_by_node = spread.pods_by_node(group)
            here, total = pods_by_node.get(pod.node, 0), sum(pods_by_node.values())
            texts.append(f"{pod.node} has {here} of the {total} pods of {group}")
        possible = len(spread.possible_nodes(pod.spec))
        return f"{'; '.join(texts)}, and it may be on {possible} of the nodes"

    def obstacles(self, view: View) -> Callable[[Pod], str]:
        """Return what says why a duplicate stays that would leave if it could be on every node."""
        spread, nodes = view.index(ReplicaSpread), list(view.nodes())

        def ask(pod: Pod) -> str:
            for group in replica_groups(pod):
                pods_by_node = spread.pods_by_node(group)
                here, total = pods_by_node.get(pod.node, 0), sum(pods_by_node.values())
                if here > max(1, ceil(total / max(1, len(nodes)))) and not view.is_leaving(pod):
                    head = f"{pod.node} has {here} of the {total} pods of {group}"
                    if text := _obstacle(pod, nodes, spread.possible_nodes(pod.spec), view):
                        return f"{head}, and {text}"
            return ""

        return ask

    def sweep(self, view: View) -> Plan:
        """Even out all groups as upstream: only the pods that may leave now count.

        All groups are counted before the first pod is evicted.
        """
        crowded = view.index(ReplicaSpread).crowded_groups()
        found: dict[ReplicaGroup, _Replicas] = {}
        for node in view.nodes():
            for pod in (view.pods_of(NodeSubject(node.name)) or (node, ()))[1]:
                groups = [group for group in replica_groups(pod) if group in crowded]
                if groups and self._may_leave_now(pod, view):
                    for group in groups:
                        replicas = found.setdefault(group, _Replicas())
                        replicas.count(node.name, 1)
                        replicas.add(pod, _Evictability.MAY_LEAVE)
        for group, replicas in sorted(found.items(), key=itemgetter(0)):
            if (yield from self._even_out(group, replicas, view)) == "cluster":
                return

    def _may_leave_now(self, pod: Pod, view: View) -> bool:
        return self.args.covers(pod) and view.evictable(pod) and view.passes_pre_eviction(pod)

    def _evictability(self, pod: Pod, view: View) -> "_Evictability":
        if not (self.args.covers(pod) and view.evictable(pod)):
            return _Evictability.PROTECTED
        return _Evictability.LEAVES if view.is_leaving(pod) else _Evictability.MAY_LEAVE

    def _even_out(
        self, group: ReplicaGroup, replicas: "_Replicas", view: View, closed: Collection[str] = ()
    ) -> Generator[Finding, Decision, str]:
        """Propose what each node holds beyond its share; return the scope whose limit ended it.

        No pod is expected on a `closed` node.
        """
        crowds = replicas.crowds()
        movable = [pod for crowd in crowds for pod in crowd.movable]
        possible = _possible_nodes(movable, view.index(ReplicaSpread), closed)
        if not possible:
            return ""
        share = ceil(replicas.total / len(possible))
        full = frozenset(node for node, pods in replicas.on_node.items() if pods >= share)
        below_share = AllNodesBut(full)
        for crowd in crowds:
            surplus = 1 + crowd.duplicates - share
            there = replicas.on_node[crowd.node]
            message = (
                f"{crowd.node} has {there} of the {replicas.total} pods of {group}, whose even"
                f" share of {len(possible)} possible nodes is {share}"
            )
            details = _figures(group, there, replicas.total, len(possible), share)
            for pod in crowd.movable:
                if surplus <= 0:
                    break
                if view.active_pod(pod.uid) is None:  # evicted as a duplicate for its other owner
                    surplus -= 1
                    continue
                finding = Finding(
                    pod,
                    self.name,
                    message,
                    needs_fit=True,
                    targets=below_share,
                    details=details,
                    by_score=True,
                )
                decision = yield finding
                if decision.pod_leaves:
                    surplus -= 1
                elif decision.scope_exhausted == "node":
                    break
                elif decision.scope_exhausted:  # all pods of the group are in one namespace
                    return decision.scope_exhausted
        return ""


def _figures(
    group: ReplicaGroup, there: int, pods: int, nodes: int, share: int
) -> dict[str, int | str]:
    return {
        "owner": f"{group.kind}/{group.name}",
        "podsOnNode": there,
        "pods": pods,
        "possibleNodes": nodes,
        "evenShare": share,
    }


def _obstacle(pod: Pod, nodes: Iterable[Node], possible: Collection[str], view: View) -> str:
    """Say why a pod may not leave, or which nodes it may not be on."""
    if (kept := protected_by(pod, view)) is not None:
        return kept.sentence
    closed = {
        node.name: f"{reason} the pod"
        for node in islice((node for node in nodes if node.name not in possible), MAX_DESTINATIONS)
        if (reason := placing_reason(pod, node, hard_taint(pod, node)))
    }
    return "; ".join(closed_nodes(closed))


_LOOK_AGAIN_S: Final = 60.0
"""How long until a group is looked at again of which a replacement is awaited: none may come."""


class _Evictability(IntEnum):
    """The order in which replicas of a node stay: first those that cannot leave, then others."""

    PROTECTED = 0
    MAY_LEAVE = 1
    LEAVES = 2


class _Crowd(NamedTuple):
    """The duplicates on one node: how many, and those that may leave, in the order to evict."""

    node: str
    duplicates: int
    movable: list[Pod]


class _Replicas:
    """The pods of a group: how many count in all and on each node, and which share a node."""

    def __init__(self, unscheduled: int = 0) -> None:
        self.unscheduled = unscheduled
        self.total = unscheduled
        self.on_node: Counter[str] = Counter()
        self._pods: dict[str, list[tuple[_Evictability, Pod]]] = {}

    def count(self, node: str, pods: int) -> None:
        """Count pods on a node."""
        self.on_node[node] += pods
        self.total += pods

    def add(self, pod: Pod, evictability: _Evictability) -> None:
        """Add a pod, counted already, that may be a duplicate."""
        self._pods.setdefault(pod.node, []).append((evictability, pod))

    def owner_uids(self, group: ReplicaGroup) -> set[str]:
        """Return the uids of the owner, of which several may have had its name."""
        return {
            owner.uid
            for pods in self._pods.values()
            for _, pod in pods
            for owner in pod.owners
            if (owner.kind, owner.name) == (group.kind, group.name)
        }

    def crowds(self) -> list[_Crowd]:
        """Return the duplicates on each node, in the order of the nodes' names."""
        return [_crowd(node, pods) for node, pods in sorted(self._pods.items())]


def _crowd(node: str, replicas: Iterable[tuple[_Evictability, Pod]]) -> _Crowd:
    """Let the first of the replicas stay, and the first with other owners; the rest are duplicates.

    Pods that cannot leave come first, then the oldest.
    """
    first: set[tuple[tuple[str, str], ...]] = set()
    duplicates: list[tuple[_Evictability, Pod]] = []
    for evictability, pod in sorted(replicas, key=_rank):
        owners = tuple(sorted((owner.kind, owner.name) for owner in pod.owners))
        if owners in first:
            duplicates.append((evictability, pod))
        first.add(owners)
    movable = [
        pod for evictability, pod in duplicates if evictability is not _Evictability.PROTECTED
    ]
    return _Crowd(node, len(duplicates), movable[::-1])


def _rank(replica: tuple[_Evictability, Pod]) -> tuple[_Evictability, int, str]:
    evictability, pod = replica
    return evictability, pod.created_s, pod.name


def _moved_pods(group: ReplicaGroup, replicas: "_Replicas", view: View) -> set[PodKey]:
    """Return the evicted pods that are gone and whose replacement is not bound yet."""
    return {
        pod.uid
        for owner_uid in replicas.owner_uids(group)
        for pod in view.awaiting_replacement(owner_uid)
        if group in replica_groups(pod) and view.pod_and_node(pod.uid) is None
    }


def _leaving_surplus(group: ReplicaGroup, replicas: "_Replicas", view: View) -> int:
    """Count the pods that are leaving beyond the number that the workload wants."""
    terminating = view.index(TerminatingPods).pods_of(group.namespace)
    leaving = sum(group in replica_groups(pod) for pod in terminating)
    owner_uids = replicas.owner_uids(group)
    if not leaving or len(owner_uids) != 1:
        return 0
    wanted = view.replicas_wanted(*owner_uids)
    return 0 if wanted is None else min(leaving, max(0, replicas.total - wanted))


def _possible_nodes(
    pods: Iterable[Pod], spread: ReplicaSpread, closed: Collection[str]
) -> Collection[str]:
    """Name the nodes that any of these pods may be on, but for pods that have no choice."""
    specs = {id(pod.spec): pod.spec for pod in pods}
    choices = {id(nodes): nodes for nodes in map(spread.possible_nodes, specs.values())}
    several = [nodes for nodes in choices.values() if len(nodes) > 1]
    found = several[0] if len(several) == 1 else set().union(*several)
    return {name for name in found if name not in closed} if closed else found
