"""One pod against all nodes: which fit, which is best, and why the others do not.

The filters come in the kube-scheduler's order and use its messages. What the evicted pod takes up
on its own node is left out, since it will be gone: requests, pod count, host ports, volumes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.fit.devices import DeviceFilter
from reactive_desched.fit.free_amounts import demands
from reactive_desched.fit.host_ports import any_conflict
from reactive_desched.fit.koordinator_reservations import KoordinatorReservations
from reactive_desched.fit.node_sets import NodeSets, NodeUpdate
from reactive_desched.fit.nominated_pods import NominatedPods, outranked_by
from reactive_desched.fit.pod_affinity import PodAffinityFilter
from reactive_desched.fit.reservations import controller_uid
from reactive_desched.fit.spread import TopologySpreadFilter
from reactive_desched.fit.volumes import VolumeFilter
from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import Node, Pod, PodSpec
from reactive_desched.model.resources import PODS
from reactive_desched.model.scheduler_profile import (
    DEFAULT_PROFILES,
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_DECLARED_FEATURES,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    NODE_VOLUME_LIMITS,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    VOLUME_RESTRICTIONS,
    SchedulerProfiles,
)
from reactive_desched.model.scheduling import (
    FEATURES_LACKING,
    INSUFFICIENT_RESOURCE,
    NODE_AFFINITY_MISMATCH,
    NODE_BEING_EMPTIED,
    PORTS_IN_USE,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
    UNTOLERATED_TAINTS,
    FitReason,
    tolerates_cordon,
)
from reactive_desched.model.volumes import TOO_MANY_VOLUMES
from reactive_desched.primitives.bits import slots_in, with_bit
from reactive_desched.primitives.bounded_text import shown
from reactive_desched.state.cluster import ClusterView

NOMINATED_FIRST: Final = FitReason(
    "NominatedPodsFirst", "node(s) had no place beside the pods nominated for them"
)
"""The kube-scheduler gives the reason of the filter that fails once those pods are counted."""

MAX_COMPARED: Final = 16
"""The best of so many fitting nodes is taken."""

Rejections = list[tuple[FitReason, int]]
"""One filter's reasons, each with the slots that it rejects."""


class Diagnosis(Struct, frozen=True):
    """The number of nodes that were checked, that were rejected for each reason, and that fit.

    A node may be rejected for several reasons, as for too little cpu and too little memory.
    `judged_by` names the profile of the scheduler, empty where none is configured.
    """

    nodes: int
    reasons: Counter[FitReason]
    available: int = 0
    judged_by: str = ""

    def __str__(self) -> str:
        counted = sorted(f"{number} {reason.message}" for reason, number in self.reasons.items())
        rejected = f": {', '.join(counted)}" if counted else ""
        by = f" ({self.judged_by})" if self.judged_by else ""
        return shown(f"{self.available}/{self.nodes} nodes are available{by}{rejected}")


