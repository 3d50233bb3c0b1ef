"""Which nodes a pod's topology spread constraints close.

The pod that is to move is not counted where it is, nor are pods that are being deleted or that were
let go: their replacements count where their room is booked.
"""

from collections import Counter
from collections.abc import Iterator

from reactive_desched.fit.node_sets import Nodes
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Pod, PodKey, TopologySpreadConstraint
from reactive_desched.model.spread import (
    HONOR,
    UNEVEN,
    UNLABELLED,
    binding,
    overfull,
    selector_of,
)
from reactive_desched.state.view import ClusterView


class Spread:
    """Counts matching pods by domain; holds nothing."""

    def __init__(self, nodes: Nodes, view: ClusterView) -> None:
        self._nodes = nodes
        self._view = view

    def refusals(self, pod: Pod) -> Iterator[tuple[str, int]]:
        """Return the slots that lack a constraint's label, and those in domains that are full."""
        constraints, labels = binding(pod.spec), self._nodes.labels
        taking_part = self._nodes.existing
        for constraint in constraints:
            taking_part &= labels.bearing(constraint.topology_key)
        for constraint in constraints:
            key = constraint.topology_key
            yield UNLABELLED, self._nodes.existing & ~labels.bearing(key)
            yield UNEVEN, labels.in_any(key, self._overfull(pod, constraint, taking_part))

    def _overfull(
        self, pod: Pod, constraint: TopologySpreadConstraint, taking_part: int
    ) -> list[str]:
        selector = selector_of(constraint, pod.labels)
        if selector is None or selector.is_empty:
            return []  # nobody counts, so every domain is equally empty
        among = self._included(pod, constraint, taking_part)
        counts = self._counts(pod, selector, constraint.topology_key, among)
        own = int(selector.matches(pod.labels))
        return overfull(constraint, counts, self._domains(constraint.topology_key, among), own)

    def _included(self, pod: Pod, constraint: TopologySpreadConstraint, among: int) -> int:
        """Return the slots whose pods count, by the constraint's policies."""
        if constraint.node_affinity_policy == HONOR:
            among = self._nodes.labels.open_to(pod.spec, among)
        if constraint.node_taints_policy == HONOR:
            among &= ~self._nodes.unsuited(pod.spec.tolerations)
        return among

    def _domains(self, key: str, among: int) -> int:
        """Count the domains that have a node among the slots."""
        labels = self._nodes.labels
        values = labels.values(key)
        if among == labels.bearing(key):
            return len(values)
        return sum(1 for value in values if labels.in_any(key, (value,)) & among)

    def _counts(self, pod: Pod, selector: LabelSelector, key: str, among: int) -> dict[str, int]:
        """Count the matching pods of each domain that has any."""
        counts: Counter[str] = Counter()
        found = self._view.selected(pod.namespace, selector, key)
        everywhere = among == self._nodes.labels.bearing(key)
        for value in found.values():
            here = among if everywhere else self._nodes.labels.in_any(key, (value,))
            if here & among == here:
                counts[value] = found.count(value)
            elif here & among:
                counts[value] = sum(self._is_among(uid, among) for uid in found.pods(value))
        for other, node, step in self._corrections(pod):
            domain = self._domain_of(node, key, among)
            if domain is not None and selector.matches(other.labels):
                counts[domain] += step
        return +counts

    def _corrections(self, pod: Pod) -> Iterator[tuple[Pod, str, int]]:
        """Return who sits where and does not count, and where someone will, with -1 and +1."""
        leaving = {other.uid: other for other in self._view.terminating(pod.namespace)}
        promised = [b for b in self._nodes.bookings if b.pod.namespace == pod.namespace]
        for uid in (pod.uid, *(booking.pod.uid for booking in promised)):
            if (there := self._view.pod(uid)) is not None and there.is_active:
                leaving[uid] = there
        for other in leaving.values():
            yield other, other.node, -1
        for booking in promised:
            if booking.pod.uid != pod.uid:
                yield booking.pod, booking.node, 1

    def _domain_of(self, node: str, key: str, among: int) -> str | None:
        slot = self._nodes.number(node)
        if slot is None or not among >> slot & 1:
            return None
        return self._nodes.labels.value(key, slot)

    def _is_among(self, uid: PodKey, among: int) -> bool:
        found = self._view.pod(uid)
        slot = None if found is None else self._nodes.number(found.node)
        return slot is not None and among >> slot & 1 == 1
