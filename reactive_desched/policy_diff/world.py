"""The cluster as it would have been, had another policy decided: a recording, and what differs.

A pod that only this policy moves is replaced where the kube-scheduler's rules put it, and the later
life of the recorded pod is laid on the replacement. A pod that only the recorded controller moved
stays where it was, and its recorded replacement is not there. See
docs/adr/0134-the-world-of-a-policy-that-did-not-decide.md.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.controller.controller import Controller
from reactive_desched.fit.assumed_scheduler import NodeChance
from reactive_desched.model.consolidation import consolidation_of
from reactive_desched.model.disruptions import disruption_mark
from reactive_desched.model.evaluation import Intent
from reactive_desched.model.objects import (
    ClusterObject,
    ContainerStatus,
    Node,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodStatus,
    ReplicaSet,
    controller_of,
)
from reactive_desched.model.outcomes import EVICTED
from reactive_desched.model.resources import ResourceList, add_resources
from reactive_desched.model.usage import NodeMetric, NodeUsage
from reactive_desched.plan.assumed_cluster import AssumedCluster, AssumedEviction, PreviewClock
from reactive_desched.plan.assumed_sets import REFUSED, AssumedSets
from reactive_desched.policy_diff.deletion_order import REPLICA_SET, DeletionOrder
from reactive_desched.policy_diff.recorded_facts import Lines, RecordedFacts
from reactive_desched.primitives.timers import earliest
from reactive_desched.recording.items import Verb
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.state.resources import NODES, PDBS, PODS

__all__ = ["AssumedWorld"]

LATE_S: Final = 2.0
"""The policy's eviction of a pod is the recorded one that comes so much later: processes are late.

