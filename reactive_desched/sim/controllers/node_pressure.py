"""Ends pods where a node runs short of memory or of disk, as the kubelet's eviction manager.

It looks every ten seconds at the nodes with a pod whose use is set by annotation, or with
thresholds of their own: of the others no node runs short. Its order of pods is the kubelet's;
garbage collection of images, inodes and process ids are not simulated.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.errors import QuantityError
from reactive_desched.model.resources import MEMORY, parse_amount
from reactive_desched.model.taints import NO_SCHEDULE, Taint, Toleration
from reactive_desched.sim import pod_status
from reactive_desched.sim.amounts import REQUESTS, listed, write_amount
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.controllers.controller import Reconciler, write_conditions
from reactive_desched.sim.eviction_thresholds import (
    Threshold,
    has_thresholds,
    most_grace_s,
    thresholds_of,
)
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.node_switch import is_down
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pod_defaults import qos_class
from reactive_desched.sim.pods import Key, is_critical, is_terminal, key_of, node_of, priority_of
from reactive_desched.sim.profiles import PREFIX, Pace, profile_of
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.store import Event, Store
from reactive_desched.sim.usage import EPHEMERAL_STORAGE, system_use, used_by_containers

__all__ = ["EVICTED", "TRANSITION_S", "NodePressure", "end_by_kubelet", "why_not_admitted"]

EVICTED: Final = "Evicted"
TRANSITION_S: Final = 300.0
"""For so long a condition stays after the last shortage (`evictionPressureTransitionPeriod`)."""

_EVERY_S: Final = 10.0
_AT_ONCE_S: Final = 1.0
_KILLED: Final = 137
_MEMORY_PRESSURE: Final = "MemoryPressure"
_MEMORY_TAINT: Final = Taint("node.kubernetes.io/memory-pressure", NO_SCHEDULE)


class _Signal(Struct, frozen=True):
    """A resource that may run short: its condition, and what has to be left of it."""

    resource: str
    condition: str
    short: str
    """The reason, and the message behind "kubelet has ", of the condition while it is True."""
    short_message: str
    enough: str
    enough_message: str


_SIGNALS: Final = (
    _Signal(
        resource=MEMORY,
        condition=_MEMORY_PRESSURE,
        short="KubeletHasInsufficientMemory",
        short_message="insufficient memory available",
        enough="KubeletHasSufficientMemory",
        enough_message="sufficient memory available",
    ),
    _Signal(
        resource=EPHEMERAL_STORAGE,
        condition="DiskPressure",
        short="KubeletHasDiskPressure",
        short_message="disk pressure",
        enough="KubeletHasNoDiskPressure",
        enough_message="no disk pressure",
    ),
)
"""In the order in which the kubelet reclaims: memory first."""

_CONDITIONS: Final = (*(signal.condition for signal in _SIGNALS), "PIDPressure")


class _Shortage(Struct, frozen=True):
    """A signal whose threshold is met on a node: what has to be left, and what is."""

    signal: _Signal
    set: Threshold
    threshold: int
    available: int


class _Ending(Struct, frozen=True):
    """A pod that shuts down, because a soft threshold was met for so long as it may be."""

    pod: Key
    uid: str
    message: str
    at: float


class NodePressure(Reconciler):
    """Bounded by the nodes that run short: one moment for each threshold, and a pod that ends."""

    watches = frozenset({"nodes", "pods"})

    def __init__(self, store: Store, index: PodIndex) -> None:
        super().__init__(store)
        self._index = index
        self._recorder = Recorder(store, "kubelet")
        self._short_at: dict[str, dict[str, float]] = {}
        """When a node was last short, by its name and the condition."""
        self._met_since: dict[str, dict[Threshold, float]] = {}
        self._ending: dict[str, _Ending] = {}

    def observe(self, event: Event) -> None:
        """Look at the node of a pod whose use is set by annotation; forget a node that is gone."""
        if event.resource == "nodes":
            name = name_of(event.object)
            if event.type == "DELETED":
                for kept in (self._short_at, self._met_since, self._ending):
                    kept.pop(name, None)
            elif has_thresholds(event.object):
                self._at_the_next_look(name, self.store.clock.now())
            return
        node = node_of(event.object)
        if node and (node in self._short_at or _is_set_by_hand(event.object)):
            self._at_the_next_look(node, self.store.clock.now())

    def reconcile(self, key: Key, now: float) -> None:
        """Report the conditions of a node, and end one pod of it while a resource is short."""
        node = self.store.get("nodes", *key)
        if node is None or is_down(node):
            return
        name = key[1]
        shortages = list(self._shortages(node))
        before = self._met_since.pop(name, {})
        since = {each.set: before.get(each.set, now) for each in shortages}
        if since:
            self._met_since[name] = since
        self._report_all(node, shortages, now)
        ripe = [each for each in shortages if since[each.set] + (each.set.grace_s or 0) <= now]
        self._end_or_reclaim(node, ripe, now)
        if name in self._short_at or has_thresholds(node):
            self._at_the_next_look(name, now)

    def _report_all(self, node: Obj, shortages: Iterable[_Shortage], now: float) -> None:
        short_at = self._short_at.pop(name_of(node), {})
        short_at.update({each.signal.condition: now for each in shortages})
        for signal in _SIGNALS:
            since = short_at.get(signal.condition)
            if since is not None:
                is_short = now < since + TRANSITION_S
                self._report(node, signal, is_short=is_short, now=now)
                if not is_short:
                    del short_at[signal.condition]
        if short_at:
            self._short_at[name_of(node)] = short_at

    def _end_or_reclaim(self, node: Obj, ripe: Sequence[_Shortage], now: float) -> None:
        """End the pod that shuts down once it has, and no other until then."""
        name = name_of(node)
        ending = self._ending.get(name)
        if ending is None:
            if ripe:
                self._reclaim(node, ripe[0], now)
        elif now >= ending.at:
            del self._ending[name]
            pod = self.store.get("pods", *ending.pod)
            if pod is not None and pod["metadata"]["uid"] == ending.uid and not is_terminal(pod):
                end_by_kubelet(self.store, pod, EVICTED, ending.message, now)

    def _at_the_next_look(self, node: str, now: float) -> None:
        self.soon(("", node), (now // _EVERY_S + 1) * _EVERY_S)

    def _shortages(self, node: Obj) -> Iterator[_Shortage]:
        listed = node.get("status", {}).get("capacity") or {}
        for signal in _SIGNALS:
            capacity = parse_amount(signal.resource, str(listed.get(signal.resource, "0")))
            used = system_use(signal.resource) + sum(
                _used(pod, signal.resource) for pod in self._index.on_node(name_of(node))
            )
            available = max(0, capacity - used)
            for each in thresholds_of(node):
                least = each.least(capacity)
                if each.resource == signal.resource and capacity and available < least:
                    yield _Shortage(signal, each, least, available)

    def _report(self, node: Obj, signal: _Signal, *, is_short: bool, now: float) -> None:
        condition = {
            "type": signal.condition,
            "status": "True" if is_short else "False",
            "reason": signal.short if is_short else signal.enough,
            "message": f"kubelet has {signal.short_message if is_short else signal.enough_message}",
            "lastHeartbeatTime": rfc3339(now),
        }
        if condition_status(node, signal.condition) == condition["status"]:
            return
        write_conditions(self.store, "nodes", node, condition)
        # In Events the kubelet calls it by another name than in the condition.
        reason = str(condition["reason"]).replace("Kubelet", "Node", 1)
        note = f"Node {name_of(node)} status is now: {reason}"
        self._recorder.normal(node, reason, "NodeCondition", note)

    def _reclaim(self, node: Obj, shortage: _Shortage, now: float) -> None:
        """End the first pod in the kubelet's order: at most one at each look."""
        resource = shortage.signal.resource
        note = f"Attempting to reclaim {resource}"
        self._recorder.warning(node, "EvictionThresholdMet", "Reclaiming", note)
        running = [
            pod
            for pod in self._index.on_node(name_of(node))
            if not is_terminal(pod) and not is_critical(pod)
        ]
        if running:
            pod = min(running, key=lambda pod: _rank(pod, resource))
            message = _message(pod, shortage)
            self._recorder.warning(pod, EVICTED, "Evicting", message)
            self._evict(node, pod, message, now, softly=shortage.set.grace_s is not None)

    def _evict(self, node: Obj, pod: Obj, message: str, now: float, *, softly: bool) -> None:
        """End a pod, softly once it has shut down within its grace and that of the kubelet."""
        asked = float(pod["spec"].get("terminationGracePeriodSeconds", 0))
        takes = min(most_grace_s(node), asked, profile_of(pod, Pace()).shutdown_s)
        if not softly or takes <= _AT_ONCE_S:
            end_by_kubelet(self.store, pod, EVICTED, message, now)
            return
        uid, name = pod["metadata"]["uid"], name_of(node)
        self._ending[name] = _Ending(key_of(pod), uid, message, now + takes)
        self.soon(("", name), now + takes)


