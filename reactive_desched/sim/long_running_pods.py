"""Pods that have been running all along, for clusters too big to be started one by one."""

from collections.abc import Iterator
from heapq import heapify, heapreplace

from reactive_desched.model.resources import CPU, MEMORY, parse_resource_list
from reactive_desched.sim import pod_status
from reactive_desched.sim.controllers.deployments import replica_set
from reactive_desched.sim.controllers.stateful_sets import stateful_pod
from reactive_desched.sim.node_status import internal_ip, reported
from reactive_desched.sim.objects import Obj, clone, name_of
from reactive_desched.sim.pods import from_template
from reactive_desched.sim.scheduling.needs import NeedsReader, PodNeeds
from reactive_desched.sim.store import Store

__all__ = ["place_standing"]


def place_standing(store: Store) -> None:
    """Write the pods of every Deployment and StatefulSet as running on some Ready node."""
    now = store.clock.now()
    _report_nodes(store, now)
    seats = _Seats(store)
    needs = NeedsReader()
    for number, pod in enumerate(_pods(store), 1):
        stored = store.create("pods", pod)
        node = seats.take(needs.read(stored))
        bound = clone(stored)
        bound["spec"]["nodeName"] = name_of(node)
        high, low = divmod(number, 250)
        address = f"10.{high // 250 % 250}.{high % 250}.{low + 1}"
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        bound["status"]["conditions"] = [scheduled]
        bound["status"] = pod_status.admitted(bound, internal_ip(node), address, now)
        bound["status"] = pod_status.running(bound, now, ready=True)
        store.update("pods", bound, subresource="binding")


def _report_nodes(store: Store, now: float) -> None:
    for node in store.list("nodes"):
        status = reported(node, now)

        def change(current: Obj, status: Obj = status) -> Obj:
            return {**current, "status": status}

        store.modify("nodes", "", name_of(node), change, subresource="status")


def _pods(store: Store) -> Iterator[Obj]:
    for deployment in store.list("deployments"):
        size = int(deployment["spec"]["replicas"])
        owner = store.create("replicasets", replica_set(deployment, size, revision=1))
        for _ in range(size):
            pod = from_template(owner, "")
            del pod["metadata"]["name"]
            pod["metadata"]["generateName"] = f"{name_of(owner)}-"
            yield pod
    for stateful in store.list("statefulsets"):
        for ordinal in range(int(stateful["spec"]["replicas"])):
            yield stateful_pod(stateful, ordinal)


class _Seats:
    """Hands out the node that is least full; bounded by the nodes."""

    def __init__(self, store: Store) -> None:
        self._nodes = store.list("nodes")
        self._room = [parse_resource_list(node["status"]["allocatable"]) for node in self._nodes]
        self._heap = [(0.0, index) for index in range(len(self._nodes))]
        heapify(self._heap)

    def take(self, needs: PodNeeds) -> Obj:
        """Return the least full node and count the pod's share of it."""
        fullness, index = self._heap[0]
        room = self._room[index]
        share = max(needs.requests.get(name, 0) / room[name] for name in (CPU, MEMORY))
        heapreplace(self._heap, (fullness + share, index))
        return self._nodes[index]