Without that a world runs ahead of a busy process, eviction by eviction.
"""

SAME_MOMENT_S: Final = 0.4
"""It is the recorded one that came so much earlier; else its replacement would come too early."""

SAME_WRITE_S: Final = 5.0
"""A taint that the recorded controller writes so soon after is the same one."""

_SPENT_BEFORE_S: Final = 0.1
"""So long before the pod is seen to be ending may its eviction have spent a budget."""

_STILL_RECORDED_S: Final = 60.0
"""So long before the end of the recording a pod may have ended whose replacement is not in it."""

_BY_NODE: Final = frozenset({"DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet"})
"""Causes of an end that are of the node: a pod elsewhere does not share it."""


class _Place(Struct, eq=False):
    """A pod of this world, `pod`, that is not the recorded one, `recorded`, whose life it takes.

    `recorded` is empty between a recorded eviction and its replacement, `pod` where nothing took
    the place of an evicted pod. `restarts` is by how much more the containers of this world's pod
    were restarted. `status` is that of the recorded pod when its life was laid on this one: it
    counts once it has changed, and once the recorded pod was Ready.
    """

    namespace: str
    recorded: str
    pod: str
    restarts: Mapping[str, int] = {}
    status: PodStatus | None = None
    was_ready: bool = True


class AssumedWorld:
    """Follows a recording as far as this world is the recorded one, and goes its own way beyond.

    `recorded` is the recorded cluster after the item that is being taken.
    """

    def __init__(
        self,
        controller: Controller,
        clock: PreviewClock,
        facts: RecordedFacts,
        lines: Lines,
        recorded: RecordedState,
    ) -> None:
        self._controller = controller
        self._state = controller.state
        self._clock = clock
        self._facts = facts
        self._lines = lines
        self._recorded = recorded
        self._cluster = AssumedCluster(controller, clock, facts)
        self._sets = AssumedSets(
            controller, clock.monotonic, self._bind_waiting, self._taint_written_in
        )
        self._by_recorded: dict[str, _Place] = {}
        self._by_pod: dict[str, _Place] = {}
        self._awaiting: dict[str, _Place] = {}
        self._left: set[str] = set()
        self._joined: dict[str, str] = {}
        self._starting: set[str] = set()
        self._closed_there = {
            node.key
            for node in recorded.objects.get(NODES, {}).values()
            if isinstance(node, Node) and consolidation_of(node)
        }
        self._places: defaultdict[str, set[_Place]] = defaultdict(set)
        self._budgets_differ: set[str] = set()
        self._desired: dict[str, int] = {}
        self._used: dict[str, ResourceList] = {}

    # --- time ---

    def next_due(self) -> float | None:
        """Return when something of this world alone happens next."""
        return earliest(self._cluster.next_due(), self._sets.next_due())

    def advance(self) -> None:
        """Let happen what is due of this world alone."""
        due = self._cluster.next_due()
        if due is not None and due <= self._clock.now:
            self._advance_cluster()
            self._sets.note_change()
        self._sets.advance()

    def _advance_cluster(self) -> None:
        self._cluster.advance()
        for uid in list(self._starting):
            pod, place = self._state.store(Pod).get(uid), self._by_pod.get(uid)
            if place is None or (pod is not None and pod.is_terminating):
                self._starting.discard(uid)
            elif pod is not None and pod.status.is_ready:
                self._starting.discard(uid)
                if (recorded := self._recorded_pod(place.recorded)) is not None:
                    self._lay(recorded, place)
        for namespace in list(self._places):
            self._update_budgets(namespace)

    # --- evictions of the policy ---

    def evict(self, intent: Intent) -> AssumedEviction:
        """Answer an eviction request of this policy."""
        pod = intent.pod
        outcome, budgets = self._cluster.ask(intent)
        self._sets.note_change()
        if outcome.result != EVICTED:
            return AssumedEviction(outcome)
        is_recorded = self._is_recorded_now(pod)
        replacement = self._join(pod) if is_recorded else self._replace(pod, budgets)
        self._update_budgets(pod.namespace)
        return AssumedEviction(outcome, replacement)

    def _is_recorded_now(self, pod: Pod) -> bool:
        """Say whether the recorded controller evicted the same pod about now."""
        end = self._facts.evicted.get(pod.uid)
        return end is not None and -SAME_MOMENT_S <= end.began_s - self._clock.wall() <= LATE_S

    def _join(self, pod: Pod) -> str:
        """Let a pod leave as recorded, from now on; return its replacement."""
        replacement = self._facts.replaced_by.get(pod.uid, "")
        place = self._by_pod.get(pod.uid)
        if place is not None:
            self._drop(place)
        if place is None or place.recorded == pod.uid:  # its recorded end comes
            self._joined[pod.uid] = pod.namespace
            self._upsert(self._ending(pod))
            return replacement
        self._cluster.end(pod)
        recorded = self._recorded_pod(place.recorded)
        if recorded is not None:  # it was created before: here it is the replacement of now
            now_s = int(self._clock.wall())
            self._upsert(replace(recorded, created_s=now_s, resource_version=0))
        return replacement

    def _replace(self, pod: Pod, budgets: tuple[str, ...]) -> str:
        """Let a pod leave that the recorded controller did not evict now."""
        place = self._by_pod.pop(pod.uid, None)
        recorded_uid = pod.uid if place is None else place.recorded
        chance = NodeChance(self._facts.node_of_replacement(recorded_uid), pod.node)
        start_s = self._facts.start_of_replacement(recorded_uid)
        uid = self._cluster.let_leave(pod, budgets, chance, start_s)
        if place is None:
            place = self._add_place(_Place(pod.namespace, pod.uid, uid))
        place.pod = uid
        recorded = self._recorded_pod(place.recorded)
        place.status = None if recorded is None else recorded.status
        place.restarts = {} if recorded is None else _restarts_more(None, recorded)
        place.was_ready = True
        if uid:
            self._lines.follow(uid, pod.uid)
            self._by_pod[uid] = place
            self._starting.add(uid)
        return uid

    def _taint_written_in(self, node: str, value: str | None) -> float | None:
        """Say in how many seconds the recorded controller wrote the taint of a set about now."""
        now_s = self._clock.wall()
        found = self._facts.set_taint_after(node, value, now_s)
        if found is None or found[0] - now_s > SAME_WRITE_S:
            return None
        return found[0] - now_s if found[1] else REFUSED

    def _bind_waiting(self, pod: Pod) -> str:
        """Bind a pod for which room was made, if it fits now; return its node, else nothing."""
        node = self._cluster.try_to_bind(pod)
        if node:
            place, recorded = self._place_of(pod), self._recorded_pod(pod.uid)
            place.was_ready = False
            place.status = None if recorded is None else recorded.status
            self._starting.add(pod.uid)
        return node

    # --- recorded changes ---

    def change(self, verb: Verb, obj: ClusterObject) -> None:
        """Take a recorded change, as far as it is one of this world too."""
        self._sets.note_change()
        if isinstance(obj, Pod):
            self._change_pod(verb, obj)
            self._update_budgets(obj.namespace)
        elif isinstance(obj, PodDisruptionBudget):
            self._apply(verb, obj)
            self._update_budgets(obj.namespace)
        elif isinstance(obj, NodeMetric):
            self._apply(verb, self._as_used_here(obj) if verb is not Verb.DELETED else obj)
        elif isinstance(obj, Node):
            is_closed_there = verb is not Verb.DELETED and consolidation_of(obj)
            (self._closed_there.add if is_closed_there else self._closed_there.discard)(obj.key)
            self._apply(verb, self._sets.node_as_here(obj))
            self._change_node(verb, obj)
        else:
            self._apply(verb, obj)

    def measure(self, sample: NodeUsage, *, is_gone: bool) -> None:
        """Take a recorded sample, with the use of the pods that are on the node in this world."""
        self._apply(Verb.DELETED if is_gone else Verb.MODIFIED, self._as_used_here(sample))

    def _change_pod(self, verb: Verb, pod: Pod) -> None:
        uid, is_gone = pod.uid, verb is Verb.DELETED
        if uid in self._left:
            if is_gone:
                self._left.discard(uid)
            return
        if (awaiting := self._awaiting.pop(uid, None)) is not None:
            self._attach(pod, awaiting)
        is_ending = is_gone or pod.is_terminating
        if is_ending and (other := self._first_to_go(pod)) is not None:
            self._swap(pod, other)
        place = self._differing_place(pod)
        if place is None and is_ending and self._stays(pod):
            place = self._place_of(pod)
        if place is None:
            if is_ending or not self._is_marked_there(pod):
                self._follow(verb, pod)
        elif is_ending:
            may_be_evicted_here = pod.uid in self._facts.evicted and self._is_needless(pod)
            if is_gone or not may_be_evicted_here:
                self._end(pod, place, is_gone=is_gone)
        else:
            self._lay(pod, place)

    def _differing_place(self, pod: Pod) -> _Place | None:
        """Return the place of a recorded pod that this world differs in; None for no difference.

        A pod that room was made for differs until it is Ready in both worlds, on the same node.
        """
        place = self._by_recorded.get(pod.uid)
        if place is None or place.pod != pod.uid or place.was_ready or not pod.status.is_ready:
            return place
        own = self._state.store(Pod).get(pod.uid)
        if own is None or own.node != pod.node:
            return place
        self._drop(place)
        return None

    def _stays(self, pod: Pod) -> bool:
        """Say whether a pod stays in this world that the recorded controller evicted."""
        return (
            pod.uid in self._facts.evicted
            and pod.uid not in self._joined
            and self._state.store(Pod).get(pod.uid) is not None
        )

    def _is_marked_there(self, pod: Pod) -> bool:
        """Say whether a pod has the condition of an eviction that is not made in this world.

        The API server sets it a moment before the pod is ending.
        """
        return self._stays(pod) and disruption_mark(pod) is not None

    def _follow(self, verb: Verb, pod: Pod) -> None:
        """Take a change of a pod that is the same in this world."""
        if pod.uid in self._joined:
            if verb is Verb.DELETED:
                del self._joined[pod.uid]
            elif not pod.is_terminating:
                pod = self._ending(pod)
        elif self._is_bound_elsewhere(pod):
            return
        self._apply(verb, self._sets.pod_as_here(pod))
        if verb is Verb.DELETED:
            self._cluster.wake()

    def _is_bound_elsewhere(self, pod: Pod) -> bool:
        """Bind a pod that was bound just now to a node that the scheduler would not take here.

        It avoids one that a set of this world empties, and takes it if the pod fits on no other.
        Where it avoided others for a set of the recorded world alone, it had fewer to choose among.
        """
        own = self._state.store(Pod).get(pod.uid)
        if not pod.node or own is None or not own.is_pending or own.node:
            return False
        if not self._sets.is_closed(pod.node) and (
            all(map(self._sets.is_closed, self._closed_there))
            or self._cluster.would_be_bound_to(own, pod.node)
        ):
            return False
        return bool(self._bind_waiting(own))

    def _end(self, pod: Pod, place: _Place, *, is_gone: bool) -> None:
        """Take the end of a recorded pod whose place another pod has in this world."""
        if not is_gone:
            self._left.add(pod.uid)
        self._by_recorded.pop(pod.uid, None)
        place.recorded = ""
        successor = self._facts.replaced_by.get(pod.uid, "")
        if not place.pod:
            self._drop(place)
        elif not self._is_end_here(pod, place):
            if not successor:
                return
            if (found := self._recorded_pod(successor)) is not None:
                self._apply(Verb.DELETED, found)
                self._attach(found, place)
            else:
                self._awaiting[successor] = place
        else:
            self._drop(place)
            if (own := self._state.store(Pod).get(place.pod)) is not None:
                self._cluster.end(own)

    def _is_end_here(self, pod: Pod, place: _Place) -> bool:
        """Say whether what ended a recorded pod ends the one in its place, too.

        Not so the eviction by the recorded controller, and what came of the recorded pod's node.
        Where no other pod came for one that has an owner, the owner needs none any more.
        """
        if pod.uid not in self._facts.evicted:
            return not self._is_of_other_node(pod, place)
        return self._is_needless(pod)

    def _is_of_other_node(self, pod: Pod, place: _Place) -> bool:
        """Say whether a recorded pod is ended by what came of its node, and is elsewhere here."""
        mark = disruption_mark(pod)
        return mark is not None and mark[0] in _BY_NODE and self._is_elsewhere(pod, place)

    def _is_needless(self, pod: Pod) -> bool:
        """Say whether no other pod came for one that the recorded controller evicted."""
        facts = self._facts
        is_known = self._clock.wall() < facts.last_s - _STILL_RECORDED_S
        is_of_owner = controller_of(pod.owners) is not None
        return is_known and is_of_owner and pod.uid not in facts.replaced_by

    def _first_to_go(self, recorded: Pod) -> Pod | None:
        """Return the pod of this world that its ReplicaSet deletes instead of the recorded one.

        None where that is the one in the place of the recorded one.
        """
        owner = controller_of(recorded.owners)
        if owner is None or owner.kind != REPLICA_SET or not self._is_one_too_many(recorded):
            return None
        place = self._by_recorded.get(recorded.uid)
        own = self._state.store(Pod).get(recorded.uid if place is None else place.pod)
        if own is None or own.is_terminating:
            return None
        related = self._related(owner)
        if not any(self._is_of(each, related) for each in self._places.get(own.namespace, ())):
            return None
        pods = [pod for pod in self._state.store(Pod) if _is_owned(pod, related)]
        order = DeletionOrder(pods, self._clock.wall())
        siblings = (pod for pod in pods if _is_owned(pod, {owner.uid}))
        first = min(siblings, key=order.rank, default=own)
        return first if order.rank(first) < order.rank(own) else None

    def _related(self, owner: OwnerReference) -> Collection[str]:
        """Return the uids of the ReplicaSets of the Deployment of one, itself among them."""
        sets = self._state.store(ReplicaSet)
        known = sets.get(owner.uid)
        if known is None or (above := known.controller) is None:
            return {owner.uid}
        return {each.uid for each in sets if each.controller == above}

    def _is_of(self, place: _Place, owners: Collection[str]) -> bool:
        """Say whether a place has another pod than the recorded one, of one of these owners."""
        own = self._state.store(Pod).get(place.pod)
        return _is_owned(own or self._recorded_pod(place.recorded), owners)

    def _is_one_too_many(self, pod: Pod) -> bool:
        """Say whether a ReplicaSet deleted a recorded pod because it had too many."""
        is_evicted = pod.uid in self._facts.evicted or disruption_mark(pod) is not None
        return not is_evicted and self._is_needless(pod)

    def _swap(self, pod: Pod, other: Pod) -> None:
        """Let a pod of this world have the place of another, and that one the other place."""
        place, others = self._place_of(pod), self._place_of(other)
        own = self._state.store(Pod).get(place.pod)
        place.pod, others.pod = others.pod, place.pod
        self._by_pod[place.pod], self._by_pod[others.pod] = place, others
        if (recorded := self._recorded_pod(others.recorded)) is not None:
            others.restarts = _restarts_more(own, recorded)
            others.status, others.was_ready = recorded.status, recorded.status.is_ready

    def _is_elsewhere(self, pod: Pod, place: _Place) -> bool:
        own = self._state.store(Pod).get(place.pod)
        return own is None or own.node != pod.node

    def _attach(self, pod: Pod, place: _Place) -> None:
        """Lay the life of a recorded replacement on the pod that stays in its place."""
        own = self._state.store(Pod).get(place.pod)
        place.recorded = pod.uid
        place.restarts = _restarts_more(own, pod)
        place.status, place.was_ready = pod.status, pod.status.is_ready
        self._by_recorded[pod.uid] = place

    def _lay(self, pod: Pod, place: _Place) -> None:
        """Lay the present state of a recorded pod on the one in its place."""
        place.was_ready = place.was_ready or pod.status.is_ready
        own = self._state.store(Pod).get(place.pod)
        if own is None or own.is_terminating:
            return
        laid = replace(
            own,
            labels=pod.labels,
            annotations=pod.annotations,
            owners=pod.owners,
            spec=pod.spec,
            resize_delta=pod.resize_delta,
            generation=pod.generation,
            resource_version=0,
        )
        if self._takes_status(pod, own, place):
            laid = _with_status(laid, pod, place.restarts)
            place.status = None
        if laid != own:
            self._upsert(laid)

    def _takes_status(self, pod: Pod, own: Pod, place: _Place) -> bool:
        if pod.status == place.status or not place.was_ready or place.pod in self._starting:
            return False
        if self._is_of_other_node(pod, place):
            return False
        if pod.has_ended:
            return True
        node = self._recorded.objects.get(NODES, {}).get(pod.node)
        return own.node == pod.node or (isinstance(node, Node) and node.ready_status == "True")

    def _change_node(self, verb: Verb, node: Node) -> None:
        """Take what a change of a node does to the pods that only this world has on it."""
        self._cluster.wake()
        if verb is not Verb.DELETED:
            return
        for uid, place in list(self._by_pod.items()):
            pod = self._state.store(Pod).get(uid)
            if pod is not None and pod.node == node.key and not pod.is_terminating:
                self._replace(pod, ())
                self._update_budgets(place.namespace)

    # --- places ---

    def _recorded_pod(self, uid: str) -> Pod | None:
        found = self._recorded.objects.get(PODS, {}).get(uid)
        return found if isinstance(found, Pod) else None

    def _add_place(self, place: _Place) -> _Place:
        self._places[place.namespace].add(place)
        self._by_recorded[place.recorded] = place
        return place

    def _place_of(self, pod: Pod) -> _Place:
        """Return the place of a pod of either world; it is new where both have the same pod."""
        place = self._by_recorded.get(pod.uid) or self._by_pod.get(pod.uid)
        if place is None:
            place = self._add_place(_Place(pod.namespace, pod.uid, pod.uid))
            self._by_pod[pod.uid] = place
        return place

    def _drop(self, place: _Place) -> None:
        """Forget a place: from now on this world is the recorded one there."""
        self._by_pod.pop(place.pod, None)
        if self._by_recorded.get(place.recorded) is place:
            del self._by_recorded[place.recorded]
        for successor, each in list(self._awaiting.items()):
            if each is place:
                del self._awaiting[successor]
        self._places[place.namespace].discard(place)
        self._starting.discard(place.pod)

    def _ending(self, pod: Pod) -> Pod:
        return replace(pod, deletion_s=int(self._clock.wall()), resource_version=0)

    def _apply(self, verb: Verb, obj: ClusterObject) -> None:
        state = self._state
        changes = state.remove(obj) if verb is Verb.DELETED else state.upsert(obj)
        if changes:
            self._controller.apply(changes, obj.resource_version)

    def _upsert(self, obj: ClusterObject) -> None:
        self._apply(Verb.MODIFIED, obj)

    # --- PodDisruptionBudgets ---

    def _update_budgets(self, namespace: str) -> None:
        """Let the budgets of a namespace allow what they would with the pods of this world."""
        pairs = list(self._pairs(namespace))
        if not pairs and namespace not in self._places and namespace not in self._budgets_differ:
            return
        for budget in self._recorded.objects.get(PDBS, {}).values():
            if isinstance(budget, PodDisruptionBudget) and budget.namespace == namespace:
                allowed = self._allowed(budget, pairs)
                own = self._state.get(PDBS, budget.key)
                if isinstance(own, PodDisruptionBudget) and own.disruptions_allowed != allowed:
                    self._upsert(replace(budget, disruptions_allowed=allowed, resource_version=0))
        if pairs:
            self._budgets_differ.add(namespace)
        else:
            self._budgets_differ.discard(namespace)
        if not self._places.get(namespace, True):
            del self._places[namespace]

    def _pairs(self, namespace: str) -> Iterator[tuple[Pod | None, Pod | None]]:
        """Yield the recorded pods and those of this world in their places, where they differ.

        A recorded eviction has spent the budgets of its pod a moment before that is ending.
        """
        pods, now_s = self._state.store(Pod), self._clock.wall()
        leaving = set(self._facts.requested_at(now_s, _SPENT_BEFORE_S))
        for place in self._places.get(namespace, ()):
            recorded = None if place.recorded in leaving else self._recorded_pod(place.recorded)
            yield recorded, pods.get(place.pod)
        for uid, of in self._joined.items():
            if of == namespace:
                yield None if uid in leaving else self._recorded_pod(uid), pods.get(uid)
        for uid in leaving - self._by_recorded.keys() - self._joined.keys():
            pod = pods.get(uid)
            if pod is not None and pod.namespace == namespace:
                yield None, pod

    def _allowed(
        self, budget: PodDisruptionBudget, pairs: list[tuple[Pod | None, Pod | None]]
    ) -> int:
        """Return how many disruptions a budget allows in this world.

        A recorded budget that allows none may have fewer healthy pods than it wants: by how many is
        known where it allowed some before.
        """
        more = sum(
            _is_healthy(own, budget) - _is_healthy(recorded, budget) for recorded, own in pairs
        )
        recorded_allowed = budget.disruptions_allowed
        if recorded_allowed <= 0:
            wanted = self._desired.get(budget.key)
            if wanted is None or more <= 0:
                return max(0, recorded_allowed + more)
            return max(0, self._healthy(budget) + more - wanted)
        self._desired[budget.key] = self._healthy(budget) - recorded_allowed
        return max(0, recorded_allowed + more)

    def _healthy(self, budget: PodDisruptionBudget) -> int:
        pods = self._recorded.objects.get(PODS, {}).values()
        return sum(isinstance(pod, Pod) and _is_healthy(pod, budget) for pod in pods)

    # --- measured use ---

    def _as_used_here(self, sample: NodeUsage) -> NodeUsage:
        """Return a recorded sample with the use of the pods that are on the node in this world."""
        if not self._by_pod and not self._by_recorded:
            return sample
        usage, pods = dict(sample.usage), dict(sample.pods)
        differs = False
        for place in {*self._by_pod.values(), *self._by_recorded.values()}:
            recorded = self._recorded_pod(place.recorded)
            own = self._state.store(Pod).get(place.pod)
            used = None if recorded is None else sample.pods.get(str(recorded))
            if recorded is not None and used is not None:
                self._used[recorded.uid] = used
            was_here = recorded is not None and recorded.node == sample.node
            is_here = own is not None and own.node == sample.node
            if was_here == is_here:
                continue
            differs = True
            if was_here and used is not None:
                add_resources(usage, {name: -amount for name, amount in used.items()})
                pods.pop(str(recorded), None)
            elif is_here and (known := self._used.get(place.recorded)) is not None:
                add_resources(usage, known)
                pods[str(own)] = known
        if not differs:
            return sample
        if isinstance(sample, NodeMetric):
            return replace(sample, usage=usage, pods=pods, pods_usage=None, resource_version=0)
        return replace(sample, usage=usage, pods=pods)


def _is_healthy(pod: Pod | None, budget: PodDisruptionBudget) -> bool:
    return pod is not None and pod.status.is_ready and not pod.is_terminating and budget.covers(pod)


def _is_owned(pod: Pod | None, owners: Collection[str]) -> bool:
    """Say whether one of these owners counts a pod among its own."""
    if pod is None or pod.is_terminating or pod.has_ended:
        return False
    found = controller_of(pod.owners)
    return found is not None and found.uid in owners


def _restarts_more(own: Pod | None, recorded: Pod) -> Mapping[str, int]:
    """Return by how much more the containers of a pod were restarted than the recorded ones."""
    status = recorded.status
    counts = {} if own is None else _restarts(own.status)
    return {name: counts.get(name, 0) - count for name, count in _restarts(status).items()}


def _restarts(status: PodStatus) -> dict[str, int]:
    return {each.name: each.restart_count for each in (*status.containers, *status.init_containers)}


def _with_status(own: Pod, recorded: Pod, restarts: Mapping[str, int]) -> Pod:
    """Return a pod with the recorded status; what it says already has the time that it had."""
    known = {
        (condition.type, condition.status): since
        for condition, since in zip(own.status.conditions, own.condition_transitions, strict=False)
    }
    times = dict(enumerate(recorded.condition_transitions))
    transitions: list[int | None] = []
    for number, condition in enumerate(recorded.status.conditions):
        key, since = (condition.type, condition.status), times.get(number)
        if key in known:
            transitions.append(known[key])
        elif since is None:
            transitions.append(None)
        else:
            transitions.append(max(0, recorded.created_s + since - own.created_s))
    status = replace(
        recorded.status,
        containers=tuple(_restarted(each, restarts) for each in recorded.status.containers),
        init_containers=tuple(
            _restarted(each, restarts) for each in recorded.status.init_containers
        ),
        nominated_node="",
    )
    return replace(own, status=status, condition_transitions=tuple(transitions))


def _restarted(container: ContainerStatus, restarts: Mapping[str, int]) -> ContainerStatus:
    more = restarts.get(container.name, 0)
    if not more:
        return container
    return replace(container, restart_count=max(0, container.restart_count + more))
