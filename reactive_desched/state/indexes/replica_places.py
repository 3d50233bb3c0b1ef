"""How many pods each controller has on each node: what the kube-scheduler spreads over."""

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeInfo, NodeState
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import Pod, controller_of

NOT_SPREAD: Final = frozenset({"DaemonSet", "Node"})
"""The controllers whose pods stay on the nodes that they were made for."""

EVERY_CONTROLLER: Final = ""
"""Stands for the controllers of all pods, where the nodes differ that they are spread over."""

_NONE: Final[Mapping[str, int]] = {}


class ReplicaPlacesChanged(Change, frozen=True, gc=False):
    """A controller has another number of pods on some node, or may have them on other nodes."""

    controller_uid: str


class ReplicaPlaces(Index):
    """The pods of each controller by node, by the controller's uid.

    It counts the pods that have a node, have not ended and do not terminate, as the kube-scheduler
    does when it spreads the pods of a workload by default. Numbers of zero are not kept.
    """

    announces = (ReplicaPlacesChanged,)

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

    def spread_over(self, change: "ReplicaPlacesChanged") -> Collection[str] | None:
        """Name the nodes with pods of the controller that a change is about; None for any node.

        None of them where they are all on one: then its pods are spread over nothing.
        """
        if change.controller_uid == EVERY_CONTROLLER:
            return None
        places = self.of(change.controller_uid)
        return places if len(places) > 1 else ()

    def node_info(self, name: str) -> NodeInfo | None:
        """Return what is known of a node."""
        return self._cluster.node_info(name)

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[Change, ...]:
        """Follow a pod that came to a node, left it, terminates, or has another controller."""
        before = None if old is None else _controller_counted(old)
        after = None if new is None else _controller_counted(new)
        if before == after and (old is None or new is None or old.node == new.node):
            return ()
        if before is not None and old is not None:
            self._count(before, old.node, -1)
        if after is not None and new is not None:
            self._count(after, new.node, 1)
        uids = dict.fromkeys(uid for uid in (before, after) if uid is not None)
        return tuple(map(ReplicaPlacesChanged, uids))

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterator[Change]:
        """Follow how many nodes are eligible, and in which domains they are."""
        before = old is not None and old.eligible
        after = new is not None and new.eligible
        self.eligible_nodes += after - before
        if old is None or new is None or before != after or old.node.labels != new.node.labels:
            yield ReplicaPlacesChanged(EVERY_CONTROLLER)

    def answers(self) -> object:
        """Return the counts of every controller, and how many nodes are eligible."""
        return {uid: dict(places) for uid, places in self._places.items()}, self.eligible_nodes

    def _count(self, controller_uid: str, node: str, step: int) -> None:
        places = self._places.setdefault(controller_uid, {})
        if number := places.get(node, 0) + step:
            places[node] = number
        else:
            del places[node]
            if not places:
                del self._places[controller_uid]


def _controller_counted(pod: Pod) -> str | None:
    """Return the uid of the controller for which a pod counts on its node."""
    if not pod.is_active or pod.deletion_s is not None:
        return None
    owner = controller_of(pod.owners)
    return None if owner is None or owner.kind in NOT_SPREAD else owner.uid
