"""Counts what the nodes that take pods have left while a plan moves pods to them.

`SharedRoom` counts as the SIG descheduler: all destinations are one big node. `BookedRoom` gives
each pod a destination of its own, and subtracts the capacity that earlier plans have promised.
"""

from bisect import bisect_left, insort
from collections.abc import Generator, Iterable, Iterator, Sequence
from enum import Enum, auto
from heapq import nsmallest
from itertools import islice
from typing import Final

from reactive_desched.api.plugin import View
from reactive_desched.draining.landing import MAX_RIVALS, Landing, in_turn, relief_order
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import YieldPoint, with_pauses
from reactive_desched.model.objects import Pod
from reactive_desched.model.pod_importance import ordinal_of, pod_importance
from reactive_desched.model.resources import ResourceList, add_resources, is_extended
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.model.taints import Taint, Tolerations, untolerated
from reactive_desched.model.usage import UseChange
from reactive_desched.model.utilization import (
    REQUESTS,
    NodeUse,
    Percentages,
    Thresholds,
    percentages,
)
from reactive_desched.primitives.long_answers import sorted_portions
from reactive_desched.state.indexes.node_utilization import NodeUtilization

MAX_TRIED: Final = 64
"""So many of the emptiest destinations are tried for a pod; if none of them takes it, it stays."""

MAX_REFUSED: Final = 1_000
"""So many sizes of pods are known to fit on none; with one more, all are looked at again. Where use
is measured no two pods have the same."""

TRIED_PER_STEP: Final = 16
"""After so many of them other tasks of the event loop run: some 0.5 ms."""


class Admission(Enum):
    """Decides whether a pod may move to one of the destinations."""

    NO = auto()
    """None of them takes it, or stays within what is allowed there."""
    COMES_BACK = auto()
    """One of them does, and the kube-scheduler would rather put the replacement back."""
    YES = auto()
    """One of them takes it."""


class SharedRoom:
    """The destinations as one big node, as they are when the plan begins; promises are not kept.

    `sources` are the nodes that give pods away, in their order.
    """

    needs_fit = False

    def __init__(self, pool: NodeUtilization, view: View, sources: Sequence[str]) -> None:
        del sources
        self.pool = pool
        self.thresholds = pool.thresholds
        self._view = view
        self._importance = pod_importance(view.prefers_no_eviction)
        self._uses = dict(pool.destinations())
        self._left: dict[str, int] = {}
        self._taints: dict[tuple[Taint, ...], int] = {}
        self._tolerated: dict[Tolerations, frozenset[int]] = {}

    def count(self) -> Iterator[NodeUse]:
        """Count what each destination has left; yield it then, since there may be thousands."""
        for use in self._uses.values():
            self._count_taints(use)
            add_resources(self._left, left_on(use, self.thresholds))
            yield use

    def put_in_order(self) -> Iterator[None]:
        """Order the destinations, in portions, once all are counted: here they are one node."""
        yield from ()

    @property
    def targets(self) -> frozenset[str]:
        """The destinations of the pod admitted last."""
        return self.pool.destination_names()

    @property
    def is_left(self) -> bool:
        """Say whether something is left of every resource that a destination has."""
        return all(amount > 0 for amount in self._left.values())

    @property
    def is_promised(self) -> bool:
        """Say whether something is kept for pods that were evicted earlier."""
        return False

    def allowed_on(self, use: NodeUse) -> dict[str, int]:
        """Return the amounts up to which a node is not overutilized, as the plan began."""
        return self.thresholds.allowed_on(use.node, use.used)

    def begin(self, source: NodeUse) -> tuple[dict[str, int], list[Pod]]:
        """Return what is used of a source, and its pods."""
        return dict(source.used), self._pods_on(source)

    def recent_changes(self, source: NodeUse) -> Sequence[UseChange]:
        """Return which pods came to a source or left it a moment ago."""
        del source
        return ()

    def is_being_left(self, source: NodeUse) -> bool:
        """Say whether a pod is leaving a source by an eviction that was decided before."""
        del source
        return False

    def used_by(self, pod: Pod) -> ResourceList | None:
        """Return what a pod uses; None if that is not known."""
        return self.pool.used_by(pod)

    def in_order(
        self, pods: Iterable[Pod], excess: ResourceList
    ) -> Generator[None, None, list[Pod]]:
        """Return the pods of a source in the order in which they leave: least important first.

        `excess` is what the source uses above what is allowed there.
        """
        del excess
        yield from ()
        return sorted(pods, key=self._importance)

    def admits(self, pod: Pod, amounts: ResourceList) -> Generator[YieldPoint, None, Admission]:
        """Say whether a destination takes the pod, by its taints."""
        del amounts
        yield from ()
        return Admission.YES if self._tolerated_by(pod) else Admission.NO

    def _count_taints(self, use: NodeUse) -> int:
        """Return the number of the taints of a destination: the same for those of equal ones."""
        return self._taints.setdefault(use.node.taints, len(self._taints))

    def _tolerated_by(self, pod: Pod) -> frozenset[int]:
        """Return the numbers of the taints that a pod tolerates, of those of the destinations."""
        tolerations = pod.spec.tolerations
        if (found := self._tolerated.get(tolerations)) is None:
            found = self._tolerated[tolerations] = frozenset(
                number for taints, number in self._taints.items() if tolerates(tolerations, taints)
            )
        return found

    def relieves(self, amounts: ResourceList, excess: ResourceList) -> bool:
        """Say whether a pod that uses so much takes something away of what is used too much."""
        del amounts, excess
        return True

    def has_turn(self, decision: Decision, source: str) -> bool:
        """Say whether a pod of a source counts as leaving, since its turn comes soon."""
        del decision, source
        return False

    def take(self, pod: Pod, amounts: ResourceList) -> None:
        """Count a pod that moves; it is the one admitted last."""
        del pod
        subtract(self._left, amounts)

    def _pods_on(self, source: NodeUse) -> list[Pod]:
        node_and_pods = self._view.pods_of(NodeSubject(source.name))
        return [] if node_and_pods is None else list(node_and_pods[1])


