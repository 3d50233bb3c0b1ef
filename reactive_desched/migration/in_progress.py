"""The jobs in progress, counted by what the limits go by: cluster, node, namespace, workload."""

from collections.abc import Callable, Hashable, Mapping
from itertools import compress
from typing import Final, Generic, NamedTuple, TypeVar

from reactive_desched.migration.sort_order import MovesByBatchJob
from reactive_desched.model.migration_jobs import JobOfPod, Phase
from reactive_desched.model.objects import Pod, controller_of

PodName = tuple[str, str]
CountedT = TypeVar("CountedT", bound=Hashable)
Counts = dict[CountedT, int]
ValueT = TypeVar("ValueT")


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


SCOPES_OF_JOBS: Final[Mapping[str, Callable[[JobsInProgress, Pod], int]]] = {
    "cluster": JobsInProgress.in_cluster,
    "namespace": JobsInProgress.in_namespace,
    "node": JobsInProgress.on_node,
}
"""The scopes within which the jobs of other pods are counted."""


class _PerCount(NamedTuple, Generic[ValueT]):
    """A value for each of the counts of `JobCounts`."""

    every: ValueT
    in_progress: ValueT
    to_evict: ValueT
    moves: ValueT


class JobCounts:
    """Every job, counted by what the limits and the order of arbitration go by.

    `every` has the jobs that have not ended, `in_progress` those of them that were let through, and
    `moves` those that were ever let through. A job that differs in nothing that is counted costs a
    comparison.
    """

    def __init__(self) -> None:
        self.every: Final = JobsInProgress()
        self.in_progress: Final = JobsInProgress()
        self.moves: Final = MovesByBatchJob()
        self._to_evict: Final = JobsInProgress()
        self._counts: Final = _PerCount[JobsInProgress | MovesByBatchJob](
            every=self.every,
            in_progress=self.in_progress,
            to_evict=self._to_evict,
            moves=self.moves,
        )
        self._counted: Final[dict[str, tuple[JobOfPod, _PerCount[bool]]]] = {}

    def put(
        self, each: JobOfPod, *, is_evicted: bool = False, was_let_through: bool = False
    ) -> None:
        """Count a job as it is now.

        `is_evicted` says that its eviction counts as one already, `was_let_through` that it is in
        progress whether or not that is written on it yet.
        """
        job = each.job
        runs = job.phase is Phase.RUNNING
        has_passed = job.has_passed or was_let_through
        is_open = not job.has_ended
        counts_in = _PerCount(
            every=is_open,
            in_progress=is_open and (runs or has_passed),
            to_evict=is_open and not is_evicted,
            moves=runs or has_passed,
        )
        before = self._counted.get(job.name)
        if before is not None and before[1] == counts_in and _counts_alike(before[0], each):
            return
        self.remove(job.name)
        self._counted[job.name] = each, counts_in
        for counts in compress(self._counts, counts_in):
            counts.add(each)

    def let_through(self, each: JobOfPod) -> None:
        """Count a job as one in progress."""
        _, counts_in = self._counted.get(each.job.name, (each, None))
        is_evicted = counts_in is not None and not counts_in.to_evict
        self.put(each, is_evicted=is_evicted, was_let_through=True)

    def remove(self, name: str) -> None:
        """Stop counting a job."""
        if (counted := self._counted.pop(name, None)) is not None:
            each, counts_in = counted
            for counts in compress(self._counts, counts_in):
                counts.remove(each)

    def evictions_to_come(self, pod: Pod, scope: str) -> int:
        """Count the other pods to be evicted in the pod's "cluster", "namespace" or "node"."""
        return SCOPES_OF_JOBS[scope](self._to_evict, pod)


def _counts_alike(one: JobOfPod, other: JobOfPod) -> bool:
    """Say whether two states of a job name the same pod, on the same node, of the same owners."""
    if one.job.pod != other.job.pod:
        return False
    old, new = one.pod, other.pod
    if old is None or new is None:
        return old is new
    return old is new or (
        old.node == new.node
        and old.owners == new.owners
        and (old.namespace, old.name) == (new.namespace, new.name)
    )


def _add(counts: Counts[CountedT], key: CountedT) -> None:
    counts[key] = counts.get(key, 0) + 1


def _remove(counts: Counts[CountedT], key: CountedT) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
