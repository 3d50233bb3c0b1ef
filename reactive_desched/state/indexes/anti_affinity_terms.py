"""Required anti-affinity between pods, in both directions.

A pod's own terms name the pods that it must not be near; in the other direction, a pod that
appears must find the pods whose terms match it. Pods of one template in one namespace share their
terms.
"""

from collections.abc import Collection, Container, Iterable, Iterator
from enum import Enum

from reactive_desched.api.index import Cluster, NodeInfo
from reactive_desched.model.affinity_terms import descheduler_scope, scheduler_scope
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import Node, Pod, PodAffinityTerm, PodKey
from reactive_desched.state.indexes.node_domains import NodeDomains
from reactive_desched.state.indexes.selectors import SelectorQueries, SelectorQuery
from reactive_desched.state.indexes.topology_domains import (
    NodeTopology,
    TopologyDomains,
    TopologyKeyRefs,
)

Terms = tuple[PodAffinityTerm, ...]
TermQueries = tuple[tuple[PodAffinityTerm, SelectorQuery], ...]
"""Terms with their queries; a term without a selector matches no pod and is left out."""


class TermSemantics(Enum):
    """Which component reads a term this way: they differ where it has a namespaceSelector."""

    BOTH = "both"
    DESCHEDULER = "descheduler"
    SCHEDULER = "scheduler"


class AntiAffinityTerm:
    """One required anti-affinity term: the pods that it matches, and those that declare it.

    `owners` has the active pods that declare it, by domain of the term's topology label.
    """

    __slots__ = ("owners", "query", "refs", "semantics")

    def __init__(self, query: SelectorQuery, topology_key: str, semantics: TermSemantics) -> None:
        self.query = query
        self.semantics = semantics
        self.owners = TopologyDomains(topology_key)
        self.refs = 0

    @property
    def topology_key(self) -> str:
        """The topology label."""
        return self.owners.topology_key


class _TermSet:
    """The required anti-affinity that pods of a namespace share, and how many have it.

    `terms` are kept alive, so that an identity is never used twice.
    """

    __slots__ = ("indexed_terms", "pod_count", "queries", "terms")

    def __init__(
        self, terms: Terms, queries: TermQueries, indexed_terms: tuple[AntiAffinityTerm, ...]
    ) -> None:
        self.terms = terms
        self.queries = queries
        self.indexed_terms = indexed_terms
        self.pod_count = 0


