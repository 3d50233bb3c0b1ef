"""The pods for which the scheduler finds no node."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change, PodChange
from reactive_desched.model.objects import Pod, PodKey

SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
"""The reason of the condition `PodScheduled: False`; a pod with scheduling gates has another."""

_DAEMON_SET: Final = "DaemonSet"


class PodUnschedulableChanged(PodChange, frozen=True, gc=False):
    """The scheduler finds no node for the pod, or the pod is not in that state any more."""


class UnschedulablePods(Index):
    """Keeps since when each unschedulable pod has been so, in seconds since the epoch.

    A pod of a DaemonSet does not count: it belongs to one node, and waits for that one. Neither
    does a pod whose deletion has begun, nor one with scheduling gates.
    """

    announces = (PodUnschedulableChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._since_s: dict[PodKey, int] = {}
        self._pods = cluster.store(Pod)
        for pod in self._pods:
            if not pod.node:
                self._follow(pod)

    @property
    def since_s(self) -> Mapping[PodKey, int]:
        """Return since when, by uid; in seconds since the epoch."""
        return self._since_s

    def pods(self) -> Iterator[tuple[Pod, int]]:
        """Yield each of these pods with since when it is unschedulable; pods may come and go."""
        for uid, since_s in list(self._since_s.items()):
            if (pod := self._pods.get(uid)) is not None:
                yield pod, since_s

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow a pod that appeared, was bound or disappeared."""
        if new is not None:
            return self._follow(new)
        if old is not None and self._since_s.pop(old.uid, None) is not None:
            return (PodUnschedulableChanged(old),)
        return ()

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[Change]:
        """Follow the conditions of a pod that has no node."""
        del old
        return () if new.node else self._follow(new)

    def answers(self) -> object:
        """Return since when, by uid."""
        return dict(self._since_s)

    def _follow(self, pod: Pod) -> Iterable[Change]:
        since_s = None if pod.node else _unschedulable_since(pod)
        before = self._since_s.get(pod.uid)
        if since_s == before:
            return ()
        if since_s is None:
            del self._since_s[pod.uid]
        else:
            self._since_s[pod.uid] = since_s
        return (PodUnschedulableChanged(pod),)


def _unschedulable_since(pod: Pod) -> int | None:
    """Return since when the scheduler finds no node for a pod; None for a pod that counts not."""
    if pod.is_terminating or any(owner.kind == _DAEMON_SET for owner in pod.owners):
        return None
    for number, condition in enumerate(pod.status.conditions):
        if condition.type == SCHEDULED and condition.status == "False":
            if condition.reason != UNSCHEDULABLE:
                return None
            times = pod.condition_transitions
            changed_s = times[number] if number < len(times) else None
            return pod.created_s + (changed_s or 0)
    return None
