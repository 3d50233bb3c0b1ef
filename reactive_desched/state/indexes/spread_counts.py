"""Counts the pods of each topology spread constraint by domain, as one plugin counts them.

A constraint is announced when its skew passed its maxSkew, either way, or while it exceeds it and
its pods change. Those that a change of nodes concerns are found in portions: a zone that is new to
the cluster alters the skew of every constraint over zones.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from math import inf
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.primitives.long_answers import portions
from reactive_desched.state.indexes.spread_groups import (
    IncludedNodes,
    SpreadChanged,
    SpreadGroup,
    SpreadGroups,
    SpreadNodesChanged,
)
from reactive_desched.state.indexes.topology_domains import NodeTopology, topology, topology_of

CountsPod = Callable[[Pod], bool]
"""Says whether a pod counts; the argument of `SpreadCounts`."""


class _Tally:
    """The counted pods of a group by domain; `uncounted` are the other pods that it matches there.

    Until it is `complete` it has only pods that were added, and its skew is not known: pods that
    are added twice, or removed before, do no harm by that.
    How many domains have a pod, of which sizes, is kept per pod; whether a domain has none is
    found out again only after a domain got its first pod, lost its last, appeared or disappeared.
    """

    __slots__ = (
        "_added",
        "_all_occupied",
        "_checked_at",
        "_domains",
        "_histogram",
        "_occupied_version",
        "group",
        "sizes",
        "uncounted",
    )

    def __init__(self, group: SpreadGroup, domains: Collection[str]) -> None:
        self.group = group
        self._domains = domains  # follows the nodes
        self.sizes: dict[str, int] = {}
        self.uncounted: set[PodKey] = set()
        self._histogram: dict[int, int] = {}
        self._occupied_version = 0
        self._checked_at: tuple[int, int] | None = None
        self._all_occupied = False
        self._added: set[PodKey] | None = set()

    @property
    def is_complete(self) -> bool:
        """Say whether it has every pod that it should have."""
        return self._added is None

    def complete(self) -> None:
        """Note that every pod has been added."""
        self._added = None

    def skew(self) -> float:
        """Return how many pods more the largest domain has than the smallest one."""
        if not self.is_complete:
            return inf
        if not self.sizes:
            return 0
        at = self._occupied_version, self.group.nodes.version
        if at != self._checked_at:
            self._checked_at = at
            self._all_occupied = len(self._domains) <= len(self.sizes) and all(
                domain in self.sizes for domain in self._domains
            )
        return max(self._histogram) - (min(self._histogram) if self._all_occupied else 0)

    def add(self, pod: PodKey, domain: str | None, *, counts: bool) -> None:
        """Add a pod that the group matches; None is on no eligible node with the label."""
        if domain is None:
            return
        if self._added is not None:
            if pod in self._added:
                return
            self._added.add(pod)
        if counts:
            self._resize(domain, 1)
        else:
            self.uncounted.add(pod)

    def remove(self, pod: PodKey, domain: str | None) -> None:
        """Remove a pod that was added to this domain."""
        if domain is None:
            return
        if self._added is not None:
            if pod not in self._added:
                return
            self._added.discard(pod)
        if pod in self.uncounted:
            self.uncounted.discard(pod)
        else:
            self._resize(domain, -1)

    def _resize(self, domain: str, step: int) -> None:
        before = self.sizes.get(domain, 0)
        after = before + step
        histogram = self._histogram
        if before:
            histogram[before] -= 1
            if not histogram[before]:
                del histogram[before]
        if after:
            histogram[after] = histogram.get(after, 0) + 1
            self.sizes[domain] = after
        else:
            del self.sizes[domain]
        self._occupied_version += not before or not after


class SpreadCounts(Index):
    """The pods of each group by domain, of which only those count that `args` says count.

    `args` is a CountsPod, or None to count all. A group is counted from the first time that its
    pods are asked for; what else than the cluster alters a pod's answer is passed to `recount`.
    """

    announces = (SpreadChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        assert args is None or callable(args)
        self._counts: Final[CountsPod] = args or _counts_always
        self._groups = cluster.index(SpreadGroups)
        self._tallies: dict[SpreadGroup, _Tally] = {}
        self._by_nodes: dict[IncludedNodes, dict[SpreadGroup, None]] = {}
        self._skewed: dict[SpreadGroup, None] = {}

    # --- questions ---

    def counted_pods(self, group: SpreadGroup) -> Iterator[list[tuple[str, Pod]]]:
        """Yield the counted pods of a group that is declared, each after its domain.

        Pods on eligible nodes that the group does not include count, too, as they do upstream.
        They come in portions, between which the cluster may change: of pods that come or go
        meanwhile only some are among them.
        """
        if not group.declared:
            return
        if (tally := self._tallies.get(group)) is None:
            tally = self._tallies[group] = _Tally(group, self._groups.domains(group))
            self._by_nodes.setdefault(group.nodes, {})[group] = None
            self._update_skewed(group)
        for pods in self._groups.portions_of_pods(group):
            found: list[tuple[str, Pod]] = []
            for pod in pods:
                domain = _domain(topology_of(self._cluster, pod.node), group.topology_key)
                if domain is not None:
                    counts = self._counts(pod)
                    if not tally.is_complete:
                        tally.add(pod.uid, domain, counts=counts)
                    if counts:
                        found.append((domain, pod))
            yield found
        if not tally.is_complete and self._tallies.get(group) is tally:
            tally.complete()
            self._update_skewed(group)

    def is_skewed(self, group: SpreadGroup) -> bool:
        """Say whether the counted pods of a group differ by more than its maxSkew.

        They may, where not all have been counted yet.
        """
        tally = self._tallies.get(group)
        return group in self._skewed or (tally is not None and not tally.is_complete)

    def recount(self, pod: Pod) -> list[SpreadGroup]:
        """Ask again whether a pod counts; return the groups that it alters, as announced.

        They are the groups that match it and those that it declares; a completed pod has none.
        """
        if not pod.is_active:
            return []
        return self._to_announce([*self._leave(pod), *self._join(pod)])

    def groups_on(self, changed: SpreadNodesChanged) -> Iterator[list[SpreadGroup]]:
        """Yield the groups that a change of nodes alters, as announced.

        Besides those whose domains changed they are all with a skew above its maxSkew that include
        the node, or did: their pods may go there. They come in portions, between which the cluster
        may change.
        """
        for nodes in changed.redomained:
            for groups in portions(list(self._by_nodes.get(nodes, ()))):
                yield self._to_announce(group for group in groups if group in self._tallies)
        including = set(changed.nodes)
        skewed = [group for group in self._skewed if group.nodes in including]
        for groups in portions(skewed):
            yield [group for group in groups if group in self._skewed]

    # --- following the cluster ---

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[Change, ...]:
        """Move an active pod between the groups that match it, and between their domains."""
        for group in self._groups.ended:
            self._forget(group)
        touched: list[SpreadGroup] = []
        if old is not None and old.is_active:
            touched += self._leave(old)
        if new is not None and new.is_active:
            touched += self._join(new)
        groups = self._to_announce(touched) if touched else ()
        return (SpreadChanged(tuple(groups)),) if groups else ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[Change, ...]:
        """Move the pods of a node whose labels or eligibility changed; announce their groups."""
        state, before, after = new or old, topology(old), topology(new)
        if state is None or not self._tallies:
            return ()
        keys = {nodes.topology_key for nodes in self._by_nodes}
        keys = {key for key in keys if _domain(before, key) != _domain(after, key)}
        info = self._cluster.node_info(state.node.name)
        touched: dict[SpreadGroup, None] = {}
        for pod in info.active.values() if keys and info is not None else ():
            for tally in self._tallies_matching(pod):
                if (key := tally.group.topology_key) in keys:
                    tally.remove(pod.uid, _domain(before, key))
                    domain = _domain(after, key)
                    tally.add(pod.uid, domain, counts=domain is not None and self._counts(pod))
                    touched[tally.group] = None
        groups = self._to_announce(touched)
        return (SpreadChanged(tuple(groups)),) if groups else ()

    def answers(self) -> object:
        """Return the counted pods of every group by domain, and how far these differ."""
        for group in self._groups.groups():
            for _ in self.counted_pods(group):
                pass
        return {
            group.key: (tally.sizes, tally.uncounted, tally.skew())
            for group, tally in self._tallies.items()
        }

    # --- inside ---

    def _tallies_matching(self, pod: Pod) -> list[_Tally]:
        find, groups = self._tallies.get, self._groups.matching(pod)
        return [tally for group in groups if (tally := find(group))] if groups else []

    def _leave(self, pod: Pod) -> list[SpreadGroup]:
        """Take an active pod out of the groups that match it; return them and what it declares."""
        touched = self._declared_by(pod)
        if tallies := self._tallies_matching(pod):
            node = topology_of(self._cluster, pod.node)
            for tally in tallies:
                tally.remove(pod.uid, _domain(node, tally.group.topology_key))
                touched.append(tally.group)
        return touched

    def _join(self, pod: Pod) -> list[SpreadGroup]:
        """Add an active pod to the groups that match it; return them and what it declares."""
        touched = self._declared_by(pod)
        if tallies := self._tallies_matching(pod):
            node = topology_of(self._cluster, pod.node)
            for tally in tallies:
                domain = _domain(node, tally.group.topology_key)
                tally.add(pod.uid, domain, counts=domain is not None and self._counts(pod))
                touched.append(tally.group)
        return touched

    def _declared_by(self, pod: Pod) -> list[SpreadGroup]:
        declared = self._groups.declared_by(pod)
        return [group for _, group in declared if group in self._tallies] if declared else []

    def _to_announce(self, touched: Iterable[SpreadGroup]) -> list[SpreadGroup]:
        """Return those of some changed groups that exceed their maxSkew now, or did before.

        Also those that do and are declared together with one of them: which pods they let go
        depends on it.
        """
        found: dict[SpreadGroup, None] = {}
        for group in dict.fromkeys(touched):
            was_skewed = group in self._skewed
            if self._update_skewed(group) or was_skewed:
                found[group] = None
            found |= dict.fromkeys(other for other in group.related if other in self._skewed)
        return list(found)

    def _update_skewed(self, group: SpreadGroup) -> bool:
        if self._tallies[group].skew() > group.max_skew:
            self._skewed[group] = None
            return True
        self._skewed.pop(group, None)
        return False

    def _forget(self, group: SpreadGroup) -> None:
        if self._tallies.pop(group, None) is not None:
            self._skewed.pop(group, None)
            sharing = self._by_nodes[group.nodes]
            del sharing[group]
            if not sharing:
                del self._by_nodes[group.nodes]


def _counts_always(_: Pod) -> bool:
    return True


def _domain(node: NodeTopology, topology_key: str) -> str | None:
    return node.labels.get(topology_key) if node.eligible else None