class AntiAffinityTerms:
    """The required anti-affinity of all active pods, as the descheduler and the scheduler read it.

    For the descheduler, pods of one node are near each other even if it lacks the topology label,
    and pods on nodes that are not eligible do not count.
    """

    def __init__(self, cluster: Cluster, queries: SelectorQueries) -> None:
        self._cluster = cluster
        self._pods = cluster.store(Pod)
        self._node_domains = cluster.index(NodeDomains)
        self._queries = queries
        self._by_query: dict[SelectorQuery, list[AntiAffinityTerm]] = {}
        self._declaring: dict[str, dict[PodKey, None]] = {}
        self._term_sets: dict[str, dict[int, _TermSet]] = {}
        self.topology_keys = TopologyKeyRefs()

    # --- kept up to date ---

    def add_pod(self, pod: Pod, node: NodeTopology) -> None:
        """Add an active pod with anti-affinity terms."""
        term_set = self._find_term_set(pod)
        if term_set is None:
            term_set = self._add_term_set(pod)
        term_set.pod_count += 1
        self._declaring.setdefault(pod.node, {})[pod.uid] = None
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
    ) -> Iterator[tuple[PodAffinityTerm, Iterable[Pod] | None]]:
        """Return each term of a pod with the active pods near it that the term matches.

        None stands for a term whose selector does not parse.
        """
        term_set = self._find_term_set(pod)
        for term, query in self._term_queries(pod) if term_set is None else term_set.queries:
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
        self, node_info: NodeInfo, node_labels: Labels, topology_keys: Collection[str] | None = None
    ) -> list[PodKey]:
        """Return the pods whose terms a pod of a node of these labels may violate.

        They are pods of the node that share it, or a domain, with a pod that a term of theirs
        matches, and pods nearby with a term that matches a pod of the node. With `topology_keys`,
        only terms over these topology labels matter.
        """
        matter = [
            key for key in self.topology_keys if topology_keys is None or key in topology_keys
        ]
        if not matter:
            return []
        found = [
            pod.uid
            for pod, term_set in self._pods_with_terms(node_info.name)
            if self._has_matching_pod_nearby(pod, term_set, node_labels, matter)
        ]
        shared = [key for key in matter if self._is_shared(key, node_labels, node_info.name)]
        for pod in node_info.active.values() if shared else ():
            for term in self.forbidding(pod, shared):
                found += self.owners_near(term, node_info.name, node_labels)
        return found

    def owners_near(
        self, term: AntiAffinityTerm, node: str, node_labels: Labels
    ) -> Collection[PodKey]:
        """Return the pods near a node that declare a term, as the descheduler reads it."""
        if term.semantics is TermSemantics.SCHEDULER:
            return ()
        owners = term.owners
        value = node_labels.get(owners.topology_key)
        if value is not None:
            return owners.eligible.members(value)
        declaring = self._pods_with_terms(node)
        return [pod.uid for pod, term_set in declaring if term in term_set.indexed_terms]

    def terms_matching(self, pod: Pod) -> list[AntiAffinityTerm]:
        """Return the terms in use that match a pod, as the kube-scheduler reads them."""
        return [
            term
            for query in self._queries.queries_matching(pod)
            for term in self.terms_of(query)
            if term.semantics is not TermSemantics.DESCHEDULER
        ]

    def terms_of(self, query: SelectorQuery) -> Collection[AntiAffinityTerm]:
        """Return the terms that match the pods of a query."""
        return self._by_query.get(query, ())

    def nodes_with_terms(self) -> list[str]:
        """Name the eligible nodes that have a pod with terms."""
        infos = map(self._cluster.node_info, self._declaring)
        return [info.name for info in infos if info is not None and info.eligible]

    # --- inside ---

    def _has_matching_pod_nearby(
        self, pod: Pod, term_set: _TermSet, node_labels: Labels, topology_keys: Collection[str]
    ) -> bool:
        """Say whether a term matches another pod nearby, or may: on a node without the label."""
        for term, query in term_set.queries:
            if (key := term.topology_key) not in topology_keys or not query.is_valid:
                continue
            if (value := node_labels.get(key)) is None:
                return True
            nearby = self._queries.domains(query, key).eligible.members(value)
            if len(nearby) > 1 or (nearby and pod.uid not in nearby):
                return True
        return False

    def _is_shared(self, key: str, node_labels: Labels, node_name: str) -> bool:
        """Say whether other nodes may share the domain of these labels."""
        value = node_labels.get(key)
        return value is not None and self._node_domains.has_others(key, value, node_name)

    def _find_term_set(self, pod: Pod) -> _TermSet | None:
        declarations = self._term_sets.get(pod.namespace)
        return None if declarations is None else declarations.get(id(pod.spec.anti_affinity))

    def _term_queries(self, pod: Pod) -> TermQueries:
        return tuple(
            (term, self._queries.get_or_create(descheduler_scope(term, pod.namespace), selector))
            for term in pod.spec.anti_affinity
            if (selector := term.label_selector) is not None
        )

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
        terms: dict[AntiAffinityTerm, None] = {}
        for term in pod.spec.anti_affinity:
            for indexed_term in self._indexed_terms(term, pod.namespace):
                if indexed_term not in terms:
                    indexed_term.refs += 1
                    terms[indexed_term] = None
        made = _TermSet(pod.spec.anti_affinity, self._term_queries(pod), tuple(terms))
        self._term_sets.setdefault(pod.namespace, {})[id(made.terms)] = made
        return made

    def _indexed_terms(self, term: PodAffinityTerm, namespace: str) -> Iterator[AntiAffinityTerm]:
        """Return a term as both components read it, or once for each where they differ."""
        if term.label_selector is None:
            return
        scope, key = descheduler_scope(term, namespace), term.topology_key
        if term.namespace_selector is None:
            yield self._get_or_create_term(
                self._queries.get_or_create(scope, term.label_selector), key, TermSemantics.BOTH
            )
            return
        yield self._get_or_create_term(
            self._queries.get_or_create(scope, term.label_selector),
            key,
            TermSemantics.DESCHEDULER,
        )
        scope = scheduler_scope(term, namespace)
        yield self._get_or_create_term(
            self._queries.get_or_create(scope, term.label_selector), key, TermSemantics.SCHEDULER
        )

    def _get_or_create_term(
        self, query: SelectorQuery, key: str, semantics: TermSemantics
    ) -> AntiAffinityTerm:
        for existing in self.terms_of(query):
            if existing.topology_key == key and existing.semantics is semantics:
                return existing
        made = AntiAffinityTerm(query, key, semantics)
        self._by_query.setdefault(query, []).append(made)
        self._queries.acquire(query)
        self.topology_keys.acquire(key)
        if semantics is not TermSemantics.SCHEDULER:
            self._queries.domains(query, key)  # built while it has few pods
        return made

    def _remove_term_set(self, namespace: str, term_set: _TermSet) -> None:
        of_namespace = self._term_sets[namespace]
        del of_namespace[id(term_set.terms)]
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
