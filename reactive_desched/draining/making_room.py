"""Finds the cheapest moves after which a pod that waits fits on a node.

It is a search without a rule of the kube-scheduler: `RoomPlaces` says which nodes fit a pod beside
the moves that were tried so far. Nodes are ranked by amounts alone, by what they lack for the pod
and what each of their pods gives; the cheapest are then tried by all rules.
"""

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, Generic, Protocol, TypeVar
from zlib import crc32

from msgspec import Struct

from reactive_desched.draining.emptying import Movable, Moves, Places
from reactive_desched.primitives.bits import of_slots, slots_in

PodT = TypeVar("PodT", bound=Movable)
FoundT = TypeVar("FoundT")
PodT_contra = TypeVar("PodT_contra", bound=Movable, contravariant=True)

MAX_LOOKS: Final = 2_000
"""So many times at most it is asked for one pod which nodes fit a pod; then there is no room."""

MAX_CHOICES: Final = 20_000
"""So many choices of pods of a node are looked at; then the cheapest so far is taken."""

CHOICES_PER_STEP: Final = 200

MAX_COMPARED: Final = 16
"""Of the nodes that fit a pod so many are compared."""


MAX_WAYS: Final = 30
"""A gang without rooms is looked at in so many ways at most."""

MAX_STEPS: Final = 3_000
"""No further way is begun after so many steps: in a cluster of thousands of nodes there is one."""

LEFT_OUT: Final = 0.2
"""The share of nodes that another way leaves out."""


class Way(Struct, frozen=True):
    """The way in which rooms are looked for: as they rank in the first, else in part by chance.

    The chance is that of a hash: the same for a node and a pod whatever was asked before.
    """

    number: int = 0

    def allowed(self, nodes: int) -> int:
        """Return those of the nodes on which rooms are looked for."""
        if not self.number:
            return nodes
        return of_slots([node for node in slots_in(nodes) if self._chance(node) >= LEFT_OUT])

    def rank(self, node: int) -> float:
        """Return what orders nodes that cost the same; at most 1."""
        return self._chance(node, "rank") if self.number else 0.0

    def fullness(self, node: int, fullness: float, pod: Movable) -> float:
        """Return how full a node counts as a place for a pod; in every other way for all alike."""
        if not self.number:
            return fullness
        return fullness + self._chance(node, pod.key if self.number % 2 else "place")

    def _chance(self, node: int, what: Hashable = "") -> float:
        return crc32(f"{self.number}/{node}/{what}".encode()) / 2**32


AS_RANKED: Final = Way()


class RoomPlaces(Places[PodT_contra], Protocol[PodT_contra]):
    """Answers which nodes fit a pod, also where pods are taken to have left their nodes."""

    def vacate(self, pod: PodT_contra) -> None:
        """Take a pod to have left its node."""
        ...

    def take_again(self, pod: PodT_contra) -> None:
        """Take it to be there again."""
        ...


class Mover(Struct, Generic[PodT], frozen=True, gc=False):
    """A pod that may leave its node, what its move costs, and what it gives of what is lacking."""

    pod: PodT
    cost: float
    gives: Mapping[str, int]


class RoomCandidate(Struct, Generic[PodT], frozen=True, gc=False):
    """A node that the pod could be on: what it lacks by resource, and the pods that may leave it.

    Of two that cost the same the one of the lower `rank` is taken.
    """

    node: int
    lacks: Mapping[str, int]
    movers: tuple[Mover[PodT], ...]
    rank: float = 0.0

    def without(self, keys: Collection[Hashable]) -> "RoomCandidate[PodT]":
        """Return it without some of its pods."""
        movers = tuple(each for each in self.movers if each.pod.key not in keys)
        return RoomCandidate(self.node, self.lacks, movers, self.rank)


class Room(Struct, Generic[PodT], frozen=True):
    """A node on which the pod fits once these pods have moved, in this order, to these nodes.

    The `earlier` of them are pods of other nodes: they make the places for those of this one.
    """

    pod: PodT
    node: int
    cost: float
    places: Moves[PodT]
    earlier: Moves[PodT] = ()


PlaceCandidates = Callable[[PodT, int], Generator[None, None, Sequence[RoomCandidate[PodT]]]]
"""Returns those of the nodes on which a place for a pod that moves could be made by a move."""


