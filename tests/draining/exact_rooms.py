"""The fewest moves that make room for a pod, exactly."""

from collections.abc import Callable, Sequence
from functools import partial

from ortools.sat.python import cp_model

from reactive_desched.primitives.bits import slots_in
from tests.draining.rooms import MOST, Waiting, WaitingGang
from tests.draining.small_clusters import MAX_PODS, SmallCluster, SmallPod


def fewest_moves(waiting: Waiting, deterministic_time: float) -> int | None:
    """Return the fewest moves, `MOST` at most, by the solver; None where there is no room."""
    return _fewest(waiting.cluster, (waiting.pod,), MOST, deterministic_time)


def fewest_moves_for_gang(waiting: WaitingGang, deterministic_time: float) -> int | None:
    """Return the fewest moves by the solver after which all pods of a gang fit."""
    most = MOST * len(waiting.pods)
    return _fewest(waiting.cluster, waiting.pods, most, deterministic_time)


def _fewest(
    cluster: SmallCluster,
    waiting: Sequence[SmallPod],
    most: int,
    deterministic_time: float,
) -> int | None:
    model = cp_model.CpModel()
    to: dict[SmallPod, dict[int, cp_model.IntVar]] = {}
    for pod in waiting:
        to[pod] = {
            n.number: model.new_bool_var(f"{pod.name}@{n.number}")
            for n in cluster.nodes
            if pod.allowed >> n.number & 1
        }
        model.add_exactly_one(to[pod].values())
    moves: dict[SmallPod, dict[int, cp_model.IntVar]] = {}
    for each in cluster.pods:
        if each.stays:
            continue
        others = slots_in(each.allowed & ((1 << len(cluster.nodes)) - 1) & ~(1 << each.node))
        moves[each] = {n: model.new_bool_var(f"{each.name}>{n}") for n in others}
        model.add(sum(moves[each].values()) <= 1)
    for node in cluster.nodes:
        n, there = node.number, cluster.on(node.number)
        ways = {p: moves[p][n] for p in moves if n in moves[p]}
        sizes: list[tuple[int, Callable[[SmallPod], int]]] = [
            (node.cpu, lambda p: p.cpu),
            (node.memory, lambda p: p.memory),
            (MAX_PODS, lambda _: 1),
        ]
        groups = {p.apart for p in (*cluster.pods, *waiting) if p.apart}
        sizes += [(1, partial(_is_of, group)) for group in sorted(groups)]
        for limit, size in sizes:
            stays = sum(size(p) * (1 - sum(moves.get(p, {}).values())) for p in there)
            comes = sum(size(p) * x for p, x in ways.items())
            new = sum(size(p) * to[p][n] for p in waiting if n in to[p])
            model.add(stays + comes + new <= limit)
    for group in sorted({pod.even for pod in cluster.pods if pod.even}):
        _keep_even(model, cluster, group, to, moves)
    for node in cluster.nodes:  # so many may leave it for each pod that comes, as `maxMoves` says
        new = sum(ways[node.number] for ways in to.values() if node.number in ways)
        off = sum(
            x for pod, ways in moves.items() if pod.node == node.number for x in ways.values()
        )
        takes = model.new_bool_var(f"takes{node.number}")
        model.add(new == 0).only_enforce_if(~takes)
        model.add(off <= MOST * new).only_enforce_if(takes)
    total = sum(x for ways in moves.values() for x in ways.values())
    model.add(total <= most)
    model.minimize(total)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = deterministic_time
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return round(solver.objective_value)
    return None


def _keep_even(
    model: cp_model.CpModel,
    cluster: SmallCluster,
    group: str,
    to: dict[SmallPod, dict[int, cp_model.IntVar]],
    moves: dict[SmallPod, dict[int, cp_model.IntVar]],
) -> None:
    """Let no zone to which a pod of the group comes have more than one above the fewest.

    Pods that move come before those that wait.
    """
    of = {node.number: node.zone for node in cluster.nodes}
    members = [pod for pod in cluster.pods if pod.even == group]
    wait = [pod for pod in to if pod.even == group]
    for come, ways in ((members, moves), (wait, to)):
        fewest = model.new_int_var(0, len(members) + len(wait), f"fewest {group} {len(come)}")
        for zone in sorted(set(of.values())):
            comes = [x for pod in come for n, x in ways.get(pod, {}).items() if of[n] == zone]
            count = sum(
                1 - sum(moves.get(pod, {}).values()) for pod in members if of[pod.node] == zone
            ) + sum(x for pod in members for n, x in moves.get(pod, {}).items() if of[n] == zone)
            if ways is to:
                count += sum(comes)
            model.add(fewest <= count)
            for x in comes:
                model.add(count - fewest <= 1).only_enforce_if(x)


def _is_of(group: str, pod: SmallPod) -> int:
    return int(pod.apart == group)
