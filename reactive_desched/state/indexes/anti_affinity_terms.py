"""Required anti-affinity between pods, in both directions.

A pod's own terms name the pods that it must not be near; in the other direction, a pod that
appears must find the pods whose terms match it. Pods of one template in one namespace share their
terms.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeInfo, NodeState
from reactive_desched.model.affinity_terms import (
    depend_on_labels,
    descheduler_scope,
    scheduler_scope,
    scheduler_selector,
)
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Node,
    Pod,
    PodAffinityTerm,
    PodKey,
)
from reactive_desched.primitives.groups import Groups
from reactive_desched.state.indexes.selectors import SelectorQueries, SelectorQuery
from reactive_desched.state.indexes.topology_domains import (
    NodeTopology,
    TopologyDomains,
    TopologyKeyRefs,
)

INDEXED_KEYS: Final = (ZONE_LABEL, "topology.kubernetes.io/region", HOSTNAME_LABEL)
"""The topology labels that are indexed."""


class NodeDomains(Index):
    """The nodes of each zone, region and host name, eligible or not."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._nodes = Groups[tuple[str, str], str]()
        for info in cluster.node_infos():
            if info.node is not None:
                self._move(info.name, {}, info.node.labels)

    def has_others(self, key: str, value: str, node: str) -> bool:
        """Say whether a node beside this one may be in a domain; True for other topology labels."""
        if key not in INDEXED_KEYS:
            return True
        nodes = self._nodes.of((key, value))
        return len(nodes) > 1 or (len(nodes) == 1 and node not in nodes)

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[()]:
        """Move a node whose labels differ."""
        before = old.node.labels if old is not None else {}
        after = new.node.labels if new is not None else {}
        state = new or old
        if state is not None and before is not after:
            self._move(state.node.name, before, after)
        return ()

    def answers(self) -> object:
        """Return the nodes by topology label and value."""
        return self._nodes.as_sets()

    def _move(self, name: str, old: Labels, new: Labels) -> None:
        for key in INDEXED_KEYS:
            before, after = old.get(key), new.get(key)
            if before == after:
                continue
            if before is not None:
                self._nodes.discard((key, before), name)
            if after is not None:
                self._nodes.add((key, after), name)


Terms = tuple[PodAffinityTerm, ...]
FindDomains = Callable[[SelectorQuery, str], TopologyDomains | None]
TermQueries = tuple[tuple[PodAffinityTerm, SelectorQuery], ...]
"""Terms with their queries; a term without a selector matches no pod and is left out."""


class AntiAffinityTerm:
    """One required anti-affinity term: the pods that it matches, and those that declare it.

    `owners` has the active pods that declare it, by domain of the term's topology label.
    """

    __slots__ = ("owners", "query", "refs")

    def __init__(self, query: SelectorQuery, topology_key: str) -> None:
        self.query = query
        self.owners = TopologyDomains(topology_key)
        self.refs = 0

    @property
    def topology_key(self) -> str:
        """The topology label."""
        return self.owners.topology_key


class _TermSet:
    """The required anti-affinity that pods of a namespace share, and how many have it.

    `terms` and `labels` are kept alive, so that an identity is never used twice.
    """

    __slots__ = ("indexed_terms", "key", "labels", "pod_count", "queries", "terms")

    def __init__(
        self, pod: Pod, queries: TermQueries, indexed_terms: tuple[AntiAffinityTerm, ...]
    ) -> None:
        self.key = _term_set_key(pod)
        self.terms = pod.spec.anti_affinity
        self.labels = pod.labels
        self.queries = queries
        self.indexed_terms = indexed_terms
        self.pod_count = 0


TermSetKey = tuple[int, int]


def _term_set_key(pod: Pod) -> TermSetKey:
    """Return the identity of a pod's terms, and of its labels if the terms depend on these."""
    terms = pod.spec.anti_affinity
    return id(terms), id(pod.labels) if depend_on_labels(terms) else 0


