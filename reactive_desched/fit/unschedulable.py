"""Groups of pods that fit no node, and the changes that could help them.

As with the kube-scheduler's queueing hints, pods that ask for the same are one group. A group is
woken when a node becomes feasible for it, with as many pods as the node has capacity for. What
other pods or volumes rule out is not checked here: such a group is woken as a whole when a pod that
its constraints read appears, disappears or changes.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import ClassVar, Final

from msgspec.structs import replace

from reactive_desched.fit.affinity_wakes import AffinityWakeIndex
from reactive_desched.fit.devices import CLAIM_ELSEWHERE, NO_DEVICES
from reactive_desched.fit.filters import NodeFilters
from reactive_desched.fit.node_sets import NodeSets, NodeUpdate
from reactive_desched.fit.pod_affinity import (
    EXISTING_ANTI_AFFINITY,
    POD_AFFINITY_UNMET,
    POD_ANTI_AFFINITY_VIOLATED,
)
from reactive_desched.model.changes import (
    Change,
    NamespaceChanged,
    NominationEnded,
    PodBound,
    PodGone,
    PodLabelsChanged,
    PodTerminating,
)
from reactive_desched.model.decisions import CapacityHint
from reactive_desched.model.objects import Pod, PodSpec, controller_of
from reactive_desched.model.scheduling import FitReason
from reactive_desched.model.spread import SPREAD_LABEL_MISSING, SPREAD_VIOLATED
from reactive_desched.model.volumes import (
    TOO_MANY_VOLUMES,
    VOLUME_NODE_CONFLICT,
    VOLUME_ZONE_CONFLICT,
)
from reactive_desched.model.wakes import WakeOn, WakeOnGroupCapacity

MAX_GROUPS: Final = 4_000
"""Groups kept; at the bound the least recently rejected is dropped, and its pods are evaluated
again after `RETRY_AFTER_S`."""

RETRY_AFTER_S: Final = 300.0
"""A pod that fits no node is evaluated again after this, as in the kube-scheduler."""

GROUP_TTL_S: Final = RETRY_AFTER_S + 60.0
"""By then every pod of a group has been evaluated again, or is gone."""

CHECKS_PER_STEP: Final = 50
"""So many checks of a slot against a spec, or hints of one, are a step: some half a millisecond."""

TARGETS_SCOPE: Final = "targets "
"""Begins the scope of pods that may go to some nodes only: each may have other targets, so that
freed capacity wakes all of them."""

_POD_REASONS: Final = frozenset(
    {
        POD_AFFINITY_UNMET,
        POD_ANTI_AFFINITY_VIOLATED,
        EXISTING_ANTI_AFFINITY,
        SPREAD_VIOLATED,
        SPREAD_LABEL_MISSING,
    }
)
_NODE_REASONS: Final = frozenset({VOLUME_NODE_CONFLICT, VOLUME_ZONE_CONFLICT, CLAIM_ELSEWHERE})
_LEFT_BEHIND: Final = frozenset({TOO_MANY_VOLUMES, NO_DEVICES})
"""Reasons that may end when anything leaves a node that has had room for the pod before."""

GroupKey = tuple[str, int, int, str, tuple[str, ...], str]
CandidateSlots = Callable[[], int]
"""Returns the slots to search, as they are now."""


class SpecFeasibility:
    """The nodes that are feasible for pods of one spec, and the groups of such pods.

    `static` are the slots that fit by taints, cordon and node affinity, `current`
    those of them with capacity.
    """

    __slots__ = ("candidates", "current", "demands", "groups", "spec", "static")

    def __init__(self, spec: PodSpec, base: CandidateSlots, demands: list[tuple[str, int]]) -> None:
        self.spec = spec
        self.candidates = base
        self.demands = demands
        self.static = self.current = 0
        self.groups: dict[GroupKey, UnschedulableGroup] = {}


class UnschedulableGroup:
    """Pods that ask for the same and fit no node; `reasons` is why, the last time."""

    __slots__ = ("feasibility", "has_targets", "pod", "reasons", "rejected_at", "wake")

    def __init__(
        self, scope: str, pod: Pod, offer: SpecFeasibility, wake: WakeOnGroupCapacity
    ) -> None:
        self.has_targets = scope.startswith(TARGETS_SCOPE)
        self.pod = pod
        self.feasibility = offer
        self.wake = wake
        self.reasons: frozenset[FitReason] = frozenset()
        self.rejected_at = 0.0

    def reasons_with(self, reasons: Iterable[FitReason]) -> frozenset[FitReason]:
        """Return why the group fits nowhere now; each pod with targets has reasons of its own."""
        return self.reasons.union(reasons) if self.has_targets else frozenset(reasons)

    @property
    def depends_on_pods(self) -> bool:
        """Say whether other pods ruled out some node."""
        return not self.reasons.isdisjoint(_POD_REASONS)

    @property
    def depends_on_nodes(self) -> bool:
        """Say whether any change of a node's labels or taints could help."""
        return self.depends_on_pods or not self.reasons.isdisjoint(_NODE_REASONS)


