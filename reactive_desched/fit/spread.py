"""Finds the nodes that a pod's topology spread constraints rule out.

The evicted pod is not counted where it is, nor are pods that are terminating or being evicted:
their replacements count where their capacity is reserved.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.fit.reservations import CapacityReservation
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.node_scores import is_spread_by_default
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    Pod,
    PodKey,
    TopologySpreadConstraint,
    controller_of,
)
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.model.scheduling import FitReason
from reactive_desched.model.spread import (
    HONOR,
    SPREAD_LABEL_MISSING,
    SPREAD_VIOLATED,
    domains_over_max_skew,
    effective_selector,
    hard_constraints,
)
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.state.indexes.replica_places import ReplicaPlaces
from reactive_desched.state.indexes.terminating_pods import TerminatingPods


class TopologySpreadFilter:
    """The kube-scheduler's PodTopologySpread filter; it keeps no state."""

    def __init__(
        self, nodes: NodeSets, view: ClusterView, profiles: SchedulerProfiles = DEFAULT_PROFILES
    ) -> None:
        self._nodes = nodes
        self._view = view
        self._profiles = profiles

    def rejections(self, pod: Pod) -> Iterator[tuple[FitReason, int]]:
        """Return the slots that lack a constraint's label, and those in domains over its skew."""
        labels = self._nodes.labels
        for key, overfull in self.overfull_domains(pod):
            yield SPREAD_LABEL_MISSING, self._nodes.existing & ~labels.with_label(key)
            yield SPREAD_VIOLATED, labels.with_label_in(key, overfull)

    def overfull_domains(
        self, pod: Pod, slot: int = 0, more: Sequence[Pod] = ()
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield each hard constraint's topology key, with the domains that are over its skew.

        `more` are pods that are not there yet, and count as if they were in a slot.
        """
        constraints, labelled = self._constraints(pod), self._nodes.existing
        for constraint in constraints:
            labelled &= self._nodes.labels.with_label(constraint.topology_key)
        for constraint in constraints:
            yield constraint.topology_key, self._overfull(pod, constraint, labelled, slot, more)

    def closes_with(self, pod: Pod, slot: int, more: Sequence[Pod]) -> bool:
        """Say whether a slot is in a domain that these pods, once there, leave over its skew."""
        return any(
            self._nodes.labels.value(key, slot) in overfull
            for key, overfull in self.overfull_domains(pod, slot, more)
        )

    def matching_pods(
        self, pod: Pod, constraint: TopologySpreadConstraint, labelled: int
    ) -> dict[str, int]:
        """Count the pods that a constraint counts, by domain, among the slots that have its label.

        Policies of the constraint may leave out some of the slots, but for hosts: a score counts
        the pods of each by itself. A constraint of a pod that declares none is a default one, which
        counts the pods of its controller.
        """
        key, among = constraint.topology_key, labelled
        if key != HOSTNAME_LABEL:
            among = self._eligible_slots(pod, constraint, labelled)
        if not pod.spec.topology_spread_constraints:
            return self._replicas(pod, key, among)
        selector = effective_selector(constraint, pod.labels)
        if selector is None or selector.is_empty:
            return {}
        return self._counts(pod, selector, key, among)

    def has_defaults(self, pod: Pod) -> bool:
        """Say whether a pod declares no constraint, and its scheduler's default ones hold for it.

        They count the pods of its controller: those that its ReplicaSet or StatefulSet selects.
        """
        defaults = self._profiles.of(pod.spec).default_constraints
        declares = bool(pod.spec.topology_spread_constraints)
        return bool(defaults) and not declares and is_spread_by_default(pod)

    def _constraints(self, pod: Pod) -> Sequence[TopologySpreadConstraint]:
        if self.has_defaults(pod):
            return self._profiles.of(pod.spec).default_constraints
        return hard_constraints(pod.spec)

    def _overfull(
        self,
        pod: Pod,
        constraint: TopologySpreadConstraint,
        labelled: int,
        slot: int,
        more: Sequence[Pod],
    ) -> list[str]:
        among, key = self._eligible_slots(pod, constraint, labelled), constraint.topology_key
        coming = [each for each in more if each.namespace == pod.namespace]
        if self.has_defaults(pod):
            counts, own = self._replicas(pod, key, among), 1
            number = sum(_controller(each) == _controller(pod) for each in coming)
        else:
            selector = effective_selector(constraint, pod.labels)
            if selector is None or (selector.is_empty and not coming):
                return []  # no pod counts, so every domain is equally empty
            # An empty selector counts no pod that is there, but one that is yet to come.
            counts = {} if selector.is_empty else self._counts(pod, selector, key, among)
            own = int(selector.matches(pod.labels))
            number = sum(selector.matches(each.labels) for each in coming)
        if number and among >> slot & 1:
            domain = self._nodes.labels.value(key, slot)
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + number
        return domains_over_max_skew(constraint, counts, self._domains(key, among), own)

    def _replicas(self, pod: Pod, key: str, among: int) -> dict[str, int]:
        """Count the pods of a pod's controller in each domain that has any."""
        counts: Counter[str] = Counter()
        uid = _controller(pod)
        for node, number in self._view.index(ReplicaPlaces).of(uid).items():
            if (domain := self._domain_of(node, key, among)) is not None:
                counts[domain] += number
        reserved = self._nodes.reservations.of_owner(uid)
        for other, node, step in self._corrections(pod, reserved):
            domain = self._domain_of(node, key, among)
            is_counted = step > 0 or other.deletion_s is None  # the index leaves out the others
            if domain is not None and is_counted and _controller(other) == uid:
                counts[domain] += step
        return +counts

    def _eligible_slots(self, pod: Pod, constraint: TopologySpreadConstraint, among: int) -> int:
        """Return the slots whose pods count, by the constraint's policies."""
        if constraint.node_affinity_policy == HONOR:
            among = self._nodes.labels.matching_pod(pod.spec, among)
        if constraint.node_taints_policy == HONOR:
            among &= ~self._nodes.untolerated(pod.spec.tolerations)
        return among

    def _domains(self, key: str, among: int) -> int:
        """Count the domains that have a node among the slots."""
        labels = self._nodes.labels
        values = labels.values(key)
        if among == labels.with_label(key):
            return len(values)
        return sum(1 for value in values if labels.with_label_in(key, (value,)) & among)

    def _counts(self, pod: Pod, selector: LabelSelector, key: str, among: int) -> dict[str, int]:
        """Count the matching pods of each domain that has any."""
        counts: Counter[str] = Counter()
        found = self._view.index(PodAffinity).matching_selector(pod.namespace, selector, key)
        everywhere = among == self._nodes.labels.with_label(key)
        for value in found.values():
            here = among if everywhere else self._nodes.labels.with_label_in(key, (value,))
            if here & among == here:
                counts[value] = found.count(value)
            elif here & among:
                counts[value] = sum(self._is_among(uid, among) for uid in found.pods(value))
        reserved = self._nodes.reservations.labelled(selector)
        for other, node, step in self._corrections(pod, reserved):
            domain = self._domain_of(node, key, among)
            if domain is not None and selector.matches(other.labels):
                counts[domain] += step
        return +counts

    def _corrections(
        self, pod: Pod, reserved: Iterable[CapacityReservation]
    ) -> Iterator[tuple[Pod, str, int]]:
        """Yield (pod, node, ±1): -1 for pods that are leaving, +1 for reserved replacements.

        Of what is `reserved` the pods of the same namespace count.
        """
        leaving = {
            other.uid: other for other in self._view.index(TerminatingPods).pods_of(pod.namespace)
        }
        reservations = [each for each in reserved if each.pod.namespace == pod.namespace]
        vacated = (each.uid for each in self._nodes.vacated.pods if each.namespace == pod.namespace)
        for uid in (pod.uid, *(reservation.pod.uid for reservation in reservations), *vacated):
            if (there := self._view.pod(uid)) is not None and there.is_active:
                leaving[uid] = there
        for other in leaving.values():
            yield other, other.node, -1
        for reservation in reservations:
            if reservation.pod.uid != pod.uid:
                yield reservation.pod, reservation.node, 1

    def _domain_of(self, node: str, key: str, among: int) -> str | None:
        slot = self._nodes.slot_of(node)
        if slot is None or not among >> slot & 1:
            return None
        return self._nodes.labels.value(key, slot)

    def _is_among(self, uid: PodKey, among: int) -> bool:
        found = self._view.pod(uid)
        slot = None if found is None else self._nodes.slot_of(found.node)
        return slot is not None and among >> slot & 1 == 1


def _controller(pod: Pod) -> str:
    owner = controller_of(pod.owners)
    return "" if owner is None else owner.uid