class NodeFilters:
    """Asks every filter of the pod's scheduler which nodes reject a pod; call `sync` first."""

    def __init__(
        self, nodes: NodeSets, view: ClusterView, profiles: SchedulerProfiles = DEFAULT_PROFILES
    ) -> None:
        self.profiles = profiles
        self._nodes = nodes
        self._view = view
        self.volumes = VolumeFilter(nodes, view)
        self.devices = DeviceFilter(nodes, view, profiles)
        self.pod_affinity = PodAffinityFilter(nodes, view)
        self.topology_spread = TopologySpreadFilter(nodes, view, profiles)

    def reconfigure(self, profiles: SchedulerProfiles) -> None:
        """Go by other profiles."""
        self.profiles = profiles
        self.devices = DeviceFilter(self._nodes, self._view, profiles)
        self.topology_spread = TopologySpreadFilter(self._nodes, self._view, profiles)

    def sync(self, limit: int | None = None) -> list[NodeUpdate]:
        """Follow the nodes that changed, at most `limit` of them; return those."""
        changed = self._nodes.sync(limit)
        for each in changed:
            self.volumes.attached.invalidate(each.slot)
        return changed

    def find_best(self, pod: Pod, among: int) -> int | None:
        """Return a slot that fits a pod: of the first sixteen, the least allocated one."""
        among = self._fitting(pod, among)
        return self._least_allocated(pod, among) if among else None

    def fitting(self, pod: Pod, among: int) -> int:
        """Return which of the slots fit a pod."""
        among = self._fitting(pod, among)
        return among & ~self._over_volume_limit(pod, among)

    def _fitting(self, pod: Pod, among: int) -> int:
        """Return which of the slots fit a pod, but for the limits of attached volumes."""
        for objections in self._rejections(pod):
            for _, rejecting in objections:
                among &= ~rejecting
            if not among:
                return 0
        for _, rejecting in self.devices.rejections(pod, among):
            among &= ~rejecting
        return among & ~self._beside_nominated(pod, among)

    def diagnose(self, pod: Pod, among: int, held: Pod | None = None) -> Diagnosis:
        """Count why nodes do not fit, each by the first filter that rejects it.

        `held` keeps the pod's place on one of the nodes, and makes room for it: a placeholder, or a
        Reservation as a pod without labels.
        """
        reasons: Counter[FitReason] = Counter()
        nodes = among.bit_count()
        for objections in self._rejections(pod, held):
            rejected = 0
            for reason, rejecting in objections:
                if number := (among & rejecting).bit_count():
                    reasons[reason] += number
                    rejected |= rejecting
            among &= ~rejected
        over_limit = self._over_volume_limit(pod, among)
        if number := over_limit.bit_count():
            reasons[TOO_MANY_VOLUMES] += number
        among &= ~over_limit
        for reason, rejecting in self.devices.rejections(pod, among):
            if number := rejecting.bit_count():
                reasons[reason] += number
            among &= ~rejecting
        taken = self._beside_nominated(pod, among, held)
        if number := taken.bit_count():
            reasons[NOMINATED_FIRST] += number
        available = (among & ~taken).bit_count()
        return Diagnosis(nodes, reasons, available, self.profiles.describe(pod.spec))

    def closed_domains(self, pod: Pod) -> Mapping[str, frozenset[str]]:
        """Return, by topology key, the domains that are closed to a pod because of its labels.

        They are those over the skew of its spread constraints, and those where the anti-affinity of
        other pods rules it out.
        """
        found: dict[str, set[str]] = {}
        filters = self.profiles.of(pod.spec).filters
        if POD_TOPOLOGY_SPREAD in filters:
            for key, values in self.topology_spread.overfull_domains(pod):
                found.setdefault(key, set()).update(values)
        if INTER_POD_AFFINITY in filters:
            for key, occupied in self.pod_affinity.closed_domains(pod, (pod,)):
                found.setdefault(key, set()).update(occupied)
        return {key: frozenset(values) for key, values in found.items() if values}

    def statically_feasible(self, pod: Pod, among: int) -> int:
        """Return the slots that fit a pod by taints, cordon and node affinity alone."""
        for _, rejecting in self._static_rejections(pod):
            among &= ~rejecting
        return among

    def static_rejection(self, spec: PodSpec, node: Node) -> FitReason | None:
        """Return why one node rejects such a pod whatever pods run there; None if it does not."""
        if (unknown := self.profiles.holds(spec)) is not None:
            return unknown
        profile = self.profiles.of(spec)
        if (found := profile.statically_unfit(spec, node)) is not None:
            return found
        if NODE_DECLARED_FEATURES not in profile.filters:
            return None
        return FEATURES_LACKING if self._nodes.lacks(node, spec.required_features) else None

    def with_capacity(self, pod: Pod, among: int) -> int:
        """Return the slots with enough resources and ports for one more such pod."""
        for resource, wanted in self.demands(pod.spec):
            among &= self.with_enough(resource, wanted)
        if NODE_PORTS in self.profiles.of(pod.spec).filters:
            among &= ~self._nodes.ports.conflicting(pod.spec.host_ports)
        return among

    def with_enough(self, resource: str, wanted: int) -> int:
        """Return the slots with so much of a resource, or where devices are sought for it."""
        enough = self._nodes.with_at_least(resource, wanted)
        return enough | self.devices.sought_on(resource) if "/" in resource else enough

    def demands(self, spec: PodSpec) -> list[tuple[str, int]]:
        """Return the resources that a node must have free for a pod."""
        profile = self.profiles.of(spec)
        return demands(profile.requests(spec)) if NODE_RESOURCES_FIT in profile.filters else []

    def has_capacity(self, spec: PodSpec, wanted: list[tuple[str, int]], slot: int) -> bool:
        """Say whether one slot has these resources, and the pod's host ports, free."""
        wanted = [(r, number) for r, number in wanted if not self._is_sought(r, slot)]
        if not self._nodes.free.has_all(slot, wanted):
            return False
        ports = spec.host_ports if NODE_PORTS in self.profiles.of(spec).filters else ()
        return not ports or not any_conflict(ports, self._nodes.ports.used_in(slot))

    # --- the filters ---

    def _rejections(self, pod: Pod, held: Pod | None = None) -> Iterator[Rejections]:
        counted, filters = _in_place_of(pod, held), self.profiles.of(pod.spec).filters
        if (prefiltered := self.volumes.prefilter(pod, filters)) is not None:
            yield [(prefiltered, self._nodes.existing)]
        if (claimed := self.devices.prefilter(pod)) is not None:
            yield [(claimed, self._nodes.existing)]
        for rejection in self._static_rejections(pod):
            yield [rejection]
        if NODE_PORTS in filters:
            yield self._port_rejections(counted)
        yield self._resource_rejections(counted)
        for rejection in self.volumes.rejections(pod, filters):
            yield [rejection]
        if POD_TOPOLOGY_SPREAD in filters:
            for rejection in self.topology_spread.rejections(pod):
                yield [rejection]
        if INTER_POD_AFFINITY in filters:
            for rejection in self.pod_affinity.rejections(pod, held):
                yield [rejection]

    def _static_rejections(self, pod: Pod) -> Iterator[tuple[FitReason, int]]:
        nodes, spec, profile = self._nodes, pod.spec, self.profiles.of(pod.spec)
        filters = profile.filters
        if (unknown := self.profiles.holds(spec)) is not None:
            yield unknown, nodes.existing
        if nodes.emptied:
            yield NODE_BEING_EMPTIED, nodes.emptied
        if (
            nodes.cordoned
            and NODE_UNSCHEDULABLE in filters
            and not tolerates_cordon(spec.tolerations)
        ):
            yield UNSCHEDULABLE, nodes.cordoned
        if TAINT_TOLERATION in filters:
            yield UNTOLERATED_TAINTS, nodes.untolerated(spec.tolerations)
        if NODE_AFFINITY in filters and (
            mismatching := self._outside_affinity(spec, profile.added_affinity)
        ):
            yield NODE_AFFINITY_MISMATCH, mismatching
        if NODE_DECLARED_FEATURES in filters and (lacking := nodes.lacking(spec.required_features)):
            yield FEATURES_LACKING, lacking

    def _outside_affinity(self, spec: PodSpec, added: NodeSelector | None) -> int:
        """Return the slots that do not match a pod's affinity, or what its profile adds to it."""
        existing = matching = self._nodes.existing
        if spec.node_selector or spec.node_affinity is not None:
            matching = self._nodes.labels.matching_pod(spec, matching)
        if added is not None:
            matching = self._nodes.labels.matching_node_selector(added, matching)
        return existing & ~matching

    def _port_rejections(self, pod: Pod) -> Rejections:
        wanted = pod.spec.host_ports
        if not wanted:
            return []
        clashing, own = self._nodes.ports.conflicting(wanted), self._own_slot(pod)
        if own is not None:
            clashing = with_bit(clashing, own, present=self._conflicts_on_own_node(pod, own))
        return [(PORTS_IN_USE, clashing)]

    def _conflicts_on_own_node(self, pod: Pod, slot: int) -> bool:
        entry = self._nodes.node_info(slot)
        if entry is None:
            return False
        promised = (b.pod for b in self._nodes.reservations.on_node(entry.name))
        others = (p for p in (*entry.host_port_pods, *promised) if p.uid != pod.uid)
        used = (port for other in others for port in other.spec.host_ports)
        return any_conflict(pod.spec.host_ports, used)

    def _resource_rejections(self, pod: Pod) -> Rejections:
        own, found = self._own_slot(pod), []
        for resource, wanted in self.demands(pod.spec):
            short = self._nodes.existing & ~self.with_enough(resource, wanted)
            if own is not None and not self._is_sought(resource, own):
                free = self._nodes.free.free_in(resource, own) + self._own_usage(pod, own, resource)
                short = with_bit(short, own, present=free < wanted)
            found.append((_shortage_reason(resource), short))
        return found

    def _is_sought(self, resource: str, slot: int) -> bool:
        """Say whether devices are sought for a resource that a node does not have itself."""
        return "/" in resource and bool(self.devices.sought_on(resource) >> slot & 1)

    def _own_slot(self, pod: Pod) -> int | None:
        return self._nodes.slot_of(pod.node) if pod.node else None

    def _own_usage(self, pod: Pod, slot: int, resource: str) -> int:
        """Return what a pod itself, or a Reservation, takes of a resource on its node."""
        if (entry := self._nodes.node_info(slot)) is None:
            return 0
        here = entry.active.get(pod.uid)
        if here is None:
            return (
                self._view.index(KoordinatorReservations)
                .kept_by(entry.name, pod.uid)
                .get(resource, 0)
            )
        if resource == PODS:
            return 1
        return here.held.get(resource, 0)

    def _over_volume_limit(self, pod: Pod, among: int) -> int:
        """Return which of the slots cannot attach the pod's volumes."""
        if NODE_VOLUME_LIMITS not in self.profiles.of(pod.spec).filters:
            return 0
        return self.volumes.over_attach_limit(pod, among)

    def _beside_nominated(self, pod: Pod, among: int, held: Pod | None = None) -> int:
        """Return which of the slots do not fit the pod beside the pods nominated for them.

        As in the kube-scheduler, those of the same or a higher priority count on their own node.
        """
        nominated, found = self._view.index(NominatedPods), 0
        for name in nominated.nodes:
            slot = self._nodes.slot_of(name)
            if slot is not None and among >> slot & 1:
                first = [each for each in nominated.on_node_named(name) if outranked_by(pod, each)]
                first = self._without_reservation(name, first)
                if first and not self._fits_beside(pod, slot, first, held):
                    found |= 1 << slot
        return found

    def _without_reservation(self, node: str, pods: list[Pod]) -> list[Pod]:
        """Leave out those for which capacity is reserved on the node.

        They are replacements of evicted pods, and pods whose binding is tried.
        """
        reserved = self._nodes.reservations.on_node(node)
        tried = {each.pod.uid for each in reserved}
        owners = Counter(controller_uid(each.pod) for each in reserved)
        found: list[Pod] = []
        for pod in pods:
            owner = controller_uid(pod)
            if pod.uid in tried and owner is None:
                continue
            if owner is not None and owners[owner]:
                owners[owner] -= 1
            else:
                found.append(pod)
        return found

    def _fits_beside(self, pod: Pod, slot: int, first: list[Pod], held: Pod | None) -> bool:
        counted, filters = _in_place_of(pod, held), self.profiles.of(pod.spec).filters
        for resource, wanted in self.demands(pod.spec):
            if self._is_sought(resource, slot):
                continue
            taken = sum(1 if resource == PODS else p.spec.requests.get(resource, 0) for p in first)
            free = self._nodes.free.free_in(resource, slot)
            if self._own_slot(counted) == slot:
                free += self._own_usage(counted, slot, resource)
            if free < wanted + taken:
                return False
        used = (port for other in first for port in other.spec.host_ports)
        return not (
            (NODE_PORTS in filters and any_conflict(pod.spec.host_ports, used))
            or (
                NODE_VOLUME_LIMITS in filters
                and self.volumes.exceeds_attach_limit(pod, slot, first)
            )
            or (VOLUME_RESTRICTIONS in filters and self.volumes.excludes(pod, first))
            or (
                POD_TOPOLOGY_SPREAD in filters
                and self.topology_spread.closes_with(pod, slot, first)
            )
            or (INTER_POD_AFFINITY in filters and self.pod_affinity.closes_with(pod, slot, first))
            or self.devices.closes_with(pod, slot, first)
        )

    # --- the choice ---

    def _least_allocated(self, pod: Pod, among: int) -> int | None:
        best, most = None, -1.0
        among &= ~self._over_volume_limit(pod, among)
        for slot in islice(slots_in(among), MAX_COMPARED):
            if (room := self._free_share(pod, slot)) > most or best is None:
                best, most = slot, room
        return best

    def _free_share(self, pod: Pod, slot: int) -> float:
        """Return the scarcest resource's free share of a node with the pod on it."""
        node = self._nodes.node(slot)
        allocatable = {} if node is None else node.allocatable
        return min(
            (self._nodes.free.free_in(resource, slot) - wanted) / (allocatable.get(resource) or 1)
            for resource, wanted in demands(pod.spec.requests)
            if not self._is_sought(resource, slot)
        )


def _in_place_of(pod: Pod, held: Pod | None) -> Pod:
    """Return the pod as one that takes up on its node what a pod does that makes room for it."""
    return pod if held is None else replace(pod, uid=held.uid, node=held.node)


def _shortage_reason(resource: str) -> FitReason:
    return TOO_MANY_PODS if resource == PODS else INSUFFICIENT_RESOURCE.about(resource)
