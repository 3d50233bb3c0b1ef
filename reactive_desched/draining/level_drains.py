"""Chooses the nodes whose pods all have a place on nodes of cheaper levels, beside each other."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.api.plugin import View
from reactive_desched.api.tried_moves import MoveTrial
from reactive_desched.model.consolidation import EMPTYING, consolidation_of
from reactive_desched.model.node_drains import drain_leaves, is_to_be_drained
from reactive_desched.model.node_marks import is_being_emptied
from reactive_desched.model.objects import Node, Pod, controller_of
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.bits import of_slots
from reactive_desched.state.indexes.node_levels import NodeLevels

MAX_MOVES: Final = 1_000
"""A plan has hardly more: they take an hour, and by then another plan is made."""

Order = Callable[[Pod], tuple[int, int, str, str]]
"""By what the pods of a node are sorted, in their order."""


class LevelDrain(Struct, frozen=True):
    """A node of a level, its pods in their order, each with a place, and all nodes they may go to.

    `has_begun` says that its pods leave already as a set.
    """

    node: str
    level: int
    places: tuple[tuple[Pod, str], ...]
    targets: frozenset[str]
    has_begun: bool = False


class _Targets(Struct, frozen=True):
    """The nodes that take the pods of a level, the cheapest first, and as a set of numbers."""

    numbers: tuple[int, ...]
    among: int
    names: frozenset[str]


class LevelDrains:
    """Plans which nodes of all levels but the last are drained, one after the other.

    `covers` says whether the arguments let a pod leave. With `empties` a node is drained only if
    every pod that has to leave may: those of DaemonSets and static pods stay. A node that takes
    pods in the plan is not drained by it.
    """

    def __init__(
        self,
        view: View,
        levels: NodeLevels,
        trial: MoveTrial,
        covers: Callable[[Pod], bool],
        order: Order,
        *,
        empties: bool,
    ) -> None:
        self._view = view
        self._levels = levels
        self._trial = trial
        self._covers = covers
        self._order = order
        self._empties = empties
        self._taking: set[str] = set()
        self._drained: set[str] = set()
        self._targets: dict[int, _Targets] = {}

    def plan(self) -> Generator[None, None, list[LevelDrain]]:
        """Return the nodes to drain in their order, those first that have begun."""
        found: list[LevelDrain] = []
        moves = 0
        nodes = yield from self._sources()
        for has_begun, level, name in nodes:
            if level not in self._targets:
                self._targets[level] = yield from self._find_targets(level)
            targets = self._targets[level]
            pods = self._leaving(name) if targets.among and name not in self._taking else []
            places = yield from self._places(pods, targets)
            if not places:
                continue
            self._drained.add(name)
            self._taking.update(to for _, to in places)
            found.append(LevelDrain(name, level, places, targets.names, has_begun))
            moves += len(places)
            if moves >= MAX_MOVES:
                break
        return found

    def why_it_stays(self, pods: Sequence[Pod]) -> str:
        """Name the first of these pods that keeps its node from being emptied; empty where none."""
        kept = next((pod for pod in pods if self._keeps(pod)), None)
        return "" if kept is None else f"{kept.namespace}/{kept.name} may not leave {kept.node}"

    def _sources(self) -> Generator[None, None, list[tuple[bool, int, str]]]:
        """List the nodes that may be drained, each with whether it has begun, and its level."""
        found: list[tuple[bool, int, str]] = []
        for level in range(self._levels.count - 1):
            for name in list(self._levels.names(level)):
                node = self._node(name)
                if node is None or self._is_closed(node):
                    continue
                found.append((consolidation_of(node) == EMPTYING, level, name))
                yield
        return sorted(found, key=lambda each: (not each[0], *each[1:]))

    def _find_targets(self, level: int) -> Generator[None, None, _Targets]:
        numbers: list[int] = []
        names: list[str] = []
        for at in range(self._levels.count - 1, level, -1):
            for name in sorted(self._levels.names(at)):
                node, number = self._node(name), self._trial.number_of(name)
                if node is None or number is None or not self._takes_pods(node):
                    continue
                numbers.append(number)
                names.append(name)
                yield
        return _Targets(tuple(numbers), of_slots(numbers), frozenset(names))

    def _takes_pods(self, node: Node) -> bool:
        is_chosen = node.name in self._drained or consolidation_of(node) is not None
        return not (is_chosen or node.unschedulable or self._is_closed(node))

    @staticmethod
    def _is_closed(node: Node) -> bool:
        """Say whether another program, or a person, empties the node."""
        return is_to_be_drained(node) or is_being_emptied(node)

    def _leaving(self, name: str) -> list[Pod]:
        """Return the pods of a node that are to leave, in their order; none where one keeps it."""
        node_and_pods = self._view.pods_of(NodeSubject(name))
        pods = [] if node_and_pods is None else list(node_and_pods[1])
        if self._empties and any(map(self._keeps, pods)):
            return []
        leaving = (pod for pod in pods if not self._view.is_leaving(pod) and self._may_leave(pod))
        return sorted(leaving, key=self._order)

    def _keeps(self, pod: Pod) -> bool:
        """Say whether a pod that would have to leave may not: of others no controller makes one."""
        if drain_leaves(pod) or self._view.is_leaving(pod):
            return False
        return controller_of(pod.owners) is None or not self._may_leave(pod)

    def _may_leave(self, pod: Pod) -> bool:
        if self._empties and drain_leaves(pod):
            return False
        return self._covers(pod) and self._view.evictable(pod)

    def _places(
        self, pods: Sequence[Pod], targets: _Targets
    ) -> Generator[None, None, tuple[tuple[Pod, str], ...]]:
        """Try to place all pods, each on the first node that fits it; empty where one has none."""
        tried: list[tuple[Pod, str]] = []
        for pod in pods:
            yield
            fitting = self._trial.fitting(pod, targets.among)
            number = next((each for each in targets.numbers if fitting >> each & 1), None)
            if number is None:
                for placed, _ in tried:
                    self._trial.undo(placed)
                return ()
            self._trial.move(pod, number)
            tried.append((pod, self._trial.name_of(number)))
        return tuple(tried)

    def _node(self, name: str) -> Node | None:
        node_and_pods = self._view.pods_of(NodeSubject(name))
        return None if node_and_pods is None else node_and_pods[0]


class RoomLeft:
    """Counts the cpu and memory left of nodes beside pods that are placed on them, in a sweep.

    As koordinator counts it: requests alone, whatever else keeps pods from sharing a node.
    """

    def __init__(self, view: View, names: Iterator[str]) -> None:
        self._left: dict[str, dict[str, int]] = {}
        for name in names:
            if (node_and_pods := view.pods_of(NodeSubject(name))) is None:
                continue
            node, pods = node_and_pods
            requests = [pod.spec.requests for pod in pods]
            self._left[name] = {
                resource: node.allocatable.get(resource, 0)
                - sum(each.get(resource, 0) for each in requests)
                for resource in (CPU, MEMORY)
            }

    def take(self, pods: Sequence[Pod], fits: Callable[[Pod, str], bool]) -> bool:
        """Place each pod on the first node that fits it; place none where one fits nowhere."""
        before = {name: dict(left) for name, left in self._left.items()}
        for pod in pods:
            asked = pod.spec.requests
            places = (
                name for name, left in self._left.items() if _has(left, asked) and fits(pod, name)
            )
            if (name := next(places, None)) is None:
                self._left = before
                return False
            for resource in self._left[name]:
                self._left[name][resource] -= asked.get(resource, 0)
        return True


def _has(left: Mapping[str, int], asked: Mapping[str, int]) -> bool:
    return all(amount <= left[resource] for resource, amount in asked.items() if resource in left)
