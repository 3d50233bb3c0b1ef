"""Keeps as many active pods as a ReplicaSet or ReplicationController asks for."""

from typing import Final

from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import find_condition, with_condition
from reactive_desched.sim.controllers.adoption import claim, selecting
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.controllers.pod_control import FAILED_CREATE, RETRY_S, PodControl
from reactive_desched.sim.controllers.victims import first_to_go
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, labels_of, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_of,
    is_active,
    is_available,
    is_ready,
    is_terminal,
    is_terminating,
    key_of,
    ready_since,
)
from reactive_desched.sim.store import Event, Store

__all__ = ["REPLICA_FAILURE", "ReplicaSets"]

_BURST: Final = 500

REPLICA_FAILURE: Final = "ReplicaFailure"
"""The condition of a set whose pod was refused, as for a quota."""


class ReplicaSets(Reconciler):
    """Replaces a pod as soon as its deletion begins; adopts what it selects."""

    def __init__(
        self, store: Store, index: PodIndex, pods: PodControl, resource: str = "replicasets"
    ) -> None:
        super().__init__(store)
        self.watches = frozenset({resource, "pods"})
        self._resource = resource
        self._kind = "ReplicaSet" if resource == "replicasets" else "ReplicationController"
        self._counts_terminating = resource == "replicasets"
        self._index = index
        self._pods = pods

    def observe(self, event: Event) -> None:
        """Look again at the set that changed, or whose pod did."""
        if event.resource == self._resource:
            self.soon(key_of(event.object))
            return
        owner = controller_of(event.object)
        if owner is not None and owner["kind"] == self._kind:
            self.soon((namespace_of(event.object), owner["name"]))
        for key in selecting(self.store, self._resource, event):
            self.soon(key)

    def reconcile(self, key: Key, now: float) -> None:
        """Create what is missing, delete what is too much, and report."""
        found = self.store.get(self._resource, *key)
        if found is None:
            return
        candidates = filter(is_active, self._index.claimable_by(found))
        active = claim(self.store, "pods", found, candidates)
        refusal = ""
        if not is_terminating(found):
            refusal = self._level(found, active, now)
            active = self._active(found)
        self._report(found, active, refusal, now)

    def _active(self, owner: Obj) -> list[Obj]:
        return [pod for pod in self._index.owned_by(owner["metadata"]["uid"]) if is_active(pod)]

    def _terminating(self, owner: Obj) -> int:
        pods = self._index.owned_by(owner["metadata"]["uid"])
        return sum(is_terminating(pod) and not is_terminal(pod) for pod in pods)

    def _level(self, owner: Obj, active: list[Obj], now: float) -> str:
        """Create what is missing and delete what is too much; return why a pod was refused."""
        wanted = int(owner["spec"].get("replicas", 1))
        for _ in range(min(wanted - len(active), _BURST)):
            if refusal := self._pods.create(owner):
                self.soon(key_of(owner), now + RETRY_S)
                return refusal
        too_many = min(len(active) - wanted, _BURST)
        if too_many > 0:
            for pod in first_to_go(active, self._related(owner), too_many, now):
                self._pods.delete_for(owner, pod, draws_uid=False)
        if abs(wanted - len(active)) > _BURST:
            self.soon(key_of(owner))
        return ""

    def _related(self, owner: Obj) -> list[Obj]:
        """Return the active pods of all sets of the owner's controller, its own among them."""
        above = controller_of(owner)
        if above is None:
            return self._active(owner)
        namespace = namespace_of(owner)
        sets = [
            each
            for each in self.store.list(self._resource)
            if namespace_of(each) == namespace and _has_controller(each, above)
        ]
        return [pod for each in sets for pod in self._active(each)]

    def _report(self, owner: Obj, active: list[Obj], refusal: str, now: float) -> None:
        min_ready_s = int(owner["spec"].get("minReadySeconds") or 0)
        ready = [pod for pod in active if is_ready(pod)]
        available = [pod for pod in ready if is_available(pod, min_ready_s, now)]
        if len(available) < len(ready):
            waiting = (ready_since(pod) + min_ready_s for pod in ready if pod not in available)
            self.soon(key_of(owner), min(waiting))
        wished = labels_of(owner["spec"].get("template") or {}).items()
        labelled = sum(1 for pod in active if wished <= labels_of(pod).items())
        status = {
            "replicas": len(active),
            "fullyLabeledReplicas": labelled or None,
            "readyReplicas": len(ready) or None,
            "availableReplicas": len(available) or None,
            "terminatingReplicas": self._terminating(owner) if self._counts_terminating else None,
            "observedGeneration": owner["metadata"].get("generation"),
            "conditions": _conditions(owner, refusal, now) or None,
        }
        write_status(self.store, self._resource, owner, status)


def _conditions(owner: Obj, refusal: str, now: float) -> list[Obj]:
    """Return that a pod was refused, as it was first said; others' conditions stay."""
    known = owner.get("status", {}).get("conditions") or []
    if not refusal:
        return [each for each in known if each["type"] != REPLICA_FAILURE]
    if find_condition(owner, REPLICA_FAILURE) is not None:
        return list(known)
    failure = {
        "type": REPLICA_FAILURE,
        "status": "True",
        "reason": FAILED_CREATE,
        "message": refusal,
    }
    return with_condition(known, failure, rfc3339(now))


def _has_controller(obj: Obj, above: Obj) -> bool:
    found = controller_of(obj)
    return found is not None and found["uid"] == above["uid"]
