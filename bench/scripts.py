"""The scripts of the load server: which objects change, in which order, and how."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from bench.generate import Cluster
from bench.node_json import host_ip, node_name
from bench.pod_json import FLAP_TAINT, PROBE_TAINT
from bench.resources import Versions
from bench.workloads import Workload, is_dedicated_node

_FIRST_NEW_NUMBER = 1_000_000
"""Ordinals of pods that no list has shown."""
_STEP = 7919
"""Prime, so that successive events touch far-apart objects."""


@dataclass(frozen=True)
class PodRef:
    """A pod: whose it is, and its number in the list."""

    owner: Workload
    ordinal: int
    number: int


@dataclass(frozen=True)
class Scripted:
    """One event to send: `key` names its eviction, `pod` the pod that is to be evicted.

    The object was rendered with `version`.
    """

    path: str
    number: int
    key: str
    obj: bytes
    version: int
    pod: PodRef | None = None
    what: str = "MODIFIED"

    def at(self, version: int) -> bytes:
        """Return the object with a later version: events leave in the order of their versions."""
        return self.obj.replace(b'"%d"' % self.version, b'"%d"' % version, 1)


Script = Callable[[Cluster, Versions, int], Iterator[Scripted]]
"""Yields events from number `skip` on, since no event is sent twice."""


def status(cluster: Cluster, versions: Versions, skip: int) -> Iterator[Scripted]:
    """Pods lose and regain readiness: the commonest change in a cluster."""
    for number, lap in _laps(len(cluster.order), skip):
        owner, ordinal = cluster.order[number]
        version, since = versions.next(), f"2026-01-21T12:{lap % 60:02d}:53Z"
        obj = cluster.changed_pod(owner, ordinal, version, ready=bool(lap % 2), ready_since=since)
        yield Scripted("/api/v1/pods", number, str(number), obj, version)


def toggle_tolerated_taint(cluster: Cluster, versions: Versions, skip: int) -> Iterator[Scripted]:
    """Nodes get and lose a taint that every pod tolerates: pods are judged and stay."""
    for number, lap in _laps(cluster.nodes, skip):
        taints = () if lap % 2 else (FLAP_TAINT,)
        version = versions.next()
        obj = cluster.node(number, version, *taints)
        yield Scripted("/api/v1/nodes", number, node_name(number), obj, version)


def probe(cluster: Cluster, versions: Versions, skip: int) -> Iterator[Scripted]:
    """Nodes get a taint that one pod of each does not tolerate: the canary."""
    canary = next(owner for owner in cluster.owners if owner.is_canary)
    pods_by_node = {
        ordinal: number for number, (owner, ordinal) in enumerate(cluster.order) if owner.is_canary
    }
    for ordinal in range(skip, canary.size):
        number = canary.node_of(ordinal, cluster.nodes)
        version = versions.next()
        obj = cluster.node(number, version, PROBE_TAINT)
        name = cluster.values(canary, ordinal).name
        pod = PodRef(canary, ordinal, pods_by_node[ordinal])
        yield Scripted("/api/v1/nodes", number, name, obj, version, pod)


def bind_new_pods(cluster: Cluster, versions: Versions, skip: int) -> Iterator[Scripted]:
    """New pods are bound to nodes whose taint they do not tolerate: one event, one eviction."""
    owners = [owner for owner in cluster.owners if _is_evictable(owner)]
    nodes = [n for n in range(cluster.nodes) if is_dedicated_node(n, cluster.nodes)]
    for turn in itertools.count(skip):
        owner, ordinal = owners[turn % len(owners)], _FIRST_NEW_NUMBER + turn
        number = nodes[turn % len(nodes)]
        node, ip = node_name(number), host_ip(number)
        version = versions.next()
        obj = cluster.changed_pod(owner, ordinal, version, node=node, host_ip=ip)
        pod = PodRef(owner, ordinal, len(cluster.order) + turn)
        key = cluster.values(owner, ordinal).name
        yield Scripted("/api/v1/pods", pod.number, key, obj, version, pod, "ADDED")


SCRIPTS: dict[str, Script] = {
    "status": status,
    "flap": toggle_tolerated_taint,
    "probe": probe,
    "bound": bind_new_pods,
}


def _is_evictable(owner: Workload) -> bool:
    """Say whether nothing protects these pods: no budget, and no guard of the default evictor."""
    plain = owner.kind == "ReplicaSet" and not owner.is_canary and not owner.is_dedicated
    return plain and not owner.has_local_storage and not owner.has_budget


def _lap(count: int) -> Iterator[int]:
    """Yield every number below `count` once, each far from the one before."""
    step = _STEP if count % _STEP else _STEP + 2
    return (turn * step % count for turn in range(count))


def _laps(count: int, skip: int) -> Iterator[tuple[int, int]]:
    """Yield lap after lap without end, with the lap's number, after `skip` of them."""
    numbered = ((number, lap) for lap in itertools.count() for number in _lap(count))
    return islice(numbered, skip, None)
