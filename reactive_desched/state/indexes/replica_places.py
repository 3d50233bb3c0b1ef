"""Counts the pods of each controller on each node, which the kube-scheduler spreads."""

from collections.abc import Collection, Hashable, Mapping
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeInfo, NodeState
from reactive_desched.model.objects import TERMINAL_PHASES, Pod

NOT_SPREAD: Final = frozenset({"DaemonSet", "Node"})
"""The controllers whose pods stay on the nodes that they were made for."""

_NONE: Final[Mapping[str, int]] = {}


class ReplicaPlaces(Index):
    """The pods of each controller by node, by the controller's uid.

    It counts the pods that have a node, have not ended and do not terminate, as the kube-scheduler
    does when it spreads the pods of a workload by default. Numbers of zero are not kept. Indexes
    of nodes announce where other numbers may alter a plan.
    """

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._places: dict[str, dict[str, int]] = {}
        self.eligible_nodes = sum(info.eligible for info in cluster.node_infos())
        for pod in cluster.store(Pod):
            if (uid := _controller_counted(pod)) is not None:
                self._count(uid, pod.node, 1)

    def of(self, controller_uid: str) -> Mapping[str, int]:
        """Count the pods of a controller on each node where it has some."""
        return self._places.get(controller_uid, _NONE)

    def shares_nodes(self, old: Pod | None, new: Pod | None, nodes: Collection[str]) -> bool:
        """Say whether a pod that came or left has a sibling on one of these nodes."""
        before = None if old is None else _controller_counted(old)
        after = None if new is None else _controller_counted(new)
        if before == after and old is not None and new is not None and old.node == new.node:
            return False
        uids = [uid for uid in (before, after) if uid is not None]
        return any(node in nodes for uid in uids for node in self.of(uid))

    def node_info(self, name: str) -> NodeInfo | None:
        """Return what is known of a node."""
        return self._cluster.node_info(name)

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod that came to a node, left it, terminates, or has another controller."""
        before = None if old is None else _controller_counted(old)
        after = None if new is None else _controller_counted(new)
        if before is not None and old is not None:
            self._count(before, old.node, -1)
        if after is not None and new is not None:
            self._count(after, new.node, 1)
        return ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[()]:
        """Follow how many nodes are eligible."""
        before = old is not None and old.eligible
        self.eligible_nodes += (new is not None and new.eligible) - before
        return ()

    def answers(self) -> object:
        """Return the counts of every controller, and how many nodes are eligible."""
        return {uid: dict(places) for uid, places in self._places.items()}, self.eligible_nodes

    def _count(self, controller_uid: str, node: str, step: int) -> None:
        if (places := self._places.get(controller_uid)) is None:
            places = self._places[controller_uid] = {}
        if number := places.get(node, 0) + step:
            places[node] = number
        else:
            del places[node]
            if not places:
                del self._places[controller_uid]


def changes_domains(old: NodeState | None, new: NodeState | None) -> bool:
    """Say whether pods are spread over other domains after a change of a node."""
    if old is None or new is None:
        return True
    return old.eligible != new.eligible or old.node.labels != new.node.labels


def _controller_counted(pod: Pod) -> str | None:
    """Return the uid of the controller for which a pod counts on its node."""
    if not pod.node or pod.deletion_s is not None or pod.status.phase in TERMINAL_PHASES:
        return None
    return _controller_uid(pod)


def _controller_uid(pod: Pod) -> str | None:
    for owner in pod.owners:
        if owner.controller:
            return None if owner.kind in NOT_SPREAD else owner.uid
    return None
