"""Finds every pending pod a node, one pod at a time, as the kube-scheduler would.

It stands for koordinator's scheduler, too, which supports Reservations. A pod that fits nowhere
waits until room appears, which `preemption.py` makes for it where pods of lower priority have it.
One that is tried again while nothing differs is refused again, without another look at the nodes.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.sim.binding import bind
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_condition
from reactive_desched.sim.dice import dice_for
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_uid,
    is_terminal,
    is_terminating,
    key_of,
    node_of,
    priority_of,
    without_nomination,
)
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.scheduling.backlog import Backlog
from reactive_desched.sim.scheduling.filters import (
    NOT_MATCHED,
    Candidate,
    Check,
    Filter,
    node_affinity,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    reasons_against,
    taint_toleration,
)
from reactive_desched.sim.scheduling.neighbours import inter_pod_affinity
from reactive_desched.sim.scheduling.preemption import (
    Nominator,
    Preemption,
    VictimsOnNode,
    nominated_node,
)
from reactive_desched.sim.scheduling.reservations import (
    KOORDINATOR_SCHEDULER,
    PENDING,
    Place,
    ReservationBook,
    pod_of,
)
from reactive_desched.sim.scheduling.scheduler_cache import NodeRoom, SchedulerCache
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED, best_of
from reactive_desched.sim.scheduling.spread import pod_topology_spread
from reactive_desched.sim.scheduling.volumes import VolumeBook
from reactive_desched.sim.storage_classes import SELECTED_NODE
from reactive_desched.sim.store import Event, Store

__all__ = ["FILTERS", "NAME", "Scheduler", "nodes_to_find"]

NAME: Final = "default-scheduler"
FILTERS: Final[Sequence[Filter]] = (
    node_unschedulable,
    node_name,
    taint_toleration,
    node_affinity,
    node_ports,
    node_resources_fit,
    pod_topology_spread,
    inter_pod_affinity,
)
_ALWAYS_ALL: Final = 100
_BATCH: Final = 50
_PREEMPTION_FAILED: Final = "no new claims to deallocate, preemption: "
"""Stands before the reason, as DynamicResources of kube-scheduler 1.36 is asked first."""
_RESERVED: Final = "reservations/"
"""Stands in the backlog's keys where pods have their namespace."""


