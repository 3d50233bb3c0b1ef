"""Lists the nodes that may have changed for node fit, in the order of the changes."""

from collections.abc import Hashable
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.fit.change_log import ChangeLog
from reactive_desched.model.objects import (
    ClusterObject,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from reactive_desched.model.reservations import Reservation
from reactive_desched.state.indexes.pvc_users import PvcUsers

KEPT_CHANGES: Final = 16_384
"""A follower that is further behind looks at all nodes again."""


class NodeChanges(Index):
    """A log of the nodes whose attributes, pods or volumes may have changed.

    Each follower keeps a cursor of its own (see `ChangeLog`), so it need not unsubscribe.
    """

    kinds = (CSINode, PersistentVolume, PersistentVolumeClaim, Reservation)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pvc_users = cluster.index(PvcUsers)
        self.log: ChangeLog[str] = ChangeLog(KEPT_CHANGES)

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