class RoomFinder(Protocol[PodT]):
    """Looks for room for one pod after the other; a room that is taken counts for those after."""

    def go(self, way: Way) -> None:
        """Look in this way from now on."""
        ...

    def find(self, pod: PodT) -> Generator[None, None, Room[PodT] | None]:
        """Return a room for a pod, without a move where it fits; None where there is none."""
        ...

    def take(self, room: Room[PodT]) -> Generator[None, None, None]:
        """Let the pod count in its room, and those that move for it where they go."""
        ...

    def give_back(self, room: Room[PodT]) -> None:
        """Let a room that was taken count as free again, and the pods in it as staying."""
        ...


def find_rooms(
    pods: Sequence[PodT], needed: int, finder: RoomFinder[PodT]
) -> Generator[None, None, tuple[Room[PodT], ...]]:
    """Take rooms for so many of the pods, one after the other; none where there are not enough.

    A prefix of their moves is harmless: each was tried on top of those before it. Where the
    cheapest rooms of the first pods leave none for the others, further ways are tried.
    """
    spent = 0
    for number in range(MAX_WAYS if len(pods) > 1 else 1):
        finder.go(Way(number))
        found, steps = yield from counted(_one_after_the_other(pods, needed, finder))
        spent += steps
        if found or spent >= MAX_STEPS:
            return found
    return ()


def counted(steps: Generator[None, None, FoundT]) -> Generator[None, None, tuple[FoundT, int]]:
    """Go through the steps; return what they find, and how many there were."""
    count = 0
    try:
        while True:
            next(steps)
            count += 1
            yield
    except StopIteration as end:
        found: FoundT = end.value
        return found, count
    finally:
        steps.close()


def _one_after_the_other(
    pods: Sequence[PodT], needed: int, finder: RoomFinder[PodT]
) -> Generator[None, None, tuple[Room[PodT], ...]]:
    taken: list[Room[PodT]] = []
    try:
        for number, pod in enumerate(pods):
            if len(taken) == needed or len(taken) + len(pods) - number < needed:
                break
            if (room := (yield from finder.find(pod))) is not None:
                yield from finder.take(room)
                taken.append(room)
        if len(taken) == needed:
            found, taken = tuple(taken), []
            return found
    finally:
        for room in reversed(taken):
            finder.give_back(room)
    return ()


def find_room(
    pod: PodT,
    candidates: Iterable[RoomCandidate[PodT]],
    takers: int,
    places: RoomPlaces[PodT],
    most: int,
    looks: int = MAX_LOOKS,
    way: Way = AS_RANKED,
    place_candidates: PlaceCandidates[PodT] | None = None,
) -> Generator[None, None, Room[PodT] | None]:
    """Find the cheapest room for a pod by `most` moves; None where there is none.

    Yields after every look. All that was tried is taken back, also where it is closed. With
    `place_candidates` pods of other nodes move as well, and before, for those that fit nowhere.
    """
    search = _Search(pod, takers, places, way, place_candidates)
    by_turn = {}
    for number, each in enumerate(candidates):
        if (bound := least_cost(each, most)) is not None:
            rank = each.rank + way.rank(each.node)
            trying = _Trying(rank, number, each, frozenset(), frozenset(), bound)
            by_turn[trying.turn] = trying
        yield
    queue = list(by_turn)
    heapify(queue)
    spent = 0
    while queue and spent < looks:
        tried = by_turn.pop(heappop(queue))
        if tried.chosen is None:
            steps: Generator[None, None, _Trying[PodT] | Room[PodT] | None] = tried.choose(most)
        else:
            steps = search.attempt(tried, tried.chosen, most)
        try:
            found, looked = yield from counted(steps)
        finally:
            search.take_back()
        spent += looked
        yield
        if isinstance(found, Room):
            return found
        if found is not None:
            by_turn[found.turn] = found
            heappush(queue, found.turn)
    return None


