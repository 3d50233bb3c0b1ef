"""Invents the use of pods and nodes, as a metrics server would have measured it."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reactive_desched.errors import QuantityError
from reactive_desched.model.resources import CPU, MEMORY, parse_amount
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import phase_of
from reactive_desched.sim.profiles import PREFIX
from reactive_desched.sim.store import Store

__all__ = ["EPHEMERAL_STORAGE", "USAGE", "SimulatedUsage", "system_use", "used_by_containers"]

EPHEMERAL_STORAGE: Final = "ephemeral-storage"
USAGE: Final = {f"usage-{resource}": resource for resource in (CPU, MEMORY, EPHEMERAL_STORAGE)}
"""Annotations that set what a pod's containers use, after the prefix, and of what."""

_NODE_CPU_M: Final = 100
_NODE_MEMORY: Final = 512 * 2**20
_UNASKED: Final = {CPU: "20m", MEMORY: "32Mi", EPHEMERAL_STORAGE: "0"}


class SimulatedUsage:
    """Each container uses a steady share of its request, 30 to 90 percent by the pod's uid.

    The annotations `sim.reactive-desched/usage-cpu`, `usage-memory` and `usage-ephemeral-storage`
    set what a pod's containers use each, as quantities.
    """

    def __init__(self, store: Store, index: PodIndex) -> None:
        self._store = store
        self._index = index

    def node(self, name: str) -> Mapping[str, str] | None:
        """Return what a node's system and running pods use together; None for no such node."""
        if self._store.get("nodes", "", name) is None:
            return None
        cpu_m, memory = _NODE_CPU_M, _NODE_MEMORY
        for pod in self._index.on_node(name):
            for _, used_cpu_m, used_memory in _used(pod):
                cpu_m += used_cpu_m
                memory += used_memory
        return _quantities(cpu_m, memory)

    def system(self) -> Mapping[str, str]:
        """Return what a node uses beside its pods."""
        return _quantities(_NODE_CPU_M, _NODE_MEMORY)

    def pods_on(self, node: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
        """Yield namespace and name of each running pod of a node, and what it uses."""
        for pod in self._index.on_node(node):
            if used := _used(pod):
                cpu_m = sum(each[1] for each in used)
                memory = sum(each[2] for each in used)
                meta = pod["metadata"]
                yield meta["namespace"], meta["name"], _quantities(cpu_m, memory)

    def pod(self, namespace: str, name: str) -> Sequence[tuple[str, Mapping[str, str]]] | None:
        """Return what each container of a running pod uses; None when it does not run."""
        pod = self._store.get("pods", namespace, name)
        if pod is None or phase_of(pod) != "Running":
            return None
        return [(container, _quantities(cpu, memory)) for container, cpu, memory in _used(pod)]


def system_use(resource: str) -> int:
    """Return what a node uses of a resource beside its pods."""
    return {CPU: _NODE_CPU_M, MEMORY: _NODE_MEMORY}.get(resource, 0)


def used_by_containers(pod: Obj, resource: str) -> dict[str, int]:
    """Return what each container of a pod uses of a resource; empty when it does not run."""
    if phase_of(pod) != "Running":
        return {}
    notes = pod["metadata"].get("annotations") or {}
    percent = 30 + zlib.crc32(pod["metadata"]["uid"].encode()) % 61
    return {
        container["name"]: _amount(resource, notes, container, percent)
        for container in pod["spec"].get("containers") or ()
    }


def _used(pod: Obj) -> list[tuple[str, int, int]]:
    """Return name, milli-cores and bytes for each container of a running pod."""
    cpu, memory = used_by_containers(pod, CPU), used_by_containers(pod, MEMORY)
    return [(name, cpu[name], memory[name]) for name in cpu]


def _amount(resource: str, notes: Mapping[str, str], container: Obj, percent: int) -> int:
    if (set_by_hand := notes.get(f"{PREFIX}usage-{resource}")) is not None:
        try:
            return parse_amount(resource, set_by_hand)
        except QuantityError:
            pass  # A mistyped annotation counts as absent, as everywhere in a profile.
    requests = (container.get("resources") or {}).get("requests") or {}
    return parse_amount(resource, str(requests.get(resource, _UNASKED[resource]))) * percent // 100


def _quantities(cpu_m: int, memory: int) -> dict[str, str]:
    return {CPU: f"{cpu_m}m", MEMORY: f"{memory // 1024}Ki"}
