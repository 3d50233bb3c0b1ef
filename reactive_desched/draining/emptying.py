"""Chooses the nodes that can be emptied: each pod of them has a place on a node that stays.

It is a search, as to find the most such nodes takes exponential time: nodes are emptied in several
orders, one after the other, and the best result is taken. It has no rule of the kube-scheduler:
`Places` says which nodes fit a pod beside the moves that were tried so far.
"""

from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from reactive_desched.primitives.bits import of_slots, slots_in
from reactive_desched.primitives.long_answers import awaited


class Movable(Protocol):
    """A pod that moves, by a key of its own."""

    @property
    def key(self) -> Hashable:
        """Return what names the pod alone, such as its uid."""
        ...


PodT = TypeVar("PodT", bound=Movable)
PodT_contra = TypeVar("PodT_contra", bound=Movable, contravariant=True)

MAX_LOOKS: Final = 10_000
"""So many places are looked for in all orders together: enough for some fifty orders of 20 nodes,
and for one of 5,000."""

MAX_MOVES: Final = 1_000
"""A plan has hardly more: they take an hour, and by then another plan is made."""

MAX_ORDERS: Final = 120
MAX_PARTS: Final = 8
"""Of the nodes that may be emptied themselves the last eighth takes pods first."""

MAX_DISPLACED: Final = 24
"""For a pod without a place so many others that move are tried elsewhere."""

MAX_SHUFFLED: Final = 500
"""Of more nodes one order is enough: what the others would find is little beside `MAX_MOVES`."""

MAX_COMPARED: Final = 16
"""Of the nodes that fit a pod so many are compared."""

_ROUNDING: Final = 1e-9
"""By so much a sum of savings may differ with its order."""


class Places(Protocol[PodT_contra]):
    """Answers which nodes fit a pod. Sets of nodes are integers: bit n is the node of number n."""

    def fitting(self, pod: PodT_contra, among: int) -> int:
        """Return which of these nodes fit a pod beside all moves that are tried now."""
        ...

    def fullness(self, node: int) -> float:
        """Return how full a node is with these moves: the share of its scarcest resource."""
        ...

    def room(self, node: int) -> float:
        """Return how much is left of a node with these moves, of its scarcest resource.

        It is a share of what a usual node has, so that nodes of different sizes compare.
        """
        ...

    def move(self, pod: PodT_contra, node: int) -> None:
        """Try a move on top of the others."""
        ...

    def undo(self, pod: PodT_contra) -> None:
        """Take back a move that was tried."""
        ...


Moves = tuple[tuple[PodT, int], ...]
"""Pods, each with the node that is a place for it."""


class Giver(Struct, Generic[PodT], frozen=True, gc=False):
    """A node that may be emptied, and the pods that would have to leave, the largest first.

    `cost` is what their moves cost, in moves of a usual pod, and `saving` what the cluster saves
    without the node, in nodes of a usual price. `takes` is what is left less of some budgets once
    the node is empty.
    """

    node: int
    pods: tuple[PodT, ...]
    cost: float
    saving: float = 1.0
    takes: Mapping[Hashable, int] = {}


class Emptied(Struct, Generic[PodT], frozen=True):
    """A node that can be emptied after those before it, and a place for each of its pods."""

    giver: Giver[PodT]
    places: Moves[PodT]


class EmptyingPlan(Struct, Generic[PodT], frozen=True):
    """The nodes to empty in this order: after each of them every pod has a place."""

    nodes: tuple[Emptied[PodT], ...] = ()

    @property
    def saving(self) -> float:
        """Return what all nodes of the plan save together."""
        return sum(each.giver.saving for each in self.nodes)

    def worth(self, enough: float) -> tuple[float, float]:
        """Return what makes one plan better than another: first its saving, then its cost."""
        saving = round(min(self.saving, enough), 9)
        return saving, -sum(each.giver.cost for each in self.nodes)


