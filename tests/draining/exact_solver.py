"""The most nodes of a small cluster that can be emptied, by an exact solver."""

from itertools import permutations
from typing import Any

from msgspec import Struct
from ortools.sat.python import cp_model

from reactive_desched.draining.emptying import EmptyingPlan
from reactive_desched.primitives.bits import slots_in
from tests.draining.small_clusters import MAX_PODS, SmallCluster, SmallPod


class Optimum(Struct, frozen=True):
    """The best that the solver found, which it has proved to be the optimum or not."""

    value: int
    is_proven: bool


class Exact:
    """The same question as an integer program, which is solved to the optimum in most cases.

    `deterministic_time` is how much the solver computes: units of its own that are the same on any
    machine, of about a second.
    """

    def __init__(self, cluster: SmallCluster, deterministic_time: float) -> None:
        self._time = deterministic_time
        self._model = model = cp_model.CpModel()
        self._givers = cluster.givers
        self._emptied = {each.node: model.new_bool_var(f"e{each.node}") for each in self._givers}
        self._moves = moves = dict[SmallPod, dict[int, cp_model.IntVar]]()
        for giver in self._givers:
            for pod in giver.pods:
                to = slots_in(cluster.takers & pod.allowed & ~(1 << pod.node))
                moves[pod] = {n: model.new_bool_var(f"{pod.name}>{n}") for n in to}
                model.add(sum(moves[pod].values()) == self._emptied[giver.node])
                for number, moved in moves[pod].items():
                    if number in self._emptied:
                        model.add_implication(moved, ~self._emptied[number])
        for node in cluster.nodes:
            there = cluster.on(node.number)
            coming = {pod: to[node.number] for pod, to in moves.items() if node.number in to}
            for limit, size in (
                (node.cpu, lambda pod: pod.cpu),
                (node.memory, lambda pod: pod.memory),
                (MAX_PODS, lambda _: 1),
            ):
                left = limit - sum(map(size, there))
                model.add(sum(size(pod) * each for pod, each in coming.items()) <= left)
            for group in {pod.apart for pod in cluster.pods if pod.apart}:
                left = 1 - sum(pod.apart == group for pod in there)
                model.add(sum(x for pod, x in coming.items() if pod.apart == group) <= left)
        for key, most in cluster.budgets.items():
            taken = [each.takes.get(key, 0) * self._emptied[each.node] for each in self._givers]
            model.add(sum(taken) <= max(most, 0))
        self._keep_even(cluster)

    def _keep_even(self, cluster: SmallCluster) -> None:
        """Have groups that are even over zones be so at the end."""
        zone_of = {node.number: node.zone for node in cluster.nodes}
        zones = sorted(set(zone_of.values()))
        for group in sorted({pod.even for pod in cluster.pods if pod.even}):
            counts: dict[str, Any] = {}  # sums of the solver
            for zone in zones:
                there = [p for p in cluster.pods if p.even == group and zone_of[p.node] == zone]
                count: Any = len(there)
                for pod, to in self._moves.items():
                    if pod.even == group:
                        away = sum(to.values()) if zone_of[pod.node] == zone else 0
                        here = sum(x for number, x in to.items() if zone_of[number] == zone)
                        count += here - away
                counts[zone] = count
            for one, other in permutations(zones, 2):
                self._model.add(counts[one] - counts[other] <= 1)

    def most_emptied(self, known: EmptyingPlan[SmallPod]) -> Optimum:
        """Return how many nodes can be emptied at most; the solver begins with a plan."""
        names = {each.giver.node for each in known.nodes}
        for number, emptied in self._emptied.items():
            self._model.add_hint(emptied, number in names)
        for each in known.nodes:
            for pod, node in each.places:
                self._model.add_hint(self._moves[pod][node], 1)
        self._model.maximize(sum(self._emptied.values()))
        found = self._solve()
        return Optimum(max(found.value, len(known.nodes)), is_proven=found.is_proven)

    def fewest_moves(self, nodes: int) -> Optimum:
        """Return the fewest moves with which so many nodes are emptied."""
        self._model.add(sum(self._emptied.values()) >= nodes)
        self._model.minimize(
            sum(len(each.pods) * self._emptied[each.node] for each in self._givers)
        )
        return self._solve()

    def _solve(self) -> Optimum:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = self._time
        status = solver.solve(self._model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Optimum(0, is_proven=False)
        return Optimum(round(solver.objective_value), is_proven=status == cp_model.OPTIMAL)
