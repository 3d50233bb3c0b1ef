"""Pods that fit nowhere in small clusters, and how room for them is made."""

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from random import Random

from msgspec import Struct

from reactive_desched.draining.making_room import (
    AS_RANKED,
    Mover,
    Room,
    RoomCandidate,
    Way,
    find_room,
    find_rooms,
)
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


def random_waiting(
    seed: int, draw: Callable[[int], SmallCluster] = random_cluster
) -> Waiting | None:
    """Return a pod that waits in a random cluster; None where it would fit somewhere."""
    dice = Random(seed * 7919 + 1)
    cluster = draw(seed)
    everywhere = (1 << len(cluster.nodes)) - 1
    pod = SmallPod(
        "waits",
        NOWHERE,
        dice.choice([1000, 2000, 3000, 4000, 6000]),
        dice.choice([1, 4, 8, 16]),
        everywhere if dice.random() < 0.7 else dice.randint(1, everywhere),
        dice.choice("abcd") if dice.random() < 0.2 else "",
        even=_even_in(cluster, dice),
    )
    places = SmallPlaces(cluster)
    return None if places.fitting(pod, everywhere) else Waiting(cluster, pod)


def _even_in(cluster: SmallCluster, dice: Random) -> str:
    """Return, for some pods that wait, a group that is even over the zones."""
    groups = sorted({pod.even for pod in cluster.pods if pod.even})
    return dice.choice(groups) if groups and dice.random() < 0.5 else ""


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
    return planned(_search(waiting, everywhere, places))


def _search(
    waiting: Waiting, everywhere: int, places: SmallPlaces
) -> Generator[None, None, Room[SmallPod] | None]:
    """Look for moves of one node's pods, then of another one's as well, as the plugin does."""
    of = candidates(waiting)
    room = yield from find_room(waiting.pod, of, everywhere, places, MOST)
    if room is None:
        makes = partial(_place_candidates, waiting.cluster, places)
        room = yield from find_room(
            waiting.pod, of, everywhere, places, MOST, place_candidates=makes
        )
    return room


def _place_candidates(
    cluster: SmallCluster, places: SmallPlaces, pod: SmallPod, among: int
) -> Generator[None, None, list[RoomCandidate[SmallPod]]]:
    yield
    found = []
    for node in cluster.nodes:
        if not among & pod.allowed >> node.number & 1 or node.number == pod.node:
            continue
        there = places.on(node.number)
        lacks = {
            "cpu": pod.cpu - (node.cpu - sum(each.cpu for each in there)),
            "memory": pod.memory - (node.memory - sum(each.memory for each in there)),
            "pods": 1 - (MAX_PODS - len(there)),
        }
        movers = tuple(
            Mover(each, 1.0, {"cpu": each.cpu, "memory": each.memory, "pods": 1})
            for each in there
            if not each.stays and each.node == node.number
        )
        found.append(RoomCandidate(node.number, lacks, movers))
    return found


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
        found += [f"{pod.name} is uneven"] * (not is_even(cluster, on, pod, to))
    on[room.node].add(waiting.pod)
    found += ["it is uneven"] * (not is_even(cluster, on, waiting.pod, room.node))
    found += [f"{n} has too much" for n in on if not is_possible(cluster.nodes[n], on[n])]
    return found


def is_even(cluster: SmallCluster, on: dict[int, set[SmallPod]], pod: SmallPod, to: int) -> bool:
    """Say whether a pod was allowed where it came last, by its spread over the zones."""
    if not pod.even:
        return True
    counts = Counter({node.zone: 0 for node in cluster.nodes})
    for number, pods in on.items():
        counts[cluster.nodes[number].zone] += sum(each.even == pod.even for each in pods)
    zone = cluster.nodes[to].zone
    others = counts.copy()
    others[zone] -= 1
    return counts[zone] - min(others.values()) <= 1


class WaitingGang(Struct, frozen=True):
    """A cluster and the pods of a gang, all of which have to run, and do not all fit."""

    cluster: SmallCluster
    pods: tuple[SmallPod, ...]


