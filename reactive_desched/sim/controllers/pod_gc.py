"""Clears away pods whose node will never finish them."""

from typing import Final

from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.controllers.controller import Reconciler, write_conditions
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import Key, is_terminal, is_terminating, key_of, node_of
from reactive_desched.sim.store import DeleteOptions, Event, Store

__all__ = ["PodGarbage"]

_QUARANTINE_S: Final = 40.0
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class PodGarbage(Reconciler):
    """Looks at a node 40 s after it vanished, and at once when it is put out of service.

    The limit on ended pods (12,500 in a real cluster) is not simulated.
    """

    watches = frozenset({"nodes", "pods"})

    def __init__(self, store: Store, index: PodIndex) -> None:
        super().__init__(store)
        self._index = index

    def observe(self, event: Event) -> None:
        """Note nodes that vanish or are given up, and pods bound to such a node."""
        now = self.store.clock.now()
        if event.resource == "nodes":
            if event.type == "DELETED":
                self.soon(("", name_of(event.object)), now + _QUARANTINE_S)
            elif _is_given_up(event.object):
                self.soon(("", name_of(event.object)))
            return
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
        node = self.store.get("nodes", *key)
        if node is not None and not _is_given_up(node):
            return
        for pod in self._index.on_node(key[1]):
            if node is None or is_terminating(pod):
                self._remove(pod)

    def _remove(self, pod: Obj) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        if not is_terminal(pod):
            write_conditions(self.store, "pods", pod, condition, phase="Failed")
        if self.store.get("pods", *key_of(pod)) is not None:
            options = DeleteOptions(grace_period_seconds=0, uid=pod["metadata"]["uid"])
            self.store.delete("pods", *key_of(pod), options)


def _is_given_up(node: Obj) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    marked = any(taint.get("key") == _OUT_OF_SERVICE for taint in taints)
    return marked and condition_status(node, "Ready") != "True"