class BookedRoom(SharedRoom):
    """Each pod needs a destination that stays within what is allowed there.

    A pod that is leaving already does not count as use of its node. What was promised to the
    replacements of evicted pods counts as used, and so do pods newer than a sample, which stay.
    Of equally important pods those of different workloads leave in turn.
    """

    needs_fit = True

    def __init__(self, pool: NodeUtilization, view: View, sources: Sequence[str]) -> None:
        super().__init__(pool, view, sources)
        names = pool.destination_names()
        self._promised = {
            name: amounts for name, amounts in view.reserved_by_node().items() if name in names
        }
        self._landing = Landing(view, sources, packs=pool.rule.packs)
        self._turns = self._landing.turns(self._uses)
        self._used: dict[str, dict[str, int]] = {}
        self._room: dict[str, ResourceList] = {}
        self._taints_of: dict[str, int] = {}
        self._refused: set[tuple[frozenset[int], tuple[tuple[str, int], ...]]] = set()
        self._fullness: dict[str, float] = {}
        self._emptiest: list[tuple[float, str]] = []
        self._admitted = ""
        self._amounts: ResourceList = {}
        self._targets: dict[frozenset[str], frozenset[str]] = {frozenset(): names}
        self._being_left: set[str] = set()
        self._near_full = (
            set(names)
            if len(names) <= MAX_TRIED
            else {name for name, use in self._uses.items() if use.filled_since_s is not None}
        )

    def count(self) -> Iterator[NodeUse]:
        """Count what each destination has left beside what is promised there."""
        for use in super().count():
            if (promised := self._promised.get(use.name)) is not None:
                counted = {r: amount for r, amount in promised.items() if r in self._left}
                subtract(self._left, counted)
                self._book(use.name, counted)
            self._taints_of[use.name] = self._count_taints(use)
            yield use

    def put_in_order(self) -> Iterator[None]:
        """Order the destinations by how empty they are, in portions."""
        for portion in sorted_portions(list(self._uses), self._place):
            self._emptiest += map(self._place, portion)
            yield

    @property
    def is_left(self) -> bool:
        """Say whether some is left of what every pod needs; of the rest, a pod's own is asked."""
        return all(amount > 0 for r, amount in self._left.items() if not is_extended(r))

    @property
    def is_promised(self) -> bool:
        """Say whether something is kept for pods that were evicted earlier."""
        return bool(self._promised)

    @property
    def targets(self) -> frozenset[str]:
        """The destinations of the pod admitted last: not those that it would overfill.

        Where there are very many, those alone are left out to which pods were moved before.
        """
        full = self._full()
        if (found := self._targets.get(full)) is None:
            found = self._targets[full] = self.pool.destination_names() - full
        return found

    def _full(self) -> frozenset[str]:
        """Name the nodes near their limits that the pod looked at last would overfill."""
        return frozenset(
            name for name in self._near_full if not self._has_room(self._uses[name], self._amounts)
        )

    def _emptiest_full(self) -> list[str]:
        """Name those of them where it is most likely that the kube-scheduler overfills them."""
        return nsmallest(MAX_RIVALS, self._full(), key=self._place)

    def _place(self, name: str) -> tuple[float, str]:
        """Return the place of a destination among all, the emptiest first."""
        return self._fullness.get(name, _fullness(self._uses[name].percent)), name

    def begin(self, source: NodeUse) -> tuple[dict[str, int], list[Pod]]:
        """Return what is used of a source by the pods that stay, and these pods."""
        used, staying = dict(source.used), []
        subtract(used, self.pool.left_since(source))
        for pod in self._pods_on(source):
            if self._view.is_leaving(pod):
                subtract(used, self.used_by(pod) or {})
                self._being_left.add(source.name)
                if not pod.is_terminating:
                    self._landing.count_leaving(pod)
            else:
                staying.append(pod)
        return used, staying

    def recent_changes(self, source: NodeUse) -> Sequence[UseChange]:
        """Return which pods came to a source or left it a moment ago; samples have averages."""
        return self._view.use_changes(source.node) if self.pool.rule.source == REQUESTS else ()

    def is_being_left(self, source: NodeUse) -> bool:
        """Say whether a pod is leaving a source by an eviction that was decided before."""
        return source.name in self._being_left

    def used_by(self, pod: Pod) -> ResourceList | None:
        """Return what a pod uses; None for one that came after the last sample of its node."""
        return None if self.pool.came_later(pod) else self.pool.used_by(pod)

    def in_order(
        self, pods: Iterable[Pod], excess: ResourceList
    ) -> Generator[None, None, list[Pod]]:
        """Return the pods of a source, least important first, of equals those that relieve it most.

        So few have to leave. One of a StatefulSet comes after those half as large: it leaves before
        the next one comes, and often has a volume or a vote. Of pods about as large those of its
        workloads come in turn, and of a StatefulSet those of the highest ordinals first.
        """
        importance = self._importance

        def key(pod: Pod) -> tuple[float, str, int, str]:
            *_, namespace, name = importance(pod)
            return -self._relief(pod, excess), namespace, -ordinal_of(pod), name

        ordered = sorted(pods, key=key)
        return (
            yield from in_turn(
                ordered,
                lambda pod: (
                    *importance(pod)[:-2],
                    *relief_order(pod, self._relief(pod, excess)),
                ),
                self._turns,
            )
        )

    def relieves(self, amounts: ResourceList, excess: ResourceList) -> bool:
        """Say whether a pod that uses so much takes something away of what is used too much."""
        return relieves(amounts, excess)

    def has_turn(self, decision: Decision, source: str) -> bool:
        """Say whether a pod of a source counts as leaving, since its turn comes soon."""
        return self._landing.has_turn(decision, source)

    def _relief(self, pod: Pod, excess: ResourceList) -> float:
        """Return how much of the excess a pod takes away, of the resource of which it is most."""
        used = self.used_by(pod) or {}
        return max((used.get(r, 0) / more for r, more in excess.items()), default=0.0)

    def admits(self, pod: Pod, amounts: ResourceList) -> Generator[YieldPoint, None, Admission]:
        """Say whether a destination takes the pod and stays within what is allowed there.

        It is one to which the replacement would go, if there is such a one. That takes long, and is
        asked only for a pod that one of them takes. Of pods that use as much and tolerate the same
        taints only the first is looked at until one moves, where that fits on none.
        """
        tolerated, key = self._tolerated_by(pod), tuple(amounts.items())
        if not tolerated or (tolerated, key) in self._refused:
            return Admission.NO
        self._admitted, self._amounts = "", amounts
        pull, first, asked = None, "", 0
        for name in [name for _, name in islice(self._emptiest, MAX_TRIED)]:
            is_tolerated = self._taints_of[name] in tolerated
            if not (is_tolerated and self._has_room(self._uses[name], amounts)):
                continue
            if not first:
                first = name
                pull = yield from with_pauses(self._landing.pull_on(pod, self._emptiest_full()))
            if pull is None or not pull.comes_back(name):
                self._admitted = name
                return Admission.YES
            asked += 1
            if asked % TRIED_PER_STEP == 0:
                yield YieldPoint()
        yield YieldPoint()
        if not first:
            if len(self._refused) == MAX_REFUSED:
                self._refused.clear()
            self._refused.add((tolerated, key))
            return Admission.NO
        self._admitted = first
        return Admission.COMES_BACK

    def take(self, pod: Pod, amounts: ResourceList) -> None:
        """Book the pod on the destination found for it."""
        super().take(pod, amounts)
        self._book(self._admitted, amounts)
        self._landing.count_leaving(pod, self._admitted)

    def _has_room(self, use: NodeUse, amounts: ResourceList) -> bool:
        """Say whether a destination stays within what is allowed there with so much more."""
        if (room := self._room.get(use.name)) is None:
            used, allowed = self._used_on(use), self.allowed_on(use)
            room = self._room[use.name] = {
                resource: allowed.get(resource, 0) - used.get(resource, 0)
                for resource in used.keys() | allowed.keys()
            }
        for resource, amount in amounts.items():
            if amount and amount > room.get(resource, 0):
                return False
        return True

    def _used_on(self, use: NodeUse) -> dict[str, int]:
        used = self._used.get(use.name)
        if used is None:
            used = self._used[use.name] = dict(use.used)
            add_resources(used, self.pool.came_since(use))
        return used

    def _book(self, name: str, amounts: ResourceList) -> None:
        use = self._uses[name]
        used = self._used_on(use)
        add_resources(used, amounts)
        self._room.pop(name, None)
        self._refused.clear()
        at = bisect_left(self._emptiest, self._place(name))
        is_counted = at < len(self._emptiest) and self._emptiest[at][1] == name
        self._fullness[name] = _fullness(percentages(used, use.node, use.percent))
        if is_counted:
            del self._emptiest[at]
            insort(self._emptiest, self._place(name))
        self._near_full.add(name)


