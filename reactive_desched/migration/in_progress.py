"""The jobs in progress, counted by what the limits go by: cluster, node, namespace, workload."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from reactive_desched.model.migration_jobs import JobOfPod
from reactive_desched.model.objects import Pod, controller_of

PodName = tuple[str, str]


class JobsInProgress:
    """The jobs that were let through and have not ended; `add` and every question take O(1).

    A pod's own jobs, those that name its uid, never count against it.
    """

    def __init__(self) -> None:
        self._total = 0
        self._by_uid: Final[Counter[str]] = Counter()
        self._in_namespace: Final[Counter[str]] = Counter()
        self._by_namespace_and_uid: Final[Counter[tuple[str, str]]] = Counter()
        self._on_node: Final[dict[str, set[PodName]]] = defaultdict(set)
        self._of_controller: Final[dict[str, dict[PodName, set[str]]]] = defaultdict(dict)

    def add(self, each: JobOfPod) -> None:
        """Count a job; one whose pod is gone counts for the cluster and its namespace alone."""
        named, pod = each.job.pod, each.pod
        self._total += 1
        self._by_uid[named.uid] += 1
        self._in_namespace[named.namespace] += 1
        self._by_namespace_and_uid[named.namespace, named.uid] += 1
        if pod is None:
            return
        name = (pod.namespace, pod.name)
        if pod.node:
            self._on_node[pod.node].add(name)
        if (controller := controller_of(pod.owners)) is not None:
            self._of_controller[controller.uid].setdefault(name, set()).add(named.uid)

    def in_cluster(self, pod: Pod) -> int:
        """Count the jobs of other pods."""
        return self._total - self._by_uid[pod.uid]

    def in_namespace(self, pod: Pod) -> int:
        """Count the jobs of other pods in the pod's namespace."""
        own = self._by_namespace_and_uid[pod.namespace, pod.uid]
        return self._in_namespace[pod.namespace] - own

    def on_node(self, pod: Pod) -> int:
        """Count the other pods on the pod's node that have a job."""
        moving = self._on_node.get(pod.node, set())
        return len(moving) - ((pod.namespace, pod.name) in moving)

    def of_workload(self, pod: Pod) -> frozenset[PodName]:
        """Return the pods of the same controller that have a job which is not the pod's own."""
        controller = controller_of(pod.owners)
        moving: Mapping[PodName, set[str]] = (
            {} if controller is None else self._of_controller.get(controller.uid, {})
        )
        return frozenset(name for name, uids in moving.items() if uids != {pod.uid})


class OpenJobs:
    """The jobs that have not ended, and of these the ones whose pod is still to be evicted.

    The latter are counted at the first question, which only a policy with limits leads to.
    """

    def __init__(self) -> None:
        self.every: Final = JobsInProgress()
        self._to_evict: Final[list[JobOfPod]] = []
        self._counted: JobsInProgress | None = None

    def add(self, each: JobOfPod, *, is_evicted: bool = False) -> None:
        """Count a job; `is_evicted` says that its eviction counts as one already."""
        self.every.add(each)
        if is_evicted:
            return
        self._to_evict.append(each)
        if self._counted is not None:
            self._counted.add(each)

    def evictions_to_come(self, pod: Pod, scope: str) -> int:
        """Count the other pods to be evicted in the pod's "cluster", "namespace" or "node"."""
        if (jobs := self._counted) is None:
            jobs = self._counted = JobsInProgress()
            for each in self._to_evict:
                jobs.add(each)
        counts = {
            "cluster": jobs.in_cluster,
            "namespace": jobs.in_namespace,
            "node": jobs.on_node,
        }
        return counts[scope](pod)
