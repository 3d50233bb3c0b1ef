"""Deletes pods from nodes whose NoExecute taints they cannot stand, or not for long."""

from collections.abc import Iterable
from typing import Final

import msgspec

from reactive_desched.model.taints import NO_EXECUTE, Taint, Toleration
from reactive_desched.sim.controllers.controller import Reconciler, write_conditions
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import Key, is_terminal, is_terminating, key_of, node_of
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.store import Event, Store

__all__ = ["TaintEviction", "patience"]

_MARK: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


def patience(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> float | None:
    """Return how long a pod may stay: 0 for not at all, None for ever."""
    listed, shortest = tuple(tolerations), None
    for taint in taints:
        used = next((toleration for toleration in listed if toleration.tolerates(taint)), None)
        if used is None:
            return 0
        if used.toleration_seconds is not None:
            wait = max(0, used.toleration_seconds)
            shortest = wait if shortest is None else min(shortest, wait)
    return shortest


class TaintEviction(Reconciler):
    """Keeps one deadline per pod; the first one set holds until the taints are gone."""

    watches = frozenset({"nodes", "pods"})

    def __init__(self, store: Store, index: PodIndex) -> None:
        super().__init__(store)
        self._index = index
        self._recorder = Recorder(store, "taint-eviction-controller")
        self._deadlines: dict[str, float] = {}
        """When a pod (by uid) has to go; only pods that wait are here."""

    def observe(self, event: Event) -> None:
        """Look at the pods of a node whose taints changed, and at pods that moved or relented."""
        if event.resource == "nodes":
            if _no_execute(event.object) != _no_execute(event.previous):
                for pod in self._index.on_node(name_of(event.object)):
                    self.soon(key_of(pod))
            return
        pod, before = event.object, event.previous
        if event.type == "DELETED":
            self._deadlines.pop(pod["metadata"]["uid"], None)
        elif before is None or pod["spec"] is not before["spec"]:
            node = self.store.get("nodes", "", node_of(pod)) if node_of(pod) else None
            if _no_execute(node):
                self.soon(key_of(pod))

    def reconcile(self, key: Key, now: float) -> None:
        """Delete the pod if its time is up, else come back when it is."""
        pod = self.store.get("pods", *key)
        if pod is None or is_terminating(pod) or is_terminal(pod):
            return
        uid = pod["metadata"]["uid"]
        node = self.store.get("nodes", "", node_of(pod)) if node_of(pod) else None
        taints = msgspec.convert(_no_execute(node), list[Taint])
        raw = pod["spec"].get("tolerations") or ()
        wait = patience((msgspec.convert(toleration, Toleration) for toleration in raw), taints)
        if wait is None or not taints:
            if self._deadlines.pop(uid, None) is not None:
                note = f"Cancelling deletion of Pod {key[0]}/{key[1]}"
                self._recorder.normal(pod, "TaintManagerEviction", "Cancelling", note)
            return
        deadline = now if not wait else self._deadlines.setdefault(uid, now + wait)
        if now < deadline:
            self.soon(key, deadline)
        else:
            self._evict(pod)

    def _evict(self, pod: Obj) -> None:
        key = key_of(pod)
        self._deadlines.pop(pod["metadata"]["uid"], None)
        note = f"Marking for deletion Pod {key[0]}/{key[1]}"
        self._recorder.normal(pod, "TaintManagerEviction", "Deleting", note)
        write_conditions(self.store, "pods", pod, _MARK)
        self.store.delete("pods", *key)


def _no_execute(node: Obj | None) -> list[Obj]:
    taints = (node or {}).get("spec", {}).get("taints") or ()
    return [taint for taint in taints if taint.get("effect") == NO_EXECUTE]