class UnschedulableGroups:
    """The groups, least recently rejected first; collects hints until they are taken.

    Slots that changed are checked in steps, each at most once more than it is being checked.
    """

    reacts_to: ClassVar[tuple[type[Change], ...]] = (
        PodBound,
        PodGone,
        PodTerminating,
        PodLabelsChanged,
        NamespaceChanged,
        NominationEnded,
    )

    def __init__(self, nodes: NodeSets, filters: NodeFilters) -> None:
        self._nodes = nodes
        self._filters = filters
        self._feasibility: dict[tuple[str, int], SpecFeasibility] = {}
        self._groups: OrderedDict[GroupKey, UnschedulableGroup] = OrderedDict()
        self.groups: Final[Collection[GroupKey]] = self._groups
        self._affinity_index: AffinityWakeIndex[GroupKey] = AffinityWakeIndex(filters)
        self._hints: dict[tuple[WakeOn, str, bool], CapacityHint] = {}
        self._unchecked: OrderedDict[int, NodeUpdate] = OrderedDict()
        self._checks: Iterator[None] | None = None
        self._count = 0

    def clear(self) -> None:
        """Drop all groups."""
        self._feasibility.clear()
        self._groups.clear()
        self._affinity_index = AffinityWakeIndex(self._filters)
        self._hints.clear()
        self._unchecked.clear()
        self._checks = None

    def take_hints(self) -> list[CapacityHint]:
        """Return, once, which groups may fit now."""
        hints = list(self._hints.values())
        self._hints.clear()
        return hints

    def record_no_fit(
        self,
        scope: str,
        pod: Pod,
        candidates: CandidateSlots,
        reasons: Iterable[FitReason],
        now: float,
    ) -> WakeOn:
        """Record that a pod fits no node of a scope; return what to wait for."""
        key = self._key(scope, pod)
        group = self._groups.pop(key, None) or self._add_group(key, pod, candidates)
        self._groups[key] = group
        group.reasons, group.rejected_at = group.reasons_with(reasons), now
        if group.depends_on_pods:
            self._affinity_index.add(key, group.pod)
        else:
            self._affinity_index.discard(key)
        self._drop_expired(now)
        return group.wake

    def wake_of(self, scope: str, pod: Pod) -> WakeOn:
        """Return what a pod that fits no node of a scope waits for, and record nothing."""
        group = self._groups.get(self._key(scope, pod))
        return WakeOnGroupCapacity(0) if group is None else group.wake

    def record_fit(self, scope: str, pod: Pod) -> None:
        """Record that a pod fits: another one of its group may fit too."""
        if (group := self._groups.get(self._key(scope, pod))) is not None:
            slots = None if group.has_targets else 1
            self._add_hint(CapacityHint(group.wake, slots, after_fit=True))

    def update_nodes(self, updates: Iterable[NodeUpdate]) -> None:
        """Note that these slots changed; `check_some` finds out for which groups that matters."""
        for changed in updates:
            before = self._unchecked.get(changed.slot)
            self._unchecked[changed.slot] = changed if before is None else _merged(before, changed)

    @property
    def has_unchecked(self) -> bool:
        """Say whether a changed slot may be feasible for groups that have no hint of it yet."""
        return self._checks is not None or bool(self._unchecked)

    def check_some(self) -> None:
        """Take one step of finding out for which groups the changed slots became feasible."""
        if self._checks is None:
            self._checks = self._check_slots()
        if sum(1 for _ in islice(self._checks, CHECKS_PER_STEP)) < CHECKS_PER_STEP:
            self._checks = None

    def apply_changes(self, changes: Iterable[Change]) -> None:
        """Wake the groups whose constraints a change of pods or namespaces affects.

        Where a nomination ends, the groups are woken for which the node has room but for it.
        """
        if not len(self._affinity_index):
            changes = [change for change in changes if isinstance(change, NominationEnded)]
        for change in changes:
            match change:
                case NominationEnded(node=node):
                    self._wake_for_room(node)
                case PodBound(pod=pod) | PodGone(pod=pod) | PodTerminating(pod=pod):
                    self._wake_groups(self._affinity_index.affected_groups(pod))
                case PodLabelsChanged() | NamespaceChanged():
                    self._wake_groups(self._affinity_index)
                case _:
                    pass

    def _wake_for_room(self, node: str) -> None:
        if (slot := self._nodes.slot_of(node)) is None:
            return
        for feasibility in self._feasibility.values():
            for group in feasibility.groups.values() if feasibility.current >> slot & 1 else ():
                self._add_hint(CapacityHint(group.wake))

    def _wake_groups(self, keys: Iterable[GroupKey]) -> None:
        for key in keys:
            self._add_hint(CapacityHint(self._groups[key].wake))

    def _key(self, scope: str, pod: Pod) -> GroupKey:
        """Return the identity of a pod's group: its scope and spec, and what constraints read."""
        has_defaults = self._filters.topology_spread.has_defaults(pod)
        owner = controller_of(pod.owners) if has_defaults else None
        controller = "" if owner is None else owner.uid
        return scope, id(pod.spec), id(pod.labels), pod.namespace, pod.pvc_names, controller

    def _add_group(self, key: GroupKey, pod: Pod, candidates: CandidateSlots) -> UnschedulableGroup:
        offer = self._feasibility.get(key[:2])
        if offer is None:
            offer = self._feasibility[key[:2]] = SpecFeasibility(
                pod.spec, candidates, self._filters.demands(pod.spec)
            )
            offer.static = self._filters.statically_feasible(pod, candidates())
            offer.current = self._filters.with_capacity(pod, offer.static)
        self._count += 1
        wake = WakeOnGroupCapacity(self._count)
        group = offer.groups[key] = UnschedulableGroup(key[0], pod, offer, wake)
        return group

    def _check_slots(self) -> Iterator[None]:
        """Check the slots that changed against every spec as the nodes are by then."""
        while self._unchecked:
            _, changed = self._unchecked.popitem(last=False)
            for feasibility in tuple(self._feasibility.values()):
                yield
                was = feasibility.current >> changed.slot & 1
                if changed.attributes_changed:
                    yield from self._update_static(feasibility, changed.slot)
                if was or changed.capacity_grew or changed.attributes_changed:
                    yield from self._update_current(feasibility, changed.slot, was)

    def _update_static(self, feasibility: SpecFeasibility, slot: int) -> Iterator[None]:
        """Check again whether a slot fits a spec by its attributes."""
        node, bit = self._nodes.node(slot), 1 << slot
        is_open = (
            node is not None
            and feasibility.candidates() & bit != 0
            and self._filters.static_rejection(feasibility.spec, node) is None
        )
        feasibility.static = feasibility.static | bit if is_open else feasibility.static & ~bit
        for group in tuple(feasibility.groups.values()):
            if group.depends_on_nodes:
                self._add_hint(CapacityHint(group.wake))
                yield

    def _update_current(self, feasibility: SpecFeasibility, slot: int, was: int) -> Iterator[None]:
        bit = 1 << slot
        has_room = feasibility.static & bit != 0 and self._filters.has_capacity(
            feasibility.spec, feasibility.demands, slot
        )
        feasibility.current = feasibility.current | bit if has_room else feasibility.current & ~bit
        for group in tuple(feasibility.groups.values()) if has_room else ():
            if not was or not group.reasons.isdisjoint(_LEFT_BEHIND):
                self._add_hint(self._hint_for(group, slot))
                yield

    def _hint_for(self, group: UnschedulableGroup, slot: int) -> CapacityHint:
        """Return the hint for a slot; groups of pods that differ in more are woken as a whole."""
        if group.depends_on_pods or group.pod.pvc_names or group.has_targets:
            return CapacityHint(group.wake)
        amounts = self._nodes.free
        demands = group.feasibility.demands
        if not demands:  # the scheduler of these pods does not count what nodes have free
            return CapacityHint(group.wake)
        places = min(amounts.free_in(what, slot) // wanted for what, wanted in demands)
        return CapacityHint(group.wake, places, self._nodes.name(slot))

    def _add_hint(self, hint: CapacityHint) -> None:
        """Keep a hint until it is taken; the latest for a node replaces earlier ones."""
        key = hint.wake, hint.exclude_node, hint.after_fit
        pending = self._hints.get(key)
        if pending is None or pending.slots is not None:
            self._hints[key] = hint

    def _drop_expired(self, now: float) -> None:
        while self._groups:
            key, group = next(iter(self._groups.items()))
            if len(self._groups) <= MAX_GROUPS and now - group.rejected_at < GROUP_TTL_S:
                return
            del self._groups[key], group.feasibility.groups[key]
            self._affinity_index.discard(key)
            if not group.feasibility.groups:
                del self._feasibility[key[:2]]


def _merged(earlier: NodeUpdate, later: NodeUpdate) -> NodeUpdate:
    """Return what two updates of a slot say together."""
    return replace(
        later,
        attributes_changed=earlier.attributes_changed or later.attributes_changed,
        capacity_grew=earlier.capacity_grew or later.capacity_grew,
    )
