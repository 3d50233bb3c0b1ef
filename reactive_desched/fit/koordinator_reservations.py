"""The room that Reservations of koordinator keep on each node, which no pod takes yet."""

from collections.abc import Hashable
from typing import Final

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.reservations import Reservation
from reactive_desched.model.resources import ResourceList, add_resources


class KoordinatorReservations(Index):
    """Sums, by node, what its Reservations keep; empty where they are not watched."""

    kinds = (Reservation,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._by_node: Final[dict[str, dict[str, ResourceList]]] = {}
        for reservation in cluster.store(Reservation):
            self.on_object(None, reservation)

    def on_node_named(self, node: str) -> ResourceList | None:
        """Return what is kept on a node; None for nothing."""
        if (kept := self._by_node.get(node)) is None:
            return None
        total: dict[str, int] = {}
        for requests in kept.values():
            add_resources(total, requests)
        return total

    def kept_by(self, node: str, reservation: str) -> ResourceList:
        """Return what one Reservation, by its uid, keeps on a node; empty for nothing."""
        return self._by_node.get(node, {}).get(reservation, {})

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> tuple[()]:
        """Follow a Reservation that begins or ceases to keep room."""
        if isinstance(old, Reservation) and old.keeps_room:
            kept = self._by_node[old.node]
            del kept[old.uid]
            if not kept:
                del self._by_node[old.node]
        if isinstance(new, Reservation) and new.keeps_room:
            self._by_node.setdefault(new.node, {})[new.uid] = new.requests
        return ()

    def answers(self) -> object:
        """Return what each Reservation keeps on each node."""
        return {node: dict(kept) for node, kept in self._by_node.items()}
