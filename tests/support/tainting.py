"""Writes the taints of sets of moves in a simulated cluster, as the controller does."""

from reactive_desched.controller.consolidation import SetProgress, SetState, nodes_to_close
from reactive_desched.model.consolidation import EMPTY, EMPTYING, PLANNED, consolidation_of
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.taints import PREFER_NO_SCHEDULE
from reactive_desched.state.cluster import ClusterView
from tests.support.descheduled import STEP_S, DescheduledCluster


class TaintedCluster:
    """A simulated cluster with ConsolidateNodes; `begun` are the nodes of its sets, in order."""

    def __init__(self, cluster: DescheduledCluster) -> None:
        self.cluster = cluster
        self.begun: list[str] = []
        self.ends: list[SetState] = []
        self._progress = SetProgress()
        self._view = ClusterView(cluster.state, cluster.world.clock.now)

    def run(self, seconds: float) -> "TaintedCluster":
        """Let time pass; look at taints every half second."""
        for _ in range(round(seconds / STEP_S)):
            self.cluster.run(STEP_S)
            self.look()
        return self

    def look(self) -> None:
        """Write the taints that are due."""
        now, state = self.cluster.world.clock.now(), self.cluster.state
        for name in self.cluster.gates.move_sets.following(now):
            self._write(name, PLANNED)
        for each in self.cluster.gates.move_sets.ready(now):
            if each.rooms:
                continue
            for empty in tuple(nodes_to_close(each, self._view)):
                self._write(empty.name, EMPTY)
            self.begun.append(each.node)
            self._write(each.node, EMPTYING)
        goes_on = self.cluster.gates.move_sets.is_emptying
        for info in list(state.node_infos()):
            if info.node is None or (value := consolidation_of(info.node)) is None:
                continue
            found = any(
                each.decision.finding.pod.node == info.name for each in self.cluster.pending()
            )
            leaving = any(pod.is_terminating for pod in info.active.values())
            active = goes_on if value == PLANNED else found or leaving
            how, _ = self._progress.look(info, now, is_active=active)
            if how is SetState.GOES_ON or (how is SetState.EMPTY and value == EMPTY):
                continue
            self.ends.append(how)
            self._write(info.name, EMPTY if how is SetState.EMPTY else None)

    def _write(self, name: str, value: str | None) -> None:
        world = self.cluster.world
        if world.store.get("nodes", "", name) is None:
            return  # it has gone since: the API server answers 404
        taints = world.get("nodes", name)["spec"].get("taints") or []
        kept = [each for each in taints if each["key"] != CONSOLIDATING]
        if value is not None:
            kept.append({"key": CONSOLIDATING, "value": value, "effect": PREFER_NO_SCHEDULE})
        world.edit("nodes", name, taints=kept)
