"""Counts what a plan to empty nodes begins with: who may be emptied, who takes pods, what is left.

It looks at every node once, so it is done in steps; the search after it is `emptying.py`.
"""

from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import Final

from msgspec import Struct

from reactive_desched.api.plugin import View
from reactive_desched.api.tried_moves import MoveTrial
from reactive_desched.draining.emptying import Giver
from reactive_desched.model.consolidation import EMPTYING, PLANNED, consolidation_of
from reactive_desched.model.move_cost import move_cost
from reactive_desched.model.node_drains import drain_leaves, is_to_be_drained
from reactive_desched.model.node_marks import is_being_emptied
from reactive_desched.model.objects import Node, Pod, controller_of
from reactive_desched.model.opt_outs import says_yes
from reactive_desched.model.pod_importance import ordinal_of
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.model.usage import UseChange
from reactive_desched.primitives.bits import of_slots
from reactive_desched.state.indexes.consolidation_targets import ConsolidationTargets
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count

MAX_GIVERS: Final = 1_000
"""Of so many nodes at most, those that cost least, it is tried whether they can be emptied."""

MAX_EMPTY: Final = 50
"""So many empty nodes are closed with each set; others follow with the next."""

MAX_EXPECTED: Final = 500
"""So many pods that left a moment ago are taken to come back, the latest; others have left."""

_ALL: Final = 100
_DROPPED: Final = 200


class EmptyingRules(Struct, frozen=True):
    """The arguments, as far as they are about nodes: see `ConsolidateNodesArgs`.

    `takes_pod` says whether they let a pod leave, and `selects` whether a node may be emptied;
    `price` is what an empty node is worth, in any unit; one of which it says None is worth as much
    as the others on average. With `removes` nodes are emptied to be
    removed: those that an annotation keeps are left alone.
    """

    takes_pod: Callable[[Pod], bool]
    price: Callable[[Node], float | None]
    selects: Callable[[Node], bool]
    headroom: Mapping[str, float]
    min_nodes: Mapping[str, int]
    min_saving: float
    removes: bool = True


class _Standing(Struct, frozen=True, gc=False):
    """A node with pods that would have to leave it, and what their moves cost.

    The pods are looked up again: lists of them all would take milliseconds to drop.
    """

    node: Node
    number: int
    cost: float
    price: float


