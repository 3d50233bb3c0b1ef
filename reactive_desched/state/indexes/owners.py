"""The chain of a pod's controllers, and how many pods an owner has."""

from collections.abc import Hashable, Iterable
from typing import ClassVar, TypeAlias

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import (
    ClusterObject,
    Deployment,
    IntermediateOwner,
    Job,
    OwnerReference,
    Pod,
    ReplicaSet,
    StatefulSet,
    controller_of,
)
from reactive_desched.model.wakes import ChangeTypes, WakeOn
from reactive_desched.primitives.groups import Groups

MAX_OWNER_CHAIN = 5
"""How long a chain of owners may be; what is further up is left out."""

MAX_CHAINS_KEPT = 1_000
"""So many answers are kept; then all are dropped."""

_Owners: TypeAlias = tuple[OwnerReference, ...]


class OwnerSizeChanged(Change, frozen=True, gc=False):
    """The number of pods that name this owner uid changed."""

    owner_uid: str


class WakeOnOwner(WakeOn, frozen=True, gc=False):
    """An owner gains or loses pods."""

    changes: ClassVar[ChangeTypes] = (OwnerSizeChanged,)
    words = "another number of pods of its owner"
    owner_uid: str


class OwnerIndex(Index):
    """The way from a pod up to its topmost known controller.

    The stores of ReplicaSets and Jobs have each object's controller. Answers are kept until one of
    those changes: filters, limits and records all ask about the pod of one finding.
    """

    kinds = (ReplicaSet, Job)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._chains: dict[int, tuple[_Owners, _Owners]] = {}  # by the identity of the first

    def chain(self, pod: Pod) -> _Owners:
        """Return a pod's controller, that one's controller and so on, nearest first.

        Empty for a bare pod. The chain ends where no controller is known, before a controller
        would come twice, and after `MAX_OWNER_CHAIN`.
        """
        owners = pod.owners
        if (kept := self._chains.get(id(owners))) is not None:
            return kept[1]
        if len(self._chains) >= MAX_CHAINS_KEPT:
            self._chains.clear()
        found = self._walk_up(owners)
        self._chains[id(owners)] = owners, found
        return found

    def belongs_to(self, pod: Pod, owner: str) -> bool:
        """Say whether an owner has the pod, also by others: NAMESPACE/KIND/NAME, or a uid."""
        namespace, _, rest = owner.partition("/")
        if rest and pod.namespace != namespace:
            return False
        chain = self.chain(pod) or pod.owners
        return any(rest == f"{each.kind}/{each.name}" or owner == each.uid for each in chain)

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> tuple[()]:
        """Forget the answers: a ReplicaSet or Job is new, is gone, or has another controller."""
        if _controller(old) != _controller(new):
            self._chains.clear()
        return ()

    def answers(self) -> object:
        """Return every pod's chain."""
        return {pod.uid: self.chain(pod) for pod in self._cluster.store(Pod)}

    def _walk_up(self, owners: _Owners) -> _Owners:
        found: dict[str, OwnerReference] = {}
        above = controller_of(owners)
        while above is not None and above.uid not in found and len(found) < MAX_OWNER_CHAIN:
            found[above.uid] = above
            above = self._controller_of_uid(above.uid)
        return tuple(found.values())

    def _controller_of_uid(self, uid: str) -> OwnerReference | None:
        cluster = self._cluster
        owner = cluster.store(ReplicaSet).get(uid) or cluster.store(Job).get(uid)
        return None if owner is None else owner.controller


class ReplicaSetsByOwner(Index):
    """The ReplicaSets of each Deployment, of every template that it has pods of or can return to.

    It has those of other controllers, too, by the uid of the controller.
    """

    kinds = (ReplicaSet,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._uids = Groups[str, str]()
        for replica_set in cluster.store(ReplicaSet):
            self.on_object(None, replica_set)

    def of(self, owner_uid: str) -> tuple[str, ...]:
        """Return the uids of an owner's ReplicaSets."""
        return tuple(self._uids.of(owner_uid))

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> tuple[()]:
        """Follow a ReplicaSet that appeared, disappeared, or has another controller."""
        if isinstance(old, ReplicaSet) and old.controller is not None:
            self._uids.discard(old.controller.uid, old.uid)
        if isinstance(new, ReplicaSet) and new.controller is not None:
            self._uids.add(new.controller.uid, new.uid)
        return ()

    def answers(self) -> object:
        """Return the ReplicaSets by owner."""
        return self._uids.as_sets()


def replicas_wanted(owner_uid: str, cluster: Cluster) -> int | None:
    """Return how many pods the Deployment or StatefulSet wants that is an owner, or controls it.

    None where none is known.
    """
    replica_set = cluster.store(ReplicaSet).get(owner_uid)
    controller = None if replica_set is None else replica_set.controller
    uid = owner_uid if controller is None else controller.uid
    workload = cluster.store(Deployment).get(uid) or cluster.store(StatefulSet).get(uid)
    return None if workload is None else workload.replicas


class ReplicaCounts(Index):
    """The pods that name an owner, in any phase, by the owner's uid."""

    announces = (OwnerSizeChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._counts: dict[str, int] = {}
        for pod in cluster.store(Pod):
            self._add(_owner_uids(pod), 1)

    def count(self, owner_uid: str) -> int:
        """Count the pods that name this owner."""
        return self._counts.get(owner_uid, 0)

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow a pod that appeared, disappeared, or has other owners."""
        if old is not None and new is not None and old.owners is new.owners:
            return ()
        before = _owner_uids(old) if old is not None else set()
        after = _owner_uids(new) if new is not None else set()
        self._add(before - after, -1)
        self._add(after - before, 1)
        return [OwnerSizeChanged(uid) for uid in (*sorted(before - after), *sorted(after - before))]

    def answers(self) -> object:
        """Return the number of pods by owner."""
        return dict(self._counts)

    def _add(self, owners: Iterable[str], step: int) -> None:
        for owner in owners:
            count = self._counts.get(owner, 0) + step
            if count:
                self._counts[owner] = count
            else:
                del self._counts[owner]


def _controller(owner: ClusterObject | None) -> OwnerReference | None:
    return owner.controller if isinstance(owner, IntermediateOwner) else None


def _owner_uids(pod: Pod) -> set[str]:
    return {owner.uid for owner in pod.owners}
