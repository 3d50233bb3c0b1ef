"""Who keeps away from whom: required anti-affinity between pods, both ways round.

A pod's own terms say whom it must not be near; the other way round, a pod that arrives must find
those that must not be near it. Pods of one template in one namespace share what their terms come
to.
"""

from collections.abc import Collection, Container, Iterable, Iterator

from reactive_desched.model.affinity_terms import descheduler_scope, scheduler_scope
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import Node, Pod, PodAffinityTerm, PodKey
from reactive_desched.state.indexes.anti_affinity.domains import TopologyKeyRefs
from reactive_desched.state.indexes.anti_affinity.selectors import SelectorIndex
from reactive_desched.state.indexes.anti_affinity.terms import (
    AntiAffinityTerm,
    SelectorQuery,
    TermSemantics,
)
from reactive_desched.state.nodes import DOMAIN_KEYS, NodeInfo, NodeStore, NodeTopology
from reactive_desched.state.pods import PodStore

Terms = tuple[PodAffinityTerm, ...]
TermQueries = tuple[tuple[PodAffinityTerm, SelectorQuery], ...]
"""Terms with whom they mean; a term without a selector means nobody and is left out."""


class _TermSet:
    """The required anti-affinity that pods of a namespace share, and how many have it.

    `terms` are held, so that an identity is never used twice.
    """

    __slots__ = ("indexed_terms", "pod_count", "queries", "terms")

    def __init__(
        self, terms: Terms, queries: TermQueries, indexed_terms: tuple[AntiAffinityTerm, ...]
    ) -> None:
        self.terms = terms
        self.queries = queries
        self.indexed_terms = indexed_terms
        self.pod_count = 0


