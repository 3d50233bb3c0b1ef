"""Looks for room for pods that wait: who may move for them, and who is served without a move.

Every node is looked at once for a pod, so it is done in steps; the search is `making_room.py`.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from heapq import nsmallest
from itertools import islice
from typing import Final

from msgspec import Struct

from reactive_desched.api.plugin import View
from reactive_desched.api.tried_moves import MoveTrial
from reactive_desched.draining.making_room import (
    AS_RANKED,
    MAX_COMPARED,
    MAX_LOOKS,
    Mover,
    Room,
    RoomCandidate,
    Way,
    counted,
    find_room,
    find_rooms,
    least_cost,
)
from reactive_desched.draining.waiting_pods import PodsToPlace, kind_of
from reactive_desched.model.consolidation import EMPTYING, consolidation_of
from reactive_desched.model.move_cost import move_cost
from reactive_desched.model.node_drains import drain_leaves, is_to_be_drained
from reactive_desched.model.node_marks import is_being_emptied
from reactive_desched.model.objects import Node, Pod, PodKey, controller_of
from reactive_desched.model.resources import PODS
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.bits import of_slots, slots_in
from reactive_desched.text.counts import format_count

MAX_CANDIDATES: Final = 200
"""So many nodes at most are tried for a pod, those first that cost least by amounts alone."""

MAX_PLACES: Final = 200
"""On so many nodes at most a place is looked for that another move makes for a pod that moves."""

MAX_FURTHER_LOOKS: Final = 10_000
"""So many steps in one plan are spent on rooms that take moves of pods of a second node."""

NOMINATED_RANK: Final = -1.0
"""The node for which the pod is nominated comes before others that cost the same."""

Rooms = tuple[Room[Pod], ...]
Steps = Generator[None, None, "Room[Pod] | NoRoom"]


class NoRoom(Struct, frozen=True):
    """The reason why nothing moves for a pod, for people; with `is_served` it needs no move."""

    why: str
    is_served: bool = False


class RoomRules(Struct, frozen=True):
    """The arguments: whether they let a pod leave, and how many pods may move for one."""

    takes_pod: Callable[[Pod], bool]
    max_moves: int


class PendingRooms:
    """The nodes of one moment, as pods that wait find them; `begin` comes first."""

    def __init__(self, view: View, rules: RoomRules, trial: MoveTrial) -> None:
        self._view = view
        self._rules = rules
        self._trial = trial
        self._nodes: dict[int, Node] = {}
        self._takers = 0
        self._moving: set[PodKey] = set()
        self._further_looks = MAX_FURTHER_LOOKS

    def begin(self) -> Generator[None, None, None]:
        """Look at every node that is eligible; pods that leave already count no more."""
        takers: list[int] = []
        for name in self._view.node_names():
            yield
            found = self._view.pods_of(NodeSubject(name))
            number = self._trial.number_of(name)
            if found is None or number is None or not _takes_pods(found[0]):
                continue
            node, pods = found
            self._nodes[number] = node
            for pod in list(pods):
                if self._view.is_leaving(pod):
                    self._trial.vacate(pod)
            if consolidation_of(node) is None:
                takers.append(number)
        self._takers = of_slots(takers)

    def search(self, waiting: PodsToPlace) -> Generator[None, None, "Rooms | NoRoom"]:
        """Look for the cheapest room for a pod, or for as many of a gang as have to run.

        What is found is taken: it counts for what is looked for later.
        """
        for pod in waiting.pods:
            if (own := why_left_alone(pod)) is not None:
                return own
        finder = _OneByOne(self, is_gang=waiting.gang is not None)
        rooms = yield from find_rooms(waiting.pods, waiting.needed, finder)
        if not rooms:
            return finder.why
        if not any(room.places for room in rooms):
            self.give_back(rooms)
            pods = format_count(waiting.needed, "pod", "fits", "fit")
            why = f"{pods} of {waiting}, at the latest when what leaves is gone"
            return NoRoom(why, is_served=True)
        return rooms

    def give_back(self, rooms: Rooms) -> None:
        """Let rooms that were found count as free again, and the pods in them as staying."""
        for room in reversed(rooms):
            self.give_one_back(room)

    def give_one_back(self, room: Room[Pod]) -> None:
        """Let one room count as free again; those that were taken later have to be free before."""
        self._trial.undo(room.pod)
        for moved, _ in reversed(room.places):
            self._trial.take_again(moved)
            self._trial.undo(moved)
            self._moving.discard(moved.uid)

    def take(self, room: Room[Pod]) -> Generator[None, None, None]:
        """Let the room count as taken for the pods that come after this one."""
        for moved, to in room.places:
            self._trial.move(moved, to)
            self._trial.vacate(moved)
            self._moving.add(moved.uid)
            yield
        self._trial.move(room.pod, room.node)

    def find(self, pod: Pod, way: Way, *, is_gang: bool) -> Steps:
        """Look for the cheapest room for a pod; a pod of a gang may have one without a move."""
        among = self._trial.reachable(pod, of_slots(list(self._nodes)))
        yield
        if not among:
            why = "no node would take it, whatever leaves: taints, affinity, or what nodes declare"
            return NoRoom(why)
        fitting = self._trial.fitting(pod, among)
        yield
        if is_gang:
            kept = yield from self._beside_its_gang(pod, among, fitting, way)
            if kept is not None:
                return kept
        elif fitting:
            why = "it fits on a node, at the latest when what leaves is gone"
            return NoRoom(why, is_served=True)
        return (yield from self._cheapest(pod, among, way, is_gang=is_gang))

    def _beside_its_gang(
        self, pod: Pod, among: int, fitting: int, way: Way
    ) -> Generator[None, None, Room[Pod] | None]:
        """Return the room for which a pod is nominated, or one without a move, if there is one.

        Else the others of its gang would find other rooms than those that are being made.
        """
        kept = self._nominated(pod, among)
        if kept is not None and not fitting >> kept & 1:
            candidates = [self._only_evictable(self._candidate(pod, kept))]
            room = yield from self._find_room(pod, candidates, AS_RANKED)
            if room is not None:
                return room
        if kept is not None and fitting >> kept & 1:
            return Room(pod, kept, 0.0, ())
        if not (fitting := way.allowed(fitting)):
            return None
        return Room(pod, self._fullest(pod, fitting, way), 0.0, ())

    def _cheapest(self, pod: Pod, among: int, way: Way, *, is_gang: bool) -> Steps:
        """Look for the cheapest room on one of these nodes; preemption may be on any of them.

        Where pods of no node are enough, those of a second one make places for them; not for gangs.
        """
        allowed = way.allowed(among)
        ranked: list[tuple[float, float, str, int]] = []
        for number in self._numbers(among):
            yield
            candidate = self._candidate(pod, number)
            if (yield from self._preempts(pod, number, candidate.lacks)):
                name = self._trial.name_of(number)
                return NoRoom(
                    f"preemption makes room on {name}: pods of lower priority are there",
                    is_served=True,
                )
            if not allowed >> number & 1:
                continue
            if (bound := least_cost(candidate, self._rules.max_moves)) is not None:
                name = self._trial.name_of(number)  # its number may differ after a restart
                ranked.append((bound, candidate.rank, name, number))
        if not ranked:
            return NoRoom(f"no {self._rules.max_moves} pods of a node that may move are enough")
        candidates = []
        for *_, number in nsmallest(MAX_CANDIDATES, ranked):
            candidates.append(self._only_evictable(self._candidate(pod, number)))
            yield
        room = yield from self._find_room(pod, candidates, way)
        if room is None and not is_gang:
            room = yield from self._find_by_second_node(pod, candidates)
        return room or NoRoom(
            "the pods that would have to move may not be evicted, or fit on no other node"
        )

    def _find_room(
        self, pod: Pod, candidates: list[RoomCandidate[Pod]], way: Way
    ) -> Generator[None, None, Room[Pod] | None]:
        most = self._rules.max_moves
        return find_room(pod, candidates, self._takers, self._trial, most, way=way)

    def _find_by_second_node(
        self, pod: Pod, candidates: list[RoomCandidate[Pod]]
    ) -> Generator[None, None, Room[Pod] | None]:
        """Look for room for which pods of another node move first, as long as the plan may."""
        most = self._rules.max_moves
        if most == 1 or self._further_looks <= 0:
            return None
        looks = min(MAX_LOOKS, self._further_looks)
        places = partial(self._place_candidates, pod)
        room, spent = yield from counted(
            find_room(
                pod, candidates, self._takers, self._trial, most, looks, place_candidates=places
            )
        )
        self._further_looks -= spent
        return room

    def _place_candidates(
        self, waiting: Pod, pod: Pod, among: int
    ) -> Generator[None, None, list[RoomCandidate[Pod]]]:
        """Return nodes on which another move may make a place for a pod that has to leave its own.

        Who moves there moves for the pod that waits: its priority counts.
        """
        own = self._trial.number_of(pod.node)
        among &= 0 if own is None else ~(1 << own)
        reachable = self._trial.reachable(pod, among)
        yield
        numbers = nsmallest(MAX_PLACES, self._numbers(reachable), key=self._trial.name_of)
        found = []
        for number in numbers:
            yield
            candidate = self._candidate(pod, number, waiting)
            if least_cost(candidate, self._rules.max_moves - 1) is not None:
                found.append(self._only_evictable(candidate))
        return found

    def _nominated(self, pod: Pod, among: int) -> int | None:
        """Return the node for which the pod is nominated, if it is one of these."""
        at = pod.status.nominated_node
        number = self._trial.number_of(at) if at else None
        return number if number is not None and among >> number & 1 else None

    def _fullest(self, pod: Pod, fitting: int, way: Way) -> int:
        """Return the fullest of some nodes: the room of others is kept whole."""

        def rank(number: int) -> tuple[float, str]:
            fullness = way.fullness(number, self._trial.fullness(number), pod)
            return -fullness, self._trial.name_of(number)

        return min(islice(slots_in(fitting), MAX_COMPARED), key=rank)

    def _numbers(self, among: int) -> Iterator[int]:
        return (number for number in list(self._nodes) if among >> number & 1)

    def _candidate(self, pod: Pod, number: int, waiting: Pod | None = None) -> RoomCandidate[Pod]:
        """Return what a node lacks for a pod, and what may leave it for one that waits, or it."""
        lacks, name = self._trial.lacking(pod, number), self._trial.name_of(number)
        movers = tuple(
            Mover(each, move_cost(each), {r: _gives(each, r) for r in lacks})
            for each in self._pods_on(name)
            if self._may_move(each, waiting or pod)
        )
        rank = NOMINATED_RANK if pod.status.nominated_node == name else 0.0
        return RoomCandidate(number, lacks, movers, rank)

    def _only_evictable(self, candidate: RoomCandidate[Pod]) -> RoomCandidate[Pod]:
        movers = tuple(
            sorted(
                (each for each in candidate.movers if self._view.evictable(each.pod)),
                key=lambda each: (each.pod.namespace, each.pod.name),  # the same after a restart
            )
        )
        return RoomCandidate(candidate.node, candidate.lacks, movers, candidate.rank)

    def _may_move(self, each: Pod, pod: Pod) -> bool:
        """Say whether a pod may move for another by itself; the evictor is asked later."""
        return (
            (each.spec.priority or 0) <= (pod.spec.priority or 0)
            and each.uid not in self._moving
            and not self._view.is_leaving(each)
            and not drain_leaves(each)
            and controller_of(each.owners) is not None
            and self._rules.takes_pod(each)
        )

    def _preempts(
        self, pod: Pod, number: int, lacks: Mapping[str, int]
    ) -> Generator[None, None, bool]:
        """Say whether the kube-scheduler makes room on a node by preemption.

        It takes all pods of lower priority away, and asks its filters again.
        """
        if pod.spec.never_preempts:
            return False
        lower = [
            each
            for each in self._pods_on(self._trial.name_of(number))
            if (each.spec.priority or 0) < (pod.spec.priority or 0)
            and each.uid not in self._moving
            and not self._view.is_leaving(each)
        ]
        if not lower or any(
            sum(_gives(each, resource) for each in lower) < lacking
            for resource, lacking in lacks.items()
        ):
            return False
        for each in lower:
            self._trial.vacate(each)
        try:
            fits = self._trial.fitting(pod, 1 << number)
            yield
        finally:
            for each in lower:
                self._trial.take_again(each)
        return bool(fits)

    def _pods_on(self, name: str) -> list[Pod]:
        found = self._view.pods_of(NodeSubject(name))
        return [] if found is None else list(found[1])


class _OneByOne:
    """Looks for the rooms of a gang's pods, one beside the other; `why` is why one has none."""

    def __init__(self, rooms: PendingRooms, *, is_gang: bool) -> None:
        self._rooms = rooms
        self._is_gang = is_gang
        self._without: set[object] = set()
        self._way = AS_RANKED
        self.why = NoRoom("")

    def go(self, way: Way) -> None:
        """Look in this way from now on."""
        self._way = way
        self._without.clear()

    def find(self, pod: Pod) -> Generator[None, None, Room[Pod] | None]:
        """Return a room; of pods that are equal the first without one speaks for the others."""
        if kind_of(pod) in self._without:
            return None
        found = yield from self._rooms.find(pod, self._way, is_gang=self._is_gang)
        if isinstance(found, Room):
            return found
        self._without.add(kind_of(pod))
        if self._way == AS_RANKED:
            self.why = found
        return None

    def take(self, room: Room[Pod]) -> Generator[None, None, None]:
        """Let the room count as taken."""
        return self._rooms.take(room)

    def give_back(self, room: Room[Pod]) -> None:
        """Let it count as free again."""
        self._rooms.give_one_back(room)


def why_left_alone(pod: Pod) -> NoRoom | None:
    """Say why nothing is moved for a pod, by the pod alone."""
    if pod.has_resource_claims:
        return NoRoom("it claims devices, and which of them are free is not looked at")
    return None


def _takes_pods(node: Node) -> bool:
    if node.unschedulable or is_to_be_drained(node) or is_being_emptied(node):
        return False
    return consolidation_of(node) != EMPTYING


def _gives(pod: Pod, resource: str) -> int:
    """Return what a node has more of a resource without a pod."""
    return 1 if resource == PODS else pod.held.get(resource, 0)
