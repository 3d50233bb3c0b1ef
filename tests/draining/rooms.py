"""Pods that fit nowhere in small clusters, and the fewest moves that make room, exactly."""

from collections.abc import Callable
from functools import partial
from random import Random

from msgspec import Struct
from ortools.sat.python import cp_model

from reactive_desched.draining.making_room import Mover, Room, RoomCandidate, find_room
from reactive_desched.primitives.bits import slots_in
from tests.draining.small_clusters import (
    MAX_PODS,
    SmallCluster,
    SmallPlaces,
    SmallPod,
    is_possible,
    random_cluster,
)
from tests.support.planned import planned

MOST = 4
NOWHERE = -1


class Waiting(Struct, frozen=True):
    """A cluster and a pod that fits on none of its nodes."""

    cluster: SmallCluster
    pod: SmallPod


def random_waiting(seed: int) -> Waiting | None:
    """Return a pod that waits in a random cluster; None where it would fit somewhere."""
    dice = Random(seed * 7919 + 1)
    cluster = random_cluster(seed)
    everywhere = (1 << len(cluster.nodes)) - 1
    pod = SmallPod(
        "waits",
        NOWHERE,
        dice.choice([1000, 2000, 3000, 4000, 6000]),
        dice.choice([1, 4, 8, 16]),
        everywhere if dice.random() < 0.7 else dice.randint(1, everywhere),
        dice.choice("abcd") if dice.random() < 0.2 else "",
    )
    places = SmallPlaces(cluster)
    return None if places.fitting(pod, everywhere) else Waiting(cluster, pod)


def candidates(waiting: Waiting) -> list[RoomCandidate[SmallPod]]:
    cluster, pod = waiting.cluster, waiting.pod
    found = []
    for node in cluster.nodes:
        there = cluster.on(node.number)
        if not pod.allowed >> node.number & 1:
            continue
        lacks = {
            "cpu": pod.cpu - (node.cpu - sum(each.cpu for each in there)),
            "memory": pod.memory - (node.memory - sum(each.memory for each in there)),
            "pods": 1 - (MAX_PODS - len(there)),
        }
        movers = tuple(
            Mover(each, 1.0, {"cpu": each.cpu, "memory": each.memory, "pods": 1})
            for each in there
            if not each.stays
        )
        found.append(RoomCandidate(node.number, lacks, movers))
    return found


def find(waiting: Waiting, places: SmallPlaces | None = None) -> Room[SmallPod] | None:
    places = places or SmallPlaces(waiting.cluster)
    everywhere = (1 << len(waiting.cluster.nodes)) - 1
    steps = find_room(waiting.pod, candidates(waiting), everywhere, places, MOST)
    return planned(steps)


def broken_by(waiting: Waiting, room: Room[SmallPod]) -> list[str]:
    """Carry the moves out, and name what is wrong."""
    cluster = waiting.cluster
    on = {node.number: set(cluster.on(node.number)) for node in cluster.nodes}
    found = [f"{len(room.places)} moves"] * (len(room.places) > MOST)
    for pod, to in room.places:
        on[pod.node].remove(pod)
        on[to].add(pod)
        found += [f"{pod.name} stays"] * pod.stays
        found += [f"{pod.name} does not fit"] * (not is_possible(cluster.nodes[to], on[to]))
    on[room.node].add(waiting.pod)
    found += [f"{n} has too much" for n in on if not is_possible(cluster.nodes[n], on[n])]
    return found


def fewest_moves(
    waiting: Waiting, deterministic_time: float, *, any_node: bool = True
) -> int | None:
    """Return the fewest moves, `MOST` at most, by the solver; None where there is no room.

    With `any_node` pods of every node may move, else those of the pod's own alone.
    """
    cluster, pod = waiting.cluster, waiting.pod
    model = cp_model.CpModel()
    to = {
        n.number: model.new_bool_var(f"to{n.number}")
        for n in cluster.nodes
        if pod.allowed >> n.number & 1
    }
    model.add_exactly_one(to.values())
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
        groups = {p.apart for p in (*cluster.pods, pod) if p.apart}
        sizes += [(1, partial(_is_of, group)) for group in sorted(groups)]
        for limit, size in sizes:
            stays = sum(size(p) * (1 - sum(moves.get(p, {}).values())) for p in there)
            comes = sum(size(p) * x for p, x in ways.items())
            own = size(pod) * to[n] if n in to else 0
            model.add(stays + comes + own <= limit)
    total = sum(x for ways in moves.values() for x in ways.values())
    model.add(total <= MOST)
    model.minimize(total)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = deterministic_time
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return round(solver.objective_value)
    return None


def _is_of(group: str, pod: SmallPod) -> int:
    return int(pod.apart == group)
