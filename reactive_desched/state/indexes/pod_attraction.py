"""Sums up how pods draw others to their topology domains, or repel them.

This is for a score, not for a filter: preferred affinity and anti-affinity, and required affinity,
which draws a little as well.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.affinity_terms import (
    depend_on_labels,
    scheduler_scope,
    scheduler_selector,
)
from reactive_desched.model.node_scores import HARD_POD_AFFINITY_WEIGHT
from reactive_desched.model.objects import Pod, PodAffinityTerm, PodKey
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.state.indexes.selectors import SelectorQuery
from reactive_desched.state.indexes.topology_domains import TopologyDomains, topology, topology_of

WeightedTerm = tuple[int, PodAffinityTerm]
"""A term with its weight, which is negative for anti-affinity."""

_TermKey = tuple[str, int, bool]
"""A topology key, a weight, and whether the affinity is required: then the weight is the number of
equal terms."""


class _Declared:
    """One weighted term: `owners` are the active pods that declare it, `refs` counts them."""

    __slots__ = ("owners", "refs")

    def __init__(self, topology_key: str) -> None:
        self.owners = TopologyDomains(topology_key)
        self.refs = 0


class PodAttraction(Index):
    """Sums up what affinity terms of active pods add to the score of a domain, for any pod."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._queries = cluster.index(PodAffinity).queries
        self._declared: dict[SelectorQuery, dict[_TermKey, _Declared]] = {}
        for pod in cluster.store(Pod):
            self.on_pod(None, pod)

    def pull(
        self, pod: Pod, hard_weight: int = HARD_POD_AFFINITY_WEIGHT, gone: PodKey = ""
    ) -> Mapping[str, Mapping[str, int]]:
        """Sum the weights of the terms that match a pod, by topology key and value.

        A term of required affinity weighs `hard_weight`; a pod that is `gone`
        has none.
        """
        found: dict[str, Counter[str]] = {}
        for query in self._queries.queries_matching(pod):
            for (key, weight, is_hard), declared in self._declared.get(query, {}).items():
                sums = found.setdefault(key, Counter())
                each = weight * hard_weight if is_hard else weight
                for value in declared.owners.values():
                    sums[value] += each * declared.owners.count(value, gone)
        return found

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow an active pod that has such terms."""
        if old is not None and new is not None and _declares_alike(old, new):
            return ()
        if new is not None and new.is_active:
            self._add(new)
        if old is not None and old.is_active:
            self._remove(old)
        if new is not None and new.is_active:
            self._place(new)
        return ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[()]:
        """Move the pods of a node whose labels or eligibility changed."""
        state, before, after = new or old, topology(old), topology(new)
        if state is None or before == after:
            return ()
        info = self._cluster.node_info(state.node.name)
        for pod in () if info is None else info.active.values():
            for query, term_key in self._keys(pod):
                owners = self._declared[query][term_key].owners
                owners.remove_pod(pod.uid, before)
                owners.add_pod(pod.uid, after)
        return ()

    def answers(self) -> object:
        """Return what pulls each pod."""
        return {
            pod.uid: {
                (key, value): weight
                for key, sums in self.pull(pod).items()
                for value, weight in sums.items()
                if weight
            }
            for pod in self._cluster.store(Pod)
        }

    def _add(self, pod: Pod) -> None:
        """Keep the pod's terms, before an older record of the pod gives its own up."""
        for query, term_key in self._keys(pod):
            of_query = self._declared.setdefault(query, {})
            if (declared := of_query.get(term_key)) is None:
                declared = of_query[term_key] = _Declared(term_key[0])
                self._queries.acquire(query)
            declared.refs += 1

    def _place(self, pod: Pod) -> None:
        node = topology_of(self._cluster, pod.node)
        for query, term_key in self._keys(pod):
            self._declared[query][term_key].owners.add_pod(pod.uid, node)

    def _remove(self, pod: Pod) -> None:
        node = topology_of(self._cluster, pod.node)
        for query, term_key in self._keys(pod):
            of_query = self._declared[query]
            declared = of_query[term_key]
            declared.owners.remove_pod(pod.uid, node)
            declared.refs -= 1
            if declared.refs:
                continue
            del of_query[term_key]
            self._queries.release(query)
            if not of_query:
                del self._declared[query]

    def _keys(self, pod: Pod) -> Iterable[tuple[SelectorQuery, _TermKey]]:
        """Return a pod's terms, each once; equal ones add up."""
        weights: Counter[tuple[SelectorQuery, str, bool]] = Counter()
        for weight, term, is_hard in _terms(pod):
            if (selector := scheduler_selector(term, pod.labels)) is not None:
                scope = scheduler_scope(term, pod.namespace)
                query = self._queries.get_or_create(scope, selector)
                weights[query, term.topology_key, is_hard] += weight
        return [
            (query, (key, weight, is_hard)) for (query, key, is_hard), weight in weights.items()
        ]


def _terms(pod: Pod) -> Iterator[tuple[int, PodAffinityTerm, bool]]:
    """Yield the terms by which a pod that is there draws others, and whether each is required."""
    for term in pod.spec.pod_affinity:
        yield 1, term, True
    for weight, term in preferred_terms(pod):
        yield weight, term, False


def preferred_terms(pod: Pod) -> Iterator[WeightedTerm]:
    """Return the terms by which a pod chooses among nodes."""
    for preferred in pod.spec.preferred_pod_affinity:
        yield preferred.weight, preferred.pod_affinity_term
    for preferred in pod.spec.preferred_anti_affinity:
        yield -preferred.weight, preferred.pod_affinity_term


def _declares_alike(old: Pod, new: Pod) -> bool:
    return (
        old.node == new.node
        and old.is_active == new.is_active
        and (
            old.spec is new.spec
            or all(
                a is b for a, b in zip(_groups_of_terms(old), _groups_of_terms(new), strict=True)
            )
        )
        and (old.labels is new.labels or not depend_on_labels(term for _, term, _ in _terms(new)))
    )


def _groups_of_terms(pod: Pod) -> tuple[object, ...]:
    spec = pod.spec
    return spec.pod_affinity, spec.preferred_pod_affinity, spec.preferred_anti_affinity
