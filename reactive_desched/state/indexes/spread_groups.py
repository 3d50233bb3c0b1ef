"""Groups pods by the topology spread constraints that they declare; SpreadCounts counts them."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from itertools import chain, permutations

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.affinity_terms import NamespaceScope, selector_key
from reactive_desched.model.changes import Change
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Node, Pod, PodSpec, TopologySpreadConstraint
from reactive_desched.model.spread import NodeInclusion, effective_selector, node_inclusion
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.state.indexes.selectors import SelectorQuery


class IncludedNodes:
    """The eligible nodes with a topology label that an inclusion accepts, counted by its values.

    They are counted from the first question on, by `count`: until that has ended, `_uncounted` are
    the nodes whose turn has not come. `version` grows when there is a domain more or less; `refs`
    counts the groups.
    """

    __slots__ = ("_counts", "_uncounted", "inclusion", "key", "refs", "topology_key", "version")

    def __init__(self, topology_key: str, inclusion: NodeInclusion, key: Hashable) -> None:
        self.topology_key = topology_key
        self.inclusion = inclusion
        self.key = key
        self.refs = self.version = 0
        self._counts: Counter[str] = Counter()
        self._uncounted: dict[str, None] | None = None

    def count(self, cluster: Cluster) -> Iterator[None]:
        """List the nodes, then count them, one in each step, unless they are counted already.

        The cluster may change between two steps, and others may take steps meanwhile.
        """
        if self._uncounted is None:
            self._uncounted = {info.name: None for info in cluster.node_infos()}
            yield
        while self._uncounted:
            name, _ = self._uncounted.popitem()
            info = cluster.node_info(name)
            if info is not None and info.eligible and info.node is not None:
                self.update(None, info.node)
            yield

    def domains(self, cluster: Cluster) -> Collection[str]:
        """Return the values of the label; what is returned follows later changes."""
        for _ in self.count(cluster):
            pass
        return self._counts

    def domain_of(self, node: Node) -> str | None:
        """Return the domain of an eligible node; None where it is not included."""
        value = node.labels.get(self.topology_key)
        return value if value is not None and self.inclusion.accepts(node) else None

    def update(self, old: Node | None, new: Node | None) -> bool:
        """Follow a node that became eligible, ceased to be (None), or differs.

        Return whether it is, or was, one of those that are counted.
        """
        if self._uncounted is None:
            return False
        if (state := new or old) is None or state.name in self._uncounted:
            return False
        before = None if old is None else self.domain_of(old)
        after = None if new is None else self.domain_of(new)
        if before == after:
            return before is not None
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
                self.version += 1
        if after is not None:
            self._counts[after] += 1
            self.version += self._counts[after] == 1
        return True


class SpreadGroup:
    """The topology spread constraints that are balanced as one.

    They are of one namespace, and agree in maxSkew, topology label, selector (matchLabelKeys
    included) and included nodes. `declared` counts the pod templates that declare them, by
    whenUnsatisfiable; it is empty once no active pod does any more. `related` counts those that
    declare another one as well, by this other one.
    """

    __slots__ = ("declared", "key", "max_skew", "namespace", "nodes", "query", "related")

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
        self.related: Counter[SpreadGroup] = Counter()

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


class SpreadNodesChanged(Change, frozen=True, gc=False):
    """A node is one of these, or was: pods may go there or not, whichever constraint includes it.

    Those that are `redomained` have a domain more or less by this.
    """

    nodes: tuple[IncludedNodes, ...]
    redomained: tuple[IncludedNodes, ...]


Declared = tuple[tuple[str, SpreadGroup], ...]
"""What a pod declares: whenUnsatisfiable, and the group that the constraint belongs to."""

_TemplateKey = tuple[str, int, tuple[str | None, ...]]


class _Template:
    """The constraints of pods with one spec in a namespace, and the number of these pods.

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

    announces = (SpreadChanged, SpreadNodesChanged)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._queries = cluster.index(PodAffinity).queries
        self._templates: dict[_TemplateKey, _Template] = {}
        self._groups: dict[Hashable, SpreadGroup] = {}
        self._by_query: dict[SelectorQuery, list[SpreadGroup]] = {}
        self._nodes: dict[Hashable, IncludedNodes] = {}
        self.ended: tuple[SpreadGroup, ...] = ()
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
        queries = self._queries.own_queries_matching(pod)
        return [group for query in queries for group in find(query, ())] if queries else []

    def pods(self, group: SpreadGroup) -> Iterator[Pod]:
        """Return the active pods that a group's selector matches, on eligible nodes and on others.

        Use them up before the next change.
        """
        return chain.from_iterable(self.portions_of_pods(group))

    def portions_of_pods(self, group: SpreadGroup) -> Iterator[list[Pod]]:
        """Yield the same in portions, between which the cluster may change.

        Of pods that come or go meanwhile only some are among them. It ends with the group.
        """
        portions = self._queries.matching_pods(group.query)
        while group.declared and (portion := next(portions, None)) is not None:
            yield portion

    def domains(self, group: SpreadGroup) -> Collection[str]:
        """Return the values of the topology label on the nodes that a group includes."""
        return group.nodes.domains(self._cluster)

    def count_domains(self, group: SpreadGroup) -> Iterator[None]:
        """Look for them, a node in each step: else the first question looks at all nodes."""
        return group.nodes.count(self._cluster)

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

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[Change, ...]:
        """Count a node that became eligible, ceased to be, or differs; announce where it counts."""
        before = old.node if old is not None and old.eligible else None
        after = new.node if new is not None and new.eligible else None
        including, redomained = list[IncludedNodes](), list[IncludedNodes]()
        for nodes in self._nodes.values():
            version = nodes.version
            if nodes.update(before, after):
                including.append(nodes)
            if nodes.version != version:
                redomained.append(nodes)
        return (SpreadNodesChanged(tuple(including), tuple(redomained)),) if including else ()

    def answers(self) -> object:
        """Return the groups with their pods and domains, and what each pod declares and matches."""
        active = [pod for pod in self._cluster.store(Pod) if pod.is_active]
        return {
            "groups": {
                group.key: (
                    dict(group.declared),
                    {other.key: count for other, count in group.related.items()},
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
        for group, other in _pairs(template.declared):
            group.related[other] += 1
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
        for group, other in _pairs(template.declared):
            group.related[other] -= 1
            if not group.related[other]:
                del group.related[other]
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


def _pairs(declared: Declared) -> Iterator[tuple[SpreadGroup, SpreadGroup]]:
    """Yield each two of the groups, either way round."""
    yield from permutations(dict.fromkeys(group for _, group in declared), 2)


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