def left_on(use: NodeUse, thresholds: Thresholds) -> dict[str, int]:
    """Return what a node has left below its limits; negative where it is above one."""
    allowed = thresholds.allowed_on(use.node, use.used)
    return {resource: allowed[resource] - amount for resource, amount in use.used.items()}


def excess_of(used: ResourceList, allowed: ResourceList) -> dict[str, int]:
    """Return what is used above what is allowed, of the resources of which that is so."""
    return {r: more for r, amount in used.items() if (more := amount - allowed[r]) > 0}


def relieves(amounts: ResourceList, excess: ResourceList) -> bool:
    """Say whether a pod that uses so much takes something away of what is used too much.

    Where no single pod is measured, or the node is not used too much, each does.
    """
    return not (amounts and excess) or any(amounts.get(resource, 0) for resource in excess)


def tolerates(tolerations: Tolerations, taints: tuple[Taint, ...]) -> bool:
    """Say whether upstream moves a pod to a node with these taints, of whatever effect.

    As upstream, a pod must have as many tolerations as the node has taints: one that tolerates
    everything does not help against two.
    """
    if len(tolerations) < len(taints):
        return False
    return next(untolerated(tolerations, taints), None) is None


def _fullness(percent: Percentages) -> float:
    return max(percent.values(), default=0.0)


def subtract(total: dict[str, int], amounts: ResourceList) -> None:
    """Subtract amounts of what there is in place, also below zero."""
    for resource, amount in amounts.items():
        if resource in total:
            total[resource] -= amount