class _Trying(Struct, Generic[PodT], frozen=True):
    """A candidate with what was learned of it: pods that are stuck there, and that have to leave.

    `bound` is what its moves cost at least; `chosen` are those of the cheapest choice, by amounts.
    """

    rank: float
    number: int
    of: RoomCandidate[PodT]
    stuck: frozenset[Hashable]
    needed: frozenset[Hashable]
    bound: float
    chosen: tuple[Mover[PodT], ...] | None = None

    @property
    def turn(self) -> tuple[float, float, bool, int]:
        """Return what orders candidates: those that cost least first, chosen before others."""
        return round(self.bound, 6), self.rank, self.chosen is None, self.number

    @property
    def movers(self) -> list[Mover[PodT]]:
        """Return the pods that are not stuck."""
        return [each for each in self.of.movers if each.pod.key not in self.stuck]

    def learned(
        self, stuck: Iterable[Hashable] = (), needed: Iterable[Hashable] = ()
    ) -> "_Trying[PodT]":
        """Return it with more that is known, and no choice yet."""
        return _Trying(
            self.rank,
            self.number,
            self.of,
            self.stuck.union(stuck),
            self.needed.union(needed),
            self.bound,
        )

    def choose(self, most: int) -> Generator[None, None, "_Trying[PodT] | None"]:
        """Choose the cheapest pods that give what is lacking, by amounts alone."""
        needed = tuple(each for each in self.movers if each.pod.key in self.needed)
        if len(needed) < len(self.needed) or len(needed) > most:
            return None
        lacks = dict(self.of.lacks)
        for each in needed:
            for resource in lacks:
                lacks[resource] -= each.gives.get(resource, 0)
        rest = [each for each in self.movers if each.pod.key not in self.needed]
        found = yield from cheapest_choice(lacks, rest, most - len(needed))
        if found is None:
            return None
        chosen = (*needed, *found)
        cost = sum(each.cost for each in chosen)
        return _Trying(
            self.rank, self.number, self.of, self.stuck, self.needed, max(cost, self.bound), chosen
        )


class _Search(Generic[PodT]):
    """Tries the choices for one pod by all rules."""

    def __init__(
        self,
        pod: PodT,
        takers: int,
        places: RoomPlaces[PodT],
        way: Way,
        place_candidates: PlaceCandidates[PodT] | None,
    ) -> None:
        self._pod = pod
        self._takers = takers
        self._places = places
        self._way = way
        self._place_candidates = place_candidates
        self._moved: list[PodT] = []
        self._vacated: list[PodT] = []

    def take_back(self) -> None:
        """Take back all that was tried."""
        for pod in self._vacated:
            self._places.take_again(pod)
        for pod in self._moved:
            self._places.undo(pod)
        self._vacated, self._moved = [], []

    def attempt(
        self, trying: _Trying[PodT], chosen: Sequence[Mover[PodT]], most: int
    ) -> Generator[None, None, _Trying[PodT] | Room[PodT] | None]:
        """Move the chosen pods; return the room, or what was learned, or None if there is none."""
        node, among = trying.of.node, self._takers & ~(1 << trying.of.node)
        for each in chosen:
            self._vacate(each.pod)
        fits = self._fits(node)
        yield
        if not fits:
            self.take_back()
            return (yield from self._learn_needed(trying))
        self.take_back()
        options = []
        for each in chosen:
            options.append((self._places.fitting(each.pod, among), each))
            yield
        stuck = [each.pod.key for fitting, each in options if not fitting]
        spare = most - len(chosen)
        if stuck and (self._place_candidates is None or len(stuck) > spare):
            return trying.learned(stuck=stuck)
        options.sort(
            key=lambda option: (option[0].bit_count(), -max(option[1].gives.values(), default=0))
        )
        found: list[tuple[PodT, int]] = []
        earlier: list[tuple[PodT, int]] = []
        cost = sum(each.cost for each in chosen)
        for _, each in options:
            to = self._choose(each.pod, self._places.fitting(each.pod, among))
            yield
            if to is None:
                left = spare - len(earlier)
                place = yield from self._make_place(each.pod, among, earlier, left)
                if place is None:
                    return trying.learned(stuck=[each.pod.key])
                earlier += place.places
                found += place.places
                to, cost = place.node, cost + place.cost
            self._move(each.pod, to)
            self._vacate(each.pod)
            found.append((each.pod, to))
        fits = self._fits(node)
        yield
        if not fits:  # where they went rules the pod out
            return trying.learned(stuck=[chosen[-1].pod.key])
        return Room(self._pod, node, cost, tuple(found), tuple(earlier))

    def _make_place(
        self, pod: PodT, among: int, moved: Collection[tuple[PodT, int]], most: int
    ) -> Generator[None, None, Room[PodT] | None]:
        """Move pods of another node so that one fits there which has to leave its own."""
        if self._place_candidates is None or most < 1:
            return None
        keys = {each.key for each, _ in moved}
        candidates = yield from self._place_candidates(pod, among)
        found = yield from find_room(
            pod, [each.without(keys) for each in candidates], among, self._places, most
        )
        for each, to in () if found is None else found.places:
            self._move(each, to)
            self._vacate(each)
        return found

    def _learn_needed(self, trying: _Trying[PodT]) -> Generator[None, None, _Trying[PodT] | None]:
        """Find the pods that keep the pod off, whatever amounts are free."""
        movers, node = trying.movers, trying.of.node
        for each in movers:
            self._vacate(each.pod)
        fits = self._fits(node)
        yield
        if not fits:
            return None
        needed = []
        for each in movers:
            self._places.take_again(each.pod)
            if not self._fits(node):
                needed.append(each.pod.key)
            self._places.vacate(each.pod)
            yield
        new = trying.needed.symmetric_difference(needed)
        return trying.learned(needed=needed) if new else None

    def _fits(self, node: int) -> bool:
        return bool(self._places.fitting(self._pod, 1 << node))

    def _choose(self, pod: PodT, fitting: int) -> int | None:
        """Choose the fullest node: the room of others is kept whole."""
        compared = [node for node, _ in zip(slots_in(fitting), range(MAX_COMPARED), strict=False)]
        places, way = self._places, self._way
        return max(
            compared, key=lambda node: way.fullness(node, places.fullness(node), pod), default=None
        )

    def _move(self, pod: PodT, node: int) -> None:
        self._places.move(pod, node)
        self._moved.append(pod)

    def _vacate(self, pod: PodT) -> None:
        self._places.vacate(pod)
        self._vacated.append(pod)


