"""The scheduler finds no node for a pod, and one has room for it once others have moved."""

from collections.abc import Generator, Iterable, Iterator
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

from pydantic import Field

from reactive_desched.api.args import PositiveCount, Seconds
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.index import Cluster
from reactive_desched.api.plugin import View
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.api.tried_moves import MoveTrial
from reactive_desched.draining.landing import recheck_of_reserved, waits_or_leaves
from reactive_desched.draining.pending_rooms import NoRoom, PendingRooms, RoomRules, Rooms
from reactive_desched.draining.waiting_pods import Incomplete, PodsToPlace, waiting_of, waiting_pods
from reactive_desched.model.changes import (
    MOVE_CHANGES,
    Change,
    Resynced,
)
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import (
    LOOKS_PER_SLICE,
    AllNodesBut,
    EarlierMove,
    Finding,
    MoveSet,
    RequeueAfter,
    RoomFor,
    YieldPoint,
    with_pauses,
)
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.indexes.gangs import GangChanged, Gangs
from reactive_desched.state.indexes.unschedulable_pods import (
    PodUnschedulableChanged,
    UnschedulablePods,
)
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import agree, format_count

ALL_PENDING: Final = "pending pods"
"""The one subject."""

MAX_WAITING: Final = 100
"""For so many different pods at most room is looked for in one plan; each namespace has its share.

Those of the highest priority come first.
"""

MAX_DESCRIBED: Final = 1_000
"""An answer to a person looks at so many nodes at most: it holds up everything else."""

MAX_ROOMS: Final = 10
"""A plan makes room for so many pods at most; the next one goes on."""

ResultT = TypeVar("ResultT")
Steps = Generator[Finding | RequeueAfter | YieldPoint, Decision, ResultT]


class _Turn(NamedTuple):
    """By what those that wait are ordered: those of the highest priority first."""

    less_priority: int
    since_s: int
    namespace: str
    name: str
    uid: str


def _turn(waiting: PodsToPlace) -> _Turn:
    first = waiting.pods[0]
    return _Turn(-waiting.priority, waiting.since_s, first.namespace, first.name, first.uid)


class MakeRoomForPendingArgs(ScopedArgs):
    """Arguments: how long a pod waits first, and which pods may move for it, how many."""

    wait: Seconds = Field(
        default=60.0,
        description="A pod counts once the scheduler has found no node for it for so long. With an "
        "autoscaler: longer than a new node takes.",
    )
    max_moves: PositiveCount = Field(
        default=3,
        description="So many pods at most move for one that waits, also for each one of a gang.",
    )

    @property
    def rules(self) -> RoomRules:
        """The arguments as the search asks for them."""
        return RoomRules(self.covers, self.max_moves)