def nodes_to_find(nodes: int) -> int:
    """Return how many feasible nodes are enough, given the size of the cluster."""
    if nodes < _ALWAYS_ALL:
        return nodes
    percent = max(5, 50 - nodes // 125)
    return max(_ALWAYS_ALL, nodes * percent // 100)


class _Refusal(msgspec.Struct, frozen=True):
    """The reason for which a pod had to wait, and how many changes had been seen by then."""

    uid: str
    changes: int
    why: str


class Scheduler:
    """Keeps a picture of the cluster and a backlog of pending pods; binds one pod at a time.

    With a random source ties are broken by chance, without one by the node's name.
    """

    watches = frozenset(
        {
            *("pods", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"),
            *("storageclasses", "reservations"),
        }
    )

    def __init__(
        self,
        store: Store,
        index: PodIndex,
        tie_break: random.Random | None = None,
        scoring: str = LEAST_ALLOCATED,
    ) -> None:
        self.picture = SchedulerCache()
        self.volumes = VolumeBook()
        self.reservations = ReservationBook(store, self.picture)
        self._store = store
        self._tie_break = tie_break
        self._scoring = scoring
        self._recorder = Recorder(store, NAME)
        self._nominator = Nominator()
        self._preemption = Preemption(
            store, index, self.picture, self._nominator, self._reasons_against
        )
        self._backlog = Backlog()
        self._room_changed = False
        self._other_pods_changed = False
        self._refusals: dict[Key, _Refusal] = {}
        self._changes = 0
        self._start = 0

    def observe(self, event: Event) -> None:
        """Keep the picture current, and remember whether waiting pods may have a new chance."""
        gone = event.type == "DELETED"
        self._changes += _may_change_verdicts(event)
        match event.resource:
            case "pods":
                self._observe_pod(event.object, gone=gone)
                self._room_changed |= _frees_room(event)
                self._other_pods_changed |= _changes_neighbours(event)
            case "nodes":
                self.picture.see_node(event.object, gone=gone)
                self._room_changed |= _changes_node(event)
                if gone:
                    self.reservations.lose_node(name_of(event.object))
            case "reservations":
                self._observe_reservation(event.object, gone=gone)
                self._room_changed = True
            case "namespaces":
                self.picture.see_namespace(event.object, gone=gone)
            case "storageclasses":
                self.volumes.see_class(event.object, gone=gone)
                self._room_changed = True
            case "persistentvolumeclaims":
                self.volumes.see_claim(event.object, gone=gone)
                self._room_changed = True
            case _:
                self.volumes.see_volume(event.object, gone=gone)
                self._room_changed = True

    def due(self) -> float | None:
        """Return when the next pod may be tried, or None; a change shortens the wait."""
        if self._room_changed or self._other_pods_changed:
            self._backlog.stir(neighbours_only=not self._room_changed)
            self._room_changed = self._other_pods_changed = False
        dues = (self._backlog.due(), self.reservations.due())
        return min((due for due in dues if due is not None), default=None)

    def step(self, now: float) -> None:
        """Try a batch of pods."""
        self.reservations.expire(now)
        for _ in range(_BATCH):
            key = self._backlog.take(now)
            if key is None:
                return
            if key[0] == _RESERVED:
                self._place_reservation(key[1], now)
                continue
            pod = self._store.get("pods", *key)
            if pod is not None and _is_pending(pod):
                if not self._refuse_again(pod, now):
                    self._place(pod, now)
            else:
                self._backlog.drop(key)

    def verdicts(self, pod: Obj) -> dict[str, tuple[str, ...]]:
        """Return why each node cannot take a pod; feasible nodes have no reasons."""
        candidate = self._candidate(pod)
        checks = self._checks(candidate)
        return {
            room.name: self._reasons_beside_nominated(candidate, checks, room)
            for room in self.picture.rooms()
        }

    def preview(self, pod: Obj) -> str:
        """Name the node to which a pod would be bound now, the first by name of equals."""
        candidate = self._candidate(pod)
        checks = self._checks(candidate)
        rooms = [
            room
            for room in self.picture.rooms()
            if not self._reasons_beside_nominated(candidate, checks, room)
        ]
        best = best_of(candidate, rooms, self.picture, self._scoring) if rooms else []
        return min((room.name for room in best), default="")

    def preview_preemption(self, pod: Obj) -> tuple[list[VictimsOnNode], str]:
        """Return the cheapest victims for a pod that fits nowhere, and why it waits."""
        candidate, now = self._candidate(pod), self._store.clock.now()
        _, reasons = self._feasible(candidate)
        cheapest, why, _ = self._room_by_preemption(pod, candidate, reasons, now)
        return cheapest, why

    def _observe_pod(self, pod: Obj, *, gone: bool) -> None:
        self.picture.see_pod(pod, gone=gone)
        waits = not gone and _is_pending(pod)
        self._nominator.see(pod, waits=waits)
        if waits:
            self._backlog.offer(key_of(pod), pod["metadata"]["uid"], priority_of(pod))
        else:
            self._backlog.drop(key_of(pod))
            self._refusals.pop(key_of(pod), None)

    def _observe_reservation(self, reservation: Obj, *, gone: bool) -> None:
        self.reservations.see(reservation, gone=gone)
        key = (_RESERVED, name_of(reservation))
        if not gone and reservation.get("status", {}).get("phase", "") in PENDING:
            self._backlog.offer(key, reservation["metadata"]["uid"], 0)
        else:
            self._backlog.drop(key)

    def _place_reservation(self, name: str, now: float) -> None:
        """Find a Reservation a node, as for the pod of its template."""
        key, reservation = (_RESERVED, name), self._store.get("reservations", "", name)
        if reservation is None:
            self._backlog.drop(key)
            return
        try:
            candidate = self._candidate(pod_of(reservation))
        except msgspec.ValidationError as error:
            self._backlog.put_off(key, now, heeds_neighbours=False)
            self.reservations.refuse(name, f"cannot read the template: {error}", now)
            return
        rooms, failures = self._feasible(candidate)
        if rooms:
            best = best_of(candidate, rooms, self.picture, self._scoring)
            names = [room.name for room in best]
            self.reservations.make_available(name, self._choose(names, "", name), now)
        else:
            self._backlog.put_off(key, now, heeds_neighbours=False)
            self.reservations.refuse(name, self._summary(failures), now)

    def _take_reserved(self, pod: Obj, candidate: Candidate, now: float) -> bool:
        """Bind a pod into a place that is kept for it; say whether there was one that fits."""
        if pod["spec"].get("schedulerName") != KOORDINATOR_SCHEDULER:
            return False
        for place in tuple(self.reservations.places_for(pod)):
            self.reservations.give_up(place)
            room = self.picture.room(place.node)
            if room is not None and not self._reasons_against(candidate, room):
                self._bind(pod, place.node, place)
                self.reservations.allocate(place, pod, now)
                return True
            self.reservations.keep(place)
        return False

    def _candidate(self, pod: Obj) -> Candidate:
        return Candidate(
            namespace=namespace_of(pod),
            name=pod["metadata"]["name"],
            needs=self.picture.needs_of(pod),
            owner=controller_uid(pod),
            node=node_of(pod),
            uid=pod["metadata"].get("uid", ""),
            priority=priority_of(pod),
        )

    def _reasons_against(self, pod: Candidate, room: NodeRoom) -> Sequence[str]:
        return self._reasons_beside_nominated(pod, self._checks(pod), room)

    def _reasons_beside_nominated(
        self, pod: Candidate, checks: Sequence[Check], room: NodeRoom
    ) -> tuple[str, ...]:
        """Return why a node cannot take a pod, beside those of its priority that wait for it."""
        reasons = reasons_against(checks, room)
        beside = [
            {**each, "spec": {**each["spec"], "nodeName": room.name}}
            for each in self._nominator.on(room.name)
            if each["metadata"]["uid"] != pod.uid and priority_of(each) >= pod.priority
        ]
        if reasons or not beside:
            return reasons
        for each in beside:
            self.picture.see_pod(each)
        try:
            return reasons_against(self._checks(pod), room)
        finally:
            for each in beside:
                self.picture.see_pod(each, gone=True)

    def _checks(self, pod: Candidate) -> list[Check]:
        made = [make(pod, self.picture) for make in FILTERS]
        return [check for check in (*made, self.volumes.filter(pod)) if check is not None]

    def _place(self, pod: Obj, now: float) -> None:
        try:
            candidate = self._candidate(pod)
        except msgspec.ValidationError as error:
            self._refuse(pod, f"cannot read the pod's scheduling rules: {error}", now)
            return
        if self._take_reserved(pod, candidate, now):
            return
        rooms, reasons = self._feasible(candidate, nominated_node(pod))
        if not rooms:
            self._preempt(pod, candidate, reasons, now)
            return
        best = rooms
        if len(rooms) > 1:
            best = best_of(candidate, rooms, self.picture, self._scoring)
        names = [room.name for room in best]
        node = self._choose(names, namespace_of(pod), name_of(pod))
        if waiting := self.volumes.waiting(candidate):
            self._ask_for_volumes(waiting, node)
            self._backlog.put_off(key_of(pod), now, heeds_neighbours=False)  # until it has them
        else:
            self._bind(pod, node)

    def _preempt(
        self, pod: Obj, candidate: Candidate, reasons: Mapping[str, Sequence[str]], now: float
    ) -> None:
        """Refuse a pod that fits nowhere; nominate it for a node that others leave for it."""
        cheapest, why, nominated = self._room_by_preemption(pod, candidate, reasons, now)
        if not cheapest:
            self._refuse(pod, why, now, nominated)
            refusal = _Refusal(pod["metadata"]["uid"], self._changes, why)
            self._refusals[key_of(pod)] = refusal
            return
        by_node = {each.node: each for each in cheapest}
        chosen = by_node[self._choose(by_node, namespace_of(pod), name_of(pod))]
        self._refuse(pod, why, now, chosen.node)
        self._preemption.carry_out(pod, chosen, self._recorder)

    def _room_by_preemption(
        self, pod: Obj, candidate: Candidate, reasons: Mapping[str, Sequence[str]], now: float
    ) -> tuple[list[VictimsOnNode], str, str]:
        """Return the cheapest victims, why the pod waits, and for which node without victims."""
        why = self._summary(reasons)
        if not self.picture.rooms():
            return [], why, ""
        if not_now := self._preemption.why_not(pod, reasons):
            return [], f"{why} {_PREEMPTION_FAILED}{not_now}", nominated_node(pod)
        found, failures = self._preemption.find(candidate, reasons)
        if not found:
            return [], f"{why} {_PREEMPTION_FAILED}{self._summary(failures)}", ""
        return self._preemption.cheapest(found, now), why, ""

    def _feasible(
        self, pod: Candidate, nominated: str = ""
    ) -> tuple[list[NodeRoom], dict[str, tuple[str, ...]]]:
        """Search from where the last search ended until enough nodes are found.

        Returns those nodes, and why each of the others that were looked at cannot take the pod. A
        node that the pod is nominated for is the only one if it can.
        """
        rooms, checks = self._eligible(pod), self._checks(pod)
        for first in rooms if nominated else ():
            if first.name == nominated and not self._reasons_beside_nominated(pod, checks, first):
                return [first], {}
        enough = nodes_to_find(len(rooms))
        found: list[NodeRoom] = []
        failures: dict[str, tuple[str, ...]] = {}
        start = self._start % len(rooms) if rooms else 0
        for looked, room in enumerate((*rooms[start:], *rooms[:start]), 1):
            if reasons := self._reasons_beside_nominated(pod, checks, room):
                failures[room.name] = reasons
            else:
                found.append(room)
            if len(found) >= enough:
                self._start = start + looked
                break
        return found, failures

    def _eligible(self, pod: Candidate) -> Sequence[NodeRoom]:
        """Return the nodes to search: those named by every alternative, else all."""
        names = named_nodes(pod.needs.node_affinity)
        if names is None:
            return self.picture.rooms()
        return [room for name in sorted(names) if (room := self.picture.room(name)) is not None]

    def _choose(self, nodes: Iterable[str], *waiting: str) -> str:
        """Choose among equal nodes for a pod or a reservation, by its namespace and name."""
        names = sorted(nodes)
        if self._tie_break is None:
            return names[0]
        return dice_for(self._tie_break, "node", *waiting).choice(names)

    def _bind(self, pod: Obj, node: str, place: Place | None = None) -> None:
        namespace, name = key_of(pod)
        bind(self._store, namespace, name, node, {} if place is None else place.annotations)
        note = f"Successfully assigned {namespace}/{name} to {node}"
        self._recorder.normal(pod, "Scheduled", "Binding", note)

    def _ask_for_volumes(self, claims: Iterable[Obj], node: str) -> None:
        def selected(current: Obj) -> Obj:
            meta = current["metadata"]
            annotations = {**(meta.get("annotations") or {}), SELECTED_NODE: node}
            return {**current, "metadata": {**meta, "annotations": annotations}}

        for claim in claims:
            self._store.modify("persistentvolumeclaims", *key_of(claim), selected)

    def _summary(self, failures: Mapping[str, Sequence[str]]) -> str:
        """Count the reasons against nodes; those not looked at do not match by their name."""
        total = len(self.picture.rooms())
        if not total:
            return "no nodes available to schedule pods"
        counts = Counter(reason for reasons in failures.values() for reason in reasons)
        if unnamed := total - len(failures):
            counts[NOT_MATCHED] += unnamed
        reasons = sorted(f"{number} {reason}" for reason, number in counts.items())
        return f"0/{total} nodes are available: {', '.join(reasons)}."

    def _refuse_again(self, pod: Obj, now: float) -> bool:
        """Refuse a pod as before where nothing differs since; say whether that is so."""
        refusal = self._refusals.get(key_of(pod))
        if refusal is None or (refusal.uid, refusal.changes) != (
            pod["metadata"]["uid"],
            self._changes,
        ):
            return False
        self._backlog.put_off(key_of(pod), now, heeds_neighbours=_heeds_neighbours(pod))
        self._recorder.warning(pod, "FailedScheduling", "Scheduling", refusal.why)
        return True

    def _refuse(self, pod: Obj, why: str, now: float, nominated: str = "") -> None:
        """Write why a pod waits, and for which node; it is tried again after a change."""
        self._backlog.put_off(key_of(pod), now, heeds_neighbours=_heeds_neighbours(pod))
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastProbeTime": None,
            "observedGeneration": pod["metadata"].get("generation"),
        }
        current = self._store.get("pods", *key_of(pod)) or pod
        status = without_nomination(current.get("status", {}))
        conditions = with_condition(status.get("conditions", []), condition, rfc3339(now))
        node = {"nominatedNodeName": nominated} if nominated else {}
        status = {**status, **node, "conditions": conditions}
        self._store.replace_status("pods", *key_of(pod), status)
        self._recorder.warning(pod, "FailedScheduling", "Scheduling", why)


def named_nodes(affinity: NodeAffinity | None) -> frozenset[str] | None:
    """Return the only nodes that required affinity can mean, or None when any may do."""
    if affinity is None or affinity.required is None:
        return None
    named: set[str] = set()
    for term in affinity.required.node_selector_terms:
        names = [set(part.values) for part in term.match_fields if part.operator == "In"]
        if not names:
            return None
        named |= set.intersection(*names)
    return frozenset(named)


def _is_pending(pod: Obj) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and spec.get("schedulerName", NAME) in (NAME, KOORDINATOR_SCHEDULER)
        and not spec.get("schedulingGates")
        and not is_terminal(pod)
        and not is_terminating(pod)
    )


def _heeds_neighbours(pod: Obj) -> bool:
    affinity = pod["spec"].get("affinity") or {}
    return (
        "podAffinity" in affinity
        or "podAntiAffinity" in affinity
        or bool(pod["spec"].get("topologySpreadConstraints"))
    )


def _frees_room(event: Event) -> bool:
    """Say whether a pod left its node."""
    before = event.previous
    if before is None or not node_of(before) or is_terminal(before):
        return False
    return event.type == "DELETED" or is_terminal(event.object)


def _changes_neighbours(event: Event) -> bool:
    """Say whether affinity and spread may see a node's pods with other eyes."""
    pod, before = event.object, event.previous
    if not node_of(pod) or event.type == "DELETED":
        return False
    return (
        before is None
        or not node_of(before)
        or is_terminating(pod) != is_terminating(before)
        or labels_of(pod) != labels_of(before)
    )


def _may_change_verdicts(event: Event) -> bool:
    """Say whether an event may alter on which nodes a waiting pod fits, or makes room."""
    if event.resource == "nodes":
        return event.type == "DELETED" or _changes_node(event)
    if event.resource != "pods":
        return True
    pod, before = event.object, event.previous
    if node_of(pod) or nominated_node(pod):
        return True
    if before is None:
        return False
    return (
        bool(nominated_node(before))
        or pod["spec"] != before["spec"]
        or labels_of(pod) != labels_of(before)
    )


def _changes_node(event: Event) -> bool:
    """Say whether more than a node's heartbeat differs."""
    node, before = event.object, event.previous
    if before is None:
        return True
    return (
        labels_of(node) != labels_of(before)
        or node.get("spec") != before.get("spec")
        or node.get("status", {}).get("allocatable") != before.get("status", {}).get("allocatable")
    )