class AntiAffinityTerms:
    """The required anti-affinity of all active pods, as the kube-scheduler reads it.

    `forbidden_in_sweep` alone reads it as the SIG descheduler.
    """

    def __init__(self, cluster: Cluster, queries: SelectorQueries) -> None:
        self._cluster = cluster
        self._pods = cluster.store(Pod)
        self._node_domains = cluster.index(NodeDomains)
        self._queries = queries
        self._by_query: dict[SelectorQuery, list[AntiAffinityTerm]] = {}
        self._declaring: dict[str, dict[PodKey, None]] = {}
        self._declaring_nodes: list[str] = []  # in order: sorting 15,000 names takes 13 ms
        self._term_sets: dict[str, dict[TermSetKey, _TermSet]] = {}
        self.topology_keys = TopologyKeyRefs()

    # --- kept up to date ---

    def add_pod(self, pod: Pod, node: NodeTopology) -> None:
        """Add an active pod with anti-affinity terms."""
        term_set = self._find_term_set(pod)
        if term_set is None:
            term_set = self._add_term_set(pod)
        term_set.pod_count += 1
        if (of_node := self._declaring.get(pod.node)) is None:
            of_node = self._declaring[pod.node] = {}
            insort(self._declaring_nodes, pod.node)
        of_node[pod.uid] = None
        for term in term_set.indexed_terms:
            term.owners.add_pod(pod.uid, node)

    def remove_pod(self, pod: Pod, node: NodeTopology) -> None:
        """Remove a pod that has ended, was deleted, moved, or has other terms."""
        term_set = self._find_term_set(pod)
        assert term_set is not None
        for term in term_set.indexed_terms:
            term.owners.remove_pod(pod.uid, node)
        of_node = self._declaring[pod.node]
        del of_node[pod.uid]
        if not of_node:
            del self._declaring[pod.node]
            del self._declaring_nodes[bisect_left(self._declaring_nodes, pod.node)]
        term_set.pod_count -= 1
        if not term_set.pod_count:
            self._remove_term_set(pod.namespace, term_set)

    def move_pod(
        self, pod: Pod, topology_keys: Container[str], old: NodeTopology, new: NodeTopology
    ) -> None:
        """Move a pod with terms whose node has other values of these topology labels."""
        term_set = self._find_term_set(pod)
        assert term_set is not None
        for term in term_set.indexed_terms:
            if term.topology_key in topology_keys:
                term.owners.remove_pod(pod.uid, old)
                term.owners.add_pod(pod.uid, new)

    # --- questions ---

    def forbidden_near(
        self, pod: Pod, node: Node
    ) -> Iterator[tuple[PodAffinityTerm, Iterable[Pod]]]:
        """Return each term of a pod with the active pods near it that the term matches."""
        term_set = self._find_term_set(pod)
        for term, query in self._term_queries(pod) if term_set is None else term_set.queries:
            value = node.labels.get(term.topology_key)
            if value is not None and query.is_valid:
                domains = self._queries.domains(query, term.topology_key)
                yield term, self._counted_pods(domains, value)

    def _counted_pods(self, domains: TopologyDomains, value: str) -> Iterator[Pod]:
        """Return the pods of a domain, but for those on nodes that are not Ready."""
        yield from filter(None, map(self._pods.get, domains.eligible.members(value)))
        for pod in filter(None, map(self._pods.get, domains.ineligible.members(value))):
            info = self._cluster.node_info(pod.node)
            if info is not None and info.node is not None and info.node.is_ready:
                yield pod

    def forbidden_in_sweep(
        self, pod: Pod, node: Node
    ) -> Iterator[tuple[PodAffinityTerm, Iterable[Pod] | None]]:
        """Return each term with the active pods near it that match, as the SIG descheduler.

        None stands for a term whose selector does not parse.
        """
        for term in pod.spec.anti_affinity:
            if (selector := term.label_selector) is None:
                continue
            scope = descheduler_scope(term, pod.namespace)
            query = self._queries.get_or_create(scope, selector)
            if not query.is_valid:
                yield term, None
            else:
                yield term, self._matching_pods_near(query, term.topology_key, node)

    def forbidding(
        self, pod: Pod, topology_keys: Container[str] | None = None
    ) -> list[AntiAffinityTerm]:
        """Return the terms in use that match a pod: `owners_near` has the pods that declare them.

        With `topology_keys`, only terms over these topology labels matter.
        """
        return [
            term
            for query in self._queries.queries_matching(pod)
            for term in self.terms_of(query)
            if topology_keys is None or term.topology_key in topology_keys
        ]

    def violated_by_node(
        self,
        node_info: NodeInfo,
        node_labels: Labels,
        topology_keys: Collection[str] | None = None,
        *,
        was_so: bool = False,
    ) -> list[PodKey]:
        """Return the pods whose terms a pod of a node of these labels may violate.

        They are pods of the node that share a domain with a pod that a term of theirs matches, or
        that one may match whose pods are not known, and pods of that domain with a term that
        matches a pod of the node. With `topology_keys`, only terms over these topology labels
        matter. `was_so` says that the node has other labels by now.
        """
        find = self._queries.known_domains if was_so else self._queries.short_domains
        matter = [
            key
            for key in self.topology_keys
            if key in node_labels and (topology_keys is None or key in topology_keys)
        ]
        if not matter:
            return []
        found = [
            pod.uid
            for pod, term_set in self._pods_with_terms(node_info.name)
            if self._has_matching_pod_nearby(pod, term_set, node_labels, matter, find)
        ]
        return found + self.owners_near_pods_of(node_info, node_labels, matter)

    def owners_near_pods_of(
        self, node_info: NodeInfo, node_labels: Labels, topology_keys: Collection[str]
    ) -> list[PodKey]:
        """Return the pods on other nodes with a term that a pod of a node of these labels matches.

        Those of the node itself may be among them.
        """
        shared = [key for key in topology_keys if self._is_shared(key, node_labels, node_info.name)]
        pods = node_info.active.values() if shared else ()
        terms = dict.fromkeys(term for pod in pods for term in self.forbidding(pod, shared))
        return [uid for term in terms for uid in self.owners_near(term, node_labels)]

    def owners_near(self, term: AntiAffinityTerm, node_labels: Labels) -> Collection[PodKey]:
        """Return the pods on eligible nodes that declare a term and share a node's domain."""
        value = node_labels.get(term.topology_key)
        return () if value is None else term.owners.eligible.members(value)

    def owners_selecting(
        self, namespace: str, queries: Iterable[SelectorQuery]
    ) -> Iterator[PodKey]:
        """Return the pods near a pod of a namespace that one of these queries may match."""
        for query in queries:
            terms = self.terms_of(query)
            for pod in self._queries.pods_with_labels(query, namespace) if terms else ():
                info = self._cluster.node_info(pod.node)
                if info is not None and info.node is not None:
                    for term in terms:
                        yield from self.owners_near(term, info.node.labels)

    def terms_of(self, query: SelectorQuery) -> Collection[AntiAffinityTerm]:
        """Return the terms that match the pods of a query."""
        return self._by_query.get(query, ())

    def nodes_with_terms(self) -> list[str]:
        """Name the nodes that have a pod with terms, eligible or not, in order: a snapshot."""
        return self._declaring_nodes.copy()

    # --- inside ---

    def _has_matching_pod_nearby(
        self,
        pod: Pod,
        term_set: _TermSet,
        node_labels: Labels,
        topology_keys: Collection[str],
        find: FindDomains,
    ) -> bool:
        """Say whether a term may match another pod nearby, on whatever node."""
        for term, query in term_set.queries:
            key = term.topology_key
            if key not in topology_keys or not query.is_valid or key not in node_labels:
                continue
            domains = find(query, key)
            if domains is None or any(uid != pod.uid for uid in domains.pods(node_labels[key])):
                return True
        return False

    def _is_shared(self, key: str, node_labels: Labels, node_name: str) -> bool:
        """Say whether other nodes may share the domain of these labels."""
        value = node_labels.get(key)
        return value is not None and self._node_domains.has_others(key, value, node_name)

    def _find_term_set(self, pod: Pod) -> _TermSet | None:
        declarations = self._term_sets.get(pod.namespace)
        return None if declarations is None else declarations.get(_term_set_key(pod))

    def _term_queries(self, pod: Pod) -> Iterator[tuple[PodAffinityTerm, SelectorQuery]]:
        """Yield each term with its query, which is kept if it is acquired before the next one."""
        for term in pod.spec.anti_affinity:
            if (selector := scheduler_selector(term, pod.labels)) is not None:
                scope = scheduler_scope(term, pod.namespace)
                yield term, self._queries.get_or_create(scope, selector)

    def _matching_pods_near(self, query: SelectorQuery, key: str, node: Node) -> Iterable[Pod]:
        value = node.labels.get(key)
        if value is None:
            node_info = self._cluster.node_info(node.name)
            pods = node_info.active.values() if node_info is not None else ()
            return [pod for pod in pods if self._queries.matches(query, pod)]
        uids = self._queries.domains(query, key).eligible.members(value)
        return filter(None, map(self._pods.get, uids))

    def _pods_with_terms(self, node: str) -> Iterator[tuple[Pod, _TermSet]]:
        for pod in map(self._pods.get, self._declaring.get(node, ())):
            if pod is not None and (term_set := self._find_term_set(pod)) is not None:
                yield pod, term_set

    def _add_term_set(self, pod: Pod) -> _TermSet:
        queries: list[tuple[PodAffinityTerm, SelectorQuery]] = []
        indexed_terms: dict[AntiAffinityTerm, None] = {}
        for term, query in self._term_queries(pod):
            indexed_term = self._get_or_create_term(query, term.topology_key)
            if indexed_term not in indexed_terms:
                indexed_term.refs += 1
                indexed_terms[indexed_term] = None
            queries.append((term, query))
        made = _TermSet(pod, tuple(queries), tuple(indexed_terms))
        self._term_sets.setdefault(pod.namespace, {})[made.key] = made
        return made

    def _get_or_create_term(self, query: SelectorQuery, key: str) -> AntiAffinityTerm:
        for existing in self.terms_of(query):
            if existing.topology_key == key:
                return existing
        made = AntiAffinityTerm(query, key)
        self._by_query.setdefault(query, []).append(made)
        self._queries.acquire(query)
        self.topology_keys.acquire(key)
        return made

    def _remove_term_set(self, namespace: str, term_set: _TermSet) -> None:
        of_namespace = self._term_sets[namespace]
        del of_namespace[term_set.key]
        if not of_namespace:
            del self._term_sets[namespace]
        for term in term_set.indexed_terms:
            term.refs -= 1
            if not term.refs:
                self._remove_term(term)

    def _remove_term(self, term: AntiAffinityTerm) -> None:
        terms = self._by_query[term.query]
        terms.remove(term)
        if not terms:
            del self._by_query[term.query]
        self.topology_keys.release(term.topology_key)
        self._queries.release(term.query)
