"""Logs of what changed for node fit: each reader keeps a cursor, and looks at the changed alone."""

from collections.abc import Collection, Hashable
from typing import Final, Generic, TypeVar

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.objects import (
    ClusterObject,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from reactive_desched.model.reservations import Reservation
from reactive_desched.state.indexes.pvc_users import PvcUsers

KEPT_CHANGES: Final = 4096
KEPT_NODE_CHANGES: Final = 16_384
"""A follower that is further behind looks at all nodes again."""

K = TypeVar("K", bound=Hashable)


class ChangeLog(Generic[K]):
    """Keys in the order in which they changed.

    It keeps the last `kept` changes at least, and twice as many at most. A follower that is
    further behind gets None from `since` and must look at everything again.
    """

    __slots__ = ("_first", "_kept", "_keys")

    def __init__(self, kept: int = KEPT_CHANGES) -> None:
        self._kept = kept
        self._first = 0
        self._keys: list[K] = []

    @property
    def end(self) -> int:
        """The cursor of a follower that has read everything."""
        return self._first + len(self._keys)

    def append(self, key: K) -> None:
        """Add a changed key."""
        keys = self._keys
        if len(keys) >= 2 * self._kept:
            del keys[: self._kept]
            self._first += self._kept
        keys.append(key)

    def since(self, cursor: int) -> Collection[K] | None:
        """Return what changed since a cursor, each key once; None where that has been dropped."""
        if cursor == self.end:
            return ()
        if cursor < self._first:
            return None
        return dict.fromkeys(self._keys[cursor - self._first :]).keys()


class NodeChanges(Index):
    """A log of the nodes whose attributes, pods or volumes may have changed.

    Each follower keeps a cursor of its own (see `ChangeLog`), so it need not unsubscribe.
    """

    kinds = (CSINode, PersistentVolume, PersistentVolumeClaim, Reservation)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pvc_users = cluster.index(PvcUsers)
        self.log: ChangeLog[str] = ChangeLog(KEPT_NODE_CHANGES)

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Note the nodes that hold more or less than before."""
        if old is not None and new is not None and _takes_the_same(old, new):
            return ()
        if old is not None and old.node:
            self.log.append(old.node)
        if new is not None and new.node:
            self.log.append(new.node)
        return ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[()]:
        """Note the node."""
        if (state := new or old) is not None:
            self.log.append(state.node.name)
        return ()

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> tuple[()]:
        """Note the nodes of volumes and Reservations, or whose attach limits changed."""
        for obj in (old, new):
            if isinstance(obj, CSINode):
                self.log.append(obj.name)
            elif isinstance(obj, PersistentVolume):
                self._append_users(obj.claim_ref)
            elif isinstance(obj, PersistentVolumeClaim):
                self._append_users(obj.key)
            elif isinstance(obj, Reservation) and obj.keeps_room:
                self.log.append(obj.node)
        return ()

    def answers(self) -> object:
        """Return nothing: the log is history, which an index built again does not have."""
        return None

    def _append_users(self, pvc: str) -> None:
        for pod in self._pvc_users.users_of(pvc):
            self.log.append(pod.node)


def _takes_the_same(old: Pod, new: Pod) -> bool:
    return (
        old.node == new.node
        and old.is_active == new.is_active
        and old.spec.requests is new.spec.requests
        and old.resize_delta == new.resize_delta
        and old.spec.host_ports == new.spec.host_ports
        and old.pvc_names == new.pvc_names
    )
