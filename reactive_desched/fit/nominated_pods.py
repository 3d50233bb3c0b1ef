"""The pods that are nominated for a node: they wait until the room made for them there is free.

The kube-scheduler writes `status.nominatedNodeName` of a pod for which it preempts others, and of
one that it is about to bind; autoscalers and our migration jobs write it, too.
"""

from collections.abc import Collection, Hashable

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import NominationEnded
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.primitives.groups import Groups


class NominatedPods(Index):
    """The pods nominated for each node that are bound to none yet, and will be."""

    announces = (NominationEnded,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self._uids = Groups[str, PodKey]()
        for pod in self._pods:
            self._follow(None, pod)

    @property
    def nodes(self) -> Collection[str]:
        """The nodes for which pods are nominated."""
        return self._uids.groups()

    def on_node_named(self, node: str) -> list[Pod]:
        """Return the pods nominated for a node."""
        found = map(self._pods.get, self._uids.of(node))
        return [pod for pod in found if pod is not None]

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[NominationEnded, ...]:
        """Follow a pod that is bound, is being deleted or is gone."""
        return self._follow(old, new)

    def on_pod_status(self, old: Pod, new: Pod) -> tuple[NominationEnded, ...]:
        """Follow a nomination: a pod that has a node has none."""
        return () if old.status is new.status or new.node else self._follow(old, new)

    def answers(self) -> object:
        """Return the uids by node."""
        return self._uids.as_sets()

    def _follow(self, old: Pod | None, new: Pod | None) -> tuple[NominationEnded, ...]:
        before, after = _nominated_node(old), _nominated_node(new)
        if before == after:
            return ()
        if new is not None and after:
            self._uids.add(after, new.uid)
        if old is None or not before:
            return ()
        self._uids.discard(before, old.uid)
        takes_the_room = new is not None and new.node == before
        return () if takes_the_room else (NominationEnded(before),)


def outranked_by(pod: Pod, nominated: Pod) -> bool:
    """Say whether a nominated pod is of the same or a higher priority, so that it comes first."""
    return nominated.uid != pod.uid and (nominated.spec.priority or 0) >= (pod.spec.priority or 0)


def _nominated_node(pod: Pod | None) -> str:
    """Return the node that a pod waits for; empty for none."""
    if pod is None or not (node := pod.status.nominated_node):
        return ""
    return "" if pod.is_terminating or not pod.is_pending else node
