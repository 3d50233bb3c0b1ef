"""koordinator's Reservations as its scheduler treats them: a place that is kept for later pods.

A Reservation is placed like the pod of its template and takes that room. A pod of one of its owners
is then bound into the place; with `allocateOnce` that uses the Reservation up. Its labels, ports
and volumes count for no other pod.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from reactive_desched.model.labels import parse_label_selector
from reactive_desched.model.resources import CPU, add_resources, parse_resource_list
from reactive_desched.primitives.durations import DurationError, parse_duration
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_condition
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.scheduling.scheduler_cache import SchedulerCache
from reactive_desched.sim.store import Store
from reactive_desched.sim.work_set import WorkSet

__all__ = ["KOORDINATOR_SCHEDULER", "Place", "ReservationBook", "pod_of"]

KOORDINATOR_SCHEDULER: Final = "koord-scheduler"
ORDER_LABEL: Final = "scheduling.koordinator.sh/reservation-order"
ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"
RESERVATIONS: Final = "reservations"
PENDING: Final = ("", "Pending")
AVAILABLE: Final = "Available"


class Place(Struct, frozen=True):
    """Room on a node that a Reservation keeps."""

    reservation: Obj
    node: str

    @property
    def annotations(self) -> dict[str, str]:
        """Return what the pod that takes the place is annotated with."""
        meta = self.reservation["metadata"]
        return {ALLOCATED: json.dumps({"name": meta["name"], "uid": meta["uid"]})}


class ReservationBook:
    """Every Reservation, and the room that those which are Available take in the picture."""

    def __init__(self, store: Store, picture: SchedulerCache) -> None:
        self._store: Final = store
        self._picture: Final = picture
        self._available: Final[dict[str, Obj]] = {}
        self._expiries: Final[WorkSet[str]] = WorkSet()

    def see(self, reservation: Obj, *, gone: bool) -> None:
        """Take note of a Reservation as it is now, or that it no longer exists."""
        name, phase = name_of(reservation), reservation.get("status", {}).get("phase", "")
        is_open = not gone and phase in (*PENDING, AVAILABLE)
        if is_open and (at := _expires_at(reservation)) is not None:
            self._expiries.add(name, at)
        elif not is_open:
            self._expiries.drop(name)
        is_kept = is_open and phase == AVAILABLE
        if is_kept:
            self._available[name] = reservation
        else:
            self._available.pop(name, None)
        self._picture.see_pod(_seat(reservation), gone=not is_kept)

    def places_for(self, pod: Obj) -> Iterator[Place]:
        """Yield the places that are kept for a pod, by koordinator's order label."""
        found = [each for each in self._available.values() if _is_for(each, pod)]
        for each in sorted(found, key=_order):
            yield Place(each, each["status"]["nodeName"])

    def give_up(self, place: Place) -> None:
        """Take a place out of the picture, so that its pod is asked whether it fits there."""
        self._picture.see_pod(_seat(place.reservation), gone=True)

    def keep(self, place: Place) -> None:
        """Put a place back into the picture."""
        self._picture.see_pod(_seat(place.reservation))

    def make_available(self, name: str, node: str, now: float) -> None:
        """Write that a Reservation has a node."""
        at = rfc3339(now)

        def change(current: Obj) -> Obj:
            conditions = [
                {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at}
                for kind, reason in (("Scheduled", "Scheduled"), ("Ready", AVAILABLE))
            ]
            status = {
                "phase": AVAILABLE,
                "nodeName": node,
                "allocatable": _requests(current),
                "conditions": conditions,
            }
            return {**current, "status": {**current.get("status", {}), **status}}

        self._store.modify(RESERVATIONS, "", name, change, subresource="status")

    def refuse(self, name: str, why: str, now: float) -> None:
        """Write why no node can take a Reservation."""
        condition = {
            "type": "Scheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
        }
        self._end(name, "Pending", condition, now)

    def allocate(self, place: Place, pod: Obj, now: float) -> None:
        """Write that a pod took a place; with `allocateOnce` the Reservation has served."""
        meta = pod["metadata"]
        owner = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        name = name_of(place.reservation)

        def change(current: Obj) -> Obj:
            status = {**current["status"], "currentOwners": [owner]}
            status["allocated"] = _requests(current)
            return {**current, "status": status}

        self._store.modify(RESERVATIONS, "", name, change, subresource="status")
        if place.reservation["spec"].get("allocateOnce", True):
            used = {"type": "Ready", "status": "False", "reason": "Succeeded"}
            self._end(name, "Succeeded", used, now)

    def lose_node(self, node: str) -> None:
        """End, as soon as the time comes, the Reservations on a node that is gone."""
        for name, reservation in self._available.items():
            if reservation["status"].get("nodeName") == node:
                self._expiries.add(name)

    def due(self) -> float | None:
        """Return when a Reservation expires, or None."""
        return self._expiries.due()

    def expire(self, now: float) -> None:
        """End the Reservations whose time is over."""
        for name in self._expiries.take_due(now, len(self._expiries)):
            self._end(
                name, "Failed", {"type": "Ready", "status": "False", "reason": "Expired"}, now
            )

    def _end(self, name: str, phase: str, condition: Obj, now: float) -> None:
        def change(current: Obj) -> Obj:
            status = current.get("status", {})
            conditions = with_condition(status.get("conditions") or (), condition, rfc3339(now))
            return {**current, "status": {**status, "phase": phase, "conditions": conditions}}

        self._store.modify(RESERVATIONS, "", name, change, subresource="status")