class EmptiableNodes:
    """The nodes of one moment, as a plan counts them. `count` comes first, and then the others.

    `begun` are the nodes whose sets have begun, and `closed` those that take no pods: these, and
    nodes that are empty, of which `empty` have no taint yet. `budgets` are what has to stay, see
    `Giver.takes`. `taken_lately` are nodes that were free until pods came a moment ago, and for how
    long these must still be there to count. `again_in_s` is when what is too new may count.
    """

    def __init__(
        self, view: View, rules: EmptyingRules, number_of: Callable[[str], int | None]
    ) -> None:
        self._view = view
        self._rules = rules
        self._number_of = number_of
        self._standing = 0
        self._cheapest: list[tuple[bool, float, int, _Standing]] = []
        self._unpriced: list[tuple[Node, int, float]] = []
        self._used: Counter[str] = Counter()
        self._has: Counter[str] = Counter()
        self._by_label: Counter[tuple[str, str]] = Counter()
        self._price = self._cost = 0.0
        self._left_for_s: dict[str, float] = {}
        self._expected: list[UseChange] = []
        self.taken_lately: list[tuple[Node, float]] = []
        self.again_in_s = inf
        self.begun: set[str] = set()
        self.closed: set[str] = set()
        self.empty: list[str] = []
        self._takers: list[int] = []

    def count(self) -> Generator[None, None, None]:
        """Look at every node that is eligible, one in each step, and before at pods that left."""
        yield from self._count_departures()
        for name in self._view.node_names():
            found = self._view.pods_of(NodeSubject(name))
            number = self._number_of(name)
            if found is not None and number is not None:
                self._count(*found, number)
            yield
        usual = self._price / self._standing if self._standing else 1.0
        for node, number, cost in self._unpriced:
            self._rank(node, number, cost, usual)
            yield

    def expect_back(self, trial: MoveTrial) -> Generator[None, None, None]:
        """Count pods that left a moment ago where they were, so that no place of theirs is taken.

        Not once a set has begun, which goes on.
        """
        if self.begun or not self._expected:
            return
        self.look_again(self._expected[0].wait_s)  # the latest
        for each in self._expected:
            if each.pod.node not in self.closed:
                trial.expect_back(each.pod)
            yield

    def look_again(self, in_s: float) -> None:
        """Note when something may count that is too new now."""
        self.again_in_s = min(self.again_in_s, in_s)

    @property
    def takers(self) -> int:
        """The nodes that take pods, as a set of their numbers."""
        return of_slots(self._takers)

    @property
    def budgets(self) -> Mapping[Hashable, int]:
        """The amounts that the nodes which are emptied may take together."""
        found: dict[Hashable, int] = {}
        for resource, percent in self._rules.headroom.items():
            needed = self._used[resource] / (1 - percent / _ALL)
            found[resource] = int(self._has[resource] - needed)
        for (label, value), nodes in self._by_label.items():
            found[label, value] = nodes - self._rules.min_nodes[label]
        return found

    def saving(self, price: float) -> float:
        """Return what so much of `EmptyingRules.price` is worth, in nodes of a usual price."""
        return price * self._standing / self._price if self._price else 1.0

    def givers(self) -> Iterator[Giver[Pod] | None]:
        """Yield the nodes that may be emptied, None for others: those of begun sets, if any.

        Of a begun set it is not asked again whether it is worth it.
        """
        found = 0
        while self._cheapest and found < MAX_GIVERS:
            *_, each = heappop(self._cheapest)
            has_begun = each.node.name in self.begun
            if self.begun and not has_begun:
                break
            if not self._may_be_emptied(each):
                yield None
            elif has_begun or (not self._is_too_new(each) and self._is_worth_it(each)):
                found += 1
                yield self._giver(each)
            else:
                yield None
        yield from self.drop()

    def drop(self) -> Generator[None, None, None]:
        """Drop the nodes that were counted, in steps: thousands at once would take milliseconds."""
        while self._cheapest:
            del self._cheapest[-_DROPPED:]
            yield None

    def leaving(self, name: str) -> int:
        """Count the pods that would have to leave a node."""
        return len(self._pods_on(name))

    def why_it_stays(self, name: str) -> str:
        """Say why a node is none of the givers; empty where it is one."""
        each = next((of for *_, of in self._cheapest if of.node.name == name), None)
        if each is None:
            return f"{name} is empty, or is emptied already"
        if self.begun and name not in self.begun:
            return f"{', '.join(sorted(self.begun)[:1])} is emptied first"
        if settles_s := 0.0 if self.begun else self._settles_for_s(each):
            left = format_age(settles_s)
            return f"pods of a node that was emptied came to {name}: it is left alone for {left}"
        if left_s := 0.0 if self.begun else self._left_for_s.get(name, 0.0):
            left = format_age(left_s)
            return f"a pod left {name} a moment ago and may come back: it is left alone for {left}"
        if not self._is_selected(each.node):
            return f"the arguments, an annotation or another program leave {name} alone"
        pods = self._pods_on(name)
        if (kept := next((pod for pod in pods if not self._may_leave(pod)), None)) is not None:
            protected = self._view.why_protected(kept)
            why = "nothing would make it anew, or the arguments leave it out"
            return f"{kept.namespace}/{kept.name} stays there: {protected[1] if protected else why}"
        if not self.begun and not self._is_worth_it(each):
            return f"moving its {format_count(len(pods), 'pod')} costs more than {name} saves"
        return ""

    def _count_departures(self) -> Generator[None, None, None]:
        """Count which nodes pods left, and for how long they may still come back.

        A pod that was there for a moment alone leaves its node as it was.
        """
        for each in list(islice(self._view.departures(), MAX_EXPECTED)):
            if drain_leaves(each.pod):
                continue
            self._expected.append(each)
            if not each.was_brief:
                self._left_for_s.setdefault(each.pod.node, each.wait_s)
            yield

    def _count(self, node: Node, on_it: Iterable[Pod], number: int) -> None:
        pods = [pod for pod in on_it if not drain_leaves(pod)]
        state = consolidation_of(node)
        if not pods or state not in (None, EMPTYING, PLANNED):
            self.closed.add(node.name)
            is_new = state is not None or node.name in self._left_for_s
            if not is_new and len(self.empty) < MAX_EMPTY and self._is_selected(node):
                self.empty.append(node.name)
            return
        if not self._rules.removes and self._is_selected(node):
            self._count_taken(node, pods)
        if state == EMPTYING:
            self.begun.add(node.name)
        if state is not None:
            self.closed.add(node.name)
        elif node_takes_pods(node):
            self._takers.append(number)
        price = self._rules.price(node)
        cost = sum(move_cost(pod) for pod in pods if not self._view.is_leaving(pod))
        for resource in self._rules.headroom:
            self._has[resource] += node.allocatable.get(resource, 0)
            self._used[resource] += sum(pod.spec.requests.get(resource, 0) for pod in pods)
        for label in self._rules.min_nodes:
            self._by_label[label, node.labels.get(label, "")] += 1
        if price is None:
            self._unpriced.append((node, number, cost))
        else:
            self._rank(node, number, cost, price)

    def _count_taken(self, node: Node, pods: Collection[Pod]) -> None:
        """Note a node that was free until all of its pods came, which may be gone soon."""
        if node.name in self._left_for_s:
            return
        came = {
            each.pod.uid: each.wait_s for each in self._view.use_changes(node) if not each.has_left
        }
        waits = [came.get(pod.uid, 0.0) for pod in pods]
        if (wait_s := min(waits)) > 0:
            self.taken_lately.append((node, wait_s))

    def _rank(self, node: Node, number: int, cost: float, price: float) -> None:
        """Place a node among those that may be emptied, by what its pods cost for its price."""
        self._price += price
        self._cost += cost
        self._standing += 1
        waits = node.name not in self.begun
        each = _Standing(node, number, cost, price)
        heappush(self._cheapest, (waits, cost / price, number, each))

    def _is_selected(self, node: Node) -> bool:
        """Say whether a node may be emptied by what is said of the node itself."""
        stays = says_yes(node.do_not_disrupt) or says_yes(node.scale_down_disabled)
        if not node_takes_pods(node) or (stays and self._rules.removes):
            return False
        return self._rules.selects(node)

    def _may_be_emptied(self, each: _Standing) -> bool:
        return self._is_selected(each.node) and all(
            map(self._may_leave, self._pods_on(each.node.name))
        )

    def _is_too_new(self, each: _Standing) -> bool:
        """Say whether a node took pods of another, or lost some, a moment ago."""
        wait_s = max(self._settles_for_s(each), self._left_for_s.get(each.node.name, 0.0))
        if wait_s:
            self.look_again(wait_s)
        return wait_s > 0

    def _settles_for_s(self, each: _Standing) -> float:
        """Return for how long a node is left alone because it took pods of an emptied one.

        Else it may be the next to be emptied, and its pods would move once more at once.
        """
        targets = self._view.index(ConsolidationTargets)
        return targets.settles_for_s(each.node.name, self._view.now_s)

    def _pods_on(self, name: str) -> list[Pod]:
        """Return the pods of a node that would have to leave it, as it is now."""
        found = self._view.pods_of(NodeSubject(name))
        return [] if found is None else [pod for pod in found[1] if not drain_leaves(pod)]

    def _may_leave(self, pod: Pod) -> bool:
        """Say whether a pod leaves already, or may: of others no controller makes another one."""
        if self._view.is_leaving(pod):
            return True
        if controller_of(pod.owners) is None or not self._rules.takes_pod(pod):
            return False
        return self._view.evictable(pod)

    def _is_worth_it(self, each: _Standing) -> bool:
        """Say whether a node's share of all prices is large enough for its share of all costs."""
        return each.price * self._cost >= self._rules.min_saving * each.cost * self._price

    def _giver(self, each: _Standing) -> Giver[Pod]:
        there = self._pods_on(each.node.name)
        pods = [pod for pod in there if not self._view.is_leaving(pod)]
        pods.sort(key=lambda pod: _order(pod, each.node))
        takes: dict[Hashable, int] = {
            resource: int(each.node.allocatable.get(resource, 0))
            for resource in self._rules.headroom
        }
        for label in self._rules.min_nodes:
            takes[label, each.node.labels.get(label, "")] = 1
        saving = self.saving(each.price)
        return Giver(each.number, tuple(pods), each.cost, saving, takes)


def node_takes_pods(node: Node) -> bool:
    """Say whether neither a cordon nor a person or program that empties a node closes it."""
    return not (node.unschedulable or is_to_be_drained(node) or is_being_emptied(node))


def _order(pod: Pod, node: Node) -> tuple[float, str, int, str]:
    """Return the key that sorts large pods first, and of a StatefulSet's the higher ordinals."""
    return -_share(pod, node), pod.namespace, -ordinal_of(pod), pod.name


def _share(pod: Pod, node: Node) -> float:
    """Return the part of its node that a pod asks for, of what it asks most of."""
    asks, has = pod.spec.requests, node.allocatable
    return max(asks.get(each, 0) / (has.get(each) or 1) for each in (CPU, MEMORY))