def end_by_kubelet(store: Store, pod: Obj, reason: str, message: str, now: float) -> None:
    """Stop a pod for the sake of its node; it stays as Failed, and says why."""
    mark = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": message,
    }
    ended = pod_status.ended(pod, now, _KILLED, reason, message)
    write_conditions(store, "pods", pod, mark, **ended)


def why_not_admitted(pod: Obj, node: Obj) -> str:
    """Return why a kubelet under pressure refuses a pod; empty when it takes it.

    Under memory pressure alone it refuses pods of the class BestEffort that do not tolerate it,
    under any other pressure all but critical ones.
    """
    pressures = [each for each in _CONDITIONS if condition_status(node, each) == "True"]
    if not pressures or is_critical(pod):
        return ""
    if pressures == [_MEMORY_PRESSURE]:
        tolerations = pod["spec"].get("tolerations") or ()
        is_tolerated = any(
            msgspec.convert(each, Toleration).tolerates(_MEMORY_TAINT) for each in tolerations
        )
        if is_tolerated or qos_class(pod["spec"]) != "BestEffort":
            return ""
    return f"The node had condition: [{' '.join(pressures)}]. "


def _is_set_by_hand(pod: Obj) -> bool:
    notes = pod["metadata"].get("annotations") or {}
    return any(f"{PREFIX}usage-{signal.resource}" in notes for signal in _SIGNALS)