def pod_of(reservation: Obj) -> Obj:
    """Return the pod of a Reservation's template, without a node."""
    template = reservation["spec"].get("template") or {}
    named = template.get("metadata") or {}
    meta = {
        "name": name_of(reservation),
        "namespace": named.get("namespace", "default"),
        "uid": reservation["metadata"]["uid"],
        "labels": named.get("labels") or {},
    }
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key != "nodeName"}
    return {"metadata": meta, "spec": spec, "status": {}}


def _seat(reservation: Obj) -> Obj:
    """Return a pod that takes a Reservation's room and nothing else."""
    pod = pod_of(reservation)
    node = reservation.get("status", {}).get("nodeName", "")
    containers = [
        {"name": each.get("name", ""), "resources": each.get("resources") or {}}
        for each in pod["spec"].get("containers") or ()
    ]
    spec = {"containers": containers, "nodeName": node}
    return {"metadata": {**pod["metadata"], "labels": {}}, "spec": spec, "status": {}}


def _requests(reservation: Obj) -> dict[str, Any]:
    containers = pod_of(reservation)["spec"].get("containers") or ()
    total: dict[str, int] = {}
    for each in containers:
        written = (each.get("resources") or {}).get("requests") or {}
        texts = {resource: str(amount) for resource, amount in written.items()}
        add_resources(total, parse_resource_list(texts))
    return {
        resource: f"{amount}m" if resource == CPU else str(amount)
        for resource, amount in total.items()
    }


def _order(reservation: Obj) -> tuple[int, str]:
    """Return the place of a Reservation among those for one pod: the smallest number first."""
    text = labels_of(reservation).get(ORDER_LABEL, "")
    number = int(text) if text.isdecimal() else 0
    return number or 1 << 62, name_of(reservation)


def _expires_at(reservation: Obj) -> float | None:
    """Return when a Reservation expires, in seconds since the epoch; `expires` comes before ttl."""
    spec, meta = reservation["spec"], reservation["metadata"]
    if expires := spec.get("expires"):
        return datetime.fromisoformat(expires).timestamp()
    try:
        ttl_s = parse_duration(spec.get("ttl") or "24h")
    except DurationError:
        return None
    made = datetime.fromisoformat(meta["creationTimestamp"]).timestamp()
    return made + ttl_s if ttl_s > 0 else None


def _is_for(reservation: Obj, pod: Obj) -> bool:
    """Say whether a pod is one of the owners of a Reservation."""
    return any(_owns(owner, pod) for owner in reservation["spec"].get("owners") or ())


def _owns(owner: Obj, pod: Obj) -> bool:
    """Say whether a pod matches an owner: every part of it that is given."""
    meta = pod["metadata"]
    if (wanted := owner.get("object")) is not None:
        fields = ("uid", "name", "namespace")
        if any(wanted.get(field) not in (None, "", meta.get(field)) for field in fields):
            return False
    if (controller := owner.get("controller")) is not None:
        uids = {each["uid"] for each in meta.get("ownerReferences") or ()}
        if controller["uid"] not in uids:
            return False
        if controller.get("namespace", namespace_of(pod)) != namespace_of(pod):
            return False
    selector = owner.get("labelSelector")
    if selector is not None and not parse_label_selector(selector).matches(labels_of(pod)):
        return False
    return bool(owner)
