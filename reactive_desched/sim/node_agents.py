"""Reports each live node's use as a NodeMetric, as koordinator's agent (koordlet) does."""

from typing import Final

from reactive_desched.sim.clock import parse_time, rfc3339
from reactive_desched.sim.controllers.controller import Reconciler
from reactive_desched.sim.node_switch import is_down
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import Key
from reactive_desched.sim.store import Event, Store
from reactive_desched.sim.usage import SimulatedUsage

__all__ = ["NodeAgents"]

_EVERY_S: Final = 60
_AVERAGED_S: Final = 300
_FIRST_AFTER_S: Final = 1.0


class NodeAgents(Reconciler):
    """One NodeMetric per node, every minute; nodes that are switched off fall silent.

    The first comes a second after the node, when its pods are there; at once for an older node.
    """

    watches = frozenset({"nodes"})

    def __init__(self, store: Store, usage: SimulatedUsage) -> None:
        super().__init__(store)
        self._usage = usage

    def observe(self, event: Event) -> None:
        """Begin with a node as soon as it exists or is back."""
        node, before = event.object, event.previous
        if event.type == "ADDED":
            began = parse_time(node["metadata"]["creationTimestamp"])
        elif before is not None and is_down(before):
            began = self.store.clock.now()
        else:
            return
        self.soon(("", name_of(node)), began + _FIRST_AFTER_S)

    def reconcile(self, key: Key, now: float) -> None:
        """Report one node, and come back in a minute."""
        node, (_, name) = self.store.get("nodes", *key), key
        if node is None or is_down(node):
            return
        self.soon(key, now + _EVERY_S)
        status = self._status(name, now)
        if self.store.get("nodemetrics", "", name) is None:
            self.store.create("nodemetrics", _node_metric(node))

        def reported(current: Obj) -> Obj:
            return {**current, "status": status}

        self.store.modify("nodemetrics", "", name, reported, subresource="status")

    def _status(self, name: str, now: float) -> Obj:
        return {
            "updateTime": rfc3339(now),
            "nodeMetric": {
                "nodeUsage": {"resources": dict(self._usage.node(name) or {})},
                "systemUsage": {"resources": dict(self._usage.system())},
            },
            "podsMetric": [
                {"namespace": namespace, "name": pod, "podUsage": {"resources": dict(used)}}
                for namespace, pod, used in self._usage.pods_on(name)
            ],
        }


def _node_metric(node: Obj) -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name_of(node)}
    owner["uid"] = node["metadata"]["uid"]
    policy = {"reportIntervalSeconds": _EVERY_S, "aggregateDurationSeconds": _AVERAGED_S}
    return {
        "metadata": {"name": name_of(node), "ownerReferences": [owner]},
        "spec": {"metricCollectPolicy": policy},
    }