def random_gang(seed: int) -> WaitingGang | None:
    """Return a gang of two to six pods in a random cluster; None where all of them fit."""
    dice = Random(seed * 104_729 + 3)
    cluster = random_cluster(seed)
    everywhere = (1 << len(cluster.nodes)) - 1
    cpu, memory = dice.choice([1000, 2000, 3000, 4000]), dice.choice([1, 4, 8])
    allowed = everywhere if dice.random() < 0.7 else dice.randint(1, everywhere)
    pods = [
        SmallPod(f"g{number}", NOWHERE, cpu, memory, allowed)
        for number in range(dice.randint(2, 6))
    ]
    if dice.random() < 0.3:  # the one that leads the others is smaller
        pods[-1] = SmallPod("leader", NOWHERE, 500, 1, everywhere)
    finder = SmallFinder(cluster, most=0)
    all_fit = planned(find_rooms(pods, len(pods), finder))
    return None if all_fit else WaitingGang(cluster, tuple(pods))


class SmallFinder:
    """Looks for rooms in a small cluster, one beside the other."""

    def __init__(self, cluster: SmallCluster, most: int = MOST) -> None:
        self._cluster = cluster
        self._most = most
        self.places = SmallPlaces(cluster)
        self.moving: set[SmallPod] = set()
        self._way = AS_RANKED

    def go(self, way: Way) -> None:
        self._way = way

    def find(self, pod: SmallPod) -> Generator[None, None, Room[SmallPod] | None]:
        everywhere = (1 << len(self._cluster.nodes)) - 1
        if fitting := self._way.allowed(self.places.fitting(pod, everywhere)):
            places, way = self.places, self._way
            fullest = max(
                slots_in(fitting), key=lambda node: way.fullness(node, places.fullness(node), pod)
            )
            return Room(pod, fullest, 0.0, ())
        found = self._candidates(pod, self._way.allowed(everywhere))
        steps = find_room(pod, found, everywhere, self.places, self._most, way=self._way)
        return (yield from steps)

    def take(self, room: Room[SmallPod]) -> Generator[None, None, None]:
        for moved, to in room.places:
            self.places.move(moved, to)
            self.places.vacate(moved)
            self.moving.add(moved)
            yield
        self.places.move(room.pod, room.node)

    def give_back(self, room: Room[SmallPod]) -> None:
        self.places.undo(room.pod)
        for moved, _ in reversed(room.places):
            self.places.take_again(moved)
            self.places.undo(moved)
            self.moving.discard(moved)

    def _candidates(self, pod: SmallPod, among: int) -> list[RoomCandidate[SmallPod]]:
        found = []
        for node in self._cluster.nodes:
            if not (pod.allowed & among) >> node.number & 1:
                continue
            there = self.places.on(node.number)
            lacks = {
                "cpu": pod.cpu - (node.cpu - sum(each.cpu for each in there)),
                "memory": pod.memory - (node.memory - sum(each.memory for each in there)),
                "pods": 1 - (MAX_PODS - len(there)),
            }
            movers = tuple(
                Mover(each, 1.0, {"cpu": each.cpu, "memory": each.memory, "pods": 1})
                for each in self._cluster.on(node.number)
                if not each.stays and each not in self.moving
            )
            found.append(RoomCandidate(node.number, lacks, movers))
        return found


def broken_by_gang(waiting: WaitingGang, rooms: tuple[Room[SmallPod], ...]) -> list[str]:
    """Carry the moves out one by one, and name what is wrong after one of them, or at the end."""
    cluster = waiting.cluster
    on = {node.number: set(cluster.on(node.number)) for node in cluster.nodes}
    found: list[str] = []
    for room in rooms:
        found += [f"{len(room.places)} moves"] * (len(room.places) > MOST)
        for pod, to in room.places:
            on[pod.node].remove(pod)
            on[to].add(pod)
            found += [f"{pod.name} stays"] * pod.stays
            found += [f"{pod.name} does not fit"] * (not is_possible(cluster.nodes[to], on[to]))
    for room in rooms:
        on[room.node].add(room.pod)
    found += [f"{n} has too much" for n in on if not is_possible(cluster.nodes[n], on[n])]
    found += ["not all"] * ({room.pod for room in rooms} != set(waiting.pods))
    return found