class AntiAffinityTermIndex:
    """The required anti-affinity of all active pods, as the descheduler and the scheduler read it.

    For the descheduler pods are near each other on one node even if it lacks the topology label,
    and nodes that do not count are not looked at.
    """

    def __init__(self, pods: PodStore, nodes: NodeStore, selectors: SelectorIndex) -> None:
        self._pods = pods
        self._nodes = nodes
        self._selectors = selectors
        self._term_sets: dict[str, dict[int, _TermSet]] = {}
        self.topology_keys = TopologyKeyRefs()

    # --- kept up to date ---

    def add_pod(self, pod: Pod, node: NodeTopology) -> None:
        """An active pod has anti-affinity terms from now on."""
        term_set = self._find_term_set(pod)
        if term_set is None:
            term_set = self._add_term_set(pod)
        term_set.pod_count += 1
        for term in term_set.indexed_terms:
            term.owners.add_pod(pod.uid, node)

    def remove_pod(self, pod: Pod, node: NodeTopology) -> None:
        """A pod that declared its terms is active no more, or has others."""
        term_set = self._find_term_set(pod)
        assert term_set is not None
        for term in term_set.indexed_terms:
            term.owners.remove_pod(pod.uid, node)
        term_set.pod_count -= 1
        if not term_set.pod_count:
            self._remove_term_set(pod.namespace, term_set)

    def move_pod(
        self, pod: Pod, topology_keys: Container[str], old: NodeTopology, new: NodeTopology
    ) -> None:
        """A declaring pod's node is in other domains of these topology labels than before."""
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
        """Return, term by term, the active pods near a pod that it must not be near."""
        term_set = self._find_term_set(pod)
        for term, query in self._term_queries(pod) if term_set is None else term_set.queries:
            if not query.is_valid:
                yield term, None
            else:
                yield term, self._matching_pods_near(query, term.topology_key, node)

    def violated_by(
        self, pod: Pod, node_labels: Labels, topology_keys: Container[str] | None = None
    ) -> list[PodKey]:
        """Return the pods that must not be near a pod and are, given the labels of its node.

        With `keys`, only those that say so with one of these topology labels.
        """
        found: list[PodKey] = []
        for query in self._selectors.queries_matching(pod):
            for term in query.anti_affinity_terms:
                if topology_keys is None or term.topology_key in topology_keys:
                    found += self.owners_near(term, pod.node, node_labels)
        return found

    def violated_by_node(
        self, node_info: NodeInfo, node_labels: Labels, topology_keys: Collection[str] | None = None
    ) -> list[PodKey]:
        """Return who avoids a pod of a node of these labels: pods there, and pods near there.

        Of the pods there, only those that have company whom a term of theirs means. With `keys`,
        only terms over these topology labels matter.
        """
        matter = [
            key for key in self.topology_keys if topology_keys is None or key in topology_keys
        ]
        if not matter:
            return []
        found = [
            pod.uid
            for pod, term_set in self._pods_with_terms(node_info)
            if self._has_matching_pod_nearby(pod, term_set, node_labels, matter)
        ]
        shared = [key for key in matter if self._is_shared(key, node_labels, node_info.name)]
        for pod in node_info.active.values() if shared else ():
            found += self.violated_by(pod, node_labels, shared)
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
        if (node_info := self._nodes.get(node)) is None:
            return ()
        declaring = self._pods_with_terms(node_info)
        return [pod.uid for pod, term_set in declaring if term in term_set.indexed_terms]

    def terms_matching(self, pod: Pod) -> list[AntiAffinityTerm]:
        """Return the terms of others that mean a pod, as the kube-scheduler reads them."""
        return [
            term
            for query in self._selectors.queries_matching(pod)
            for term in query.anti_affinity_terms
            if term.semantics is not TermSemantics.DESCHEDULER
        ]

    # --- inside ---

    def _has_matching_pod_nearby(
        self, pod: Pod, term_set: _TermSet, node_labels: Labels, topology_keys: Collection[str]
    ) -> bool:
        """Say whether a term means another pod nearby, or may: on a node without the label."""
        for term, query in term_set.queries:
            if (key := term.topology_key) not in topology_keys or not query.is_valid:
                continue
            if (value := node_labels.get(key)) is None:
                return True
            nearby = self._selectors.domains(query, key).eligible.members(value)
            if len(nearby) > 1 or (nearby and pod.uid not in nearby):
                return True
        return False

    def _is_shared(self, key: str, node_labels: Labels, node_name: str) -> bool:
        """Say whether other nodes than this one may be in the domain of these labels."""
        if (value := node_labels.get(key)) is None:
            return False
        if key not in DOMAIN_KEYS:
            return True
        nodes = self._nodes.nodes_in_domain(key, value)
        return len(nodes) > 1 or (len(nodes) == 1 and node_name not in nodes)

    def _find_term_set(self, pod: Pod) -> _TermSet | None:
        declarations = self._term_sets.get(pod.namespace)
        return None if declarations is None else declarations.get(id(pod.spec.anti_affinity))

    def _term_queries(self, pod: Pod) -> TermQueries:
        return tuple(
            (term, self._selectors.get_or_create(descheduler_scope(term, pod.namespace), selector))
            for term in pod.spec.anti_affinity
            if (selector := term.label_selector) is not None
        )

    def _matching_pods_near(self, query: SelectorQuery, key: str, node: Node) -> Iterable[Pod]:
        value = node.labels.get(key)
        if value is None:
            node_info = self._nodes.get(node.name)
            pods = node_info.active.values() if node_info is not None else ()
            return [pod for pod in pods if self._selectors.matches(query, pod)]
        uids = self._selectors.domains(query, key).eligible.members(value)
        return filter(None, map(self._pods.get, uids))

    def _pods_with_terms(self, node_info: NodeInfo) -> Iterator[tuple[Pod, _TermSet]]:
        for pod in node_info.active.values():
            if pod.spec.anti_affinity and (term_set := self._find_term_set(pod)) is not None:
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
        """Return what a term comes to: one avoidance, or one for each of two readings."""
        if term.label_selector is None:
            return
        scope, key = descheduler_scope(term, namespace), term.topology_key
        if term.namespace_selector is None:
            yield self._get_or_create_term(
                self._selectors.get_or_create(scope, term.label_selector), key, TermSemantics.BOTH
            )
            return
        yield self._get_or_create_term(
            self._selectors.get_or_create(scope, term.label_selector),
            key,
            TermSemantics.DESCHEDULER,
        )
        scope = scheduler_scope(term, namespace)
        yield self._get_or_create_term(
            self._selectors.get_or_create(scope, term.label_selector), key, TermSemantics.SCHEDULER
        )

    def _get_or_create_term(
        self, query: SelectorQuery, key: str, semantics: TermSemantics
    ) -> AntiAffinityTerm:
        for existing in query.anti_affinity_terms:
            if existing.topology_key == key and existing.semantics is semantics:
                return existing
        made = AntiAffinityTerm(query, key, semantics)
        query.anti_affinity_terms.append(made)
        self._selectors.acquire(query)
        self.topology_keys.acquire(key)
        if semantics is not TermSemantics.SCHEDULER:
            self._selectors.domains(query, key)  # while it is small: others will follow
        return made

    def _remove_term_set(self, namespace: str, term_set: _TermSet) -> None:
        of_namespace = self._term_sets[namespace]
        del of_namespace[id(term_set.terms)]
        if not of_namespace:
            del self._term_sets[namespace]
        for term in term_set.indexed_terms:
            term.refs -= 1
            if not term.refs:
                term.query.anti_affinity_terms.remove(term)
                self.topology_keys.release(term.topology_key)
                self._selectors.release(term.query)
