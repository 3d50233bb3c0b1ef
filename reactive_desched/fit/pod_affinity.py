"""Finds the nodes that other pods rule out, by affinity and anti-affinity of both sides.

The evicted pod is left out on every side, since it will be gone when its replacement comes, and so
is the placeholder that keeps its place.
Terminating pods count until they are gone, as in the kube-scheduler. A reservation counts for
anti-affinity like a pod that is there, but fulfils no pod's affinity.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.model.affinity_terms import scheduler_scope, scheduler_selector
from reactive_desched.model.objects import Namespace, Pod, PodAffinityTerm
from reactive_desched.model.scheduling import FitReason
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.state.indexes.topology_domains import TopologyDomains

POD_AFFINITY_UNMET: Final = FitReason("PodAffinityUnmet", "node(s) didn't match pod affinity rules")
POD_ANTI_AFFINITY_VIOLATED: Final = FitReason(
    "PodAntiAffinityViolated", "node(s) didn't match pod anti-affinity rules"
)
EXISTING_ANTI_AFFINITY: Final = FitReason(
    "ExistingPodAntiAffinity", "node(s) didn't satisfy existing pods anti-affinity rules"
)

RejectionIterator = Iterator[tuple[FitReason, int]]
"""Reasons, each with the slots that it rejects."""


_ClosedDomains = defaultdict[str, set[str]]  # values by topology label


class PodAffinityFilter:
    """The kube-scheduler's InterPodAffinity filter; it keeps no state."""

    def __init__(self, nodes: NodeSets, view: ClusterView) -> None:
        self._nodes = nodes
        self._view = view

    def rejections(self, pod: Pod, held: Pod | None = None) -> RejectionIterator:
        """Return the slots that violate the pod's affinity, or anti-affinity of it or of others.

        `held` is a pod that makes room for this one, and has none of its labels.
        """
        leaving = self._leaving(pod) if held is None else (*self._leaving(pod), held)
        if pod.spec.pod_affinity:
            yield POD_AFFINITY_UNMET, self._nodes.existing & ~self._affinity_nodes(pod)
        if pod.spec.anti_affinity:
            yield POD_ANTI_AFFINITY_VIOLATED, self._anti_affinity_conflicts(pod, leaving)
        yield EXISTING_ANTI_AFFINITY, self._existing_anti_affinity(pod, leaving)

    def closed_domains(self, pod: Pod, leaving: Sequence[Pod]) -> Iterator[tuple[str, set[str]]]:
        """Yield the topology domains where the anti-affinity of other pods rules this one out."""
        for owned_term in self._view.index(PodAffinity).terms_matching(pod):
            yield owned_term.topology_key, self._occupied_domains(owned_term.owners, leaving)

    def closes_with(self, pod: Pod, slot: int, others: Sequence[Pod]) -> bool:
        """Say whether pods that come into a slot first keep a pod off it, by its terms or theirs.

        That they would fulfil the pod's affinity does not help: they may never be bound. As in the
        kube-scheduler, theirs do not count where InterPodAffinity has nothing else to look at.
        """
        has_label = self._nodes.labels.value
        pairs = [(pod, other) for other in others]
        if self._has_terms(pod) or any(self._closed_by_others(pod, self._leaving(pod)).values()):
            pairs += [(other, pod) for other in others]
        return any(
            has_label(term.topology_key, slot) is not None and self.matches(term, owner, matched)
            for owner, matched in pairs
            for term in owner.spec.anti_affinity
        )

    def _has_terms(self, pod: Pod) -> bool:
        return bool(pod.spec.pod_affinity or pod.spec.anti_affinity)

    def matches(self, term: PodAffinityTerm, owner: Pod, pod: Pod) -> bool:
        """Say whether a term of its owner matches a pod."""
        selector = scheduler_selector(term, owner.labels)
        if selector is None or not selector.matches(pod.labels):
            return False
        there = self._view.store(Namespace).get(pod.namespace)
        labels = {} if there is None else there.labels
        return scheduler_scope(term, owner.namespace).covers(pod.namespace, labels)

    def _affinity_nodes(self, pod: Pod) -> int:
        """Return the slots in whose domains some pod matches all affinity terms at once.

        If no pod does anywhere, the first pod of a group may go wherever the topology labels are.
        """
        terms = pod.spec.pod_affinity
        labelled = found = self._nodes.existing
        no_match_anywhere = True
        for key in dict.fromkeys(term.topology_key for term in terms):
            labelled &= self._nodes.labels.with_label(key)
            domains = self._view.index(PodAffinity).matching_terms(terms, pod, key)
            values = self._occupied_domains(domains, self._leaving(pod))
            no_match_anywhere &= not values
            found &= self._nodes.labels.with_label_in(key, values)
        if no_match_anywhere and all(self.matches(term, pod, pod) for term in terms):
            return labelled
        return found

    def _leaving(self, pod: Pod) -> Sequence[Pod]:
        """Return the pod, and those that are taken to have left where moves are tried."""
        return (pod, *(each for each in self._nodes.vacated.pods if each.uid != pod.uid))

    def _anti_affinity_conflicts(self, pod: Pod, leaving: Sequence[Pod]) -> int:
        closed: _ClosedDomains = defaultdict(set)
        reservations = self._nodes.reservations
        for term in pod.spec.anti_affinity:
            domains = self._view.index(PodAffinity).matching_term(term, pod)
            closed[term.topology_key] |= self._occupied_domains(domains, leaving)
            selector = scheduler_selector(term, pod.labels)
            for reservation in () if selector is None else reservations.labelled(selector):
                if self.matches(term, pod, reservation.pod):
                    values = self._domain_of(reservation.node, term.topology_key)
                    closed[term.topology_key] |= values
        return self._slots_in(closed)

    def _existing_anti_affinity(self, pod: Pod, leaving: Sequence[Pod]) -> int:
        return self._slots_in(self._closed_by_others(pod, leaving))

    def _closed_by_others(self, pod: Pod, leaving: Sequence[Pod]) -> _ClosedDomains:
        """Return the domains where the anti-affinity of pods that are there rules this one out."""
        closed: _ClosedDomains = defaultdict(set)
        for key, values in self.closed_domains(pod, leaving):
            closed[key] |= values
        for reservation, term in self._nodes.reservations.terms_about(pod):
            if reservation.pod.uid != pod.uid and self.matches(term, reservation.pod, pod):
                closed[term.topology_key] |= self._domain_of(reservation.node, term.topology_key)
        return closed

    def _slots_in(self, domains: _ClosedDomains) -> int:
        """Return the slots in any of these domains: once for all terms with a topology label."""
        found = 0
        for key, values in domains.items():
            found |= self._nodes.labels.with_label_in(key, values)
        return found

    def _occupied_domains(self, domains: TopologyDomains, leaving: Sequence[Pod]) -> set[str]:
        """Return the domains that have a pod other than those that leave."""
        found, gone = set(domains.values()), [pod.uid for pod in leaving]
        for each in leaving:
            for own in self._domain_of(each.node, domains.topology_key):
                if own in found and not domains.count(own, *gone):
                    found.discard(own)
        return found

    def _domain_of(self, node: str, key: str) -> set[str]:
        slot = self._nodes.slot_of(node)
        value = None if slot is None else self._nodes.labels.value(key, slot)
        return set() if value is None else {value}
