"""Turns what nodes report, and what they fail to report, into conditions and taints.

A silent node is noticed after the grace period; its NoExecute taint comes at the rate of its zone.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from reactive_desched.model.taints import NO_EXECUTE
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.controllers.controller import BATCH, Reconciler, write_conditions
from reactive_desched.sim.controllers.zone_rates import (
    DEFAULT_RATES,
    EvictionRates,
    ZoneRates,
    zone_of,
)
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.node_switch import is_down
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import Key, is_ready, is_terminal, key_of
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.store import Event, Store

__all__ = ["GRACE_S", "STARTUP_GRACE_S", "NodeLifecycle"]

GRACE_S: Final = 50.0
STARTUP_GRACE_S: Final = 60.0
_PREFIX: Final = "node.kubernetes.io"
_NOT_READY: Final = f"{_PREFIX}/not-ready"
_UNREACHABLE: Final = f"{_PREFIX}/unreachable"
_UNSCHEDULABLE: Final = f"{_PREFIX}/unschedulable"
_PRESSURES: Final = {
    "MemoryPressure": f"{_PREFIX}/memory-pressure",
    "DiskPressure": f"{_PREFIX}/disk-pressure",
    "PIDPressure": f"{_PREFIX}/pid-pressure",
    "NetworkUnavailable": f"{_PREFIX}/network-unavailable",
}
_OWN: Final = frozenset({_NOT_READY, _UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeLifecycle(Reconciler):
    """Bounded by the nodes: one moment of silence each, and one rate for each zone."""

    watches = frozenset({"nodes"})

    def __init__(self, store: Store, index: PodIndex, rates: EvictionRates = DEFAULT_RATES) -> None:
        super().__init__(store)
        self._index = index
        self._zones = ZoneRates(rates)
        self._must_count = False
        self._recorder = Recorder(store, "node-controller")
        self._silent_since: dict[str, float] = {}

    def observe(self, event: Event) -> None:
        """Look at a node that changed, and remember when it fell silent."""
        name = name_of(event.object)
        if event.type == "DELETED" or not is_down(event.object):
            self._silent_since.pop(name, None)
        else:
            self._silent_since.setdefault(name, self.store.clock.now())
        if event.type == "DELETED" or _counts_otherwise(event):
            self._must_count = True
        if event.type != "DELETED":
            self.soon(("", name))

    def step(self, now: float) -> None:
        """Check the reports of up to a hundred nodes before any is tainted, so all are counted."""
        keys = list(self.work_set.take_due(now, BATCH))
        for key in keys:
            self._check_reports(key, now)
        self._count_zones(now)
        for key in keys:
            self.reconcile(key, now)

    def reconcile(self, key: Key, now: float) -> None:
        """Bring pods and taints of one node in line with its conditions."""
        if (node := self.store.get("nodes", *key)) is None:
            return
        self._taint(node, now)
        if condition_status(node, "Ready") in ("False", "Unknown"):
            self._mark_pods(node)

    def _check_reports(self, key: Key, now: float) -> None:
        """Give a node up that has been silent for too long."""
        if (node := self.store.get("nodes", *key)) is None:
            return
        ready = condition_status(node, "Ready")
        since = self._silent_since.get(key[1])
        if since is not None and ready != "Unknown":
            patient_until = since + (STARTUP_GRACE_S if ready is None else GRACE_S)
            if now < patient_until:
                self.soon(key, patient_until)
            else:
                self._give_up_hearing(node)

    def _count_zones(self, now: float) -> None:
        """Look at all nodes again when the rate of a zone has changed."""
        if not self._must_count:
            return
        self._must_count = False
        nodes = self.store.list("nodes")
        if self._zones.count(nodes, now):
            for node in nodes:
                self.soon(key_of(node))

    def _give_up_hearing(self, node: Obj) -> None:
        never = condition_status(node, "Ready") is None
        unknown = {
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
            "message": f"Kubelet {'never posted' if never else 'stopped posting'} node status.",
        }
        silent = [{"type": kind, **unknown} for kind in _REPORTED]
        write_conditions(self.store, "nodes", node, *silent)

    def _mark_pods(self, node: Obj) -> None:
        """Show a lost node's pods as not ready, so that endpoints and budgets see it."""
        condition = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
        unready = [p for p in self._index.on_node(name_of(node)) if is_ready(p)]
        for pod in unready:
            if not is_terminal(pod):
                write_conditions(self.store, "pods", pod, condition)
        if unready:
            note = f"Node {name_of(node)} status is now: NodeNotReady"
            self._recorder.normal(node, "NodeNotReady", "NodeNotReady", note)

    def _taint(self, node: Obj, now: float) -> None:
        present = node.get("spec", {}).get("taints") or []
        wanted = {(taint["key"], taint["effect"]): taint for taint in _wanted(node, now)}
        if not self._may_empty(node, present, now):
            wanted = {mark: t for mark, t in wanted.items() if t["effect"] != NO_EXECUTE}
        kept = [t for t in present if t["key"] not in _OWN or (t["key"], t["effect"]) in wanted]
        there = {(taint["key"], taint["effect"]) for taint in kept}
        taints = [*kept, *(taint for mark, taint in wanted.items() if mark not in there)]
        if taints != present:
            self.store.modify("nodes", "", name_of(node), lambda now_: _with_taints(now_, taints))

    def _may_empty(self, node: Obj, present: Iterable[Obj], now: float) -> bool:
        """Say whether the node may have the taint that evicts; if not yet, come back."""
        if self._zones.all_are_lost:
            return False
        if condition_status(node, "Ready") not in ("False", "Unknown"):
            return False
        if any(t["effect"] == NO_EXECUTE and t["key"] in _OWN for t in present):
            return True
        at = self._zones.take(node, now)
        if now < at < inf:
            self.soon(key_of(node), at)
        return at <= now


def _counts_otherwise(event: Event) -> bool:
    """Say whether a node has become Ready, or is so no longer, or is in another zone."""
    return event.previous is None or _zone_and_ready(event.object) != _zone_and_ready(
        event.previous
    )


def _zone_and_ready(node: Obj) -> tuple[str, bool]:
    return zone_of(node), condition_status(node, "Ready") == "True"


def _with_taints(node: Obj, taints: list[Obj]) -> Obj:
    spec = {key: value for key, value in node.get("spec", {}).items() if key != "taints"}
    return {**node, "spec": {**spec, "taints": taints} if taints else spec}


def _wanted(node: Obj, now: float) -> Iterable[Obj]:
    """Return the taints that a node's conditions and its cordon call for."""
    ready = condition_status(node, "Ready")
    lost = {"False": _NOT_READY, "Unknown": _UNREACHABLE}.get(ready or "False")
    if lost is not None:
        yield {"key": lost, "effect": "NoSchedule"}
        if ready is not None:  # A node that never reported keeps new pods off, no more.
            yield {"key": lost, "effect": NO_EXECUTE, "timeAdded": rfc3339(now)}
    if node.get("spec", {}).get("unschedulable"):
        yield {"key": _UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": rfc3339(now)}
    yield from _pressures(node, _PRESSURES)


def _pressures(node: Obj, keys: Mapping[str, str]) -> Iterable[Obj]:
    for condition, key in keys.items():
        if condition_status(node, condition) == "True":
            yield {"key": key, "effect": "NoSchedule"}
