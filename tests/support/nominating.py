"""Nominates pods for the nodes on which room is made for them, as the controller does."""

from typing import Any

from reactive_desched.model.objects import Pod
from tests.support.descheduled import STEP_S, DescheduledCluster


class NominatingCluster:
    """A simulated cluster with MakeRoomForPending; `rooms` are the pods of its sets, in order.

    The simulated scheduler keeps the room from pods of lower priority, as the real one does.
    """

    def __init__(self, cluster: DescheduledCluster) -> None:
        self.cluster = cluster
        self.rooms: list[str] = []

    def run(self, seconds: float) -> "NominatingCluster":
        """Let time pass; look at sets every half second."""
        for _ in range(round(seconds / STEP_S)):
            self.cluster.run(STEP_S)
            self.look()
        return self

    def look(self) -> None:
        """Nominate the pods whose rooms are due."""
        now, sets = self.cluster.world.clock.now(), self.cluster.gates.move_sets
        for each in sets.ready(now):
            for room in each.rooms:
                if (pod := self.cluster.state.store(Pod).get(room.pod)) is not None:
                    self.rooms.append(pod.name)
                    self._nominate(pod.name, room.node)

    def _nominate(self, name: str, node: str) -> None:
        def change(current: dict[str, Any]) -> dict[str, Any]:
            return {**current, "status": {**current["status"], "nominatedNodeName": node}}

        store = self.cluster.world.store
        store.modify("pods", "default", name, change, subresource="status")
        self.cluster.world.cluster.settle()
