"""Random clusters of a few nodes, and the rules by which the search may empty nodes there.

The rules are those that make a packing hard: two resources, the number of pods, nodes on which a
pod may not be, pods that must not be together, and nodes that have to stay in each zone. In
constrained clusters there are more: workloads even over zones, volumes of one zone, headroom, pods
of DaemonSets, and more pods that a budget keeps.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from math import inf
from random import Random

from msgspec import Struct

from reactive_desched.draining.emptying import EmptyingPlan, Giver, plan_emptying
from reactive_desched.primitives.bits import slots_in
from tests.support.planned import planned

MAX_PODS = 16


class SmallPod(Struct, frozen=True):
    """`apart` is a group of which no two pods are on a node, `even` one that is even over zones.

    Both are empty for none.
    """

    name: str
    node: int
    cpu: int
    memory: int
    allowed: int
    apart: str = ""
    stays: bool = False
    even: str = ""

    @property
    def key(self) -> str:
        return self.name


class SmallNode(Struct, frozen=True):
    number: int
    cpu: int
    memory: int
    zone: str


class SmallCluster(Struct, frozen=True):
    """With `headroom` so many per cent of the cpu of all nodes that are left have to stay free."""

    nodes: tuple[SmallNode, ...]
    pods: tuple[SmallPod, ...]
    headroom: int = 0

    def on(self, node: int) -> list[SmallPod]:
        return [pod for pod in self.pods if pod.node == node]

    @property
    def givers(self) -> list[Giver[SmallPod]]:
        """Nodes with pods, all of which may leave, the largest first."""
        found = []
        for node in self.nodes:
            pods = self.on(node.number)
            if pods and not any(pod.stays for pod in pods):
                pods.sort(key=lambda pod: (-max(pod.cpu, pod.memory), pod.name))
                takes: dict[Hashable, int] = {node.zone: 1, "cpu": node.cpu}
                found.append(Giver(node.number, tuple(pods), float(len(pods)), takes=takes))
        return found

    @property
    def takers(self) -> int:
        """Nodes that are not empty."""
        found = 0
        for pod in self.pods:
            found |= 1 << pod.node
        return found

    @property
    def budgets(self) -> dict[Hashable, int]:
        """One node of each zone has to stay, and the headroom."""
        zones = Counter(node.zone for node in self.nodes)
        found: dict[Hashable, int] = {zone: number - 1 for zone, number in zones.items()}
        needed = sum(pod.cpu for pod in self.pods) * 100 // (100 - self.headroom)
        has = sum(node.cpu for node in self.nodes if self.on(node.number))
        return {**found, "cpu": has - needed}


class SmallPlaces:
    """The rules of a small cluster, with moves that are tried."""

    def __init__(self, cluster: SmallCluster) -> None:
        self._nodes = {node.number: node for node in cluster.nodes}
        self._on: dict[int, set[SmallPod]] = {
            node.number: set(cluster.on(node.number)) for node in cluster.nodes
        }
        self.tried: dict[SmallPod, int] = {}
        self._begun = {number: frozenset(pods) for number, pods in self._on.items()}

    @property
    def is_untouched(self) -> bool:
        """Say whether all pods are where they were at first, and no others."""
        return self._begun == self._on

    def fitting(self, pod: SmallPod, among: int) -> int:
        found = 0
        for number in slots_in(among & pod.allowed):
            if number == pod.node or not self._stays_even(pod, number):
                continue
            if is_possible(self._nodes[number], [*self._on[number], pod]):
                found |= 1 << number
        return found

    def _stays_even(self, pod: SmallPod, number: int) -> bool:
        """Say whether the kube-scheduler lets the replacement of a pod go to a node."""
        if not pod.even:
            return True
        counts = Counter({node.zone: 0 for node in self._nodes.values()})
        alike = {each for pods in self._on.values() for each in pods if each.even == pod.even}
        for each in alike - {pod}:
            counts[self._nodes[self.tried.get(each, each.node)].zone] += 1
        return counts[self._nodes[number].zone] + 1 - min(counts.values()) <= 1

    def fullness(self, node: int) -> float:
        has, pods = self._nodes[node], self._on[node]
        return max(
            sum(pod.cpu for pod in pods) / has.cpu, sum(pod.memory for pod in pods) / has.memory
        )

    def room(self, node: int) -> float:
        has, pods = self._nodes[node], self._on[node]
        return min(
            (has.cpu - sum(pod.cpu for pod in pods)) / 8000,
            (has.memory - sum(pod.memory for pod in pods)) / 32,
        )

    def move(self, pod: SmallPod, node: int) -> None:
        self.tried[pod] = node
        self._on[node].add(pod)

    def undo(self, pod: SmallPod) -> None:
        self._on[self.tried.pop(pod)].remove(pod)

    def on(self, node: int) -> list[SmallPod]:
        """Return what is on a node with the moves that are tried."""
        return list(self._on[node])

    def vacate(self, pod: SmallPod) -> None:
        self._on[pod.node].remove(pod)

    def take_again(self, pod: SmallPod) -> None:
        self._on[pod.node].add(pod)


def is_possible(node: SmallNode, pods: Iterable[SmallPod]) -> bool:
    """Say whether pods may be on a node together."""
    pods = list(pods)
    apart = [pod.apart for pod in pods if pod.apart]
    return (
        sum(pod.cpu for pod in pods) <= node.cpu
        and sum(pod.memory for pod in pods) <= node.memory
        and len(pods) <= MAX_PODS
        and len(set(apart)) == len(apart)
        and all(pod.allowed >> node.number & 1 for pod in pods)
    )


def random_cluster(seed: int) -> SmallCluster:
    """Return a cluster of 3 to 20 nodes that are used from a tenth to nine tenths."""
    dice = Random(seed)
    sizes = dice.choice([[(8000, 32)], [(4000, 16), (8000, 32)], [(4000, 32), (8000, 16)]])
    nodes = []
    for number in range(dice.randint(3, 20)):
        cpu, memory = dice.choice(sizes)
        nodes.append(SmallNode(number, cpu, memory, f"z{number % 3}"))
    everywhere = (1 << len(nodes)) - 1
    fill = dice.uniform(0.1, 0.9)
    pods: list[SmallPod] = []
    for node in nodes:
        use = min(0.98, fill * dice.uniform(0.3, 1.7))
        here: list[SmallPod] = []
        for _ in range(40):
            cpu, memory = dice.choice([250, 500, 1000, 2000]), dice.choice([1, 1, 2, 4])
            allowed = everywhere
            if dice.random() < 0.15:
                half = range(node.number % 2, len(nodes), 2)
                allowed = sum(1 << each for each in half)
            apart = dice.choice("abcd") if dice.random() < 0.15 else ""
            pod = SmallPod(
                f"n{node.number}-{len(here)}",
                node.number,
                cpu,
                memory,
                allowed,
                apart,
                stays=dice.random() < 0.01,
            )
            if is_possible(node, [*here, pod]):
                here.append(pod)
            if sum(each.cpu for each in here) > use * node.cpu:
                break
            if sum(each.memory for each in here) > use * node.memory:
                break
        pods += here
    return SmallCluster(tuple(nodes), tuple(pods))


def constrained_cluster(seed: int) -> SmallCluster:
    """Return such a cluster with more constraints."""
    cluster, dice = random_cluster(seed), Random(seed + 1)
    taken = dice.choice([0, 250, 500])  # by pods of DaemonSets, where there is room for them
    used = Counter[int]()
    for pod in cluster.pods:
        used[pod.node] += pod.cpu
    nodes = [
        SmallNode(node.number, max(node.cpu - taken, used[node.number]), node.memory, node.zone)
        for node in cluster.nodes
    ]
    in_zone: dict[str, list[SmallPod]] = {node.zone: [] for node in nodes}
    for pod in cluster.pods:
        in_zone[nodes[pod.node].zone].append(pod)
    even: dict[SmallPod, str] = {}
    for group in "xy":
        for pods in in_zone.values():
            free = [pod for pod in pods if pod not in even]
            if len(free) > 1:
                even |= dict.fromkeys(dice.sample(free, 2), group)
    even = {pod: group for pod, group in even.items() if _is_even(group, even, nodes)}
    pods = []
    for pod in cluster.pods:
        allowed = pod.allowed
        if dice.random() < 0.1:  # its volume
            there = [n.number for n in nodes if n.zone == nodes[pod.node].zone]
            allowed &= sum(1 << number for number in there)
        stays = pod.stays or dice.random() < 0.02
        pods.append(
            SmallPod(
                *(pod.name, pod.node, pod.cpu, pod.memory, allowed, pod.apart, stays),
                even.get(pod, ""),
            )
        )
    return SmallCluster(tuple(nodes), tuple(pods), headroom=dice.choice([0, 10, 20]))


def _is_even(group: str, even: dict[SmallPod, str], nodes: list[SmallNode]) -> bool:
    counts = Counter({node.zone: 0 for node in nodes})
    counts.update(nodes[pod.node].zone for pod, of in even.items() if of == group)
    return len(set(counts.values())) == 1


def search(cluster: SmallCluster, enough: float = inf) -> EmptyingPlan[SmallPod]:
    """Return what the search finds: all nodes that can be emptied, or enough of them."""
    places = SmallPlaces(cluster)
    steps = plan_emptying(cluster.givers, cluster.takers, places, cluster.budgets, enough=enough)
    return planned(steps)