def _used(pod: Obj, resource: str) -> int:
    return sum(used_by_containers(pod, resource).values())


def _rank(pod: Obj, resource: str) -> tuple[bool, int, int]:
    """Order pods: first those above their requests, of these the lowest priority, the largest."""
    above = _used(pod, resource) - sum(_requested(pod, resource).values())
    return (above <= 0, priority_of(pod), -above)


def _requested(pod: Obj, resource: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for container in pod["spec"].get("containers") or ():
        try:
            found[container["name"]] = parse_amount(
                resource, listed(container, REQUESTS).get(resource, "0")
            )
        except QuantityError:
            found[container["name"]] = 0
    return found


def _message(pod: Obj, shortage: _Shortage) -> str:
    """Say what is short, and which containers use more of it than they request."""
    resource = shortage.signal.resource
    requested = _requested(pod, resource)
    threshold = write_amount(resource, shortage.threshold)
    available = write_amount(resource, shortage.available)
    said = f"The node was low on resource: {resource}. "
    said += f"Threshold quantity: {threshold}, available: {available}. "
    for name, used in used_by_containers(pod, resource).items():
        if used > requested[name]:
            asked = write_amount(resource, requested[name])
            said += f"Container {name} was using {write_amount(resource, used)}, request is {asked}"
            said += f", has larger consumption of {resource}. "
    return said
