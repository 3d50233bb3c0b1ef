"""Clears away pods whose node will never finish them, and the oldest of too many that ended."""

from typing import Final

from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.controllers.controller import Reconciler, write_conditions
from reactive_desched.sim.controllers.node_pressure import EVICTED
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import Key, is_terminal, is_terminating, key_of, node_of
from reactive_desched.sim.store import DeleteOptions, Event, Store

__all__ = ["PodGarbage"]

_QUARANTINE_S: Final = 40.0
_ROUND_S: Final = 20.0
_ENDED: Final = ("ended", "")
"""Among the nodes that it looks at: all pods that ended."""
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class PodGarbage(Reconciler):
    """Looks at a node 40 s after it vanished, and at once when it is put out of service.

    Of pods that ended, `most_ended` are left; it counts them every 20 s. Bounded by the pods.
    """

    watches = frozenset({"nodes", "pods"})

    def __init__(self, store: Store, index: PodIndex, most_ended: int) -> None:
        super().__init__(store)
        self._index = index
        self._most_ended = most_ended
        self._ended: set[Key] = set()

    def observe(self, event: Event) -> None:
        """Note nodes that vanish or are given up, and pods bound to such a node."""
        now = self.store.clock.now()
        if event.resource == "nodes":
            if event.type == "DELETED":
                self.soon(("", name_of(event.object)), now + _QUARANTINE_S)
            elif _is_given_up(event.object):
                self.soon(("", name_of(event.object)))
            return
        self._count(event)
        node = node_of(event.object)
        if not node or event.type == "DELETED":
            return
        home = self.store.get("nodes", "", node)
        if home is None:
            self.soon(("", node), now + _QUARANTINE_S)
        elif is_terminating(event.object) and _is_given_up(home):
            self.soon(("", node))

    def reconcile(self, key: Key, now: float) -> None:
        """Remove the pods of a node that is gone, or the terminating ones of a lost node."""
        del now
        if key == _ENDED:
            self._clear_ended()
            return
        node = self.store.get("nodes", *key)
        if node is not None and not _is_given_up(node):
            return
        for pod in self._index.on_node(key[1]):
            if node is None or is_terminating(pod):
                self._remove(pod)

    def _count(self, event: Event) -> None:
        """Note a pod that ended; look at them all at the next round where there are too many."""
        key = key_of(event.object)
        if event.type == "DELETED" or not is_terminal(event.object):
            self._ended.discard(key)
        elif key not in self._ended:
            self._ended.add(key)
            if len(self._ended) > self._most_ended:
                self.soon(_ENDED, self.store.clock.now() // _ROUND_S * _ROUND_S + _ROUND_S)

    def _clear_ended(self) -> None:
        """Delete those that were evicted, and then the oldest, until no more are left than may."""
        ended = [pod for key in self._ended if (pod := self.store.get("pods", *key)) is not None]
        ended.sort(key=_order)
        for pod in ended[: max(0, len(ended) - self._most_ended)]:
            self._delete(pod)

    def _remove(self, pod: Obj) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        if not is_terminal(pod):
            write_conditions(self.store, "pods", pod, condition, phase="Failed")
        self._delete(pod)

    def _delete(self, pod: Obj) -> None:
        if self.store.get("pods", *key_of(pod)) is not None:
            options = DeleteOptions(grace_period_seconds=0, uid=pod["metadata"]["uid"])
            self.store.delete("pods", *key_of(pod), options)


def _order(pod: Obj) -> tuple[bool, str, str]:
    meta = pod["metadata"]
    return pod["status"].get("reason") != EVICTED, meta["creationTimestamp"], meta["name"]


def _is_given_up(node: Obj) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    marked = any(taint.get("key") == _OUT_OF_SERVICE for taint in taints)
    return marked and condition_status(node, "Ready") != "True"
