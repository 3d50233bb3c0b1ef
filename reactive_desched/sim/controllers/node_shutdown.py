"""Shuts a node down gracefully, as the kubelet's shutdown manager: pods end before it stops.

Pods that are not critical end first, critical ones ten seconds later; ten seconds after that the
kubelet is silent. A pod that ended so is Failed with the reason Terminated until it is deleted.
"""

from typing import Final

from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.controllers.controller import Reconciler, write_conditions
from reactive_desched.sim.controllers.node_pressure import end_by_kubelet
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.node_switch import is_shutting_down, switch
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import Key, is_critical, is_terminal
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.store import Event, Store

__all__ = ["SHUTDOWN_REASON", "SHUTDOWN_REFUSAL", "NodeShutdown"]

SHUTDOWN_REASON: Final = "NodeShutdown"
SHUTDOWN_REFUSAL: Final = "Pod was rejected as the node is shutting down."
_GROUP_S: Final = 10.0
_MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
_NOT_READY: Final = {
    "type": "Ready",
    "status": "False",
    "reason": "KubeletNotReady",
    "message": "node is shutting down",
}


class NodeShutdown(Reconciler):
    """Bounded by the nodes that shut down: since when each does."""

    watches = frozenset({"nodes"})

    def __init__(self, store: Store, index: PodIndex) -> None:
        super().__init__(store)
        self._index = index
        self._recorder = Recorder(store, "kubelet")
        self._since: dict[str, float] = {}

    def observe(self, event: Event) -> None:
        """Begin where a node's switch was turned; forget a node that is gone, or goes on."""
        name = name_of(event.object)
        if event.type == "DELETED" or not is_shutting_down(event.object):
            self._since.pop(name, None)
        elif name not in self._since:
            self._since[name] = self.store.clock.now()
            self.soon(("", name))

    def reconcile(self, key: Key, now: float) -> None:
        """End the pods whose turn it is, and stop the kubelet when none is left."""
        node, since = self.store.get("nodes", *key), self._since.get(key[1])
        if node is None or since is None:
            return
        if condition_status(node, "Ready") == "True":
            self._announce(node)
        for pod in self._index.on_node(key[1]):
            if not is_terminal(pod) and (not is_critical(pod) or now >= since + _GROUP_S):
                end_by_kubelet(self.store, pod, "Terminated", _MESSAGE, now)
        if now >= since + 2 * _GROUP_S:
            switch(self.store, key[1], on=False)
        else:
            self.soon(key, since + _GROUP_S if now < since + _GROUP_S else since + 2 * _GROUP_S)

    def _announce(self, node: Obj) -> None:
        write_conditions(self.store, "nodes", node, _NOT_READY)
        note = "Shutdown manager detected shutdown event"
        self._recorder.normal(node, SHUTDOWN_REASON, "Shutdown", note)
