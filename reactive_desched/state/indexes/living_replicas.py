"""Counts the pods of an owner that stay, those that are Ready, and those that it wants."""

from collections.abc import Hashable, Iterable, Iterator

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import (
    ClusterObject,
    Deployment,
    Pod,
    ReplicaSet,
    StatefulSet,
    Workload,
)
from reactive_desched.state.indexes.owners import OwnerSizeChanged, replicas_wanted

OwnerUid = str
_OwnerInNamespace = tuple[str, OwnerUid]


class LivingReplicas(Index):
    """The pods that name an owner of their namespace, but for those that terminate or have ended.

    A pod may name the uid of an owner of another namespace: it is none of its pods. It announces an
    owner whenever one of its numbers differs. Numbers of zero are not kept.
    """

    announces = (OwnerSizeChanged,)
    kinds = (ReplicaSet, Deployment, StatefulSet)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._ready: dict[_OwnerInNamespace, int] = {}
        self._unready: dict[_OwnerInNamespace, int] = {}
        self._sets: dict[OwnerUid, dict[OwnerUid, None]] = {}
        for pod in cluster.store(Pod):
            self._count(pod, 1)
        for replica_set in cluster.store(ReplicaSet):
            self._file(replica_set)

    def ready(self, namespace: str, owner_uid: OwnerUid) -> int:
        """Count the Ready pods of an owner in this namespace."""
        return self._ready.get((namespace, owner_uid), 0)

    def living(self, namespace: str, owner_uid: OwnerUid) -> int:
        """Count the pods of an owner, be they Ready or not, those without a node included."""
        return self.ready(namespace, owner_uid) + self._unready.get((namespace, owner_uid), 0)

    def wanted(self, owner_uid: OwnerUid) -> int | None:
        """Return how many pods the Deployment or StatefulSet wants; None where none is known.

        It is the owner itself or controls it.
        """
        return replicas_wanted(owner_uid, self._cluster)

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow a pod that appeared, disappeared, terminates, has ended, or has other owners."""
        before = None if old is None else self._count(old, -1)
        after = None if new is None else self._count(new, 1)
        if before == after:
            return ()
        uids = [*(before[0] if before else ()), *(after[0] if after else ())]
        return map(OwnerSizeChanged, sorted(set(uids)))

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[Change]:
        """Follow a pod that became Ready, or ceased to be."""
        if old.status is new.status or old.status.is_ready == new.status.is_ready:
            return ()
        self._count(old, -1)
        counted = self._count(new, 1)
        return () if counted is None else map(OwnerSizeChanged, sorted(counted[0]))

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> Iterable[Change]:
        """Follow how many pods a workload wants, and which ReplicaSets are whose."""
        if isinstance(old, ReplicaSet):
            self._take_out(old)
        if isinstance(new, ReplicaSet):
            self._file(new)
        known = new or old
        if isinstance(known, ReplicaSet):
            return (OwnerSizeChanged(known.uid),)
        assert isinstance(known, Workload), "it is of no other kind"
        return self._on_workload(known)

    def answers(self) -> object:
        """Return every number by owner."""
        keys = {(p.namespace, owner.uid) for p in self._cluster.store(Pod) for owner in p.owners}
        numbers = {key: (self.ready(*key), self.living(*key), self.wanted(key[1])) for key in keys}
        return numbers, self._ready, self._unready, self._sets

    def _on_workload(self, workload: Workload) -> Iterator[Change]:
        yield OwnerSizeChanged(workload.uid)
        for uid in self._sets.get(workload.uid, ()):
            yield OwnerSizeChanged(uid)

    def _count(self, pod: Pod, step: int) -> tuple[frozenset[OwnerUid], bool] | None:
        """Count a pod in or out; return its owners, and whether it is Ready."""
        if pod.is_terminating or pod.has_ended or not pod.owners:
            return None
        uids, is_ready = frozenset(owner.uid for owner in pod.owners), pod.status.is_ready
        counts = self._ready if is_ready else self._unready
        for key in ((pod.namespace, uid) for uid in uids):
            count = counts.get(key, 0) + step
            if count:
                counts[key] = count
            else:
                del counts[key]
        return uids, is_ready

    def _file(self, replica_set: ReplicaSet) -> None:
        if replica_set.controller is not None:
            sets = self._sets.setdefault(replica_set.controller.uid, {})
            sets[replica_set.uid] = None

    def _take_out(self, replica_set: ReplicaSet) -> None:
        if replica_set.controller is not None:
            sets = self._sets[replica_set.controller.uid]
            del sets[replica_set.uid]
            if not sets:
                del self._sets[replica_set.controller.uid]
