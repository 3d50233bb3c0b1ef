"""Node fit as the kube-scheduler decides it, with reservations subtracted."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import ClassVar, Final

from msgspec.structs import replace

from reactive_desched.api.index import Index
from reactive_desched.fit.change_log import NodeChanges
from reactive_desched.fit.filters import Diagnosis, NodeFilters
from reactive_desched.fit.koordinator_reservations import KoordinatorReservations
from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.fit.nominated_pods import NominatedPods
from reactive_desched.fit.reservations import CapacityReservation
from reactive_desched.fit.scores import NodeScores
from reactive_desched.fit.unschedulable import (
    RETRY_AFTER_S,
    TARGETS_SCOPE,
    CandidateSlots,
    UnschedulableGroups,
)
from reactive_desched.fit.upstream import NoFit
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import CapacityHint
from reactive_desched.model.findings import AllNodesBut, Targets
from reactive_desched.model.labels import Selector
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.node_scores import is_replaced_once_gone
from reactive_desched.model.objects import (
    PersistentVolumeClaim,
    Pod,
    PodKey,
)
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.reservations import Reservation
from reactive_desched.model.resources import ResourceList
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnDevices,
    WakeOnNode,
    WakeOnPod,
    WakeOnPv,
    WakeOnPvc,
)
from reactive_desched.primitives import bits
from reactive_desched.primitives.long_answers import PORTION, AnswerTakesLong, LongAnswers
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.devices import Devices
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.state.indexes.pvc_users import PvcUsers
from reactive_desched.state.indexes.terminating_pods import TerminatingPods

NODES_PER_SYNC: Final = 50
"""How many nodes are refreshed before the event loop gets a turn: a millisecond or less."""


_END: Final = object()

_ALTERNATIVES: Final = "alternatives of devices in ResourceClaims that stay"

ANY_NODE_SCOPE: Final = "*"
"""The scope of `find_any_node`; that of `find_other_node` is the text of its selector, after
`TARGETS_SCOPE` where the candidates are narrowed to targets."""


class SchedulerNodeFit(EvictionParticipant):
    """The kube-scheduler's filters over the current cluster; see `NodeFit`.

    `find_other_node` searches ready nodes and `find_any_node` eligible ones, as the SIG descheduler
    does. Nodes are followed from the first question on. `clock` returns monotonic seconds.
    """

    indexes: ClassVar[tuple[type[Index], ...]] = (
        Devices,
        KoordinatorReservations,
        NodeChanges,
        NominatedPods,
        PodAffinity,
        PvcUsers,
        TerminatingPods,
    )

    reacts_to: ClassVar[tuple[type[Change], ...]] = tuple(UnschedulableGroups.reacts_to)

    def __init__(
        self,
        view: ClusterView,
        clock: Callable[[], float],
        profiles: SchedulerProfiles = DEFAULT_PROFILES,
    ) -> None:
        self._view = view
        self._clock = clock
        self._nodes = NodeSets(view)
        self._filters = NodeFilters(self._nodes, view, profiles)
        self._unschedulable = UnschedulableGroups(self._nodes, self._filters)
        self._scores: NodeScores | None = None
        self._unscored: Iterator[int] = iter(())
        self._last_match: tuple[PodKey, str] | None = None
        self._prepared: set[PodKey] = set()
        self._is_assuming = False

    # --- questions ---

    @property
    def scheduler_profiles(self) -> SchedulerProfiles:
        """The profiles of the schedulers that it goes by."""
        return self._filters.profiles

    @property
    def long_answers(self) -> LongAnswers:
        """Return what says whether answers about many pods are wanted in steps."""
        return self._view.index(PodAffinity).queries.long_answers

    def sync(self) -> bool:
        """Refresh some of the dirty nodes; say whether none is left."""
        self._nodes.reservations.expire(self._clock())
        self._refresh_some()
        return not self._nodes.is_stale

    def find_other_node(
        self, pod: Pod, selector: Selector, targets: Targets | None = None
    ) -> str | None:
        """Name a ready, selected node other than the pod's own, one of the targets, that fits."""
        self._sync_for(pod)
        with self._new_labels_in_steps():
            found = self._filters.find_best(pod, self._candidates(pod, selector, targets))
        return self._remember_match(pod, _scope(selector, targets), found)

    def find_any_node(self, pod: Pod) -> str | None:
        """Name an eligible node that fits the pod, its own if no other does."""
        self._sync_for(pod)
        counting = self._nodes.eligible
        with self._new_labels_in_steps():
            found = self._filters.find_best(pod, self._other_nodes(pod, counting))
            if found is None:
                found = self._filters.find_best(pod, counting)
        return self._remember_match(pod, ANY_NODE_SCOPE, found)

    def find_node_among(self, pod: Pod, nodes: Collection[str]) -> str | None:
        """Name one of these nodes, other than the pod's own, that fits it."""
        self._sync_nodes()
        with self._new_labels_in_steps():
            slot = self._filters.find_best(pod, self._other_nodes(pod, self._nodes.named(nodes)))
        return None if slot is None else self._nodes.name(slot)

    def diagnose_among(self, pod: Pod, nodes: Collection[str]) -> Diagnosis:
        """Count why some of these nodes do not fit the pod; nothing is remembered."""
        self._sync_nodes()
        return self._filters.diagnose(pod, self._other_nodes(pod, self._nodes.named(nodes)))

    def scored_elsewhere(
        self, pod: Pod, targets: Targets, without: Collection[str] = frozenset()
    ) -> str:
        """Name the node that the pod's scheduler would choose by its scores, if that is no target.

        It would choose it for the replacement, once the pod has left its node or while it shuts
        down there; `without` names nodes that are taken not to be there. Empty where it would
        choose a target, where none fits, where the scores are not known, and while changed nodes
        are still being followed.
        """
        if not self._scores_are_known(pod) or not self.sync():
            return ""
        left_out = self._nodes.named(without) if without else 0
        with self._new_labels_in_steps():
            fitting = self._filters.fitting(pod, self._nodes.ready & ~left_out)
        if not is_replaced_once_gone(pod) and (slot := self._nodes.slot_of(pod.node)) is not None:
            fitting &= ~(1 << slot) | self._filters.with_capacity(pod, 1 << slot)
        if not (among := self._slots_of(targets, fitting)):
            return ""
        scores = self._node_scores(pod)
        with self._new_labels_in_steps():
            best = scores.best(pod, fitting)
        return "" if best & among else min(map(self._nodes.name, bits.slots_in(best)))

    def fits_only_on(
        self, pod: Pod, nodes: Collection[str], targets: Targets | None = None
    ) -> bool:
        """Say whether one of these nodes fits a pod, and no other target does."""
        self._sync_nodes()
        among = self._slots_of(targets, self._other_nodes(pod, self._nodes.ready))
        named = self._nodes.named(nodes)
        with self._new_labels_in_steps():
            return (
                self._filters.find_best(pod, among & ~named) is None
                and self._filters.find_best(pod, among & named) is not None
            )

    def is_new_room_for_others(
        self,
        pod: Pod,
        targets: Targets,
        left: Collection[Pod],
        waiting: Collection[Pod],
        opened: Container[str],
    ) -> bool:
        """Say whether a target fits a pod now, and none would beside others that may come to it.

        Of the targets that fit, it is the one that the pod's scheduler would choose by its scores,
        where these are known. The others are the pods that `left` their nodes, which are taken to
        be replaced there, and those that are `waiting` for room, on those nodes and on those that
        `opened` lately. Pods without a controller do not count.
        """
        self._sync_nodes()
        among = self._slots_of(targets, self._other_nodes(pod, self._nodes.ready))
        with self._new_labels_in_steps():
            fitting = self._filters.fitting(pod, among)
        if not fitting:
            return False
        if self._scores_are_known(pod):
            scores = self._node_scores(pod)
            with self._new_labels_in_steps():
                fitting = scores.best(pod, fitting)
        others = fitting & ~self._nodes.named({each.node for each in left})
        if others and not (
            waiting and all(self._nodes.name(slot) in opened for slot in bits.slots_in(others))
        ):
            return False
        reservations = self._nodes.reservations
        coming = [each for each in left if each.uid not in reservations]
        try:
            for each in coming:
                reservations.reserve(each, each.node, self._clock())
            for each in waiting:
                self._sync_at_once()
                if slots := self._filters.fitting(each, fitting):
                    reservations.reserve(
                        each, self._nodes.name(next(bits.slots_in(slots))), self._clock()
                    )
                    coming.append(each)
            self._sync_at_once()
            return not self._filters.fitting(pod, fitting)
        finally:
            for each in coming:
                reservations.release(each.uid)

    def diagnose_kept_place(self, pod: Pod, placeholder: Pod) -> str:
        """Return why a pod does not fit in the place of its placeholder; empty where it does."""
        self._sync_nodes()
        if (slot := self._nodes.slot_of(placeholder.node)) is None:
            return f"node {placeholder.node} is gone"
        if not self._nodes.ready >> slot & 1:
            return f"node {placeholder.node} is not ready"
        found = self._filters.diagnose(pod, 1 << slot, placeholder)
        if found.available:
            self._last_match = pod.uid, placeholder.node
            return ""
        reasons = ", ".join(sorted(reason.message for reason in found.reasons))
        return f"node {placeholder.node} does not fit the pod: {reasons}"

    def diagnose_reserved_place(self, pod: Pod, kept: Reservation) -> str:
        """Return why a pod does not fit in the place of a Reservation; empty where it does."""
        holder = Pod(pod.namespace, kept.name, kept.uid, node=kept.node)
        return self.diagnose_kept_place(pod, holder)

    def closed_domains(self, pod: Pod) -> Mapping[str, frozenset[str]]:
        """Return, by topology key, the domains that are closed to a pod because of its labels."""
        self._sync_nodes()
        return self._filters.closed_domains(pod)

    def unknown_scores(self, pod: Pod) -> str:
        """Say why it is not known which node a pod's scheduler takes first; empty where it is."""
        if unknown := self._filters.profiles.unknown_scores(pod.spec):
            return unknown
        return _ALTERNATIVES if self._filters.devices.has_chosen(pod) else ""

    def explain_other_nodes(self, pod: Pod, selector: Selector) -> tuple[Sequence[str], Diagnosis]:
        """Name the nodes of the highest score among the others, and count why the rest do not fit.

        None is named where the scores of the pod's scheduler are not known. Nothing is remembered:
        it is for people.
        """
        self._sync_nodes()
        among = self._candidates(pod, selector, None)
        best: Sequence[str] = ()
        if self._scores_are_known(pod) and (fitting := self._filters.fitting(pod, among)):
            slots = bits.slots_in(self._node_scores(pod).best(pod, fitting))
            best = sorted(map(self._nodes.name, slots))
        return best, self._filters.diagnose(pod, among)

    def diagnose_other_nodes(
        self, pod: Pod, selector: Selector, targets: Targets | None = None
    ) -> NoFit:
        """Return why the other nodes, or the targets, reject the pod, and which changes may help.

        All findings with targets wait for the same nodes as those without: which nodes are targets
        changes with every plan, and the plugin sees to that itself.
        """
        among, scope = self._candidates(pod, selector, targets), _scope(selector, targets)
        found = self._no_fit(pod, scope, among, lambda: self._ready_nodes(selector))
        nodes = "other node" if targets is None else "target node"
        return replace(found, message=f"no {nodes} fits the pod: {found.message}")

    def diagnose_any_node(self, pod: Pod) -> NoFit:
        """Return why every node, its own included, rejects the pod, and what may help."""
        among = self._nodes.eligible
        own = WakeOnNode(pod.node)
        found = self._no_fit(pod, ANY_NODE_SCOPE, among, lambda: self._nodes.eligible, own)
        return replace(found, message=f"no node fits the pod: {found.message}")

    @contextmanager
    def after(self, moves: Iterable[tuple[Pod, str]]) -> Iterator[None]:
        """Answer within the block as if these pods had moved to these nodes, one after the other.

        Where the eviction of one has begun, its place is reserved already, and stays so.
        """
        reservations, vacated = self._nodes.reservations, self._nodes.vacated
        moved, reserved = list[Pod](), list[Pod]()
        try:
            for pod, node in moves:
                slot = self._nodes.slot_of(node)
                if slot is not None and pod.uid not in reservations:
                    reserved.append(pod)
                    devices = self._filters.devices.devices_for(pod, slot)
                    reservations.reserve(pod, node, self._clock(), devices)
                moved.append(pod)
                vacated.add(pod)
            self._is_assuming = bool(moved)
            yield
        finally:
            self._is_assuming = False
            for pod in reserved:
                reservations.release(pod.uid)
            for pod in moved:
                vacated.discard(pod.uid)

    # --- reservations and hints ---

    def reserve(self, pod: Pod) -> None:
        """Reserve capacity for the pod's replacement on the node that was just found for it.

        While its placeholder is still there the capacity is subtracted twice.
        """
        if self._last_match is not None and self._last_match[0] == pod.uid:
            node = self._last_match[1]
            slot = self._nodes.slot_of(node)
            devices = () if slot is None else self._filters.devices.devices_for(pod, slot)
            self._nodes.reservations.reserve(pod, node, self._clock(), devices)

    def reserved_by_node(self) -> Mapping[str, ResourceList]:
        """Sum what is reserved for replacements, by node."""
        self._nodes.reservations.expire(self._clock())
        return self._nodes.reservations.by_node()

    def reservations(self) -> Iterable[CapacityReservation]:
        """Return what is reserved for replacements, each by its pod and node."""
        self._nodes.reservations.expire(self._clock())
        return list(self._nodes.reservations)

    def awaiting_replacement(self, owner_uid: str) -> Iterable[Pod]:
        """Return the evicted pods of a controller for whose replacements capacity is reserved."""
        reservations = self._nodes.reservations
        reservations.expire(self._clock())
        return [reservation.pod for reservation in reservations.of_owner(owner_uid)]

    def expected_replacements(self, namespace: str) -> Iterable[tuple[Pod, str]]:
        """Return a namespace's evicted pods, each with the node reserved for its replacement."""
        self._nodes.reservations.expire(self._clock())
        return [(r.pod, r.node) for r in self._nodes.reservations.in_namespace(namespace)]

    def is_place_reserved(self, uid: PodKey) -> bool:
        """Say whether the replacement of an evicted pod is still to be bound, and has a place."""
        self._nodes.reservations.expire(self._clock())
        return uid in self._nodes.reservations

    def lost_place(self, pod: Pod) -> str:
        """Return why the node reserved for a pod's replacement takes it no more; empty if it does.

        It may have been cordoned, tainted or relabelled, or ceased to be ready since it was found.
        """
        reservation = self._nodes.reservations.of_pod(pod.uid)
        if reservation is None:
            return ""
        info = self._view.node_info(reservation.node)
        if info is None or info.node is None:
            return f"node {reservation.node} is gone"
        if not info.node.is_ready:
            return f"node {reservation.node} is not ready"
        reason = self._filters.static_rejection(pod.spec, info.node)
        return "" if reason is None else f"node {reservation.node}: {reason.message}"

    def decided(self, eviction: Eviction) -> None:
        """Reserve capacity for the replacement, where one is to come."""
        if (pod := eviction.pod) is not None and not eviction.is_clean_up:
            self.reserve(pod)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Release the reservation of a pod that was not evicted: no replacement is to come."""
        del outcome
        if not eviction.counts:
            self._nodes.reservations.release(eviction.pod_uid)

    def replaced(self, eviction: Eviction, pod: Pod) -> None:
        """Release the reservation of a replacement that was bound: it has its capacity.

        The room that the evicted pod leaves is free for good.
        """
        self._nodes.reservations.release(eviction.pod_uid)
        if pod.node != eviction.origin.node:
            self._view.note_moved(eviction.pod_uid)

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        """Release the reservation of a replacement that was given up."""
        del end
        self._nodes.reservations.release(eviction.pod_uid)

    def apply_changes(self, changes: Iterable[Change], now: float) -> bool:
        """Find the groups of unschedulable pods that a change helps, which are hints to take."""
        if self._nodes.reservations.pods:
            self._nodes.reservations.expire(now)
        if self._unschedulable.groups:
            self._unschedulable.apply_changes(changes)
        return False

    def take_capacity_hints(self) -> Sequence[CapacityHint]:
        """Return, once, which unschedulable groups may fit now, after one more step of checks."""
        if not self._unschedulable.groups:
            return ()
        self._sync_nodes()
        self._unschedulable.check_some()
        return self._unschedulable.take_hints()

    @property
    def has_more_hints(self) -> bool:
        """Say whether changed nodes are left to be checked for unschedulable groups."""
        return self._unschedulable.has_unchecked

    def reconfigure(self, profiles: SchedulerProfiles) -> None:
        """Go by other profiles, and forget the unschedulable groups; reservations stay.

        Whether devices are sought stays as it was at the start: their kinds are read from then on.
        """
        now = self.scheduler_profiles
        profiles = replace(profiles, watches_devices=now.watches_devices)
        if profiles != now:
            self._filters.reconfigure(profiles)
            self._scores = self._last_match = None
        self._unschedulable.clear()

    # --- inside ---

    def _new_labels_in_steps(self) -> AbstractContextManager[None]:
        """Read new labels in steps within the block, where answers are wanted so.

        Only what reads can be left in the middle; what records an answer asks for the same labels.
        """
        return self._nodes.labels.in_steps(self.long_answers)

    def _sync_nodes(self) -> None:
        """Refresh all dirty nodes; many of them in steps, where answers are wanted so."""
        steps = self._steps_of_sync()
        next(steps, None)
        if self._nodes.is_stale and self.long_answers.in_steps:
            raise AnswerTakesLong(steps)
        for _ in steps:
            pass

    def _sync_for(self, pod: Pod) -> None:
        """Refresh all dirty nodes, and look for a pod's devices on all: in steps where wanted."""
        self._sync_nodes()
        if not self._filters.devices.judges(pod):
            return
        if not self.long_answers.awaited:
            self._prepared.clear()
        if self.long_answers.in_steps and pod.uid not in self._prepared:
            self._prepared.add(pod.uid)  # what changes meanwhile is looked at in one go
            raise AnswerTakesLong(self._filters.devices.steps_of(pod))

    def _sync_at_once(self) -> None:
        for _ in self._steps_of_sync():
            pass

    def _steps_of_sync(self) -> Iterator[None]:
        while self._nodes.is_stale:
            self._refresh_some()
            yield

    def _refresh_some(self) -> None:
        refreshed = self._filters.sync(NODES_PER_SYNC)
        if self._scores is not None:
            self._scores.update_nodes(changed.slot for changed in refreshed)
        if self._unschedulable.groups:
            self._unschedulable.update_nodes(refreshed)

    def _ready_nodes(self, selector: Selector) -> int:
        return self._nodes.labels.matching_labels(selector, self._nodes.ready)

    def _candidates(self, pod: Pod, selector: Selector, targets: Targets | None) -> int:
        return self._slots_of(targets, self._other_nodes(pod, self._ready_nodes(selector)))

    def _scores_are_known(self, pod: Pod) -> bool:
        return not self.unknown_scores(pod)

    def _node_scores(self, pod: Pod) -> NodeScores:
        """Return the scores of all nodes for a pod, which are followed from the first question on.

        All nodes are scored in steps, where answers are wanted so.
        """
        if self._scores is None:
            self._scores = NodeScores(self._nodes, self._view, self._filters)
            self._unscored = self._nodes.slots()
        steps = self._steps_of_scores(self._scores)
        if self.long_answers.in_steps and next(steps, _END) is not _END:
            raise AnswerTakesLong(steps)
        for _ in steps:
            pass
        if self.long_answers.in_steps and self._scores.is_new(pod):
            raise AnswerTakesLong(self._scores.score(pod))
        return self._scores

    def _steps_of_scores(self, scores: NodeScores) -> Iterator[None]:
        """Look at all nodes; those that change meanwhile are followed as any."""
        while some := tuple(islice(self._unscored, PORTION)):
            scores.update_nodes(some)
            yield

    def _slots_of(self, targets: Targets | None, among: int) -> int:
        """Return which of the slots are targets."""
        match targets:
            case None:
                return among
            case AllNodesBut(names=names):
                return among & ~self._nodes.named(names)
            case _:
                return among & self._nodes.named(targets)

    def _other_nodes(self, pod: Pod, among: int) -> int:
        own = self._nodes.slot_of(pod.node)
        return among if own is None else among & ~(1 << own)

    def _remember_match(self, pod: Pod, scope: str, slot: int | None) -> str | None:
        if slot is None:
            self._last_match = None
            return None
        if not (self._is_assuming or self._view.is_questioned):
            self._unschedulable.record_fit(scope, pod)
        name = self._nodes.name(slot)
        self._last_match = pod.uid, name
        return name

    def _no_fit(
        self, pod: Pod, scope: str, among: int, candidates: CandidateSlots, *wakes: WakeOn
    ) -> NoFit:
        diagnosis, now = self._filters.diagnose(pod, among), self._clock()
        groups = self._unschedulable
        if self._view.is_questioned:
            wake = groups.wake_of(scope, pod)
        else:
            wake = groups.record_no_fit(scope, pod, candidates, diagnosis.reasons, now)
        until, booked_until = now + RETRY_AFTER_S, self._nodes.reservations.next_expiry()
        if booked_until is not None:
            until = min(until, booked_until)
        if self._filters.devices.may_judge(pod):
            wakes = (*wakes, WakeOnDevices())
        wakes = (wake, WakeOnPod(pod.uid), *wakes, *self._volume_wakes(pod))
        return NoFit(str(diagnosis), diagnosis, wakes, until)

    def _volume_wakes(self, pod: Pod) -> Iterator[WakeOn]:
        """Yield wakes of the pod's PVCs, their PVs, and users of ReadWriteOncePod PVCs."""
        for name in pod.pvc_names:
            yield WakeOnPvc(pod.namespace, name)
            pvc = self._view.store(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
            if pvc is not None and pvc.volume_name:
                yield WakeOnPv(pvc.volume_name)
            if pvc is not None and pvc.read_write_once_pod:
                others = self._filters.volumes.other_users(pod, name)
                yield from (WakeOnPod(other.uid) for other in others)


def _scope(selector: Selector, targets: Targets | None) -> str:
    return str(selector) if targets is None else f"{TARGETS_SCOPE}{selector}"
