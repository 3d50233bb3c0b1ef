"""How evenly the pods of each topology spread constraint are spread.

Two indexes. `SpreadGroups` has the constraints that pods declare, and the nodes that each counts.
`SpreadCounts` counts the pods of a constraint by domain, as one plugin counts them, and announces
a constraint when its skew passed its maxSkew, either way, or while it exceeds it and its pods or
nodes change.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.affinity_terms import NamespaceScope, selector_key
from reactive_desched.model.changes import Change
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Node, Pod, PodKey, PodSpec, TopologySpreadConstraint
from reactive_desched.model.spread import NodeInclusion, effective_selector, node_inclusion
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.state.indexes.selectors import SelectorQuery
from reactive_desched.state.indexes.topology_domains import NodeTopology, topology, topology_of

CountsPod = Callable[[Pod], bool]
"""Says whether a pod counts; the argument of `SpreadCounts`."""


class IncludedNodes:
    """The eligible nodes with a topology label that an inclusion accepts, counted by its values.

    They are counted from the first question on. `version` grows when there is a domain more or
    less; `refs` counts the groups.
    """

    __slots__ = ("_built", "_counts", "inclusion", "key", "refs", "topology_key", "version")

    def __init__(self, topology_key: str, inclusion: NodeInclusion, key: Hashable) -> None:
        self.topology_key = topology_key
        self.inclusion = inclusion
        self.key = key
        self.refs = self.version = 0
        self._counts: Counter[str] = Counter()
        self._built = False

    def domains(self, cluster: Cluster) -> Collection[str]:
        """Return the values of the label; what is returned follows later changes."""
        if not self._built:
            self._built = True
            for info in cluster.node_infos():
                if info.eligible and info.node is not None:
                    self.update(None, info.node)
        return self._counts

    def domain_of(self, node: Node) -> str | None:
        """Return the domain of an eligible node; None where it is not included."""
        value = node.labels.get(self.topology_key)
        return value if value is not None and self.inclusion.accepts(node) else None

    def update(self, old: Node | None, new: Node | None) -> None:
        """Follow a node that became eligible, ceased to be (None), or differs."""
        if not self._built:
            return
        before = None if old is None else self.domain_of(old)
        after = None if new is None else self.domain_of(new)
        if before == after:
            return
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
                self.version += 1
        if after is not None:
            self._counts[after] += 1
            self.version += self._counts[after] == 1


class SpreadGroup:
    """The topology spread constraints that are balanced as one.

    They are of one namespace, and agree in maxSkew, topology label, selector (matchLabelKeys
    included) and included nodes. `declared` counts the pod templates that declare them, by
    whenUnsatisfiable; it is empty once no active pod does any more.
    """

    __slots__ = ("declared", "key", "max_skew", "namespace", "nodes", "query")

    def __init__(
        self,
        namespace: str,
        max_skew: int,
        query: SelectorQuery,
        nodes: IncludedNodes,
        key: Hashable,
    ) -> None:
        self.namespace = namespace
        self.max_skew = max_skew
        self.query = query
        self.nodes = nodes
        self.key = key
        self.declared: Counter[str] = Counter()

    @property
    def topology_key(self) -> str:
        """The topology label."""
        return self.nodes.topology_key

    @property
    def selector(self) -> LabelSelector:
        """The selector of the pods that are spread."""
        return self.query.selector


class SpreadChanged(Change, frozen=True, gc=False):
    """The pods of these constraints are spread more unevenly than allowed, or no longer."""

    groups: tuple[SpreadGroup, ...]


Declared = tuple[tuple[str, SpreadGroup], ...]
"""What a pod declares: whenUnsatisfiable, and the group that the constraint belongs to."""

_TemplateKey = tuple[str, int, tuple[str | None, ...]]


class _Template:
    """What pods with one spec in a namespace declare, and how many these are.

    The spec is kept alive, so that its identity is not used twice.
    """

    __slots__ = ("declared", "pods", "spec")

    def __init__(self, spec: PodSpec, declared: Declared) -> None:
        self.spec = spec
        self.declared = declared
        self.pods = 1


class SpreadGroups(Index):
    """The topology spread constraints that active pods declare, on eligible nodes or on others.

    A constraint without a selector, or with one that does not parse, spreads no pods and is left
    out. A group is announced when a pod template begins to declare it, and when one ceases to.
    """

    announces = (SpreadChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._queries = cluster.index(PodAffinity).queries
        self._templates: dict[_TemplateKey, _Template] = {}
        self._groups: dict[Hashable, SpreadGroup] = {}
        self._by_query: dict[SelectorQuery, list[SpreadGroup]] = {}
        self._nodes: dict[Hashable, IncludedNodes] = {}
        self.ended: tuple[SpreadGroup, ...] = ()
        self.redomained: list[IncludedNodes] = []
        for pod in cluster.store(Pod):
            if pod.is_active:
                self._add_pod(pod)

    # --- questions ---

    def groups(self) -> list[SpreadGroup]:
        """Return every group that an active pod declares."""
        return list(self._groups.values())

    def declared_by(self, pod: Pod) -> Declared:
        """Return the constraints that an active pod declares."""
        if not pod.spec.topology_spread_constraints:
            return ()
        template = self._templates.get(_template_key(pod))
        return () if template is None else template.declared

    def matching(self, pod: Pod) -> list[SpreadGroup]:
        """Return the groups whose selector matches an active pod, declared by it or by others."""
        find = self._by_query.get
        queries = self._queries.queries_matching(pod)
        return [group for query in queries for group in find(query, ())] if queries else []

    def pods(self, group: SpreadGroup) -> Iterator[Pod]:
        """Return the active pods that a group's selector matches, on eligible nodes and on others.

        Use them up before the next change.
        """
        return self._queries.matching_pods(group.query)

    def domains(self, group: SpreadGroup) -> Collection[str]:
        """Return the values of the topology label on the nodes that a group includes."""
        return group.nodes.domains(self._cluster)

    # --- following the cluster ---

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[Change, ...]:
        """Follow the constraints of an active pod; `ended` are the groups that this has ended."""
        self.ended = ()
        before = old if old is not None and old.is_active and _declares(old) else None
        after = new if new is not None and new.is_active and _declares(new) else None
        if before is None and after is None:
            return ()
        if (
            before is not None
            and after is not None
            and _template_key(before) == _template_key(after)
        ):
            return ()
        changed: dict[SpreadGroup, None] = {}
        if after is not None:
            changed |= dict.fromkeys(group for _, group in self._add_pod(after))
        if before is not None:
            changed |= dict.fromkeys(group for _, group in self._remove_pod(before))
        return (SpreadChanged(tuple(changed)),) if changed else ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[()]:
        """Count a node that became eligible, ceased to be, or has other labels or taints.

        `redomained` are the included nodes that have a domain more or less by this.
        """
        before = old.node if old is not None and old.eligible else None
        after = new.node if new is not None and new.eligible else None
        self.redomained = []
        if before is None or after is None or _differs(before, after):
            for nodes in self._nodes.values():
                version = nodes.version
                nodes.update(before, after)
                if nodes.version != version:
                    self.redomained.append(nodes)
        return ()

    def answers(self) -> object:
        """Return the groups with their pods and domains, and what each pod declares and matches."""
        active = [pod for pod in self._cluster.store(Pod) if pod.is_active]
        return {
            "groups": {
                group.key: (
                    dict(group.declared),
                    {pod.uid for pod in self.pods(group)},
                    set(self.domains(group)),
                )
                for group in self.groups()
            },
            "pods": {
                pod.uid: (
                    [(when, group.key) for when, group in self.declared_by(pod)],
                    {group.key for group in self.matching(pod)},
                )
                for pod in active
            },
        }

    def _add_pod(self, pod: Pod) -> Declared:
        """Count a pod for what it declares; return that if its template is new."""
        if not _declares(pod):
            return ()
        key = _template_key(pod)
        template = self._templates.get(key)
        if template is not None:
            template.pods += 1
            return ()
        template = self._templates[key] = _Template(pod.spec, tuple(self._declared(pod)))
        for when, group in template.declared:
            group.declared[when] += 1
        return template.declared

    def _remove_pod(self, pod: Pod) -> Declared:
        """Stop counting a pod; return what it declares if its template is no longer in use."""
        key = _template_key(pod)
        template = self._templates[key]
        template.pods -= 1
        if template.pods:
            return ()
        del self._templates[key]
        for when, group in template.declared:
            group.declared[when] -= 1
            if not group.declared[when]:
                del group.declared[when]
        groups = dict.fromkeys(group for _, group in template.declared)
        self.ended = tuple(group for group in groups if not group.declared)
        for group in self.ended:
            self._drop(group)
        return template.declared

    def _declared(self, pod: Pod) -> Iterator[tuple[str, SpreadGroup]]:
        """Return the group of each constraint that spreads pods."""
        for constraint in pod.spec.topology_spread_constraints:
            selector = effective_selector(constraint, pod.labels)
            if selector is not None and not selector.validation_errors():
                yield constraint.when_unsatisfiable, self._group(pod, constraint, selector)

    def _group(
        self, pod: Pod, constraint: TopologySpreadConstraint, selector: LabelSelector
    ) -> SpreadGroup:
        inclusion = node_inclusion(constraint, pod.spec)
        nodes_key = constraint.topology_key, inclusion.key
        key = pod.namespace, constraint.max_skew, selector_key(selector), nodes_key
        found = self._groups.get(key)
        if found is None:
            nodes = self._nodes.get(nodes_key)
            if nodes is None:
                nodes = IncludedNodes(constraint.topology_key, inclusion, nodes_key)
                self._nodes[nodes_key] = nodes
            nodes.refs += 1
            query = self._queries.get_or_create(NamespaceScope((pod.namespace,)), selector)
            self._queries.acquire(query)
            found = SpreadGroup(pod.namespace, constraint.max_skew, query, nodes, key)
            self._groups[key] = found
            self._by_query.setdefault(query, []).append(found)
        return found

    def _drop(self, group: SpreadGroup) -> None:
        del self._groups[group.key]
        group.nodes.refs -= 1
        if not group.nodes.refs:
            del self._nodes[group.nodes.key]
        sharing = self._by_query[group.query]
        sharing.remove(group)
        if not sharing:
            del self._by_query[group.query]
        self._queries.release(group.query)


class _Tally:
    """The counted pods of a group by domain; `uncounted` are the other pods that it matches there.

    How many domains have a pod, of which sizes, is kept per pod; whether a domain has none is
    found out again only after a domain got its first pod, lost its last, appeared or disappeared.
    """

    __slots__ = (
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

    def skew(self) -> int:
        """Return how many pods more the largest domain has than the smallest one."""
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
        if counts:
            self._resize(domain, 1)
        else:
            self.uncounted.add(pod)

    def remove(self, pod: PodKey, domain: str | None) -> None:
        """Remove a pod that was added to this domain."""
        if domain is None:
            return
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
    domains are asked for; what else than the cluster alters a pod's answer is passed to `recount`.
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

    def pods_by_domain(self, group: SpreadGroup) -> dict[str, list[Pod]]:
        """Return the counted pods by value of the topology label.

        Pods on eligible nodes that the group does not include count, too, as they do upstream.
        """
        found: dict[str, list[Pod]] = {}
        tally = _Tally(group, self._groups.domains(group))
        for pod in self._groups.pods(group):
            domain = _domain(topology_of(self._cluster, pod.node), group.topology_key)
            if domain is not None:
                counts = self._counts(pod)
                tally.add(pod.uid, domain, counts=counts)
                if counts:
                    found.setdefault(domain, []).append(pod)
        if group.declared:
            self._tallies[group] = tally
            self._by_nodes.setdefault(group.nodes, {})[group] = None
            self._update_skewed(group)
        return found

    def recount(self, pod: Pod) -> list[SpreadGroup]:
        """Ask again whether a pod counts; return the groups that it alters, as announced.

        They are the groups that match it and those that it declares; a completed pod has none.
        """
        if not pod.is_active:
            return []
        return self._to_announce([*self._leave(pod), *self._join(pod)])

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
        """Move the pods of a node whose labels or eligibility changed; announce what it alters.

        That is every group whose domains changed, and every one with a skew above its maxSkew that
        includes the node, or did until now: its pods may go there.
        """
        state, before, after = new or old, topology(old), topology(new)
        if state is None or not self._tallies or not (before.eligible or after.eligible):
            return ()
        touched: dict[SpreadGroup, None] = {}
        for nodes in self._groups.redomained:
            touched |= self._by_nodes.get(nodes, {})
        keys = {nodes.topology_key for nodes in self._by_nodes}
        info = self._cluster.node_info(state.node.name)
        if info is not None and any(_domain(before, key) != _domain(after, key) for key in keys):
            for pod in info.active.values():
                for tally in self._tallies_matching(pod):
                    key = tally.group.topology_key
                    tally.remove(pod.uid, _domain(before, key))
                    domain = _domain(after, key)
                    tally.add(pod.uid, domain, counts=domain is not None and self._counts(pod))
                    touched[tally.group] = None
        seen = [each.node for each in (old, new) if each is not None and each.eligible]
        including = {
            nodes
            for nodes in self._by_nodes
            if any(nodes.domain_of(node) is not None for node in seen)
        }
        was_skewed = [g for g in self._skewed if g in touched or g.nodes in including]
        is_skewed = filter(self._update_skewed, touched)
        groups = tuple(dict.fromkeys([*was_skewed, *is_skewed]))
        return (SpreadChanged(groups),) if groups else ()

    def answers(self) -> object:
        """Return the counted pods of every group by domain, and the groups above their maxSkew."""
        for group in self._groups.groups():
            if group not in self._tallies:
                self.pods_by_domain(group)
        return (
            {group.key: (tally.sizes, tally.uncounted) for group, tally in self._tallies.items()},
            {group.key for group in self._skewed},
        )

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
        """Return those of some changed groups that exceed their maxSkew now, or did before."""
        found: list[SpreadGroup] = []
        for group in dict.fromkeys(touched):
            was_skewed = group in self._skewed
            if self._update_skewed(group) or was_skewed:
                found.append(group)
        return found

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


def _declares(pod: Pod) -> bool:
    return bool(pod.spec.topology_spread_constraints)


def _template_key(pod: Pod) -> _TemplateKey:
    labels = pod.labels
    own = tuple(
        labels.get(key)
        for constraint in pod.spec.topology_spread_constraints
        for key in constraint.match_label_keys
    )
    return pod.namespace, id(pod.spec), own


def _domain(node: NodeTopology, topology_key: str) -> str | None:
    return node.labels.get(topology_key) if node.eligible else None


def _differs(old: Node, new: Node) -> bool:
    """Say whether another node may be included: by name, it is the same one."""
    return (old.labels is not new.labels and old.labels != new.labels) or old.taints != new.taints
