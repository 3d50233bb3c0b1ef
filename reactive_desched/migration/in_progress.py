"""The jobs in progress, counted by what the limits go by: cluster, node, namespace, workload."""

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

from reactive_desched.model.migration_jobs import JobOfPod
from reactive_desched.model.objects import Pod, controller_of

PodName = tuple[str, str]
CountedT = TypeVar("CountedT", bound=Hashable)
Counts = dict[CountedT, int]


class JobsInProgress:
    """The jobs that were let through and have not ended; every method takes O(1).

    A pod's own jobs, those that name its uid, never count against it.
    """

    def __init__(self) -> None:
        self._total = 0
        self._by_uid: Final[Counts[str]] = {}
        self._in_namespace: Final[Counts[str]] = {}
        self._by_namespace_and_uid: Final[Counts[tuple[str, str]]] = {}
        self._on_node: Final[dict[str, Counts[PodName]]] = {}
        self._of_controller: Final[dict[str, dict[PodName, Counts[str]]]] = {}

    def add(self, each: JobOfPod) -> None:
        """Count a job; one whose pod is gone counts for the cluster and its namespace alone."""
        named, pod = each.job.pod, each.pod
        self._total += 1
        _add(self._by_uid, named.uid)
        _add(self._in_namespace, named.namespace)
        _add(self._by_namespace_and_uid, (named.namespace, named.uid))
        if pod is None:
            return
        name = (pod.namespace, pod.name)
        if pod.node:
            _add(self._on_node.setdefault(pod.node, {}), name)
        if (controller := controller_of(pod.owners)) is not None:
            _add(self._of_controller.setdefault(controller.uid, {}).setdefault(name, {}), named.uid)

    def remove(self, each: JobOfPod) -> None:
        """Stop counting a job that was added."""
        named, pod = each.job.pod, each.pod
        self._total -= 1
        _remove(self._by_uid, named.uid)
        _remove(self._in_namespace, named.namespace)
        _remove(self._by_namespace_and_uid, (named.namespace, named.uid))
        if pod is None:
            return
        name = (pod.namespace, pod.name)
        if pod.node:
            on_node = self._on_node[pod.node]
            _remove(on_node, name)
            if not on_node:
                del self._on_node[pod.node]
        if (controller := controller_of(pod.owners)) is not None:
            pods = self._of_controller[controller.uid]
            _remove(pods[name], named.uid)
            if not pods[name]:
                del pods[name]
            if not pods:
                del self._of_controller[controller.uid]

    def in_cluster(self, pod: Pod) -> int:
        """Count the jobs of other pods."""
        return self._total - self._by_uid.get(pod.uid, 0)

    def in_namespace(self, pod: Pod) -> int:
        """Count the jobs of other pods in the pod's namespace."""
        own = self._by_namespace_and_uid.get((pod.namespace, pod.uid), 0)
        return self._in_namespace.get(pod.namespace, 0) - own

    def on_node(self, pod: Pod) -> int:
        """Count the other pods on the pod's node that have a job."""
        moving = self._on_node.get(pod.node, {})
        return len(moving) - ((pod.namespace, pod.name) in moving)

    def of_workload(self, pod: Pod) -> frozenset[PodName]:
        """Return the pods of the same controller that have a job which is not the pod's own."""
        controller = controller_of(pod.owners)
        moving: Mapping[PodName, Counts[str]] = (
            {} if controller is None else self._of_controller.get(controller.uid, {})
        )
        return frozenset(name for name, uids in moving.items() if uids.keys() != {pod.uid})


class OpenJobs:
    """The jobs that have not ended, and of these the ones whose pod is still to be evicted."""

    def __init__(self) -> None:
        self.every: Final = JobsInProgress()
        self._to_evict: Final = JobsInProgress()
        self._counted: Final[dict[str, tuple[JobOfPod, bool]]] = {}

    def put(self, name: str, each: JobOfPod, *, is_evicted: bool = False) -> None:
        """Count a job as it is now; `is_evicted` says that its eviction counts as one already."""
        self.remove(name)
        self._counted[name] = each, is_evicted
        self.every.add(each)
        if not is_evicted:
            self._to_evict.add(each)

    def remove(self, name: str) -> None:
        """Stop counting a job."""
        if (counted := self._counted.pop(name, None)) is not None:
            each, is_evicted = counted
            self.every.remove(each)
            if not is_evicted:
                self._to_evict.remove(each)

    def evictions_to_come(self, pod: Pod, scope: str) -> int:
        """Count the other pods to be evicted in the pod's "cluster", "namespace" or "node"."""
        jobs = self._to_evict
        counts = {
            "cluster": jobs.in_cluster,
            "namespace": jobs.in_namespace,
            "node": jobs.on_node,
        }
        return counts[scope](pod)


def _add(counts: Counts[CountedT], key: CountedT) -> None:
    counts[key] = counts.get(key, 0) + 1


def _remove(counts: Counts[CountedT], key: CountedT) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