def least_cost(candidate: RoomCandidate[PodT], most: int) -> float | None:
    """Return what the moves cost at least, by the largest pods; None where `most` do not do."""
    number = 0
    for resource, lacking in candidate.lacks.items():
        gives = sorted((each.gives.get(resource, 0) for each in candidate.movers), reverse=True)
        count, given = 0, 0
        while given < lacking:
            if count == min(most, len(gives)):
                return None
            given += gives[count]
            count += 1
        number = max(number, count)
    costs = sorted(each.cost for each in candidate.movers)
    return sum(costs[:number])


def cheapest_choice(
    lacks: Mapping[str, int], movers: Collection[Mover[PodT]], most: int
) -> Generator[None, None, tuple[Mover[PodT], ...] | None]:
    """Choose the cheapest pods, `most` at most, that together give what is lacking.

    Every choice is looked at that can still be the cheapest, up to `MAX_CHOICES`.
    """
    wanted = {resource: amount for resource, amount in lacks.items() if amount > 0}
    if not wanted:
        return ()
    useful = [each for each in movers if any(each.gives.get(key, 0) > 0 for key in wanted)]
    ranked = sorted(useful, key=lambda each: (each.cost / _share(each, wanted), each.cost))
    # the most that one of these pods, or one behind it, gives of a resource
    best_behind = [dict.fromkeys(wanted, 0)]
    least_behind = [float("inf")]
    for each in reversed(ranked):
        best_behind.append(
            {key: max(most_of, each.gives.get(key, 0)) for key, most_of in best_behind[-1].items()}
        )
        least_behind.append(min(least_behind[-1], each.cost))
    best_behind.reverse()
    least_behind.reverse()
    best: tuple[Mover[PodT], ...] | None = None
    best_cost = float("inf")
    stack: list[tuple[int, float, tuple[Mover[PodT], ...], dict[str, int]]] = [(0, 0.0, (), wanted)]
    looked = 0
    while stack and looked < MAX_CHOICES:
        looked += 1
        if looked % CHOICES_PER_STEP == 0:
            yield
        at, cost, chosen, left = stack.pop()
        if not left:
            if cost < best_cost:
                best, best_cost = chosen, cost
            continue
        more = most - len(chosen)
        if at == len(ranked) or not more:
            continue
        fewest = max(_ceil(amount, best_behind[at][key]) for key, amount in left.items())
        if fewest > more or cost + fewest * least_behind[at] >= best_cost - 1e-9:
            continue
        each = ranked[at]
        stack.append((at + 1, cost, chosen, left))
        rest = {
            key: short
            for key, amount in left.items()
            if (short := amount - each.gives.get(key, 0)) > 0
        }
        stack.append((at + 1, cost + each.cost, (*chosen, each), rest))
    return best


def _ceil(amount: int, by: int) -> float:
    return -(-amount // by) if by > 0 else float("inf")


def _share(mover: Mover[PodT], wanted: Mapping[str, int]) -> float:
    """Return which part of what is lacking a pod gives, of all resources together."""
    return sum(min(1.0, mover.gives.get(key, 0) / amount) for key, amount in wanted.items())
