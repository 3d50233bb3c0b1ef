"""Which nodes other pods close: affinity and anti-affinity between pods, in both directions.

The pod that is to move is left out on every side: it will be gone when its replacement comes, so
it neither repels it nor keeps it company. Pods that are being deleted count until they are gone, as
the kube-scheduler counts them. A booked replacement repels like a pod that is there; it keeps
nobody company before it has come.
"""

from collections.abc import Iterator
from typing import Final

from reactive_desched.fit.node_sets import Nodes
from reactive_desched.model.affinity_terms import scheduler_scope
from reactive_desched.model.objects import Pod, PodAffinityTerm
from reactive_desched.state.indexes.anti_affinity.domains import Domains
from reactive_desched.state.view import ClusterView

NO_COMPANY: Final = "node(s) didn't match pod affinity rules"
UNWELCOME_COMPANY: Final = "node(s) didn't match pod anti-affinity rules"
REPELLED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

Refusals = Iterator[tuple[str, int]]
"""Reasons, each with the slots that refuse for it."""


class Neighbours:
    """Reads the indexes of who is meant by whom; holds nothing."""

    def __init__(self, nodes: Nodes, view: ClusterView) -> None:
        self._nodes = nodes
        self._view = view

    def refusals(self, pod: Pod) -> Refusals:
        """Return the slots where a pod lacks company, meets the wrong one, or is not wanted."""
        if pod.spec.pod_affinity:
            yield NO_COMPANY, self._nodes.existing & ~self._in_company(pod)
        if pod.spec.anti_affinity:
            yield UNWELCOME_COMPANY, self._shunned(pod)
        yield REPELLED, self._repelled(pod)

    def means(self, term: PodAffinityTerm, namespace: str, pod: Pod) -> bool:
        """Say whether a term of a pod in this namespace means a pod."""
        if term.label_selector is None or not term.label_selector.matches(pod.labels):
            return False
        there = self._view.namespace(pod.namespace)
        labels = {} if there is None else there.labels
        return scheduler_scope(term, namespace).covers(pod.namespace, labels)

    def _in_company(self, pod: Pod) -> int:
        """Return the slots in whose domains some pod matches all affinity terms at once.

        If none does anywhere, the first pod of a group may start it wherever the labels are.
        """
        terms = pod.spec.pod_affinity
        labelled = found = self._nodes.existing
        alone = True
        for term in terms:
            labelled &= self._nodes.labels.bearing(term.topology_key)
            domains = self._view.matching(term, pod.namespace)
            others = [t for t in terms if t is not term]
            values = self._peopled(domains, pod)
            if others:
                values = {v for v in values if self._has_company(pod, domains, v, others)}
            alone &= not values
            found &= self._nodes.labels.in_any(term.topology_key, values)
        if alone and all(self.means(term, pod.namespace, pod) for term in terms):
            return labelled
        return found

    def _has_company(
        self, pod: Pod, domains: Domains, value: str, others: list[PodAffinityTerm]
    ) -> bool:
        """Say whether a domain has a pod, other than this one, that the other terms mean too."""
        found = (self._view.pod(uid) for uid in domains.pods(value) if uid != pod.uid)
        return any(
            all(self.means(term, pod.namespace, other) for term in others)
            for other in found
            if other is not None
        )

    def _shunned(self, pod: Pod) -> int:
        found = 0
        for term in pod.spec.anti_affinity:
            domains = self._view.matching(term, pod.namespace)
            values = self._peopled(domains, pod)
            for booking in self._nodes.bookings:
                if self.means(term, pod.namespace, booking.pod):
                    values |= self._domain_of(booking.node, term.topology_key)
            found |= self._nodes.labels.in_any(term.topology_key, values)
        return found

    def _repelled(self, pod: Pod) -> int:
        found = 0
        for avoidance in self._view.repelling(pod):
            values = self._peopled(avoidance.declarers, pod)
            found |= self._nodes.labels.in_any(avoidance.key, values)
        for booking in self._nodes.bookings:
            for term in booking.pod.spec.anti_affinity:
                if booking.pod.uid != pod.uid and self.means(term, booking.pod.namespace, pod):
                    values = self._domain_of(booking.node, term.topology_key)
                    found |= self._nodes.labels.in_any(term.topology_key, values)
        return found

    def _peopled(self, domains: Domains, leaving: Pod) -> set[str]:
        """Return the domains in which there is a pod beside the one that is to leave."""
        found = set(domains.values())
        for own in self._domain_of(leaving.node, domains.key):
            if own in found and not _count_others(domains, own, leaving):
                found.discard(own)
        return found

    def _domain_of(self, node: str, key: str) -> set[str]:
        slot = self._nodes.number(node)
        value = None if slot is None else self._nodes.labels.value(key, slot)
        return set() if value is None else {value}


def _count_others(domains: Domains, value: str, pod: Pod) -> int:
    """Count the pods of a domain but for one that is to leave."""
    own = pod.uid in domains.counting.of(value) or pod.uid in domains.others.of(value)
    return domains.count(value) - own