def plan_emptying(
    givers: Collection[Giver[PodT]],
    takers: int,
    places: Places[PodT],
    budgets: Mapping[Hashable, int],
    looks: int = MAX_LOOKS,
    enough: float = inf,
) -> Generator[None, None, EmptyingPlan[PodT]]:
    """Plan which of the givers to empty onto the takers, which may be givers themselves.

    Yields after every look for the place of one pod, within one that takes long, and after every
    move that is taken back. `budgets`
    are what the givers that are emptied may take together; no more are emptied once they save
    `enough`. All moves that were tried are taken back at the end, but not where the generator is
    closed: that would be hundreds at once.
    """
    best: EmptyingPlan[PodT] = EmptyingPlan()
    dice = Random(0)  # noqa: S311 -- the same plan each time, and no secret
    ranked = sorted((each.cost / each.saving, each.node, each) for each in givers)
    yield
    cheapest = [giver for _, _, giver in ranked]
    ideal = _ideal_worth(cheapest, enough)
    spent = 0
    for number in range(MAX_ORDERS if len(givers) <= MAX_SHUFFLED else 1):
        if spent >= looks or len(best.nodes) == len(givers) or best.worth(enough) >= ideal:
            break
        order = _changed(cheapest, best, number, dice) if number else cheapest
        style = _STYLES[number % len(_STYLES)] if number else _first_style(enough)
        attempt = _Attempt(order, style, takers, places, budgets, dice, enough)
        for _ in attempt.run():
            yield
            if spent + attempt.looks >= looks:
                break
        spent += attempt.looks
        yield from attempt.take_back()
        if attempt.plan.worth(enough) >= best.worth(enough):
            best = attempt.plan
    return best


class _Style(Struct, frozen=True):
    """A rule for the choice among the nodes that fit a pod.

    With `gathers` those take them that stay anyhow, else the fullest of all. `chance` is how far a
    node may be less full than the best and taken all the same. With `displaces` other pods are
    moved elsewhere for one without a place.
    """

    gathers: bool
    chance: float = 0.0
    displaces: bool = True


def _first_style(enough: float) -> _Style:
    """Return the style of the first order, which is all that there is time for in a large cluster.

    Where few nodes are to be emptied, most stay, and the fullest take the pods.
    """
    return _Style(gathers=enough == inf, displaces=False)


_STYLES: Final = (
    _Style(gathers=True),
    _Style(gathers=False),
    _Style(gathers=True, chance=0.3),
    _Style(gathers=False, chance=1.0),
)


def _ideal_worth(cheapest: Sequence[Giver[PodT]], enough: float) -> tuple[float, float]:
    """Return a worth that no plan exceeds, where only some nodes are to be emptied.

    It is that of the cheapest for their saving, the last one in part if they save differently.
    """
    if enough == inf:
        return inf, 0.0
    saved = cost = 0.0
    are_alike = len({giver.saving for giver in cheapest}) == 1
    for giver in cheapest:
        part = 1.0 if are_alike else min(1.0, (enough - saved) / giver.saving)
        saved += part * giver.saving
        cost += part * giver.cost
        if saved >= enough - _ROUNDING:
            break
    return round(min(saved, enough), 9), -cost - _ROUNDING


def _changed(
    cheapest: Sequence[Giver[PodT]], best: EmptyingPlan[PodT], number: int, dice: Random
) -> Sequence[Giver[PodT]]:
    """Return another order: one by chance, or the best one with another node before all.

    Of two such orders one leaves out a node that is emptied, so that another may take its pods.
    """
    if number % 4 == 0:
        factor = {giver.node: dice.uniform(1.0, 9.0) for giver in cheapest}
        return sorted(cheapest, key=lambda giver: giver.cost / giver.saving * factor[giver.node])
    emptied = [each.giver for each in best.nodes]
    names = {giver.node for giver in emptied}
    staying = [giver for giver in cheapest if giver.node not in names]
    first = staying.pop(dice.randrange(len(staying)))
    if emptied and number % 2:
        staying.append(emptied.pop(dice.randrange(len(emptied))))
    return [first, *emptied, *staying]