class MakeRoomForPendingPlugin(BalancePlugin[str, MakeRoomForPendingArgs]):
    """Pods whose moves make room for one that the scheduler finds no node for.

    The cheapest pods of one node move, of the same or a lower priority, each of which fits on
    another node by all of the kube-scheduler's filters; then the pod that waits fits there. Where
    there are none, pods of a second node move first, and make places for those of the first. They
    move all or not at all: the first one leaves once all gates let all of them go and the pod that
    waits is nominated for the node, so that nothing of its priority or below takes the room. For a
    gang there is room on one or several nodes for as many of its pods as have to run together, or
    nothing moves; each is nominated. The namespaces and labels are those of the pods that move.
    Nothing moves for a pod that preemption serves, nor for pods of DaemonSets, with scheduling
    gates or with claimed devices. A sweep nominates no pod, so it finds nothing.
    """

    name = "MakeRoomForPending"
    least_debounce = DebounceConfig(quiet_s=1.0, max_wait_s=10.0)
    indexes = (UnschedulablePods, Gangs)
    reacts_to = (
        Resynced,
        PodUnschedulableChanged,
        GangChanged,
        *MOVE_CHANGES,
    )

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name all pods that wait, if there are any."""
        if isinstance(change, Resynced | PodUnschedulableChanged):
            return (ALL_PENDING,)
        return (ALL_PENDING,) if view.index(UnschedulablePods).since_s else ()

    def balance(self, subject: str, view: View) -> Plan:
        """Plan room for one pod after the other, and find the pods that move for them."""
        del subject
        waiting = yield from self._waiting(view)
        if not waiting:
            return
        yield from recheck_of_reserved(view)
        trial = yield from with_pauses(view.try_moves(), every=1)
        rooms = PendingRooms(view, self.args.rules, trial)
        yield from with_pauses(rooms.begin(), every=1)
        made = 0
        without: set[object] = set()
        for each in waiting:
            if each.kind in without:
                continue
            found = yield from with_pauses(rooms.search(each), every=1)
            if isinstance(found, NoRoom):
                without.add(each.kind)
                continue
            scope, is_made = yield from self._move(each, found, trial)
            if scope == "cluster":
                return
            if not is_made:  # nor is it kept from the pods that come after this one
                rooms.give_back(found)
                continue
            made += 1
            if made >= MAX_ROOMS:
                return

    def _waiting(self, view: View) -> Steps[list[PodsToPlace]]:
        """Return those that room is looked for, in their order, of those that wait for long.

        Of each namespace the first is taken, then of each the second, until there are enough
        different ones: no namespace keeps the others out. A gang is one.
        """
        soonest: float | None = None
        by_uid: dict[str, PodsToPlace] = {}
        by_namespace: dict[str, dict[object, list[_Turn]]] = {}
        found = yield from with_pauses(waiting_pods(view), every=1)
        for looked, waiting in enumerate(found):
            if looked % LOOKS_PER_SLICE == LOOKS_PER_SLICE - 1:
                yield YieldPoint()
            left_s = waiting.since_s + self.args.wait - view.now_s
            if left_s > 0:
                soonest = left_s if soonest is None else min(soonest, left_s)
                continue
            turn = _turn(waiting)
            by_uid[turn.uid] = waiting
            kinds = by_namespace.setdefault(waiting.namespace, {})
            kinds.setdefault(waiting.kind, []).append(turn)
        if soonest is not None:
            yield RequeueAfter(soonest)
        ranked: list[tuple[int, list[_Turn]]] = []
        for kinds in by_namespace.values():
            ranked.extend(enumerate(nsmallest(MAX_WAITING, map(sorted, kinds.values()))))
            yield YieldPoint()
        chosen = nsmallest(MAX_WAITING, ranked)
        due = [(each.less_priority, rank, each) for rank, equal in chosen for each in equal]
        return [by_uid[each.uid] for *_, each in sorted(due)]

    def _move(
        self, waiting: PodsToPlace, rooms: Rooms, trial: MoveTrial
    ) -> Steps[tuple[str, bool]]:
        """Find the pods that move for one that waits, or for those of a gang.

        Returns the scope whose limit ended it, and whether the room is being made: it is not where
        a pod was refused before any left.
        """
        moved = _set_of(waiting, rooms, trial, self.args.max_moves)
        nodes = sorted({each.node for each in moved.rooms})
        where = moved.node if len(nodes) == 1 else format_count(len(nodes), "node")
        who = str(waiting)
        if waiting.gang is not None:
            who = f"{format_count(len(rooms), 'pod')} of {waiting}"
        has, pods = agree(len(nodes), "has", "have"), format_count(len(moved.pods), "pod")
        message = f"{where} {has} room for {who} once {pods} moved, with places elsewhere"
        leaves = False
        for each, to in _moves_of(rooms):
            but = {each.node} if waiting.gang is not None else {each.node, moved.node}
            details: dict[str, int | str] = {
                "roomFor": str(waiting.gang or waiting),
                "pods": len(moved.pods),
                "place": trial.name_of(to),
            }
            decision = yield Finding(
                each,
                self.name,
                message,
                needs_fit=True,
                targets=AllNodesBut(frozenset(but)),
                relieves_node=True,
                details=details,
                move_set=moved,
            )
            leaves = leaves or decision.pod_leaves
            if decision.scope_exhausted == "cluster":
                return decision.scope_exhausted, True
            if not waits_or_leaves(decision):
                return "", leaves
        return "", True

    def sweep(self, view: View) -> Plan:
        """Find nothing: without the nomination that the controller writes others take the room."""
        del view
        yield from ()

    def describe_waiting(self, pod: Pod, view: View) -> str:
        """Say which moves would make room for the pod, or why none do."""
        index = view.index(UnschedulablePods)
        if pod.uid not in index.since_s:
            return "the scheduler has not said that it finds no node for it, or it is no such pod"
        if len(list(view.node_names())) > MAX_DESCRIBED:
            return f"no room is looked for in an answer with more than {MAX_DESCRIBED:,} nodes"
        waiting = _waiting_with(pod, view)
        if isinstance(waiting, Incomplete):
            return waiting.why
        trial = at_once(view.try_moves_apart())
        rooms = PendingRooms(view, self.args.rules, trial)
        at_once(rooms.begin())
        found = at_once(rooms.search(waiting))
        if isinstance(found, NoRoom):
            return found.why
        moved = list(_moves_of(found))
        moves = ", ".join(f"{each} to {trial.name_of(to)}" for each, to in moved)
        who = "it" if waiting.gang is None else f"{format_count(len(found), 'pod')} of {waiting}"
        where = ", ".join(sorted({trial.name_of(each.node) for each in found}))
        has = agree(len({each.node for each in found}), "has", "have")
        text = f"{where} {has} room for {who} once pods have moved: {moves}"
        if (left_s := waiting.since_s + self.args.wait - view.now_s) > 0:
            return f"{text}; it counts in {format_age(left_s)}"
        return f"{text}; `reactive-desched why {moved[0][0]}` says what that waits for"

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether the pod came to a node for which a pod that waits is nominated."""
        del now_s
        waiting = cluster.index(UnschedulablePods).pods()
        return any(each.status.nominated_node == pod.node for each, _ in waiting)


def _waiting_with(pod: Pod, view: View) -> PodsToPlace | Incomplete:
    """Return what the pod waits as: by itself, or with others of its gang."""
    index = view.index(UnschedulablePods)
    gangs = view.index(Gangs)
    if (gang := gangs.of(pod)) is None:
        return PodsToPlace((pod,), 1, index.since_s[pod.uid])
    members = [each for each in index.pods() if gangs.of(each[0]) == gang]
    found = waiting_of(gang, members, view)
    if isinstance(found, Incomplete):
        return found
    return next(each for each in found if pod in each.pods)


def _moves_of(rooms: Rooms) -> Iterator[tuple[Pod, int]]:
    """Yield the pods that move, in their order, and where each goes."""
    return (move for room in rooms for move in room.places)


def _set_of(waiting: PodsToPlace, rooms: Rooms, trial: MoveTrial, most: int) -> MoveSet:
    """Return the set; its node is that of the room, of a gang that of the first pod that moves."""
    moves = list(_moves_of(rooms))
    earlier = [move for room in rooms for move in room.earlier]
    return MoveSet(
        moves[0][0].node if waiting.gang is not None else trial.name_of(rooms[0].node),
        tuple(each.uid for each, _ in moves),
        rooms=tuple(RoomFor(each.pod.uid, trial.name_of(each.node)) for each in rooms),
        gang=waiting.gang,
        most=most * len(rooms),
        earlier=tuple(EarlierMove(each.uid, each.node, trial.name_of(to)) for each, to in earlier),
    )
