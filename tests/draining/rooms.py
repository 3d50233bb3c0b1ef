"""Pods that fit nowhere in small clusters, and how room for them is made."""

from random import Random

from msgspec import Struct

from reactive_desched.draining.making_room import Mover, Room, RoomCandidate, find_room
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