class _Attempt(Generic[PodT]):
    """Empties nodes in one order, each as a whole or not at all.

    A node that took a pod stays. Pods go to nodes that stay, else to the last ones of the order.
    """

    def __init__(
        self,
        order: Sequence[Giver[PodT]],
        style: _Style,
        takers: int,
        places: Places[PodT],
        budgets: Mapping[Hashable, int],
        dice: Random,
        enough: float,
    ) -> None:
        self._order = order
        self._enough = enough - _ROUNDING
        self._saved = 0.0
        self._style = style
        self._dice = dice
        self._places = places
        self._left = dict(budgets)
        self._takers = takers
        self._undecided = _nodes_of(order)
        size = -(-len(order) // MAX_PARTS)
        parts = [_nodes_of(order[at : at + size]) for at in range(0, len(order), size)]
        self._last_first = parts[::-1]
        self._to: dict[Hashable, tuple[PodT, int]] = {}
        self._came: dict[int, list[PodT]] = {}
        self._emptied: list[Giver[PodT]] = []
        self.looks = 0
        self.plan: EmptyingPlan[PodT] = EmptyingPlan()

    def run(self) -> Iterator[None]:
        """Empty one node after the other; then those that took pods, with these, once more.

        It may be left at any time: `plan` is what was found by then.
        """
        yield
        for giver in self._order:
            if self._saved >= self._enough or len(self._to) >= MAX_MOVES:
                return
            if self._undecided >> giver.node & 1:
                yield from self._try(giver)
        for giver in self._order:
            if giver.node in self._came and self._saved < self._enough:
                yield from self._try(giver)

    def take_back(self) -> Iterator[None]:
        """Take back all moves that were tried, one after the other."""
        for pod, _ in list(self._to.values()):
            self._take(pod)
            yield

    def _try(self, giver: Giver[PodT]) -> Iterator[None]:
        """Empty a node if each of its pods has a place, those that it took as well."""
        bit = 1 << giver.node
        self._undecided &= ~bit
        if any(self._left[key] < amount for key, amount in giver.takes.items()):
            return
        came = self._came.pop(giver.node, [])
        for pod in came:
            self._take(pod, came_to=False)
            yield
        moved: list[PodT] = []
        among = self._takers & ~bit
        for pod in (*came, *giver.pods):
            node = self._choose((yield from self._fitting(pod, among)))
            if node is None and self._style.displaces:
                node = yield from self._make_room(pod, among)
            if node is None:
                for other in moved:
                    self._take(other)
                    yield
                for other in came:
                    self._put(other, giver.node)
                    yield
                return
            self._put(pod, node)
            moved.append(pod)
        self._takers = among
        for key, amount in giver.takes.items():
            self._left[key] -= amount
        self._emptied.append(giver)
        self._saved += giver.saving
        self._undecided &= ~of_slots([self._to[pod.key][1] for pod in moved])
        self.plan = EmptyingPlan(
            tuple(
                Emptied(each, tuple(self._to[pod.key] for pod in each.pods))
                for each in self._emptied
            )
        )

    def _make_room(self, pod: PodT, among: int) -> Generator[None, None, int | None]:
        """Give another pod that moves another place, where this one fits in its stead."""
        others = [(other, node) for other, node in self._to.values() if among >> node & 1]
        for other, node in islice(reversed(others), MAX_DISPLACED):
            self._take(other)
            if (yield from self._fitting(pod, 1 << node)):
                self._put(pod, node)
                free = yield from self._fitting(other, among & ~(1 << node))
                elsewhere = self._choose(free)
                self._take(pod)
                if elsewhere is not None:
                    self._put(other, elsewhere)
                    return node
            self._put(other, node)
        return None

    def _fitting(self, pod: PodT, among: int) -> Generator[None, None, int]:
        """Look which nodes fit a pod."""
        found = yield from awaited(lambda: self._places.fitting(pod, among))
        self.looks += 1
        yield
        return found

    def _choose(self, fitting: int) -> int | None:
        """Choose the fullest of the nodes that stay, else the roomiest of those emptied last."""
        if not fitting:
            return None
        style, prefer = self._style, self._places.fullness
        if not style.gathers:
            among = fitting
        elif among := fitting & ~self._undecided:
            pass
        else:
            among = next(both for part in self._last_first if (both := fitting & part))
            prefer = self._places.room
        chance, dice = style.chance, self._dice
        found = list(islice(slots_in(among), MAX_COMPARED))
        if not chance:
            return max(found, key=prefer)
        return max(found, key=lambda node: prefer(node) + dice.uniform(0.0, chance))

    def _put(self, pod: PodT, node: int) -> None:
        self._places.move(pod, node)
        self._to[pod.key] = pod, node
        self._came.setdefault(node, []).append(pod)

    def _take(self, pod: PodT, *, came_to: bool = True) -> None:
        _, node = self._to.pop(pod.key)
        self._places.undo(pod)
        if came_to:
            self._came[node].remove(pod)


def _nodes_of(givers: Iterable[Giver[PodT]]) -> int:
    return of_slots([giver.node for giver in givers])
